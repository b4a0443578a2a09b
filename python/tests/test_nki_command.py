"""`python -m tilewright.nki`, with its options and exit codes, and the command `tilewright` that is installed with it."""

import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys

import pytest
from tilewright.nki.result import write_trace

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

@nki.jit(platform_target="trn3")
def elsewhere(a):
    print("a line of the kernel")
    return add.func(a, a)

def plain(a):
    return add.func(a, a)

@nki.jit
def each(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    at = nl.program_id(0) * nl.num_programs(1) + nl.program_id(1)
    nl.store(out[at], nl.load(a[at]))
    return out

@nki.jit
def wide(a):
    nl.ndarray((256, 4), a.dtype, buffer=nl.sbuf)

@nki.jit
def raising(a):
    raise KeyError("mine")

@nki.jit
def beyond(a, at):
    out = nl.ndarray((128, 4), a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a)[:, nl.ds(nl.load(at), 4)])
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


ENDS = """
import sys, numpy as np, kernels
kernels.{}(np.ones((128, 16), np.float32))
{}
"""


@pytest.mark.parametrize(
    ("kernel", "end", "options", "code"),
    [
        ("half", "sys.exit(0)", [], 1),
        ("half", "sys.exit()", ["--check"], 1),
        ("plain", "sys.exit(0)", [], 2),
        ("elsewhere", "sys.exit(0)", [], 0),
        ("elsewhere", "sys.exit(5)", [], 5),
        ("elsewhere", "sys.exit('told why')", [], 1),
        ("elsewhere", "raise RuntimeError('told why')", [], 1),
    ],
)
def test_a_script_that_ends_early_keeps_its_findings_and_trace(tmp_path, kernel, end, options, code):
    text = ENDS.format(kernel, end) if kernel != "plain" else "import sys; sys.exit(0)"
    (tmp_path / "script.py").write_text(text)
    done = command(tmp_path, "script.py", "--trace", "t.pftrace", *options)
    assert done.returncode == code, done
    assert (tmp_path / "t.pftrace").exists() == (kernel != "plain")
    assert ("told why" in done.stderr) == ("told why" in end)
    assert ("Traceback" in done.stderr) == ("raise" in end)


def test_a_place_outside_its_tensor_is_told_with_its_line(tmp_path):
    arrays = "np.ones((128, 16), np.float32), np.full((1, 1), 14, np.int32)"
    (tmp_path / "script.py").write_text(f"import numpy as np, kernels\nkernels.beyond({arrays})\n")
    done = command(tmp_path, "script.py")
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert done.stderr.startswith("error[neuron/bounds] ") and "kernels.py:" in done.stderr
    assert "  asked:   index " in done.stderr and "  instead: check the index" in done.stderr
    (report,) = command(tmp_path, "script.py", "--json").stdout.splitlines()
    (finding,) = json.loads(report)["findings"]
    assert finding["code"] == "neuron/bounds" and "kernels.py:" in finding["line"]


def test_the_command_line_decides_the_chip(tmp_path):
    for options, chip in (([], "trainium3"), (["--chip", "trn2"], "trainium2")):
        assert json.loads(command(tmp_path, "kernels.py::elsewhere", "64x8", "--json", *options).stdout)["chip"] == chip


def test_json_stands_alone(tmp_path):
    done = command(tmp_path, "kernels.py::elsewhere", "64x8", "--json")
    assert json.loads(done.stdout)["name"] == "elsewhere" and "a line of the kernel" in done.stderr
    refused = command(tmp_path, "kernels.py::wide", "64x8", "--json")
    call = json.loads(refused.stdout)
    assert refused.returncode == 1 and call["name"] == "wide" and call["chip"] == "trainium1" and call["time_us"] is None
    (finding,) = call["findings"]
    assert finding["code"] == "neuron/partitions" and "kernels.py:34" in finding["line"]
    assert "256" in finding["message"] and "128" in finding["allowed"] and finding["instead"]
    raised = command(tmp_path, "kernels.py::raising", "64x8", "--json")
    assert raised.returncode == 1 and "Traceback" in raised.stderr and "KeyError" in json.loads(raised.stdout)["findings"][0]["message"]


