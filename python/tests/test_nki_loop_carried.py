"""Iterations of `affine_range` that depend on each other: through HBM, and by updates in place."""

import neuronxcc.nki.isa as nisa
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


def written_by_all_with_gaps(x, out, held, at):
    nl.store(out[2, :, 0:64], nl.multiply(nl.load(x[:, 0:64]), at + 1.0))
    nl.store(out[1].reshape((128, 64, 2))[:, :, 0], nl.multiply(nl.load(x[:, 0:64]), at + 1.0))


def a_row_written_by_two(x, out, held, at):
    """Of the rows of an iteration the last is the first of the next."""
    rows = nl.arange(33)[:, None]
    nl.store(out[0, at * 31 + rows, nl.arange(128)[None, :]], nl.multiply(nl.load(x[0:33]), at + 1.0))


def the_same_first_and_then_another(x, out, held, at):
    nl.store(out[1], nl.load(x))
    nl.store(out[1, 0:64], nl.multiply(nl.load(x[0:64]), at + 1.0))


def written_by_all_in_a_loop_inside(x, out, held, at):
    for row in nl.sequential_range(2):
        nl.store(out[row], nl.multiply(nl.load(x), at + row + 1.0))


DEPENDENT = [
    scaled_in_place,
    scaled_by_a_constant,
    written_by_all,
    written_by_all_with_gaps,
    a_row_written_by_two,
    the_same_first_and_then_another,
    written_by_all_in_a_loop_inside,
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


def the_same_by_all(x, out, held, at):
    nl.store(out[1], nl.multiply(nl.load(x), 3.0))


def something_else_and_then_the_same_by_all(x, out, held, at):
    nl.store(out[1], nl.multiply(nl.load(x), at + 1.0))
    nl.store(out[1], nl.load(x))


def the_same_by_all_over_what_each_wrote_in_part(x, out, held, at):
    nl.store(out[1, 0:64], nl.multiply(nl.load(x[0:64]), at + 1.0))
    nl.store(out[1], nl.load(x))


def in_the_gaps_of_one_another(x, out, held, at):
    columns = out[1].reshape((128, 32, 4))[:, :, at]
    nl.store(columns, nl.multiply(nl.load(x[:, 0:32]), at + 1.0))


def steps_that_overwrite_in_order(x, out, held, at):
    for step in nl.sequential_range(3):
        nl.store(out[at], nl.multiply(nl.load(x), step + 1.0))


def rows_that_a_mask_leaves(x, out, held, at):
    """All have 128 rows, of which each writes 32 of its own."""
    rows, columns = nl.arange(128)[:, None], nl.arange(128)[None, :]
    tile = nl.multiply(nl.load(x), at + 1.0)
    nl.store(out[1, rows, columns], tile, mask=(rows >= at * 32) & (rows < at * 32 + 32))


INDEPENDENT = [
    rows_of_its_own,
    a_sum_of_all,
    tiles_of_its_own,
    the_same_by_all,
    something_else_and_then_the_same_by_all,
    the_same_by_all_over_what_each_wrote_in_part,
    in_the_gaps_of_one_another,
    steps_that_overwrite_in_order,
    rows_that_a_mask_leaves,
]


@pytest.mark.parametrize("body", INDEPENDENT)
def test_iterations_that_do_not(body):
    assert not carried(body)


def test_the_finding_names_both_writes_and_their_iterations():
    (message,) = carried(written_by_all)
    assert message.count(__file__) == 3
    assert "dma_copy writes in iteration 1 of the affine_range at" in message
    assert "other values over what dma_copy at" in message and message.endswith("wrote in iteration 0")


def test_times_alone_have_no_values_to_compare():
    def kernel(x):
        out = nl.ndarray((128, 128), nl.float32, buffer=nl.shared_hbm)
        for at in nl.affine_range(4):
            nl.store(out, nl.multiply(nl.load(x), at + 1.0))
        return out

    assert not run(kernel, X, dialect="old", values=False).findings


def test_iterations_of_one_loop_after_another():
    """The second loop comes after all of the first."""

    def kernel(x):
        out = nl.ndarray((128, 128), nl.float32, buffer=nl.shared_hbm)
        for factor in (1.0, 2.0):
            for at in nl.affine_range(4):
                nl.store(out, nl.multiply(nl.load(x), factor))
        return out

    assert not run(kernel, X, dialect="old").findings


def behind(body, make=nl.affine_range, change=None):
    """Messages about a loop that writes a tile of the kernel, of which the last value is stored behind it."""

    def kernel(x):
        out = nl.ndarray((128, 128), nl.float32, buffer=nl.shared_hbm)
        held = nl.load(x)
        for at in make(4):
            body(x, held, at)
        if change is not None:
            change(held)
        nl.store(out, held)
        return out

    found = run(kernel, X, dialect="old").findings
    return [one["line"] + " " + one["message"] for one in found if one["code"] == "neuron/loop-carried"]


def the_last_value(x, held, at):
    held[...] = nl.multiply(nl.load(x), at + 1.0)


def a_part_of_the_last(x, held, at):
    held[0:64, 0:32] = nl.multiply(nl.load(x[0:64, 0:32]), at + 1.0)


def a_part_by_an_instruction(x, held, at):
    nisa.memset(shape=(128, 128), value=at + 1.0, dtype=nl.float32)
    held[0:64] = nl.full((64, 128), at + 1.0, nl.float32)


@pytest.mark.parametrize("body", [the_last_value, a_part_of_the_last, a_part_by_an_instruction])
def test_a_value_of_the_last_iteration_is_read_behind_the_loop(body):
    (message,) = behind(body)
    assert message.count(__file__) == 4 and "reads behind the affine_range at" in message
    assert "in iteration 0 and" in message and "in iteration 1, with other values" in message
    assert not behind(body, nl.sequential_range)


def the_same_value(x, held, at):
    held[...] = nl.multiply(nl.load(x), 3.0)


def another_and_then_the_same(x, held, at):
    held[...] = nl.multiply(nl.load(x), at + 1.0)
    held[...] = nl.load(x)


def columns_of_its_own(x, held, at):
    held[:, nl.ds(at * 32, 32)] = nl.multiply(nl.load(x[:, 0:32]), at + 1.0)


def a_running_sum(x, held, at):
    held[...] = nl.add(held, nl.load(x))


def a_running_maximum(x, held, at):
    held[...] = nl.maximum(held, nl.multiply(nl.load(x), at + 1.0))


SILENT = [the_same_value, another_and_then_the_same, columns_of_its_own, a_running_sum, a_running_maximum]


@pytest.mark.parametrize("body", SILENT)
def test_values_that_do_not_depend_on_the_last_iteration(body):
    assert not behind(body)


def test_a_tile_that_is_written_anew_behind_the_loop():
    def filled(held):
        held[...] = nl.full((128, 128), 1.0, nl.float32)

    def filled_in_part(held):
        held[0:64] = nl.full((64, 128), 1.0, nl.float32)

    assert not behind(the_last_value, change=filled)
    assert behind(the_last_value, change=filled_in_part)


def test_a_loop_inside_another_leaves_its_last_value_too():
    def body(x, held, at):
        for step in nl.affine_range(3):
            held[...] = nl.multiply(nl.load(x), step + 1.0)

    (message,) = behind(body, nl.sequential_range)
    assert "reads behind the affine_range" in message
