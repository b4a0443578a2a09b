"""Masks of the first dialect against NumPy: what an instruction does where the mask holds, and that it does nothing elsewhere.

The seeds are fixed; `NKI_MASK_CASES` draws more.
"""

import os
import random

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
import pytest
from tilewright.nki import Refused, run

CASES = int(os.environ.get("NKI_MASK_CASES", "900"))
#: What the output holds where nothing is stored.
LEFT = 123.0


def drawn_term(rng, rows, columns):
    """A comparison, as the kernel and as NumPy write it."""
    i, j = nl.arange(rows)[:, None], nl.arange(columns)[None, :]
    p, f = np.broadcast_arrays(np.arange(rows)[:, None], np.arange(columns)[None, :])
    row, column = rng.randrange(rows), rng.randrange(columns)
    return rng.choice(
        [
            (i < row + 1, p < row + 1),
            (i >= row, p >= row),
            (j < column + 1, f < column + 1),
            (j >= column, f >= column),
            (2 * j < column + 1, 2 * f < column + 1),
            (column - j >= 0, column - f >= 0),
            (i >= j, p >= f),
            (j != column, f != column),
        ]
    )


def drawn_mask(rng, rows, columns):
    ours, theirs = drawn_term(rng, rows, columns)
    for _ in range(rng.randint(0, 2)):
        other, expected = drawn_term(rng, rows, columns)
        ours, theirs = (ours & other, theirs & expected) if rng.random() < 0.85 else (ours | other, theirs | expected)
    return ours, theirs


def is_box(holds):
    """True if what is left is all that lies between its first and last row and column."""
    around = [np.flatnonzero(holds.any(axis)) for axis in (1, 0)]
    return all(not len(steps) or len(steps) == steps[-1] - steps[0] + 1 for steps in around) and holds.sum() == len(around[0]) * len(around[1])


def by_row(array, holds, *functions):
    rows = [[function(row[flags]) if flags.any() else 0 for function in functions] for row, flags in zip(array, holds)]
    return np.array(rows), np.repeat(holds.any(1, keepdims=True), len(functions), 1)


def scanned(a, b, holds):
    out, running = np.zeros_like(a), np.zeros(len(a))
    for column in np.flatnonzero(holds.any(0)):
        running = out[:, column] = a[:, column] * running + b[:, column]
    return out, holds


def product(a, b, holds):
    rows = holds.any(1)
    return a[rows].T @ b[rows], np.repeat(holds.any(0)[None, :], a.shape[1], 0)


#: Instructions that work element by element: with any mask.
EACH = {
    "exp": (lambda x, y, z, m: nl.exp(x, mask=m), lambda a, b, c: np.exp(a)),
    "two tiles": (lambda x, y, z, m: nl.multiply(x, y, mask=m), lambda a, b, c: a * b),
    "a value of each partition": (lambda x, y, z, m: nl.subtract(x, z, mask=m), lambda a, b, c: a - c),
    "tensor_scalar": (lambda x, y, z, m: nisa.tensor_scalar(x, np.multiply, z, op1=np.add, operand1=1.5, mask=m), lambda a, b, c: a * c + 1.5),
    "activation": (lambda x, y, z, m: nisa.activation(np.exp, x, bias=z, scale=0.5, mask=m), lambda a, b, c: np.exp(a * 0.5 + c)),
    "scalar_tensor_tensor": (
        lambda x, y, z, m: nisa.scalar_tensor_tensor(data=x, op0=np.multiply, operand0=z, op1=np.add, operand1=y, mask=m),
        lambda a, b, c: a * c + b,
    ),
    "where": (lambda x, y, z, m: nl.where(x > -2, x, y, mask=m), lambda a, b, c: np.where(a > -2, a, b)),
    "copy": (lambda x, y, z, m: nl.copy(x, mask=m), lambda a, b, c: a),
}

