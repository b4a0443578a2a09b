"""Values that come out as they are: bytes in another order, integers beyond 2^24, NaNs with a payload, and reductions that start somewhere."""

import pathlib

import ml_dtypes
import neuronxcc.nki as nki
import neuronxcc.nki.isa as old_isa
import neuronxcc.nki.language as old_nl
import nki.collectives as ncoll
import nki.isa as isa
import nki.language as nl
import numpy as np
import pytest
from tilewright.nki import run, run_ranks

#: FP32 has 24 bits for a number; this needs 25.
BIG = 16777217


@nki.jit
def same(a):
    out = old_nl.ndarray(a.shape, a.dtype, buffer=old_nl.shared_hbm)
    old_nl.store(out, old_nl.load(a))
    return out


@nki.jit
def written(a):
    old_nl.store(a, old_nl.load(a) * 2.0)


@pytest.mark.parametrize("dtype", [">f4", ">i4", ">u2", ">f2"])
def test_arrays_whose_bytes_are_in_the_other_order(dtype):
    given = np.arange(64).reshape(8, 8).astype(dtype)
    assert np.array_equal(same(given), given)


def test_such_an_array_that_is_written_to_keeps_its_order():
    given = np.ones((8, 8), ">f4")
    written(given)
    assert given.dtype == np.dtype(">f4") and (given == 2).all()


def test_64_bits_that_fit_into_32():
    for dtype, top in ((np.int64, 2**31 - 1), (np.int64, -(2**31)), (np.uint64, 2**32 - 1)):
        given = np.full((8, 8), top, dtype)
        assert np.array_equal(same(given).astype(dtype), given)


@pytest.mark.parametrize("given", [np.full((8, 8), 2**40), np.full((8, 8), 2**32, np.uint64)])
def test_integers_that_32_bits_do_not_have(given):
    with pytest.raises(ValueError, match="argument a has u?int64 values from .*, and devices have no 64-bit types: "):
        same(given)


def test_floats_that_32_bits_do_not_have():
    with pytest.raises(ValueError, match="argument a has float64 values that float32 does not have, and devices have no 64-bit types"):
        same(np.full((8, 8), 1e300))
    with pytest.warns(UserWarning, match="argument a is rounded from float64 to float32: devices have no 64-bit types"):
        same(np.full((8, 8), 0.1))


def test_a_read_only_array_is_not_written_to_silently():
    given = np.ones((8, 8), np.float32)
    given.flags.writeable = False
    with pytest.raises(ValueError, match="writes to its argument a, which is a read-only array: pass a copy"):
        written(given)
    assert np.array_equal(same(given), given)


def moved(how, given, *more, chip="trainium2"):
    """What a kernel gives that puts arrays into SBUF and lets `how` move them there."""

    def kernel(*arrays):
        tiles = []
        for array in arrays:
            tiles.append(nl.ndarray(array.shape, array.dtype, buffer=nl.sbuf))
            isa.dma_copy(tiles[-1], array)
        result = how(*tiles)
        if result.memory == "psum":
            result = nl.copy(result)
        out = nl.ndarray(result.shape, result.dtype, buffer=nl.shared_hbm)
        isa.dma_copy(out, result)
        return out

    return run(kernel, given, *more, chip=chip, dialect="new").outputs


def on_vector(a):
    out = nl.ndarray((a.shape[1], a.shape[0]), a.dtype, buffer=nl.sbuf)
    isa.nc_transpose(out, a, engine=isa.engine.vector)
    return out


def predicated(a, b, p):
    isa.tensor_copy_predicated(b, a, p)
    return b


@pytest.mark.parametrize("transpose", [on_vector, nl.transpose])
def test_integers_keep_all_their_digits_when_they_are_transposed(transpose):
    given = BIG + np.arange(32 * 16, dtype=np.int32).reshape(32, 16)
    assert np.array_equal(moved(transpose, given), given.T)


def words(*values):
    """Rows of FP32 by their bits."""
    return np.tile(np.array(values, np.uint32), (8, 1)).view(np.float32)


def test_predicated_copies_move_words():
    pick = np.tile(np.array([1, 0, 1, 0], np.uint8), (8, 1))
    given = np.full((8, 4), BIG, np.int32), np.full((8, 4), BIG + 2, np.int32)
    assert np.array_equal(moved(predicated, *given, pick), np.where(pick, *given))
    nans = words(0x7FC01234, 0xFF812345, 0x7F923456, 0x80000000), words(0x7FC0ABCD, 0x7FC0BCDE, 0x7FC0CDEF, 0x7FC0DEF0)
    found = moved(predicated, *nans, pick).view(np.uint32)
    assert np.array_equal(found, np.where(pick, nans[0].view(np.uint32), nans[1].view(np.uint32)))


