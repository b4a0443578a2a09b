"""From an einsum to the best tactic, its program, and a run of it, all without leaving Python."""

import threading
import time

import ml_dtypes
import numpy as np
import pytest

import tilewright
from tilewright import Einsum, Machine, Refused, explore, simulate

QK = Einsum("HQD,HKD->HQK", dims={"H": 4, "Q": 64, "K": 64, "D": 64}, dtype="int8")


def test_the_best_tactic_runs_with_the_values_of_numpy():
    found = explore(QK)
    assert found.complete and found.best is found.candidates[0]
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-128, 128, (4, 64, 64), dtype=np.int8) for _ in range(2))
    run = simulate(found.best, {"in0": a, "in1": b})
    assert (run.values["out"] == np.einsum("hqd,hkd->hqk", a.astype(np.int32), b.astype(np.int32))).all()
    assert run.ended == "finished" and len(run.findings) == 0
    assert run.cycles == found.verified[0]["simulated_cycles"]
    assert run.energy.total == pytest.approx(run.data["energy_pj"] * 1e-12)
    assert run.time == pytest.approx(run.cycles / 1e9)


def test_bfloat16_crosses_as_it_is():
    found = explore("mk,kn->mn", dims={"m": 16, "k": 64, "n": 64}, dtype="bf16")
    a = np.ones((16, 64), dtype=ml_dtypes.bfloat16)
    b = np.eye(64).astype(ml_dtypes.bfloat16) * 3
    run = simulate(found.best, {"in0": a, "in1": b})
    assert (run.values["out"].astype(np.float32) == 3).all()


def test_the_timeline_has_every_command_on_its_track():
    run = simulate(explore(QK).best)
    timeline = run.timeline
    assert len(timeline) and (timeline.end >= timeline.start).all()
    assert timeline.end.max() <= run.cycles
    assert {"chip0/pe0/main", "chip0/pe0/sub"} & set(timeline.columns()["track"])
    assert "<svg" in timeline._repr_svg_() and any(unit == "bytes" for unit, _, _ in timeline.counters.values())


def test_a_neuron_core_is_searched_with_the_same_words():
    found = explore("mk,kn->mn", "trainium1", dims={"m": 512, "k": 512, "n": 512}, dtype="bf16")
    assert found.best.data["picoseconds"] > 0 and found.verified[0]["results_different"] == 0
    with pytest.raises(Refused) as refused:
        found.best.lower()
    assert refused.value.code == "explore/no-text"


def test_goals_and_machines_change_the_answer():
    fast, frugal = explore(QK, goal="time"), explore(QK, goal="energy")
    assert fast.best.cycles <= frugal.best.cycles and frugal.best.energy_pj <= fast.best.energy_pj
    slow = explore(QK, Machine("tcp").vary({"network.flit_bytes": 16}))
    assert slow.best.cycles >= fast.best.cycles


def test_the_same_search_gives_the_same_data():
    assert explore(QK).data == explore(QK).data


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: explore(QK, goal="fastest"), "explore/goal"),
        (lambda: explore(QK, chip="tpc"), "machine/unknown"),
        (lambda: explore(QK, keep=0), "explore/count"),
        (lambda: explore("HQD,HKD>HQK"), "notation/syntax"),
        (lambda: explore(7), "python/type"),
        (lambda: Einsum("mk,kn->mn", dims={"m": 1.5}), "python/type"),
        (lambda: explore(QK.using(dtype="f32")), "tcp/dtype"),
        (lambda: explore(QK, pes=3), "tcp/fused-pes"),
        (lambda: Machine("tcp").vary({"dm.size": 1}), None),
        (lambda: Machine("tcp")["dm.size"], "machine/figure"),
        (lambda: Machine("nowhere.toml"), "machine/unreadable"),
        (lambda: simulate("no/such/program"), "program/unreadable"),
        (lambda: simulate(3), "python/type"),
        (lambda: simulate(explore(QK).best, {"in7": np.zeros(1, np.int8)}), "sim/tensor"),
        (lambda: simulate(explore(QK).best, {"in0": np.zeros((4, 64, 64))}), "array/dtype"),
        (lambda: simulate(explore(QK).best, {"in0": np.zeros((4, 64, 65), np.int8)}), "sim/input"),
        (lambda: simulate(explore(QK).best, {"in0": "zeros"}), "python/type"),
        (lambda: simulate(explore(QK).best, {"in0": np.full((4, 64, 64), 2**40)}), "array/range"),
    ],
)
def test_refusals_have_codes_and_a_way_out(call, code):
    with pytest.raises(Refused) as refused:
        call()
    error = refused.value
    assert error.code and (code is None or error.code == code), error.code
    assert error.asked and error.allowed and error.instead, str(error)


