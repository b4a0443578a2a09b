"""Which names of NKI public repositories use, and which of them exist here.

    python bench/public_names.py CHECKOUT.. [--least 2] [--missing]

Reads every Python file of the checkouts without running it: names that are imported from `neuronxcc.nki` and `nki`, and attributes of those. Prints names
and uses by package: used, present, missing. Exit code 1 if fewer than 97 in 100 names are present.
"""

import argparse
import ast
import collections
import functools
import importlib
import pathlib
import sys

import tilewright.nki

tilewright.nki.install()

#: Parts in a hundred that should be present.
GOAL = 97
PACKAGES = ("neuronxcc.nki", "nki")
#: Parts of the vendor's package that are not public, as names that begin with an underscore: nothing documents them.
PRIVATE = (".compiler.backends.", ".compiler.frontend.", ".compiler.ncc_driver.", ".docs.")


def package_of(module):
    """The package of a module, or None."""
    return next((package for package in PACKAGES if module == package or module.startswith(package + ".")), None)


class Names(ast.NodeVisitor):
    """Names of NKI in one file, as dotted paths."""

    def __init__(self):
        self.aliases = {}
        self.found = collections.Counter()

    def visit_Import(self, node):  # noqa: N802  the name that ast calls
        for alias in node.names:
            if package_of(alias.name):
                self.found[alias.name] += 1
                self.aliases[alias.asname or alias.name.split(".")[0]] = alias.name if alias.asname else alias.name.split(".")[0]

    def visit_ImportFrom(self, node):  # noqa: N802
        module = node.module or ""
        inside = module == "neuronxcc" and not node.level
        for alias in node.names:
            path = f"{module}.{alias.name}"
            if node.level or not (package_of(module) or (inside and alias.name == "nki")):
                continue
            if alias.name != "*":
                self.found[path] += 1
                self.aliases[alias.asname or alias.name] = path

    def visit_Attribute(self, node):  # noqa: N802
        names = []
        at = node
        while isinstance(at, ast.Attribute):
            names.append(at.attr)
            at = at.value
        if isinstance(at, ast.Name) and at.id in self.aliases:
            path = ".".join([self.aliases[at.id], *reversed(names)])
            if package_of(path):
                self.found[path] += 1
                return
        self.generic_visit(node)


def names_of(text):
    """Names of NKI in a source text; none if it is not Python that can be read."""
    visitor = Names()
    try:
        visitor.visit(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError):
        return {}
    return visitor.found


@functools.cache
def present(path):
    """How much of a dotted path exists: all of it, or none. What follows a value (a method, a field) is not looked at."""
    parts = path.split(".")
    for count in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        for name in parts[count:]:
            try:
                value = getattr(value, name)
            except (AttributeError, ImportError):
                return False
            except RuntimeError:  # stands for something only inside a kernel
                return True
            if not isinstance(value, type) and not isinstance(value, type(sys)):
                return True
        return True
    return False


def is_private(name):
    """True for what nobody documents."""
    return "._" in name or any(part in name + "." for part in PRIVATE)


def survey(folders, least):
    """Uses by name, of names in at least so many files."""
    files, uses = collections.Counter(), collections.Counter()
    for folder in folders:
        for path in sorted(pathlib.Path(folder).rglob("*.py")):
            found = names_of(path.read_text(encoding="utf-8", errors="replace"))
            files.update(found.keys())
            uses.update(found)
    return {name: uses[name] for name in sorted(uses) if files[name] >= least and not is_private(name)}


def main():
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=pathlib.Path, metavar="CHECKOUT")
    parser.add_argument("--least", type=int, default=1, metavar="FILES", help="only names that so many files use")
    parser.add_argument("--missing", action="store_true", help="list what is missing, with the number of uses")
    args = parser.parse_args()
    found = survey(args.folders, args.least)
    total = [0, 0]
    for package in PACKAGES:
        names = {name: count for name, count in found.items() if package_of(name) == package}
        missing = {name: count for name, count in names.items() if not present(name)}
        total[0], total[1] = total[0] + len(names), total[1] + len(names) - len(missing)
        uses, lost = sum(names.values()), sum(missing.values())
        part = (len(names) - len(missing)) / max(len(names), 1)
        print(f"{package:<14} used {len(names):5}  present {len(names) - len(missing):5}  missing {len(missing):4}  {part:.1%} of names, {1 - lost / max(uses, 1):.1%} of {uses} uses")
        if args.missing:
            for name, count in sorted(missing.items(), key=lambda item: (-item[1], item[0])):
                print(f"  {name} {count}")
    return 0 if total[1] * 100 >= total[0] * GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