def test_where_takes_any_types():
    pick = np.tile(np.array([1, 0], np.uint8), (8, 2))
    given = np.full((8, 4), -7, np.int16), np.full((8, 4), BIG, np.int32)
    for condition in (pick, pick.astype(np.float32)):
        assert np.array_equal(moved(lambda a, b, p: nl.where(p, a, b), *given, condition), np.where(pick, *given))


def test_where_keeps_integers():
    pick = np.tile(np.array([1, 0, 1, 0], np.uint8), (8, 1))
    given = np.full((8, 4), BIG, np.int32), np.full((8, 4), BIG + 2, np.int32)
    assert np.array_equal(moved(lambda a, b, p: nl.where(p, a, b), *given, pick), np.where(pick, *given))


def test_sums_of_integers_over_partitions_and_ranks():
    given = BIG + np.arange(64, dtype=np.int32).reshape(16, 4)

    def total(a):
        out = nl.ndarray((1, 4), nl.int32, buffer=nl.sbuf)
        isa.tensor_partition_reduce(out, nl.add, a)
        return out

    assert np.array_equal(moved(total, given), given.sum(0, keepdims=True, dtype=np.int32))

    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        ncoll.all_reduce(srcs=[x], dsts=[out], replica_group=ncoll.ReplicaGroup([[0, 1]]), op=nl.add)
        return out

    for result in run_ranks(kernel, [{"x": given}, {"x": given + 2}], chip="trainium2"):
        assert np.array_equal(result.outputs, 2 * given + 2)


@pytest.mark.parametrize("initial", [100.0, "a tile"])
def test_a_reduction_that_starts_with_a_value(initial):
    given = np.arange(32, dtype=np.float32).reshape(8, 4)

    def total(a):
        out, sums, start = (nl.ndarray((8, size), nl.float32, buffer=nl.sbuf) for size in (4, 1, 1))
        isa.memset(start, 100.0)
        first = start if initial == "a tile" else initial
        isa.tensor_scalar_reduce(out, a, nl.multiply, 2.0, nl.add, sums, reduce_cmd=isa.reduce_cmd.load_reduce, reduce_init=first)
        return sums

    assert np.array_equal(moved(total, given), 100 + (2 * given).sum(1, keepdims=True))


def test_numbers_of_modes_are_those_of_the_dialect():
    assert [old_isa.dge_mode(number).name for number in range(4)] == ["none", "swdge", "hwdge", "unknown"]
    assert [isa.dge_mode(number).name for number in range(4)] == ["unknown", "swdge", "hwdge", "none"]


def test_a_predicated_copy_from_psum_is_one_pass():
    def kernel(x):
        tile = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)
        isa.dma_copy(tile, x)
        for memory in (nl.sbuf, nl.psum):
            source = nl.ndarray((128, 512), nl.float32, buffer=memory)
            pick = nl.ndarray((128, 512), nl.uint8, buffer=nl.sbuf)
            isa.memset(source, 1.0)
            isa.memset(pick, 1)
            isa.tensor_copy_predicated(tile, source, pick)

    result = run(kernel, np.ones((128, 512), np.float32), chip="trainium2", dialect="new")
    both, one = (busy for opcode, _, _, busy in result.instructions if opcode == "tensor_copy_predicated")
    assert both - one == pytest.approx(512 / 0.96, rel=1e-3)


def test_only_gpsimd_adds_integers_exactly():
    given = np.full((8, 4), BIG, np.int32), np.full((8, 4), 2, np.int32)

    def added(engine):
        def how(a, b):
            isa.tensor_tensor(a, a, b, nl.add, engine=engine)
            return a

        return moved(how, *given)

    assert np.array_equal(added(isa.engine.gpsimd), sum(given)) and np.array_equal(added(None), sum(given))
    # FP32 rounds both BIG and the sum to even.
    assert (added(isa.engine.vector) == BIG + 1).all()


@pytest.mark.parametrize(("chip", "spreads"), [("trainium1", True), ("trainium2", False)])
def test_transposes_of_the_tensor_engine_spread_nan_before_they_were_exact(chip, spreads):
    given = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    given[3, 5], given[7, 9], given[8, 9] = np.inf, np.nan, np.inf

    def turned(a):
        out = nl.ndarray((64, 64), nl.float32, buffer=nl.psum)
        isa.nc_transpose(out, a)
        return out

    wanted = given.T.copy()
    if spreads:
        wanted[5] = np.nan
        wanted[5, 3] = np.inf
        wanted[9] = np.nan
    assert np.array_equal(moved(turned, given, chip=chip), wanted, equal_nan=True)


