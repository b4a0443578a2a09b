"""`python -m tilewright.nki`, with its options and exit codes, and the command `tilewright` that is installed with it."""

import importlib.metadata
import json
import pathlib
import subprocess
import sys

FILE = """
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

@nki.jit
def add(a, b):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a) + nl.load(b))
    return out

@nki.jit
def half(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm, name="out")
    nl.store(out[0:64], nl.load(a[0:64]))
    return out
"""


def command(folder, *arguments):
    (folder / "kernels.py").write_text(FILE)
    line = [sys.executable, "-m", "tilewright.nki", *arguments]
    return subprocess.run(line, capture_output=True, text=True, cwd=folder, timeout=120)


def installed(folder, *arguments):
    (folder / "kernels.py").write_text(FILE)
    line = [sys.executable, "-m", "tilewright.command", *arguments]
    return subprocess.run(line, capture_output=True, text=True, cwd=folder, timeout=120)


def test_the_package_brings_the_whole_command_line(tmp_path):
    machines = installed(tmp_path, "machine", "list")
    assert machines.returncode == 0 and "trainium2" in machines.stdout and "tcp" in machines.stdout
    kernel = installed(tmp_path, "nki", "run", "kernels.py::add", "128x512", "128x512", "--json")
    assert kernel.returncode == 0 and json.loads(kernel.stdout)["name"] == "add"
    assert installed(tmp_path, "nki", "run", "kernels.py::half", "128x512", "--check").returncode == 1
    wrong = installed(tmp_path, "explode")
    assert wrong.returncode == 2 and "explode" in wrong.stderr
    scripts = importlib.metadata.entry_points(group="console_scripts", name="tilewright")
    assert [script.value for script in scripts] == ["tilewright.command:main"]


def test_one_kernel_with_arrays_of_given_shapes(tmp_path):
    done = command(tmp_path, "kernels.py::add", "128x512:bf16", "128x512:bf16", "--chip", "trainium2", "--json", "--trace", "t.pftrace")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["name"] == "add" and report["chip"] == "trainium2" and report["time_us"] > 0
    assert report["hbm_bytes"] == {"read": 2 * 128 * 512 * 2, "written": 128 * 512 * 2}
    assert report["findings"] == [] and report["engines"]["vector"]["instructions"] == 1
    assert (tmp_path / "t.pftrace").stat().st_size > 100
    assert [path.name for path in pathlib.Path(tmp_path).glob("*.partial*")] == []


def test_findings_decide_the_exit_code(tmp_path):
    done = command(tmp_path, "kernels.py::half", "128x16")
    assert done.returncode == 1
    assert "error[neuron/never-written]" in done.stdout and "kernels.py:13" in done.stdout and "`out`" in done.stdout


def test_wrong_usage_is_named(tmp_path):
    for arguments, said in (
        (["kernels.py::nothing"], "has no kernel nothing; it has add, half"),
        (["missing.py"], "there is no file"),
        (["kernels.py", "--chip"], "--chip needs a value"),
        (["kernels.py"], "no kernel was called"),
        ([], "usage"),
    ):
        done = command(tmp_path, *arguments)
        assert done.returncode == 2 and said in done.stderr, (arguments, done)


def imported(folder, code):
    """What a new interpreter prints that has the folder on its path."""
    line = [sys.executable, "-c", code]
    return subprocess.run(line, capture_output=True, text=True, cwd=folder, timeout=120)


def test_an_import_supplies_the_modules_and_leaves_those_of_others(tmp_path):
    code = "import tilewright.nki, neuronxcc.nki.language as nl; print(nl.tile_size.pmax)"
    assert imported(tmp_path, code).stdout.strip() == "128"
    other = tmp_path / "neuronxcc" / "nki"
    other.mkdir(parents=True)
    for folder in (other.parent, other):
        (folder / "__init__.py").write_text("theirs = True\n")
    kept = imported(tmp_path, "import tilewright.nki, neuronxcc.nki as nki; print(nki.theirs)\nimport neuronxcc.nki.isa")
    assert kept.stdout.strip() == "True" and "ModuleNotFoundError" in kept.stderr
    code = "import tilewright.nki; tilewright.nki.install(); import neuronxcc.nki.isa as isa; print(isa.nc_matmul.__module__)"
    assert imported(tmp_path, code).stdout.startswith("tilewright.nki")
