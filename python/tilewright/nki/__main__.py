"""`python -m tilewright.nki FILE.py[::kernel] [arguments] [--chip NAME] [--instance NAME] [--grid 2x4] [--check] [--trace F] [--emit F] [--bands] [--json] [--traceback]`.

A file alone runs as it is, and each kernel call is reported. With `::kernel` that kernel is called with the arguments:
`128x512:bf16` is a random array of that shape and type (float32 without one), everything else a Python literal or text.
With --json standard output has the JSON alone; what the file prints goes to standard error.
"""

import ast
import contextlib
import inspect
import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
import traceback

import numpy as np

from tilewright import _core

from . import dtypes, install, kernel
from .result import check_writable, write_trace

USAGE = "usage: python -m tilewright.nki FILE.py[::kernel] [arguments] [--chip NAME] [--instance NAME] [--grid 2x4] [--check] [--trace FILE] [--emit FILE] [--bands] [--json] [--traceback]"


class Usage(Exception):
    """Wrong arguments."""


class Help(Exception):
    """Somebody asks what there is."""


HELP = f"""{USAGE}

FILE.py         runs as it is, and each kernel call is reported
FILE.py::kernel runs one kernel with the arguments: 128x512:bf16 is a random array of that shape and type (float32 without
                one), everything else a Python literal or text

--chip NAME     inferentia2, trainium1, trainium2 or trainium3
--instance NAME trn1.32xlarge and others of machines/instances.toml, for kernels that communicate
--grid 4x2      launch grid of FILE.py::kernel; 2 for both cores of a logical core
--check         exit code 1 if a kernel has a finding of any kind, not only errors
--trace FILE    write a Perfetto trace of the last kernel call
--emit FILE     write the program of the last kernel call as text, which `tilewright sim FILE` reads
--bands         ranges of time and energy of the last kernel call, over what is assumed of the chip
--json          one line of JSON for each kernel call; what the file prints goes to standard error
--traceback     every frame that an error came through, those of this package too
--              what follows belongs to the file"""


def options(arguments):
    """Our options, wherever they stand before `--`, and the rest."""
    found = {"chip": None, "instance": None, "trace": None, "emit": None, "grid": None, "check": False, "bands": False, "json": False, "traceback": False}
    rest, items = [], iter(arguments)
    for item in items:
        option, joined, value = item.partition("=")
        if item in ("--check", "--bands", "--json", "--traceback"):
            found[item[2:]] = True
        elif option in ("--chip", "--instance", "--trace", "--emit", "--grid"):
            found[option[2:]] = value if joined else next(items, None)
            if not found[option[2:]]:
                raise Usage(f"{option} needs a value")
        elif item in ("--help", "-h") and not rest:
            raise Help
        elif item == "--":
            rest += items
        elif item.startswith("--") and (not rest or "::" in rest[0]):
            # A file that runs as it is may have options of its own.
            raise Usage(f"the option {item} is unknown; text that begins so comes after --\n{USAGE}")
        else:
            rest.append(item)
    if not rest:
        raise Usage(USAGE)
    return found, rest


def check(chosen, target):
    """What can be known to be wrong before anything runs."""
    if chosen["chip"]:
        try:
            _core.Session(kernel.chip_name(chosen["chip"]))
        except ValueError as error:
            raise Usage(f"--chip {chosen['chip']}: {error}; there are inferentia2, trainium1, trainium2 and trainium3") from None
    if chosen["instance"] is not None and _core.instance_chip(chosen["instance"]) is None:
        raise Usage(f"--instance {chosen['instance']}: no such instance; machines/instances.toml lists them, as trn1.32xlarge")
    own = target.partition("::")[0]
    for option in ("trace", "emit"):
        if chosen[option] and os.path.exists(chosen[option]) and os.path.exists(own) and os.path.samefile(chosen[option], own):
            raise Usage(f"--{option} {chosen[option]} is what the command reads: {own}; give what is written another name")
    both = chosen["trace"] and chosen["emit"] and os.path.realpath(chosen["trace"]) == os.path.realpath(chosen["emit"])
    # Pipes and devices take both.
    if both and (os.path.isfile(chosen["emit"]) or not os.path.exists(chosen["emit"])):
        raise Usage(f"--trace and --emit both write {chosen['emit']}; give each a file of its own")
    for option in ("trace", "emit"):
        if chosen[option]:
            try:
                check_writable(chosen[option])
            except OSError as error:
                raise Usage(f"--{option} {chosen[option]} cannot be written: {error.strerror}") from None
    if chosen["grid"] is not None:
        if "::" not in target:
            raise Usage("--grid is for one kernel: FILE.py::kernel")
        if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", chosen["grid"]):
            raise Usage(f"--grid {chosen['grid']}: sizes of 1 or more with x between them, as 2 or 4x2")


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
    if re.fullmatch(r"\d+x[\dx]*(:\w*)?|[\dx]+:", text):
        raise Usage(f"{text} is no shape: sizes with x between them and a type if it is not float32, as 128x512:bf16")
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


