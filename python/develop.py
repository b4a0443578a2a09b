"""Installs the package of this tree into the running environment, with an extension that Cargo has built.

`pip install ./python` builds a wheel with optimisation across crates, which takes minutes. This takes none: the environment is pointed at
the tree, the extension is copied into it, and the command's entry point is written as an installer would.
"""

import pathlib
import shutil
import sys
import sysconfig
import tomllib

HERE = pathlib.Path(__file__).resolve().parent


def main(extension):
    """Copies the extension and writes what points the environment at the tree."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    shutil.copyfile(extension, HERE / "tilewright" / "_core.abi3.so")
    packages = pathlib.Path(sysconfig.get_path("purelib"))
    (packages / "tilewright.pth").write_text(f"{HERE}\n")
    info = packages / f"{project['name']}-{project['version']}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    scripts = "".join(f"{name} = {target}\n" for name, target in project["scripts"].items())
    plugins = "".join(f"{name} = {target}\n" for name, target in project["entry-points"]["pytest11"].items())
    (info / "entry_points.txt").write_text(f"[console_scripts]\n{scripts}\n[pytest11]\n{plugins}")


if __name__ == "__main__":
    main(sys.argv[1])