def test_a_grid_for_one_kernel(tmp_path):
    done = command(tmp_path, "kernels.py::each", "6x128x16", "--grid", "2x3")
    assert done.returncode == 0, done
    assert command(tmp_path, "kernels.py::each", "6x128x16").returncode == 1


def test_a_function_without_a_decorator_is_of_the_dialect_of_its_file(tmp_path):
    (tmp_path / "second.py").write_text("import nki.language as nl\ndef kernel(a):\n    return a\n")
    assert json.loads(command(tmp_path, "second.py::kernel", "64x8", "--json").stdout)["chip"] == "trainium2"
    assert json.loads(command(tmp_path, "kernels.py::plain", "64x8", "--json").stdout)["chip"] == "trainium1"


def test_what_a_killed_run_left_is_removed(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left, kept = (tmp_path / f"t.pftrace.partial-{number}" for number in (gone.pid, os.getppid()))
    for path in (left, kept):
        path.write_bytes(b"half")
    write_trace(tmp_path / "t.pftrace", b"whole")
    assert (tmp_path / "t.pftrace").read_bytes() == b"whole" and not left.exists() and kept.exists()


def test_findings_decide_the_exit_code(tmp_path):
    done = command(tmp_path, "kernels.py::half", "128x16")
    assert done.returncode == 1
    assert "error[neuron/never-written]" in done.stdout and "kernels.py:13" in done.stdout and "`out`" in done.stdout


def test_wrong_usage_is_named(tmp_path):
    for arguments, said in (
        (["kernels.py::nothing"], "has no kernel nothing; it has add, beyond, each, elsewhere, half, raising, wide"),
        (["kernels.py::add", "--chip", "abacus"], "--chip abacus: no chip is called abacus; there are inferentia2, trainium1, trainium2 and trainium3"),
        (["kernels.py::add", "--chip", "tcp"], "is no Neuron device"),
        (["kernels.py::add", "--trace", "nowhere/t.pftrace"], "--trace nowhere/t.pftrace cannot be written: No such file"),
        (["kernels.py::add", "--trace", "."], "cannot be written: Is a directory"),
        (["kernels.py::add", "--trace", "kernels.py"], "--trace kernels.py is what the command reads: kernels.py; give what is written another name"),
        (["kernels.py::add", "--trace", "both", "--emit", "both"], "--trace and --emit both write both; give each"),
        (["kernels.py::add", "--emit", "nowhere/add.neuron"], "--emit nowhere/add.neuron cannot be written: No such file"),
        (["kernels.py::add", "--frob"], "the option --frob is unknown; text that begins so comes after --"),
        (["kernels.py", "--grid", "2"], "--grid is for one kernel: FILE.py::kernel"),
        (["kernels.py::add", "--grid", "2.5"], "--grid 2.5: sizes of 1 or more with x between them, as 2 or 4x2"),
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


def test_the_program_of_the_last_call_is_written(tmp_path):
    done = command(tmp_path, "kernels.py::add", "128x512:bf16", "128x512:bf16", "--chip", "trainium2", "--emit", "add.neuron")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "add.neuron").read_text()
    assert text.startswith("program neuron 1\nmachine trainium2\n") and "kernels.py:8" in text
    again = installed(tmp_path, "sim", "add.neuron", "--timeline")
    assert again.returncode == 0 and again.stdout.startswith("time ") and "kernels.py:8" in again.stdout


def test_ranges_of_the_last_call_hold_its_time(tmp_path):
    words = ("kernels.py::add", "128x512:bf16", "128x512:bf16", "--chip", "trainium2", "--bands")
    done = command(tmp_path, *words, "--json")
    assert done.returncode == 0, done.stderr
    call, ranges = (json.loads(line) for line in done.stdout.splitlines())
    time, energy = ranges["bands"]["results"]
    assert time["low"] < time["stated"] < time["high"] and energy["low"] < energy["high"]
    assert time["stated"] == pytest.approx(call["time_us"], rel=1e-6)
    assert ranges["bands"]["figures"], "some figure is an assumption"
    text = command(tmp_path, *words)
    assert text.returncode == 0 and "add on trainium2" in text.stdout
    assert text.stdout.count(ranges["bands"]["figures"][0]["figure"]) == 1


@pytest.mark.parametrize("asked", ["--help", "-h"])
def test_help(tmp_path, asked):
    done = command(tmp_path, asked)
    assert done.returncode == 0 and "--instance NAME" in done.stdout and done.stderr == ""


def test_options_with_an_equals_sign_are_options(tmp_path):
    done = command(tmp_path, "kernels.py::add", "64x8", "64x8", "--chip=trn3", "--json")
    assert json.loads(done.stdout)["chip"] == "trainium3", done
    (tmp_path / "script.py").write_text(ENDS.format("half", "print(sys.argv[1:])"))
    done = command(tmp_path, "script.py", "--chip=trn2", "--mine=1")
    assert "half on trainium2" in done.stdout and "['--mine=1']" in done.stdout, done
    empty = command(tmp_path, "kernels.py::add", "--chip=")
    assert empty.returncode == 2 and "--chip needs a value" in empty.stderr


def test_json_has_the_line_of_an_exception(tmp_path):
    (finding,) = json.loads(command(tmp_path, "kernels.py::raising", "64x8", "--json").stdout)["findings"]
    assert finding["line"].endswith(f"kernels.py:{FILE[: FILE.index('raise KeyError')].count(chr(10)) + 1}")


def test_a_reader_that_goes_early_stops_nothing(tmp_path):
    (tmp_path / "kernels.py").write_text(FILE)
    (tmp_path / "script.py").write_text("import sys; sys.stdin.readline()" + ENDS.format("elsewhere", "print('the end', file=sys.stderr)"))
    line = [sys.executable, "-m", "tilewright.nki", "script.py", "--trace", "t.pftrace", "--json"]
    done = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    done.stdout.close()
    done.stdin.write("go\n")
    done.stdin.close()
    told = done.stderr.read()
    assert done.wait(timeout=120) == 0 and "the end" in told and "Traceback" not in told, told
    assert (tmp_path / "t.pftrace").stat().st_size > 100


def test_a_refusal_is_told_without_our_own_frames(tmp_path):
    done = command(tmp_path, "kernels.py::wide", "64x8")
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and lines[0].startswith("error[neuron/partitions]") and len(lines) == 4, done.stderr
    whole = command(tmp_path, "kernels.py::wide", "64x8", "--traceback")
    assert whole.returncode == 1 and "Traceback" in whole.stderr and "tilewright/nki/kernel.py" in whole.stderr
    raised = command(tmp_path, "kernels.py::raising", "64x8")
    assert "kernels.py" in raised.stderr and "KeyError" in raised.stderr and "tilewright/nki" not in raised.stderr


def test_arguments_that_do_not_fit_are_told_as_usage(tmp_path):
    none = command(tmp_path, "kernels.py::elsewhere")
    assert none.returncode == 2 and "missing" in none.stderr and "elsewhere(" in none.stderr and "Traceback" not in none.stderr
    assert "as kernels.py::elsewhere 128x512:bf16 ..." in none.stderr
    for text in ("64x", "64xx8", "64x8:"):
        wrong = command(tmp_path, "kernels.py::elsewhere", text)
        told = f"{text} is no shape: sizes with x between them and a type if it is not float32, as 128x512:bf16"
        assert wrong.returncode == 2 and told in wrong.stderr, wrong.stderr