#: Instructions that combine or move elements: with masks that leave a box. They give values, and where these are.
COMBINED = {
    "sum": (lambda x, y, z, m: nl.sum(x, axis=1, mask=m), lambda a, b, h: by_row(a, h, np.sum)),
    "max": (lambda x, y, z, m: nl.max(x, axis=1, keepdims=True, mask=m), lambda a, b, h: by_row(a, h, np.max)),
    "tensor_reduce": (lambda x, y, z, m: nisa.tensor_reduce(np.min, x, axis=[1], mask=m), lambda a, b, h: by_row(a, h, np.min)),
    "bn_stats": (lambda x, y, z, m: nisa.bn_aggr(nisa.bn_stats(x, mask=m)), lambda a, b, h: by_row(a, h, np.mean, np.var)),
    "partitions": (lambda x, y, z, m: nisa.tensor_partition_reduce(np.max, x, mask=m), lambda a, b, h: tuple(one.T for one in by_row(a.T, h.T, np.max))),
    "nc_transpose": (lambda x, y, z, m: nisa.nc_transpose(x, mask=m), lambda a, b, h: (a.T, h.T)),
    "transpose": (lambda x, y, z, m: nl.transpose(x, mask=m), lambda a, b, h: (a.T, h.T)),
    "tensor_tensor_scan": (lambda x, y, z, m: nisa.tensor_tensor_scan(x, y, 0.0, np.multiply, np.add, mask=m), scanned),
    "matmul": (lambda x, y, z, m: nl.matmul(x, y, transpose_x=True, mask=m), product),
}


def kernel_of(call, rng, rows, columns, seen):
    def kernel(a, b, c):
        mask, seen["holds"] = drawn_mask(rng, rows, columns)
        made = call(nl.load(a), nl.load(b), nl.load(c), mask)
        out = nl.full(made.shape, LEFT, nl.float32, buffer=nl.shared_hbm)
        nl.store(out, made)
        return out

    return kernel


def one_case(seed):
    """The name of what was asked; None if the instruction refused the mask, as it must."""
    rng = random.Random(seed)
    rows, columns = rng.choice([16, 32, 64, 128]), rng.choice([8, 10, 33, 64])
    a = np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32) - 2
    b, c = a[::-1] * np.float32(0.5), a[:, :1].copy()
    name, seen = rng.choice([*EACH, *COMBINED]), {}
    call, expected = {**EACH, **COMBINED}[name]
    try:
        result = run(kernel_of(call, rng, rows, columns, seen), a, b, c, chip="trainium2")
    except Refused as error:
        assert name in COMBINED and not is_box(seen["holds"]) and "a mask leaves no box" in error.asked, (seed, error)
        return None
    holds = seen["holds"]
    wanted, holds = (expected(a, b, c), holds) if name in EACH else expected(a, b, holds)
    assert np.allclose(result.outputs[holds], wanted[holds], rtol=1e-3, atol=1e-3), (seed, name)
    if name != "bn_stats":
        # bn_aggr has no mask here and reads every row.
        assert (result.outputs[~holds] == LEFT).all(), (seed, name)
        assert "neuron/uninitialised" not in {finding["code"] for finding in result.findings}, (seed, name)
    return name


def test_masks_are_those_of_numpy():
    done = [one_case(seed) for seed in range(CASES)]
    assert set(done) == {None, *EACH, *COMBINED} and done.count(None) < 0.2 * CASES


A = np.random.default_rng(3).standard_normal((128, 64)).astype(np.float32)


def given(call):
    """What a kernel gives that calls this with a tile and the indices of its rows and columns."""

    def kernel(a):
        made = call(nl.load(a), nl.arange(128)[:, None], nl.arange(64)[None, :])
        out = nl.full(made.shape, LEFT, nl.float32, buffer=nl.shared_hbm)
        nl.store(out, made)
        return out

    return run(kernel, A, chip="trainium2").outputs


def test_the_mask_of_a_square_product_is_over_the_contraction():
    def kernel(a, b):
        out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
        rows, columns = nl.arange(128)[:, None], nl.arange(64)[None, :]
        left = nl.load(a[rows, nl.arange(128)[None, :]], mask=rows < 72)
        right = nl.load(b[rows, columns], mask=rows < 72)
        nl.store(out, nl.matmul(left, right, transpose_x=True, mask=rows < 72))
        return out

    left, right = np.concatenate([A, A[::-1]], 1)[:72], A[:72]
    result = run(kernel, left, right, chip="trainium2")
    assert np.allclose(result.outputs, left.T @ right, atol=1e-3) and not result.findings


def test_the_mask_of_the_stationary_columns():
    found = given(lambda x, i, j: nisa.nc_matmul(x[:, 0:32], x, mask=nl.arange(32)[None, :] >= 16))
    assert np.allclose(found[16:], A[:, 16:32].T @ A, atol=1e-3) and (found[:16] == LEFT).all()


