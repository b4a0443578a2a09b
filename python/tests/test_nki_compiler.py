"""What the compiler of the first dialect changes: instructions that run, their engines and times, never values. Each case beside its twin."""

import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
import pytest
from tilewright.nki import run

ROWS = np.random.default_rng(0).standard_normal((128, 512)).astype(np.float32)


def count(result, opcode):
    return sum(span[0] == opcode for span in result.spans)


def engines(result, opcode):
    return {span[1] for span in result.spans if span[0] == opcode}


def both(kernel, *args, chip="trainium1"):
    """As the compiler leaves it, and as it is written."""
    written = nki.jit(kernel)
    written.as_written = True
    changed = run(kernel, *args, chip=chip)
    kept = run(written, *args, chip=chip)
    assert np.array_equal(changed.outputs, kept.outputs), "values never depend on it"
    return changed, kept


def invariant(x):
    out = nl.ndarray((4, *x.shape), x.dtype, buffer=nl.shared_hbm)
    a = nl.load(x)
    for i in nl.affine_range(4):
        square = nisa.tensor_tensor(a, a, op=nl.multiply)
        nl.store(out[i], nisa.tensor_tensor(square, a, op=nl.add))
    return out


def test_what_a_loop_does_not_change_is_computed_once():
    changed, kept = both(invariant, ROWS)
    # The sums are equal too: one product and one sum are left.
    assert (count(changed, "tensor_tensor"), count(kept, "tensor_tensor")) == (2, 8)


def test_what_a_loop_changes_is_computed_each_time():
    def kernel(x):
        out = nl.ndarray((4, *x.shape), x.dtype, buffer=nl.shared_hbm)
        a = nl.load(x)
        for i in nl.affine_range(4):
            nl.store(out[i], nisa.tensor_scalar(a, np.maximum, float(i)))
        return out

    changed, kept = both(kernel, ROWS)
    assert count(changed, "tensor_scalar") == count(kept, "tensor_scalar") == 4


def test_a_copy_that_changes_nothing_goes_and_a_cast_stays():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        same = nl.copy(nl.load(x))
        narrow = nl.copy(same, dtype=nl.bfloat16)
        nl.store(out, nisa.tensor_tensor(same, narrow, op=nl.maximum, dtype=np.float32))
        return out

    changed, kept = both(kernel, ROWS)
    assert (count(changed, "tensor_copy"), count(kept, "tensor_copy")) == (1, 2)


@pytest.mark.parametrize(("op", "left"), [(np.add, 0), (np.max, 1)])
def test_sums_of_an_activation_are_taken_on_the_way(op, left):
    def kernel(x):
        out = nl.ndarray((128, 1), x.dtype, buffer=nl.shared_hbm)
        powers = nisa.activation(np.exp, data=nl.load(x))
        nl.store(out, nisa.tensor_reduce(op, data=powers, axis=(1,), keepdims=True))
        return out

    changed, kept = both(kernel, ROWS)
    assert count(changed, "tensor_reduce") == left and count(kept, "tensor_reduce") == 1


def test_a_reciprocal_and_its_product_are_a_division():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        a = nl.load(x)
        nl.store(out, nl.multiply(a, nisa.reciprocal(a)))
        return out

    changed, kept = both(kernel, ROWS)
    assert count(changed, "reciprocal") == 0 and count(kept, "reciprocal") == 1
    assert changed.time < kept.time


def test_work_without_an_engine_is_spread_and_named_engines_are_kept():
    def kernel(x, engine=nisa.unknown_engine):
        out = nl.ndarray((8, *x.shape), x.dtype, buffer=nl.shared_hbm)
        a = nl.load(x)
        for i in range(8):
            nl.store(out[i], nisa.tensor_scalar(a, np.multiply, float(i), engine=engine))
        return out

    assert engines(run(kernel, ROWS), "tensor_scalar") == {"vector", "scalar"}
    assert engines(run(kernel, ROWS, engine=nisa.vector_engine), "tensor_scalar") == {"vector"}


def test_pairs_go_to_gpsimd_where_it_has_a_port_of_its_own():
    def kernel(x):
        out = nl.ndarray((8, *x.shape), x.dtype, buffer=nl.shared_hbm)
        for i in range(8):
            a = nl.load(x)
            nl.store(out[i], nl.add(a, a))
        return out

    assert engines(run(kernel, ROWS, chip="trainium1"), "tensor_tensor") == {"vector"}
    assert engines(run(kernel, ROWS, chip="trainium2"), "tensor_tensor") == {"vector", "gpsimd"}


def product(x):
    out = nl.ndarray((128, 512), x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nisa.nc_matmul(nl.load(x[:, 0:128]), nl.load(x)))
    return out


def test_fp32_products_take_one_pass_from_the_third_generation_on():
    def tensor_s(result):
        return result.timing["engines"]["tensor"]["busy_s"]

    for chip, factor in (("trainium1", 1), ("trainium2", 2)):
        changed, kept = both(product, ROWS, chip=chip)
        assert tensor_s(kept) == pytest.approx(tensor_s(changed) * factor, rel=0.05)


