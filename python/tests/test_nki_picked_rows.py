"""Sums of rows that a tile of indices picks: what `nisa.dma_compute` asks of indices, also beyond a table."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from tilewright.nki import Refused, run

TABLE = np.arange(64 * 8, dtype=np.float32).reshape(64, 8)
ROWS = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
UNIQUE = np.random.default_rng(0).permutation(64)[:16].astype(np.int32).reshape(16, 1)


def with_index(place, index):
    indices = UNIQUE.copy()
    indices[place] = index
    return indices


TWICE = with_index(3, UNIQUE[5, 0])


def tile_of(array):
    tile = nl.ndarray(array.shape, array.dtype)
    nisa.dma_copy(tile, array)
    return tile


def scatter(table, indices, rows, **options):
    """Rows are added to those of a table."""
    out = nl.ndarray(table.shape, table.dtype, buffer=nl.shared_hbm, name="out")
    nisa.dma_copy(out, tile_of(table))
    where, tile = tile_of(indices), tile_of(rows)
    picked = out.ap([[8, 16], [1, 8]], vector_offset=where)
    nisa.dma_compute(picked, [out.ap([[8, 16], [1, 8]], vector_offset=where), tile], nl.add, **options)
    return out


def gather(table, indices, rows, **options):
    """Rows of a table are added to others."""
    out = nl.ndarray(rows.shape, rows.dtype, buffer=nl.shared_hbm)
    where, tile = tile_of(indices), tile_of(rows)
    nisa.dma_compute(tile, [table.ap([[8, 16], [1, 8]], vector_offset=where), tile], nl.add, **options)
    nisa.dma_copy(out, tile)
    return out


def summed(kernel, indices, **options):
    return run(kernel, TABLE, indices, ROWS, chip="trainium2", dialect="new", **options)


def expected(kernel, indices):
    inside = indices[:, 0] < len(TABLE)
    if kernel is gather:
        return ROWS + np.where(inside[:, None], TABLE[np.minimum(indices[:, 0], len(TABLE) - 1)], 0)
    table = TABLE.copy()
    table[indices[inside, 0]] += ROWS[inside]
    return table


@pytest.mark.parametrize("kernel", [scatter, gather])
@pytest.mark.parametrize("options", [{}, {"unique_indices": True}])
def test_rows_of_unique_indices_are_added(kernel, options):
    result = summed(kernel, UNIQUE, **options)
    assert np.array_equal(result.outputs, expected(kernel, UNIQUE)) and not result.findings


@pytest.mark.parametrize("kernel", [scatter, gather])
def test_indices_that_may_come_twice_are_refused(kernel):
    with pytest.raises(Refused) as caught:
        summed(kernel, UNIQUE, unique_indices=False)
    assert caught.value.code == "neuron/operator" and "unique_indices=False" in caught.value.asked
    assert "unique_indices=True" in caught.value.allowed and __file__ in caught.value.line


def test_an_index_that_comes_twice_though_it_must_not_is_named():
    result = summed(scatter, TWICE)
    (finding,) = result.findings
    assert (finding["code"], finding["severity"]) == ("neuron/repeated-index", "error")
    assert __file__ in finding["line"] and "comes twice" in finding["allowed"]
    assert f"adds 2 elements to out[{UNIQUE[5, 0]}, 0] at once" in finding["message"]
    words = "add up the rows of one index first, or make a call for each index that comes again"
    assert finding["instead"] == words
    # Values are those of the last row, as if no sum saw the other.
    assert np.array_equal(result.outputs[UNIQUE[5, 0]], TABLE[UNIQUE[5, 0]] + ROWS[5])
    assert finding in summed(lambda *args: scatter(*args), TWICE, grid=2).findings


def test_an_index_that_is_only_read_twice_is_none_of_it():
    result = summed(gather, TWICE)
    assert np.array_equal(result.outputs, expected(gather, TWICE)) and not result.findings


@pytest.mark.parametrize("kernel", [scatter, gather])
def test_rows_beyond_the_table_are_left_out_or_end_the_run(kernel):
    indices = with_index([3, 5], 99)
    result = summed(kernel, indices, oob_mode=nisa.oob_mode.skip)
    assert np.array_equal(result.outputs, expected(kernel, indices)) and not result.findings
    with pytest.raises(IndexError, match="out of bounds"):
        summed(kernel, indices)


def test_sums_of_whole_tensors_have_no_indices():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_compute(out, [x, x], nl.add, unique_indices=False)
        return out

    result = run(kernel, ROWS, chip="trainium2", dialect="new")
    assert np.array_equal(result.outputs, 2 * ROWS) and not result.findings


def of_an_older_view(table, indices, rows):
    """Many views are made between that of the result and the sum."""
    out = nl.ndarray(table.shape, table.dtype, buffer=nl.shared_hbm, name="out")
    nisa.dma_copy(out, tile_of(table))
    where, tile = tile_of(indices), tile_of(rows)
    picked = out.ap([[8, 16], [1, 8]], vector_offset=where)
    others = [out.ap([[8, 16], [1, 8]], vector_offset=where) for _ in range(40)]
    nisa.dma_compute(picked, [others[-1], tile], nl.add, unique_indices=True)
    return out


def of_a_slice(table, indices, rows):
    """Columns of the rows that are picked."""
    out = nl.ndarray(table.shape, table.dtype, buffer=nl.shared_hbm, name="out")
    nisa.dma_copy(out, tile_of(table))
    where, tile = tile_of(indices), tile_of(rows)
    columns = out.ap([[8, 16], [1, 8]], vector_offset=where)[:, 2:6]
    nisa.dma_compute(columns, [columns, tile[:, 2:6]], nl.add, unique_indices=True)
    return out


@pytest.mark.parametrize("kernel, column", [(of_an_older_view, 0), (of_a_slice, 2)])
def test_indices_of_every_view_are_looked_at(kernel, column):
    assert not summed(kernel, UNIQUE).findings
    (finding,) = summed(kernel, TWICE).findings
    assert finding["code"] == "neuron/repeated-index" and f"out[{UNIQUE[5, 0]}, {column}]" in finding["message"]


def test_slices_of_picked_rows_are_picked_too():
    def kernel(table, indices, rows):
        out = nl.ndarray(table.shape, table.dtype, buffer=nl.shared_hbm)
        columns = out.ap([[8, 16], [1, 8]], vector_offset=tile_of(indices))[:, 2:6]
        nisa.dma_compute(columns, [columns, columns], nl.add, unique_indices=False)
        return out

    with pytest.raises(Refused) as caught:
        summed(kernel, UNIQUE)
    assert caught.value.code == "neuron/operator" and "unique_indices=False" in caught.value.asked
