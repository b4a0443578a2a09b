"""What old scripts ask of `benchmark`, `baremetal` and `profile`: percentiles, and a trace file that is complete or not there."""

import pathlib
import signal
import subprocess
import sys
import tomllib

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import numpy as np
import pytest
from tilewright import _core
from tilewright.nki import run
from tilewright.nki.result import write_trace

ROWS = np.ones((128, 64), np.float32)


def double(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) * 2.0)
    return out


def test_percentiles_are_the_time_of_the_model(tmp_path):
    trace = tmp_path / "trace.ntff"
    timed = nki.benchmark(warmup=5, iters=20, save_trace_name=str(trace))(double)
    assert timed(ROWS) is None
    latency = timed.benchmark_result.nc_latency
    assert latency.get_latency_percentile(50) == latency.get_latency_percentile(99) > 0
    assert trace.stat().st_size > 100
    assert [path.name for path in tmp_path.iterdir()] == ["trace.ntff"]


@pytest.mark.parametrize("how", ["baremetal", "profile"])
def test_a_trace_is_written_where_it_is_asked_for(how, tmp_path):
    options = {"working_directory": str(tmp_path), "save_trace_name": "p.ntff"}
    found = getattr(nki, how)(**options)(double)(ROWS)
    assert np.array_equal(found, 2 * ROWS) and (tmp_path / "p.ntff").stat().st_size > 100


def test_no_trace_without_a_name_and_an_error_for_a_folder_that_is_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nki.benchmark(double)(ROWS)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError):
        nki.benchmark(save_trace_name=str(tmp_path / "missing" / "t.ntff"))(double)(ROWS)


KILLED = """
import os, signal, sys
import numpy as np
import tilewright.nki
import neuronxcc.nki.language as nl

def kernel(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a))
    return out

result = tilewright.nki.run(kernel, np.ones((128, 64), np.float32))
# Killed when all is written but the name.
os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)
tilewright.nki.result.write_trace(sys.argv[1], result.trace)
"""


#: The same in the middle of the bytes: the system stops a process whose file grows beyond a limit.
KILLED_WRITING = KILLED.replace(
    "os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)",
    """import resource
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))""",
)
#: And by the command line, asked to end when all is written but the name.
ENDED = """
import os, signal
import neuronxcc.nki.language as nl

def kernel(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a))
    return out

os.replace = lambda *names: os.kill(os.getpid(), signal.SIGTERM)
"""


def killed(how, trace, tmp_path):
    if how == signal.SIGTERM:
        (tmp_path / "ended.py").write_text(ENDED)
        return [sys.executable, "-m", "tilewright.nki", str(tmp_path / "ended.py") + "::kernel", "128x64", "--trace", str(trace)]
    return [sys.executable, "-c", KILLED_WRITING if how == signal.SIGXFSZ else KILLED, str(trace)]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGXFSZ, signal.SIGTERM])
@pytest.mark.parametrize("before", [None, b"an older trace"])
def test_a_killed_run_leaves_no_half_written_trace(before, how, tmp_path):
    trace = tmp_path / "t.pftrace"
    if before is not None:
        trace.write_bytes(before)
    done = subprocess.run(killed(how, trace, tmp_path), capture_output=True, text=True, timeout=120)
    assert done.returncode == -how, done.stderr
    assert (trace.read_bytes() if trace.exists() else None) == before
    # It was writing; the next run removes what is left.
    assert [path.stat().st_size for path in tmp_path.glob("t.pftrace.partial-*")] == [100] or how != signal.SIGXFSZ
    write_trace(trace, b"whole")
    assert sorted(path.name for path in tmp_path.glob("t.*")) == ["t.pftrace"]


def test_the_result_of_a_launch_on_a_grid_is_found_where_scripts_look_for_it():
    timed = nki.benchmark(warmup=1, iters=2)(double)
    launched = timed[2]
    launched(ROWS)
    assert timed.benchmark_result is launched.benchmark_result is not None


@pytest.mark.parametrize("percentile", [-1, 100.5])
def test_percentiles_that_there_are_not(percentile):
    timed = nki.benchmark(double)
    timed(ROWS)
    with pytest.raises(ValueError, match="the percentile .*: there are 0 to 100"):
        timed.benchmark_result.nc_latency.get_latency_percentile(percentile)


def test_a_launch_takes_what_stands_around_its_kernel():
    """A profile of NeuronCore-v2 shows 12 to 17 us before a kernel and 4 to 5 us after it; what NeuronCore-v3 takes more is calibrated."""
    for chip, least, most in (("trainium1", 16e-6, 22e-6), ("trainium2", 16e-6, 45e-6)):
        timing = run(double, ROWS, chip=chip).timing
        assert least <= timing["launch_s"] - timing["time_s"] <= most


def test_collectives_that_were_published():
    """Two ranks of one device, within a quarter: figures were chosen with these rows of
    bench/published_collectives.toml in view."""
    rows = tomllib.loads((pathlib.Path(__file__).parents[2] / "bench" / "published_collectives.toml").read_text())["row"]
    two = [row for row in rows if row["ranks"] == 2]
    assert len(two) >= 8
    for row in two:
        ours = sum(_core.collective_time("trainium1", row["collective"], row["bytes"], row["ranks"], row["instance"], row["cores"])) * 1e6
        assert abs(ours / row["published"] - 1) < 0.25, row