def test_float64_is_refused_with_what_to_write_instead():
    with pytest.raises(Refused, match="float64") as refused:
        simulate(explore(QK).best, {"in0": np.zeros((4, 64, 64))})
    assert refused.value.instead == "in0.astype(numpy.float32)"


def test_other_threads_run_while_the_core_works():
    seen, done = 0, threading.Event()

    def search():
        explore("MK,NK->MN", dims={"M": 512, "N": 1024, "K": 1024}, plot=True)
        done.set()

    thread = threading.Thread(target=search)
    thread.start()
    while not done.is_set():
        seen += 1
        time.sleep(0.001)
    thread.join()
    assert seen > 10


def test_an_interrupt_ends_a_search(tmp_path):
    import signal
    import subprocess
    import sys

    # A machine that is quick is through with one search before the interrupt comes.
    script = (
        "import tilewright\n"
        "print('go', flush=True)\n"
        "while True:\n"
        "    tilewright.explore('MK,NK->MN', dims={'M': 4096, 'N': 4096, 'K': 4096}, plot=True)"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "go\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in words, words


def test_progress_is_told_and_grows():
    told = []
    explore("MK,NK->MN", dims={"M": 256, "N": 512, "K": 512}, progress=told.append)
    assert told and told == sorted(told)


def test_notebooks_see_a_bar_in_one_place_that_goes_away(monkeypatch):
    import sys
    import types

    from tilewright import progress

    shown = []

    class Place:
        def update(self, data, raw):
            shown.append(data["text/plain"])

    def display(data, raw, display_id):
        shown.append(data["text/plain"])
        return Place()

    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    explore("MK,NK->MN", dims={"M": 256, "N": 512, "K": 512})
    assert shown[0].startswith("explore MK, NK -> MN [") and shown[0].endswith("%") and shown[-1] == ""
    found = tilewright.sweep({"einsum": "mk,kn->mn", "dims": {"m": [16, 32], "k": 64, "n": 64}}, engine="serial")
    assert len(found) == 2 and any(text.startswith("sweep [") for text in shown) and shown[-1] == ""
    shown.clear()
    explore(QK, progress=False)
    assert not shown


def test_what_notebooks_show_is_text_and_not_markup():
    einsum = Einsum("mk,kn->mn", dims={"m": 16, "k": 64, "n": 64})
    program = explore(einsum).best.lower()
    program.name = "<script>alert(1)</script>"
    run = simulate(program)
    assert "<script" not in run._repr_html_() and "&lt;script" in run._repr_html_()
    assert "<table>" in explore(einsum)._repr_html_()


def test_traces_are_saved_whole(tmp_path):
    run = simulate(explore(QK).best)
    path = run.trace.save(tmp_path / "qk.pftrace")
    assert path.read_bytes() == bytes(run.trace) and [one.name for one in tmp_path.iterdir()] == ["qk.pftrace"]


def test_arrow_and_pandas_tables_have_a_row_for_each_command():
    pytest.importorskip("pandas")
    run = simulate(explore(QK).best)
    frame = run.to_dataframe("pandas")
    assert len(frame) == len(run.timeline) and list(frame.columns[:4]) == ["track", "name", "start", "end"]
    with pytest.raises(Refused) as refused:
        run.to_dataframe("excel")
    assert refused.value.code == "tables/library"


def test_polars_and_arrow_tables_hold_what_pandas_tables_hold():
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    run = simulate(explore(QK).best)
    frames = {name: run.to_dataframe(name) for name in ("pandas", "polars", "pyarrow")}
    assert isinstance(frames["pandas"], pandas.DataFrame) and isinstance(frames["polars"], polars.DataFrame) and isinstance(frames["pyarrow"], pyarrow.Table)
    rows = frames["pandas"].to_dict("list")
    assert rows["name"] and frames["polars"].to_dict(as_series=False) == rows == frames["pyarrow"].to_pydict()


class _Exported:
    """An array of another library: nothing but DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_arrays_of_other_libraries_cross_by_dlpack_without_a_copy():
    from tilewright.arrays import given

    rng = np.random.default_rng(2)
    a, b = (rng.integers(-128, 128, (4, 64, 64), dtype=np.int8) for _ in range(2))
    taken, kind, shape = given("in0", _Exported(a))
    assert (kind, shape) == ("i8", a.shape) and np.shares_memory(taken, a)
    best = explore(QK).best
    run = simulate(best, {"in0": _Exported(a), "in1": _Exported(b)})
    assert (run.values["out"] == simulate(best, {"in0": a, "in1": b}).values["out"]).all()


def test_programs_of_kernels_run_from_their_files():
    run = simulate("kernels/attention.tcp")
    assert run.machine == "tcp" and len(run.findings) == 0 and run.values


def test_the_api_is_typed_and_documented():
    for name in tilewright.__all__:
        assert getattr(tilewright, name).__doc__, name