def test_a_tile_that_is_written_again_is_a_new_one():
    def kernel(x):
        out = nl.ndarray((8, *x.shape), x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((nl.par_dim(128), 512), dtype=x.dtype)
        for i in nl.affine_range(8):
            tile[...] = nl.load(x)
            nl.store(out[i], nisa.activation(np.exp, data=tile))
        return out

    changed, kept = both(kernel, ROWS)
    assert changed.time < 0.8 * kept.time, "loads run ahead"


def test_the_decorator_that_keeps_a_kernel_as_it_is_written():
    kept = ncc.skip_middle_end_transformations(nki.jit(invariant))
    try:
        assert count(run(kept, ROWS), "tensor_tensor") == 8
    finally:
        del invariant.as_written
    assert count(run(nki.jit(invariant), ROWS), "tensor_tensor") == 2


def test_allocation_functions_are_called_by_name():
    import functools

    def bank(banks, idx, pdim_size, fdim_size):
        return banks[idx], 0, 0

    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        place = ncc.psum.alloc(functools.partial(bank, banks={(0,): 3, (1,): 5}))
        sums = nl.ndarray((2, nl.par_dim(128), 512), dtype=np.float32, buffer=place)
        a = nl.load(x)
        for i in range(2):
            sums[i] = nisa.nc_matmul(a[:, 0:128], a)
        nl.store(out, nl.add(sums[0], nl.copy(sums[1])))
        return out

    assert np.allclose(run(kernel, ROWS).outputs, 2 * ROWS[:, :128].T @ ROWS, atol=1e-2)


@pytest.mark.parametrize("limit", [40, 100, 128])
def test_rows_picked_by_a_tile_where_a_mask_holds(limit):
    def kernel(x):
        out = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
        rows, columns = nl.arange(128)[:, None], nl.arange(64)[None, :]
        nl.store(out[rows, columns], nl.load(x[rows, columns]) * 0.0)
        # Beyond the limit the rows that are asked for do not exist.
        picked = nl.add(nisa.iota(rows, dtype=nl.int32), 256 - limit, dtype=nl.int32)
        tile = nl.load(x[picked, columns], mask=rows < limit)
        nl.store(out[rows, columns], tile, mask=rows < limit)
        return out

    x = np.random.default_rng(1).standard_normal((256, 64)).astype(np.float32)
    expected = np.zeros((128, 64), np.float32)
    expected[:limit] = x[256 - limit : 256]
    assert np.array_equal(run(kernel, x).outputs, expected)


def test_a_transpose_of_the_tensor_engine_comes_back_by_a_copy():
    def turned(memory):
        def kernel(x):
            out = nl.ndarray((128, 128), x.dtype, buffer=nl.shared_hbm)
            tile = nl.load(x[:, 0:128])
            target = nl.ndarray((nl.par_dim(128), 128), x.dtype, buffer=memory)
            target[...] = nisa.nc_transpose(tile)
            nl.store(out, target)
            return out

        return kernel

    for memory, copies in ((nl.sbuf, 1), (nl.psum, 1)):
        _, kept = both(turned(memory), ROWS)
        # Into SBUF by the assignment, out of PSUM by the store.
        assert count(kept, "tensor_copy") == copies
        assert np.array_equal(kept.outputs, ROWS[:, :128].T)


def test_a_copy_from_psum_goes_to_the_engine_that_needs_psum_for_less_time():
    """Where Vector and Scalar keep each other from PSUM, taking turns wins nothing."""

    def kernel(x):
        out = nl.ndarray((8, 128, 128), x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x[:, 0:128])
        for i in range(8):
            product = nisa.nc_matmul(tile, tile)
            nl.store(out[i], nl.copy(product, dtype=x.dtype))
        return out

    assert engines(run(kernel, ROWS, chip="trainium1"), "tensor_copy") == {"scalar"}
    assert engines(run(kernel, ROWS, chip="trainium2"), "tensor_copy") == {"scalar", "vector"}


def gathers(picked):
    """Rows of a table: by a tile of numbers, or known before."""

    def kernel(table, rows):
        out = nl.ndarray((128, 64), table.dtype, buffer=nl.shared_hbm)
        tile = nl.load(rows)
        where, columns = nl.arange(128)[:, None], nl.arange(64)[None, :]
        taken = nl.load(table[tile[where, 0], columns] if picked else table[where, columns])
        nl.store(out, taken)
        return out

    return kernel


def test_rows_that_a_tile_picks_have_descriptors_made_by_gpsimd():
    table = np.arange(512 * 64, dtype=np.float32).reshape(512, 64)
    rows = np.random.default_rng(3).permutation(512)[:128].astype(np.int32).reshape(128, 1)
    picked, known = run(gathers(True), table, rows), run(gathers(False), table, rows)
    assert np.array_equal(picked.outputs, table[rows[:, 0]]) and np.array_equal(known.outputs, table[:128])
    assert count(picked, "dma_descriptors") == 1 and count(known, "dma_descriptors") == 0
    spans = {span[0]: span for span in picked.spans if span[0] == "dma_descriptors"}
    made = spans["dma_descriptors"]
    loads = sorted(span[3:5] for span in picked.spans if span[0] == "dma_copy")
    assert made[1] == "gpsimd" and loads[0][1] <= made[3], "the numbers are there before it begins"
    assert loads[1][0] >= made[4], "and the rows move after it"
    # 150 cycles and 6 for each of 128 rows, at 1.4 GHz.
    assert abs((made[4] - made[3]) - (150 + 6 * 128) / 1.4) < 1
    assert picked.time > known.time


def test_a_transpose_is_an_operand_of_a_product():
    """Public kernels pass one on: a copy brings it to SBUF. A product in PSUM stays refused."""

    def kernel(x):
        out = nl.ndarray((64, 64), x.dtype, buffer=nl.shared_hbm)
        turned = nisa.nc_transpose(nl.load(x[0:64, 0:128]))
        nl.store(out, nl.copy(nisa.nc_matmul(turned, turned)))
        return out

    x = np.round(ROWS * 4)
    result = run(nki.jit(kernel), x)
    assert np.array_equal(result.outputs, x[:64, :128] @ x[:64, :128].T)
    assert not result.findings
