"""Launches of NKI kernels as runs of the Python package: counters over time, pages, one program text for both."""

import numpy as np
import pytest

import tilewright
import tilewright.nki


def scale(x, gain):
    import neuronxcc.nki.language as nl

    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    factor = nl.load(gain)
    for r in nl.affine_range(x.shape[0] // 128):
        rows = nl.ds(r * 128, 128)
        nl.store(out[rows], nl.multiply(nl.load(x[rows]), factor))
    return out


@pytest.fixture(scope="module")
def launched():
    x, gain = np.ones((512, 1024), np.float32), np.full((128, 1024), 2, np.float32)
    return tilewright.nki.run(scale, x, gain, chip="trainium1")


@pytest.fixture(scope="module")
def run(launched):
    return tilewright.simulate(tilewright.Program(launched.program, name="scale"))


def area(timeline, path):
    """What a counter adds up to over time, in its unit times seconds."""
    _, at, value = timeline.counters[path]
    ends = np.append(at[1:], max(timeline.end.max(), at[-1]))
    return float(((ends - at) * value).sum()) / timeline.ticks_per_s


def test_a_program_takes_as_long_as_its_launch(launched, run):
    assert run.time == pytest.approx(launched.time) and run.energy.total == pytest.approx(sum(launched.energy.values()))
    assert run.machine == "trainium1" and len(run.findings) == len(launched.findings)


def test_power_over_time_adds_up_to_the_energy(run):
    assert area(run.timeline, "trainium1/power") * 1e-3 == pytest.approx(run.energy.total, rel=0.02)


def test_hbm_over_time_adds_up_to_the_bytes(launched, run):
    assert area(run.timeline, "trainium1/hbm bytes per us") * 1e6 == pytest.approx(sum(launched.hbm_bytes), rel=0.02)


def test_memories_fill_and_are_empty_at_the_end(run):
    unit, _, live = run.timeline.counters["trainium1/core0/sbuf live, of a partition"]
    assert unit == "bytes" and live.max() >= 3 * 1024 * 4 and live[-1] == 0


def test_arrays_for_a_recorded_program_are_refused(run):
    with pytest.raises(tilewright.Refused) as refused:
        tilewright.simulate(run.program, {"x": np.zeros(1, np.float32)})
    assert refused.value.code == "sim/no-values" and refused.value.instead


def test_a_launch_has_a_page(launched, tmp_path):
    assert "scale" in launched.save_page(tmp_path / "scale.html").read_text()


def test_a_launch_has_a_table_and_saves_its_trace(launched, run, tmp_path):
    pytest.importorskip("pandas")
    frame = launched.to_dataframe("pandas")
    assert len(frame) == len(run.timeline) > 0 and list(frame.columns) == list(run.timeline.columns())
    path = launched.trace.save(tmp_path / "scale.pftrace")
    assert isinstance(launched.trace, bytes) and path.read_bytes() == launched.trace