class Report:
    """Prints each result, and remembers what the exit code and the trace need."""

    def __init__(self, as_json):
        self.as_json = as_json
        self.out = sys.stdout
        self.findings = []
        self.last = None
        self.failed = 0

    def say(self, text):
        """Prints a report; a reader that has gone, as `head` does, ends the reports and nothing else."""
        if self.out is None:
            return
        try:
            print(text, file=self.out, flush=True)
        except BrokenPipeError:
            # What Python still holds for the reader goes nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.out.fileno())
            self.out = None

    def __call__(self, result):
        self.say(json.dumps(result.json()) if self.as_json else result.summary())
        self.findings += result.findings
        self.last = result

    def failure(self, name, chip, error):
        """A call that ended with an error has one finding: what was refused, or what was raised."""
        self.failed += 1
        if not self.as_json:
            return
        finding = {
            "code": getattr(error, "code", "python/exception"),
            "severity": "error",
            "line": getattr(error, "line", None) or line_of(error),
            "message": getattr(error, "asked", f"{type(error).__name__}: {error}"),
            "allowed": getattr(error, "allowed", ""),
            "instead": getattr(error, "instead", ""),
        }
        call = {"name": name, "chip": chip, "time_us": None, "engines": {}, "hbm_bytes": None, "findings": [finding]}
        self.say(json.dumps(call))


def line_of(error):
    """The innermost line of the user's own files that an exception came through."""
    line, trace = "", error.__traceback__
    others = (os.path.dirname(os.path.abspath(__file__)), sys.prefix, sys.base_prefix, "<")
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith(others):
            line = f"{name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return line


def run_file(target, arguments, grid=None):
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
    made = func if isinstance(func, kernel.Kernel) else kernel.Kernel(func, kernel.dialect_of(func))
    if grid is not None:
        made = made[tuple(int(size) for size in grid.split("x"))]
    try:
        inspect.signature(made.func).bind(*values)
    except TypeError as error:
        named = ", ".join(str(one) for one in inspect.signature(made.func).parameters.values())
        raise Usage(f"{name} with {len(values)} arguments: {error}; it is {name}({named}), as {path}::{name} 128x512:bf16 ...") from None
    made.run(values, {})


def told(error):
    """What is printed of an exception: of a refusal its own lines, of any other the frames of the user's files."""
    if hasattr(error, "code") and hasattr(error, "asked"):
        # An exception in other words than its refusal has that as a note.
        return "\n".join(getattr(error, "__notes__", None) or [str(error)]) + "\n"
    ours = (os.path.dirname(os.path.abspath(__file__)), "<frozen")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(ours)]
    lines = traceback.format_list(frames) + traceback.format_exception_only(error)
    return "Traceback (most recent call last):\n" + "".join(lines)


def bands(program, as_json):
    """Ranges of a program over what is assumed of its chip, as `tilewright sim PROGRAM --bands` gives them: text, or one line of JSON."""
    with tempfile.NamedTemporaryFile("w", suffix=".neuron") as file:
        file.write(program)
        file.flush()
        words = ["sim", file.name, "--bands", *(["--json"] if as_json else [])]
        done = subprocess.run([sys.executable, "-m", "tilewright.command", *words], capture_output=True, text=True)
    if done.returncode:
        raise Usage(f"--bands: {done.stderr.removeprefix('error: ').rstrip()}")
    return json.dumps({"bands": json.loads(done.stdout)}) if as_json else done.stdout.rstrip("\n")


def exit_code(ended):
    """The exit code of a script that ended so; Python prints what is no number."""
    if ended is None or ended.code is None:
        return 0
    if isinstance(ended.code, int):
        return ended.code
    print(ended.code, file=sys.stderr)
    return 1


def run(chosen, rest, report):
    """Runs the file; trace and program of the last call are written however the file ends. Gives the SystemExit it ended with."""
    ended = None
    try:
        with contextlib.redirect_stdout(sys.stderr) if chosen["json"] else contextlib.nullcontext():
            run_file(rest[0], rest[1:], chosen["grid"])
    except SystemExit as exit_asked:
        ended = exit_asked
    finally:
        if chosen["trace"] and report.last is not None:
            write_trace(chosen["trace"], report.last.trace)
        if chosen["emit"] and report.last is not None:
            write_trace(chosen["emit"], report.last.program.encode())
    if chosen["bands"] and report.last is not None:
        report.say(bands(report.last.program, chosen["json"]))
    return ended


def main():
    """Exit code 1 if a kernel has an error, or with --check any finding; 2 for wrong usage; otherwise that of the script."""
    try:
        chosen, rest = options(sys.argv[1:])
        check(chosen, rest[0])
        if chosen["chip"]:
            os.environ["TILEWRIGHT_CHIP"] = chosen["chip"]
        if chosen["instance"]:
            os.environ["TILEWRIGHT_INSTANCE"] = chosen["instance"]
        install()
        report = Report(chosen["json"])
        kernel.listeners.append(report)
        kernel.failure_listeners.append(report.failure)
        ended = run(chosen, rest, report)
    except Help:
        print(HELP)
        return 0
    except Usage as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except Exception as error:
        if chosen["traceback"]:
            raise
        sys.stderr.write(told(error))
        return 1
    asked = exit_code(ended)
    if report.last is None and not report.failed and not asked:
        print("error: no kernel was called; name one with FILE.py::kernel", file=sys.stderr)
        return 2
    counted = report.findings if chosen["check"] else [one for one in report.findings if one["severity"] == "error"]
    return asked or (1 if counted else 0)


if __name__ == "__main__":
    sys.exit(main())