def test_masks_between_the_brackets_of_operands():
    def call(x, i, j):
        lengths = nl.arange(32)[None, :]
        left, right = x[:, 0:32], x
        product = nl.matmul(left[lengths <= 15], right[j < 40], transpose_x=True)
        rows = nl.arange(32)[:, None]
        return nl.copy(product[rows, j], mask=(rows <= 15) & (j < 40))

    found = given(call)
    assert np.allclose(found[:16, :40], A[:, :16].T @ A[:, :40], atol=1e-3) and (found[16:] == LEFT).all() and (found[:, 40:] == LEFT).all()


def test_a_reduction_over_a_loop_keeps_what_the_mask_of_its_last_step_leaves_out():
    def kernel(a):
        out = nl.ndarray((128, 24), nl.float32, buffer=nl.shared_hbm)
        rows, columns = nl.arange(128)[:, None], nl.arange(24)[None, :]
        for step in nl.affine_range(3):
            part = nl.load(a[rows, step * 24 + columns], mask=step * 24 + columns < 64)
            total = nl.loop_reduce(part, op=np.add, loop_indices=[step], dtype=nl.float32, mask=step * 24 + columns < 64)
        nl.store(out, total)
        return out

    expected = A[:, :24] + A[:, 24:48]
    expected[:, :16] += A[:, 48:]
    result = run(kernel, A)
    assert np.allclose(result.outputs, expected, atol=1e-5) and not result.findings


def reduced_where(takes_part, by_mask):
    """Sums and maxima over the steps of a loop that take part; two outer steps, each with a reduction of its own."""

    def kernel(a):
        out = nl.ndarray((2, 2, 128, 16), nl.float32, buffer=nl.shared_hbm)
        for outer in nl.affine_range(2):
            total = nl.zeros((128, 16), nl.float32, buffer=nl.sbuf)
            most = nl.zeros((128, 16), nl.float32, buffer=nl.sbuf)
            for step in nl.affine_range(4):
                part = nl.load(a[:, nl.ds(step * 16, 16)])
                part = nl.add(part, outer)
                if by_mask:
                    total[...] = nl.loop_reduce(part, op=np.add, loop_indices=[step], mask=takes_part(step, outer))
                    most[...] = nl.loop_reduce(part, op=np.max, loop_indices=(step,), mask=takes_part(step, outer))
                elif takes_part(step, outer):
                    total[...] = nl.loop_reduce(part, op=np.add, loop_indices=step)
                    most[...] = nl.loop_reduce(part, op=np.max, loop_indices=[step])
            nl.store(out[outer, 0], total)
            nl.store(out[outer, 1], most)
        return out

    return kernel


@pytest.mark.parametrize("by_mask", [True, False])
@pytest.mark.parametrize("first", [0, 1, 3])
def test_a_reduction_over_a_loop_begins_where_it_is_first_reached(first, by_mask):
    result = run(reduced_where(lambda step, outer: step >= first - outer, by_mask), A)
    for outer in range(2):
        parts = [A[:, step * 16 : step * 16 + 16] + outer for step in range(4) if step >= first - outer]
        assert np.allclose(result.outputs[outer, 0], np.sum(parts, axis=0), atol=1e-5)
        assert np.array_equal(result.outputs[outer, 1], np.max(parts, axis=0).astype(np.float32))
    assert not result.findings


def test_a_reduction_over_a_loop_takes_what_masks_leave():
    """Each element begins with the first step whose mask has it."""

    def kernel(a):
        out = nl.ndarray((128, 16), nl.float32, buffer=nl.shared_hbm)
        total = nl.zeros((128, 16), nl.float32, buffer=nl.sbuf)
        rows, columns = nl.arange(128)[:, None], nl.arange(16)[None, :]
        for step in nl.affine_range(4):
            part = nl.load(a[:, nl.ds(step * 16, 16)])
            total[...] = nl.loop_reduce(part, op=np.add, loop_indices=[step], mask=columns + 0 * rows < 4 + step * 4)
        nl.store(out, total)
        return out

    expected = sum(np.where(np.arange(16) < 4 + step * 4, A[:, step * 16 : step * 16 + 16], 0) for step in range(4))
    assert np.allclose(run(kernel, A).outputs, expected, atol=1e-5)


def test_a_masked_reduction_over_a_loop_with_nothing_to_begin_with():
    def kernel(a):
        rows, columns = nl.arange(128)[:, None], nl.arange(16)[None, :]
        for step in nl.affine_range(2):
            nl.loop_reduce(nl.load(a[:, nl.ds(step * 16, 16)]), op=np.divide, loop_indices=[step], mask=columns + 0 * rows < 4)

    with pytest.raises(Refused) as caught:
        run(kernel, A)
    assert caught.value.code == "neuron/operator"
    assert "reduce all of the tile, or combine it with nisa.tensor_tensor" in caught.value.instead