#: Constants that FP32 lacks, and the largest ones.
WORDS = [0x7FFFFFFF, 0x80000001, 0x01234567, 0xFFFFFFFF, BIG, -1, -2]


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
@pytest.mark.parametrize("constant", WORDS)
def test_constants_of_bit_operators_are_words(dtype, constant):
    given = np.random.default_rng(0).integers(0, 2**32, (8, 6), np.uint32)
    expected = np.uint32(constant % 2**32)

    def both(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.sbuf)
        isa.tensor_scalar(out, a, op0=nl.bitwise_and, operand0=constant, op1=nl.bitwise_xor, operand1=constant)
        return out

    found = moved(both, given.view(dtype)).view(np.uint32)
    assert np.array_equal(found, (given & expected) ^ expected)
    alone = moved(lambda a: nl.bitwise_or(a, constant), given.view(dtype)).view(np.uint32)
    assert np.array_equal(alone, given | expected)


def test_a_sign_is_taken_off_by_its_bit():
    given = np.random.default_rng(0).standard_normal((8, 6)).astype(np.float32)

    def magnitude(a):
        out = nl.ndarray(a.shape, nl.uint32, buffer=nl.sbuf)
        isa.tensor_scalar(out, a.view(nl.uint32), op0=nl.bitwise_and, operand0=0x7FFFFFFF)
        return out.view(nl.float32)

    assert np.array_equal(moved(magnitude, given), np.abs(given))


def test_constants_that_are_copied_where_a_predicate_holds_keep_their_digits():
    def filled(a):
        pick = nl.ndarray(a.shape, nl.uint8, buffer=nl.sbuf)
        isa.memset(pick, 1)
        isa.tensor_copy_predicated(a, BIG, pick)
        return a

    assert (moved(filled, np.zeros((8, 4), np.int32)) == BIG).all()


def test_comparisons_are_bytes_however_they_are_written():
    given = np.arange(48, dtype=np.float32).reshape(8, 6)
    found = moved(lambda a: nl.bitwise_and(a > 3.0, a <= 40.0), given)
    assert found.dtype == np.uint8 and np.array_equal(found, (given > 3) & (given <= 40))


def test_rows_that_a_tile_picks_may_be_read_as_another_type():
    table = np.random.default_rng(0).standard_normal((32, 8)).astype(np.float32)
    rows = np.array([[5], [0], [31], [7]], np.int32)

    def kernel(table, rows):
        picks = nl.ndarray((4, 1), nl.int32, buffer=nl.sbuf)
        isa.dma_copy(picks, rows)
        out = nl.ndarray((4, 8), nl.uint32, buffer=nl.sbuf)
        isa.dma_copy(out, table.ap([[8, 4], [1, 8]], vector_offset=picks, indirect_dim=0, dtype=nl.uint32))
        result = nl.ndarray((4, 8), nl.uint32, buffer=nl.shared_hbm)
        isa.dma_copy(result, out)
        return result

    found = run(kernel, table, rows, chip="trainium2", dialect="new").outputs
    assert np.array_equal(found, table[rows[:, 0]].view(np.uint32))


@pytest.mark.parametrize("dialect", ["old", "new"])
def test_integers_that_an_affine_predicate_selects(dialect):
    given = np.arange(BIG, BIG + 128 * 64, dtype=np.int32).reshape(128, 64)

    def second(a):
        out = nl.ndarray((128, 64), nl.int32, buffer=nl.sbuf)
        isa.affine_select(out, [[-1, 64]], 1, a, -5, cmp_op=nl.greater_equal)
        return out

    def first(a):
        rows, columns = old_nl.arange(128)[:, None], old_nl.arange(64)[None, :]
        return old_isa.affine_select(rows >= columns, a, -5)

    found = moved({"old": first, "new": second}[dialect], given)
    assert np.array_equal(found, np.where(np.arange(128)[:, None] >= np.arange(64), given, -5))


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_reductions_in_which_the_first_is_not_like_the_others(dtype):
    given = (np.arange(8 * 6).reshape(8, 6) % 7 + 1).astype(dtype)

    def differences(a):
        out = nl.ndarray((8, 1), a.dtype, buffer=nl.sbuf)
        isa.tensor_reduce(out, nl.subtract, a, axis=1)
        return out

    assert np.array_equal(moved(differences, given), np.subtract.reduce(given, 1)[:, None])


def test_products_of_integers_saturate():
    given = np.full((8, 40), 3000, np.uint16)

    def product(a):
        out = nl.ndarray((8, 1), nl.int16, buffer=nl.sbuf)
        isa.tensor_reduce(out, nl.multiply, a, axis=1)
        return out

    assert (moved(product, given) == 32767).all()


