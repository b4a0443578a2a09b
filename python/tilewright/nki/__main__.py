"""`python -m tilewright.nki FILE.py[::kernel] [arguments] [--chip NAME] [--instance NAME] [--check] [--trace F] [--json]`.

A file alone runs as it is, and each kernel call is reported. With `::kernel` that kernel is called with the arguments:
`128x512:bf16` is a random array of that shape and type (float32 without one), everything else a Python literal or text.
"""

import ast
import json
import os
import re
import runpy
import sys

import numpy as np

from . import dtypes, install, kernel
from .result import write_trace

USAGE = "usage: python -m tilewright.nki FILE.py[::kernel] [arguments] [--chip NAME] [--instance NAME] [--check] [--trace FILE] [--json]"


class Usage(Exception):
    """Wrong arguments."""


def options(arguments):
    """Our options, wherever they stand, and the rest."""
    found = {"chip": None, "trace": None, "check": False, "json": False}
    rest, items = [], iter(arguments)
    for item in items:
        if item == "--instance":
            os.environ["TILEWRIGHT_INSTANCE"] = next(items, "")
            if not os.environ["TILEWRIGHT_INSTANCE"]:
                raise Usage("--instance needs a value")
            continue
        if item in ("--check", "--json"):
            found[item[2:]] = True
        elif item in ("--chip", "--trace"):
            found[item[2:]] = next(items, None)
            if found[item[2:]] is None:
                raise Usage(f"{item} needs a value")
        else:
            rest.append(item)
    if not rest:
        raise Usage(USAGE)
    return found, rest


def argument(text, generator):
    """An array for `128x512:bf16`; otherwise what Python reads, or the text."""
    shaped = re.fullmatch(r"(\d+(?:x\d+)*)(?::(\w+))?", text)
    if shaped and ("x" in text or shaped[2]):
        shape = tuple(int(size) for size in shaped[1].split("x"))
        try:
            dtype = np.dtype(np.float32) if shaped[2] is None else dtypes._BY_NAME[dtypes.NAMES[dtypes.code(shaped[2])]]
        except TypeError as error:
            raise Usage(str(error)) from None
        return generator.standard_normal(shape, np.float32).astype(dtype)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


class Report:
    """Prints each result, and remembers what the exit code and the trace need."""

    def __init__(self, as_json):
        self.as_json = as_json
        self.findings = []
        self.last = None

    def __call__(self, result):
        if self.as_json:
            print(json.dumps(result.json()), flush=True)
        else:
            print(result.summary(), flush=True)
        self.findings += result.findings
        self.last = result


def run_file(target, arguments):
    """Runs a file as a script, or one kernel of it."""
    path, _, name = target.partition("::")
    if not os.path.isfile(path):
        raise Usage(f"there is no file {path}")
    sys.argv = [path, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    found = runpy.run_path(path, run_name="kernels" if name else "__main__")
    if not name:
        return
    func = found.get(name)
    if not callable(func):
        kernels = ", ".join(sorted(one for one, value in found.items() if isinstance(value, kernel.Kernel)))
        raise Usage(f"{path} has no kernel {name}; it has {kernels or 'none'}")
    generator = np.random.default_rng(0)
    values = [argument(text, generator) for text in arguments]
    made = func if isinstance(func, kernel.Kernel) else kernel.Kernel(func)
    made.run(values, {})


def main():
    """Exit code 1 if a kernel has an error, or with --check any finding; 2 for wrong usage."""
    try:
        chosen, rest = options(sys.argv[1:])
        if chosen["chip"]:
            os.environ["TILEWRIGHT_CHIP"] = chosen["chip"]
        install()
        report = Report(chosen["json"])
        kernel.listeners.append(report)
        run_file(rest[0], rest[1:])
    except Usage as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if report.last is None:
        print("error: no kernel was called; name one with FILE.py::kernel", file=sys.stderr)
        return 2
    if chosen["trace"]:
        write_trace(chosen["trace"], report.last.trace)
    counted = report.findings if chosen["check"] else [one for one in report.findings if one["severity"] == "error"]
    return 1 if counted else 0


if __name__ == "__main__":
    sys.exit(main())