def test_range_select_counts_columns_from_where_the_mask_starts():
    found = given(lambda x, i, j: nisa.range_select(on_true_tile=x, comp_op0=np.greater_equal, comp_op1=np.less, bound0=i_tile(10), bound1=i_tile(40), on_false_value=-9.0, mask=(j >= 5) & (i < 64)))
    expected = np.where((np.arange(64) >= 10) & (np.arange(64) < 40), A, np.float32(-9))
    assert np.array_equal(found[:64, 5:], expected[:64, 5:])
    assert (found[64:] == LEFT).all() and (found[:, :5] == LEFT).all()


def i_tile(value):
    return nl.full((128, 1), value, nl.float32)


def test_select_reduce_keeps_the_maxima_of_its_rows():
    def call(x, i, j):
        out, largest = nl.copy(x), nl.full((128, 1), LEFT, nl.float32)
        options = {"reduce_res": largest, "reduce_cmd": nisa.reduce_cmd.reset_reduce, "reduce_op": np.max}
        nisa.select_reduce(dst=out, predicate=nl.greater(x, 0, dtype=nl.uint8), on_true=x, on_false=-1.0, mask=i >= 64, **options)
        return largest

    found, expected = given(call), np.where(A > 0, A, -1).max(1, keepdims=True)
    assert np.array_equal(found[64:], expected[64:]) and (found[:64] == LEFT).all()


def test_rows_searched_where_a_mask_starts_late():
    def call(x, i, j):
        largest = nisa.max8(src=x, mask=i >= 96)
        return nl.copy(nisa.nc_find_index8(data=x, vals=largest, mask=i >= 96), dtype=nl.float32, mask=nl.arange(128)[:, None] >= 96)

    found = given(call)
    assert np.array_equal(found[96:], np.argsort(-A[96:], 1)[:, :8]) and (found[:96] == LEFT).all()


def test_a_transposing_load_where_a_mask_starts_late():
    def kernel(a):
        out = nl.full((64, 128), LEFT, nl.float32, buffer=nl.shared_hbm)
        rows, columns = nl.arange(128)[:, None], nl.arange(64)[None, :]
        nl.store(out, nl.load_transpose2d(a[rows, columns], mask=(rows >= 32) & (columns >= 8)))
        return out

    found = run(kernel, A, chip="trainium2").outputs
    assert np.array_equal(found[8:, 32:], A.T[8:, 32:]) and (found[:8] == LEFT).all() and (found[:, :32] == LEFT).all()


#: Calls whose masks cannot be followed, and what is said.
REFUSED = {
    "sums of a triangle": (lambda x, i, j: nl.sum(x, axis=1, mask=i >= j), "a mask leaves no box", "joined with &", "put a value that changes nothing where the mask fails, with nisa.affine_select or nl.where"),
    "a mask on the last dimension": (
        lambda x, i, j: nisa.nc_transpose(x.reshape((128, 8, 8)), mask=nl.arange(8)[None, None, :] < 4),
        "with a mask on the last of the dimensions (128, 8, 8)",
        "masks on the first two",
        "reshape the tile, or slice it",
    ),
    "late columns between brackets": (
        lambda x, i, j: nl.matmul(x[j > 3], x, transpose_x=True),
        "a tensor of shape [128, 64] indexed with a mask that does not leave its first elements",
        "masks as i <= 64, of operands of a product",
        "give other masks with mask=, or slice the tensor",
    ),
    "part of a shuffle": (
        lambda x, i, j: nisa.nc_stream_shuffle(x[0:32], x[32:64], list(range(32)), mask=nl.arange(32)[:, None] < 4),
        "nc_stream_shuffle where a mask takes away part of (32, 64)",
        "a mask that leaves all of it",
        "copy what is wanted of the result with nl.copy and that mask",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_masks_that_cannot_be_followed(name):
    call, asked, allowed, instead = REFUSED[name]
    with pytest.raises(Refused) as caught:
        given(call)
    error = caught.value
    assert error.code == "neuron/pattern" and asked in error.asked and allowed in error.allowed and instead in error.instead


def test_a_chain_of_comparisons_says_what_to_write():
    def kernel(a):
        i = nl.arange(128)[:, None]
        return nl.load(a, mask=(5 <= i < 100))

    with pytest.raises(TypeError, match=r"join masks with & and \|, and write 0 <= i < n as \(0 <= i\) & \(i < n\)"):
        run(kernel, A)
