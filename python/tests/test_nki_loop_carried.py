"""Iterations of `affine_range` that depend on each other: through HBM, and by updates in place."""

import neuronxcc.nki.language as nl
import numpy as np
import pytest
from tilewright.nki import run

X = np.ones((128, 128), np.float32)


def carried(body, make=nl.affine_range):
    """Messages about a loop of four iterations, with a tile that all of them share and a tensor in HBM."""

    def kernel(x):
        out = nl.ndarray((5, 128, 128), nl.float32, buffer=nl.shared_hbm)
        held = nl.load(x)
        for at in range(5):
            nl.store(out[at], held)
        for at in make(4):
            body(x, out, held, at)
        return out

    found = run(kernel, X, dialect="old").findings
    return [one["line"] + " " + one["message"] for one in found if one["code"] == "neuron/loop-carried"]


def scaled_in_place(x, out, held, at):
    """Half of what is there and one more: no order but that of the iterations gives the same."""
    held[...] = nl.add(nl.multiply(held, 0.5), 1.0)


def scaled_by_a_constant(x, out, held, at):
    held[...] = nl.multiply(held, 0.5)
    nl.store(out[at], held)


def written_by_all(x, out, held, at):
    nl.store(out[1], nl.multiply(nl.load(x), at + 1.0))


def overwritten_after_it_was_read(x, out, held, at):
    nl.store(out[at], nl.exp(nl.load(out[at + 1])))


def read_after_it_was_written(x, out, held, at):
    nl.store(out[at + 1], nl.exp(nl.load(out[at])))


same = pytest.mark.xfail(strict=True, reason="all may write the same: values are not compared")
DEPENDENT = [
    scaled_in_place,
    scaled_by_a_constant,
    pytest.param(written_by_all, marks=same),
    overwritten_after_it_was_read,
    read_after_it_was_written,
]


def rows_of_its_own(x, out, held, at):
    tile = nl.load(out[at])
    nl.store(out[at], nl.exp(tile))


def a_sum_of_all(x, out, held, at):
    held += nl.load(x)


def tiles_of_its_own(x, out, held, at):
    tile = nl.load(x)
    tile[...] = nl.multiply(tile, 0.5)
    tile[...] = nl.multiply(tile, 0.5)
    nl.store(out[at], tile)


@pytest.mark.parametrize("body", DEPENDENT)
def test_iterations_that_depend_on_each_other(body):
    messages = carried(body)
    assert messages and all(__file__ in message for message in messages)
    assert not carried(body, nl.sequential_range)


@pytest.mark.parametrize("body", [rows_of_its_own, a_sum_of_all, tiles_of_its_own])
def test_iterations_that_do_not(body):
    assert not carried(body)