def narrow_kernels(dtype):
    """Kernels in which each engine writes FP32 values as 8-bit floats."""

    def vector(x, out):
        isa.tensor_copy(dst=out, src=x, engine=isa.engine.vector)

    def scalar(x, out):
        isa.activation(dst=out, op=nl.copy, data=x)

    def gpsimd(x, out):
        isa.tensor_tensor(dst=out, data1=x, data2=x, op=nl.maximum, engine=isa.engine.gpsimd)

    def select(x, out):
        top = nl.ndarray((8, 1), nl.float32)
        isa.memset(top, 0)
        bound = nl.ndarray((8, 1), nl.float32)
        isa.memset(bound, 0)
        # No column is in the range: everything is the fill value, FP32_MIN.
        isa.range_select(out, x, nl.less, nl.less, bound, bound, isa.reduce_cmd.reset_reduce, top, nl.maximum)

    def kernel(x, body):
        tile, narrow, wide = nl.ndarray(x.shape, nl.float32), nl.ndarray(x.shape, dtype), nl.ndarray(x.shape, nl.float32)
        out = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
        isa.dma_copy(dst=tile, src=x)
        body(tile, narrow)
        isa.tensor_copy(dst=wide, src=narrow)
        isa.dma_copy(dst=out, src=wide)
        return out

    return kernel, (vector, scalar, gpsimd), select


@pytest.mark.parametrize("chip, dtype, beyond", [("trainium2", nl.float8_e4m3, np.inf), ("trainium2", nl.float8_e5m2, np.inf), ("trainium3", nl.float8_e4m3fn, 448)])
def test_what_8_bit_floats_do_not_have(chip, dtype, beyond):
    """-INF in FP8 is what the page of range_select says of FP32_MIN; formats without infinity stay at their largest value (an assumption)."""
    kernel, casts, select = narrow_kernels(dtype)
    given = np.tile(np.array([1.0, -1e6, 1e6, 3.4e38], np.float32), (8, 2))
    for cast in casts:
        found = run(kernel, given, cast, chip=chip, dialect="new").outputs
        assert np.array_equal(found, np.where(np.abs(given) > 1, np.copysign(beyond, given), given)), cast
    assert (run(kernel, given, select, chip=chip, dialect="new").outputs == -beyond).all()


NARROW = {"f8e4m3": nl.float8_e4m3, "f8e5m2": nl.float8_e5m2, "f8e4m3fn": nl.float8_e4m3fn}


@pytest.mark.parametrize(("row", "dtype"), NARROW.items())
def test_the_page_of_number_formats_says_what_casts_to_8_bit_floats_do(row, dtype):
    page = (pathlib.Path(__file__).parents[2] / "docs" / "number-formats.md").read_text()
    (cells,) = [line.split("|") for line in page.splitlines() if line.startswith(f"| f32 to {row} |")]
    largest = float(ml_dtypes.finfo(dtype).max)
    kernel, casts, _ = narrow_kernels(dtype)
    given = np.full((8, 4), 2 * largest, np.float32)
    found = run(kernel, given, casts[0], chip="trainium3", dialect="new").outputs
    said = {"infinity beyond": np.inf, "saturates at": largest}
    (value,) = [value for words, value in said.items() if f"{words} {largest:.0f}" in cells[3]]
    assert (found == value).all(), cells[3]


@pytest.mark.parametrize("indices", [(16, 1), (32, 1), (128, 1), (128, 2), (128, 3)])
@pytest.mark.parametrize("inner", [(), (1, 1), (4, 1), (1, 4)])
def test_rows_that_a_transpose_picks(indices, inner):
    """All partitions of a column of indices come before its next column; two dimensions between rows and columns stay where they are."""
    count, width = indices[0] * indices[1], 32
    table = np.arange(400 * int(np.prod(inner)) * width, dtype=np.int32).reshape(400, *inner, width).astype(np.int16)
    picks = np.random.default_rng(0).permutation(400)[:count].reshape(indices).astype(np.uint32)
    turned = (width, *inner, count)

    def kernel(table, picks):
        where = nl.ndarray(picks.shape, nl.uint32)
        isa.dma_copy(dst=where, src=picks)
        tile = nl.ndarray(turned, nl.int16)
        strides = [int(np.prod(table.shape[at + 1 :])) for at in range(len(table.shape))]
        pattern = [[stride, size] for stride, size in zip(strides, (count, *inner, width))]
        isa.dma_transpose(dst=tile, src=table.ap(pattern, vector_offset=where, indirect_dim=0))
        out = nl.ndarray(turned, nl.int16, buffer=nl.shared_hbm)
        isa.dma_copy(dst=out, src=tile)
        return out

    rows = table[picks.T.flatten()]
    wanted = rows.T if not inner else rows.transpose(3, 1, 2, 0)
    assert np.array_equal(run(kernel, table, picks, chip="trainium2", dialect="new").outputs, wanted)
