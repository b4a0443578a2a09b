"""What is drawn of a run: arrows between cores in its trace, and the picture that notebooks show."""

import re

import neuronxcc.nki.language as old_nl
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from tilewright.nki import Kernel, display, run
from tilewright.nki.kernel import ShapeOnly


def swapped(x):
    """Each core reads what the other wrote; the second core has more to do first."""
    core, rows = nl.program_id(0), 128
    shared = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((rows, x.shape[1]), x.dtype)
    nisa.dma_copy(tile, x[core * rows : (core + 1) * rows])
    for _ in range(20 * core):
        nisa.activation(tile, nl.tanh, tile)
    nisa.dma_copy(shared[core * rows : (core + 1) * rows], tile)
    nisa.core_barrier(shared, (0, 1))
    nisa.dma_copy(out[core * rows : (core + 1) * rows], shared[(1 - core) * rows : (2 - core) * rows])
    return out


def arrows(result):
    """Where each arrow of a trace starts and ends: pairs of tracks, earlier one first."""
    trace_module = pytest.importorskip("test_trace")
    slices = trace_module.Reading(trace_module.trace_class().FromString(result.trace)).slices
    ends = {}
    for path, name, start, _end, _annotations, flows in slices:
        for flow in flows:
            ends.setdefault(flow, []).append((start, path, name))
    assert all(len(found) == 2 for found in ends.values())
    return [tuple(path for _, path, _ in sorted(found)) for found in ends.values()]


def test_arrows_between_one_engine_of_two_cores():
    result = run(Kernel(swapped, "new")[2], np.ones((256, 64), np.float32), chip="trainium2")
    assert ("trainium2/core1/dma", "trainium2/core0/dma") in arrows(result)


def test_no_arrow_from_an_engine_to_itself():
    result = run(Kernel(swapped, "new")[2], np.ones((256, 64), np.float32), chip="trainium2")
    assert all(before != after for before, after in arrows(result))


def too_much(x):
    """Holds more results than SBUF has room for."""
    out = old_nl.ndarray(x.shape, x.dtype, buffer=old_nl.shared_hbm)
    powers = [old_nl.exp(old_nl.load(x[at])) for at in range(x.shape[0])]
    total = powers[0]
    for each in powers[1:]:
        total = old_nl.add(total, each)
    for at, each in enumerate(powers):
        old_nl.store(out[at], old_nl.multiply(each, total))
    return out


def test_spills_are_in_the_picture():
    result = run(too_much, ShapeOnly((10, 128, 8192), np.float32), chip="trainium1", values=False)
    assert result.timing["spill_save_bytes"] > 0 and {kind for kind, *_ in result.spills} == {"spill", "reload"}
    texts = re.findall(r"<text[^>]*>([^<]*)", display.svg(result))
    busy = float(texts[texts.index("dma") + 1].rstrip("%")) / 100
    assert abs(busy - result.timing["engines"]["dma"]["busy_s"] / result.time) < 0.006


def test_the_unit_stands_apart_from_the_last_figure():
    class Round:
        time, spans, spills, timing = 100e-6, [("iota", "gpsimd", 0, 0.0, 1e5, 1e5)], [], {"cores": 1}

    found = re.findall(r'<text x="([0-9.]+)" y="34"([^>]*)>([^<]*)', display.svg(Round))
    assert found[-2][2] == "100" and found[-1][2] == "us" and 'text-anchor="end"' in found[-1][1]
    # Eleven pixels high, letters and digits are at most seven wide.
    assert float(found[-2][0]) + 1.5 * 7 < float(found[-1][0]) - 2 * 7


def test_long_lines_of_the_summary_go_on_below():
    result = run(too_much, ShapeOnly((10, 128, 8192), np.float32), chip="trainium1", values=False)
    assert max(map(len, result.summary().splitlines())) > 120
    assert '<pre style="white-space: pre-wrap">too_much on trainium1' in result._repr_html_()
