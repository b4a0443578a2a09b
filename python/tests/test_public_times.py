"""`bench/public_times.py`: the order of a kernel's variants, and the races of each run."""

import importlib
import pathlib
import sys

import neuronxcc.nki.language as nl
import numpy as np
import pytest
from tilewright.nki import Kernel

BENCH = pathlib.Path(__file__).parents[2] / "bench"


@pytest.fixture
def public_times(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    before = set(sys.modules)
    yield importlib.import_module("public_times")
    # Names as short as `times` are not left to others.
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(BENCH)):
            del sys.modules[name]


def doubled(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for at in range(x.shape[0]):
        nl.store(out[at], nl.load(x[at]) * 2.0)
    return out


def racing(x):
    out = nl.ndarray(x.shape[1:], x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x[0]) * (nl.program_id(0) + 1.0))
    return out


def row(name, published, count, body=doubled, grid=None, kind="development"):
    def make(_folder):
        return Kernel(body, "old"), (np.ones((count, 128, 512), np.float32),), {}, grid

    wanted = {"chip": "trainium1", "name": name, "group": "T"}
    wanted |= {"published": published, "unit": "us", "kind": kind}
    return ("trainium1", name, "samples", make, body.__name__), wanted


def report(public_times, monkeypatch, capsys, tmp_path, rows):
    monkeypatch.setattr(public_times, "ROWS", [one for one, _ in rows])
    monkeypatch.setattr(public_times, "read_rows", lambda _path: [wanted for _, wanted in rows])
    monkeypatch.setattr(sys, "argv", ["public_times", "--samples", str(tmp_path)])
    assert public_times.main() == 0
    return capsys.readouterr().out.splitlines()


def test_the_order_of_variants_is_printed_by_kernel(public_times, monkeypatch, capsys, tmp_path):
    rows = [row("a", 10.0, 1), row("b", 30.0, 2), row("c", 20.0, 4), row("d", 10.0, 1, racing)]
    lines = report(public_times, monkeypatch, capsys, tmp_path, rows)
    (order,) = [line.split() for line in lines if line.startswith("order")]
    assert order == ["order", "trainium1", "doubled", "3", "variants", "rho", "0.50"]


def test_the_races_of_each_run_are_printed(public_times, monkeypatch, capsys, tmp_path):
    rows = [row("a", 10.0, 1), row("b", 10.0, 1, racing, grid=2)]
    lines = report(public_times, monkeypatch, capsys, tmp_path, rows)
    fine, raced = (next(line for line in lines if line.startswith(f"trainium1 {name} ")) for name in "ab")
    assert "races none" in fine and "races 1 " in raced
    (told,) = [line for line in lines if "[neuron/core-race]" in line]
    assert __file__ in told and lines.index(told) == lines.index(raced) + 1


def test_rank_correlation(public_times):
    from ordering import rank_correlation

    assert rank_correlation([1, 2, 3], [10, 20, 90]) == pytest.approx(1.0)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    assert rank_correlation([1, 2, 2, 3], [1, 2, 2, 3]) == pytest.approx(1.0)
    assert rank_correlation([1, 1], [1, 2]) is None


def test_every_row_names_its_kernel(public_times):
    from times import ROWS

    named = {name: kernel for _, name, _, _, kernel in ROWS}
    assert named["A.1"] == named["B.4"] != named["C.2"] and all(named.values())
