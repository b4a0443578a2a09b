"""Kernels that break a rule: refused with a code and a line, or named in the findings."""

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import nki.isa as new_isa
import nki.language as new_nl
import numpy as np
import pytest
from tilewright.nki import Refused, run

SQUARE = np.ones((128, 128), np.float32)


def refused(kernel, *args, **options):
    with pytest.raises(Refused) as caught:
        run(kernel, *args, **options)
    error = caught.value
    assert error.allowed and error.instead and error.asked
    assert __file__ in error.line, "the line is the kernel's own"
    return error.code


def test_more_partitions_than_there_are():
    assert refused(lambda: nl.ndarray((129, 4), dtype=nl.float32)) == "neuron/partitions"


def test_a_load_of_more_rows_than_partitions():
    assert refused(lambda x: nl.load(x), np.ones((256, 4), np.float32)) == "neuron/partitions"


def test_a_moving_tile_that_is_too_wide():
    def kernel(x):
        nisa.nc_matmul(nl.load(x[:, 0:128]), nl.load(x))

    assert refused(kernel, np.ones((128, 513), np.float32)) == "neuron/free-size"


def test_a_stationary_tile_that_is_too_wide():
    def kernel(x):
        nisa.nc_matmul(nl.load(x), nl.load(x))

    assert refused(kernel, np.ones((128, 129), np.float32)) == "neuron/partitions"


def test_contractions_that_differ():
    def kernel(x):
        nisa.nc_matmul(nl.load(x[0:64]), nl.load(x))

    assert refused(kernel, SQUARE) == "neuron/shape"


def test_a_matmul_of_integers():
    def kernel(x):
        tile = nl.load(x)
        nisa.nc_matmul(tile, tile)

    assert refused(kernel, np.ones((128, 128), np.int32)) == "neuron/dtype"


def test_a_matmul_from_psum():
    def kernel(x):
        tile = nl.load(x)
        nisa.nc_matmul(nisa.nc_matmul(tile, tile), tile)

    assert refused(kernel, SQUARE) == "neuron/memory"


def test_what_a_kernel_does_depends_on_no_kernel_before_it():
    def turned(x, tiles_before):
        # Some of these transposes have the numbers of the tiles below.
        for _ in range(tiles_before):
            nl.load(x)
        for _ in range(4):
            nl.transpose(nl.load(x))

    def from_psum(x):
        nisa.nc_matmul(nisa.nc_matmul(nl.load(x), nl.load(x)), nl.load(x))

    for tiles_before in range(4):
        run(turned, SQUARE, tiles_before)
    assert refused(from_psum, SQUARE) == "neuron/memory"


def test_a_matmul_into_sbuf():
    def kernel(x):
        tile = new_nl.load(x)
        new_isa.nc_matmul(dst=new_nl.ndarray((128, 128), new_nl.float32), stationary=tile, moving=tile)

    assert refused(kernel, SQUARE, dialect="new") == "neuron/memory"


def test_two_inputs_in_psum():
    def kernel(x):
        tile = new_nl.load(x)
        sums = new_nl.ndarray((128, 128), new_nl.float32, buffer=new_nl.psum)
        new_isa.nc_matmul(dst=sums, stationary=tile, moving=tile)
        new_isa.tensor_tensor(dst=tile, data1=sums, data2=sums, op=new_nl.add)

    assert refused(kernel, SQUARE, dialect="new") == "neuron/memory"


def test_gpsimd_cannot_reach_psum():
    def kernel(x):
        sums = new_nl.ndarray((128, 128), new_nl.float32, buffer=new_nl.psum)
        new_isa.tensor_copy(dst=sums, src=new_nl.load(x), engine=new_isa.gpsimd_engine)

    assert refused(kernel, SQUARE, dialect="new") == "neuron/memory"


def test_an_engine_without_the_instruction():
    def kernel(x):
        tile = new_nl.load(x)
        new_isa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=new_nl.add, engine=new_isa.scalar_engine)

    assert refused(kernel, SQUARE, dialect="new") == "neuron/engine"


def test_an_instruction_of_a_later_generation():
    def kernel(x):
        tile = nl.load(x)
        bound = nl.load(x[:, 0:1])
        nisa.range_select(on_true_tile=tile, comp_op0=np.greater, comp_op1=np.less, bound0=bound, bound1=bound)

    assert refused(kernel, SQUARE, chip="trainium1") == "neuron/generation"
    run(kernel, SQUARE, chip="trainium2")


def _with_offsets(memory, use, chip="trainium3", columns=4):
    def kernel():
        data = new_nl.ndarray((128, 64), new_nl.bfloat16, buffer=memory)
        offsets = new_nl.ndarray((128, columns), new_nl.uint16)
        new_isa.memset(data, 1.0)
        new_isa.memset(offsets, 3)
        use(data, offsets)

    return kernel, {"chip": chip, "dialect": "new"}


def test_offsets_from_a_tile_on_an_older_chip():
    kernel, options = _with_offsets(new_nl.sbuf, lambda data, offsets: data.indirect(offsets, 64), "trainium2")
    assert refused(kernel, **options) == "neuron/generation"


def test_results_scattered_in_psum_by_the_scalar_engine():
    def use(data, offsets):
        held = new_nl.ndarray((128, 64), new_nl.bfloat16)
        new_isa.memset(held, 1.0)
        new_isa.activation(data.indirect(offsets, 64), new_nl.exp, held)

    kernel, options = _with_offsets(new_nl.psum, use)
    assert refused(kernel, **options) == "neuron/memory"


def test_more_offsets_than_a_group_of_lanes_has():
    def use(data, offsets):
        new_isa.tensor_copy(new_nl.ndarray((128, 100), new_nl.bfloat16), data.indirect(offsets, 100))

    kernel, options = _with_offsets(new_nl.sbuf, use)
    assert refused(kernel, **options) == "neuron/shape"


def test_a_part_of_the_array_with_offsets_from_a_tile():
    def use(data, offsets):
        sums = new_nl.ndarray((64, 64), new_nl.float32, buffer=new_nl.psum)
        half = data[0:64]
        new_isa.nc_matmul(sums, half, half.indirect(offsets[0:64], 64), tile_position=(0, 0), tile_size=(64, 64))

    kernel, options = _with_offsets(new_nl.sbuf, use)
    assert refused(kernel, **options) == "neuron/tile-position"


def test_offsets_beyond_the_tile_and_too_many_of_them():
    def beyond(data, offsets):
        data[:, 0:2].indirect(offsets, 16)

    kernel, options = _with_offsets(new_nl.sbuf, beyond)
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        run(kernel, **options)
    kernel, options = _with_offsets(new_nl.sbuf, lambda data, offsets: data.indirect(offsets))
    with pytest.raises(ValueError, match="give num_elem"):
        run(kernel, **options)


def test_prelu_is_an_operator_with_a_parameter():
    def kernel():
        tile = new_nl.ndarray((128, 64), new_nl.float32)
        new_isa.memset(tile, 1.0)
        new_isa.activation(tile, new_nl.prelu, tile)

    assert refused(kernel, chip="trainium3", dialect="new") == "neuron/operator"


def test_a_constant_bias_on_the_first_generation():
    assert refused(lambda x: nisa.activation(nl.exp, nl.load(x), bias=1.0), SQUARE) == "neuron/generation"


def test_shapes_that_do_not_fit():
    def kernel(x):
        tile = new_nl.load(x)
        new_isa.tensor_tensor(dst=tile, data1=tile, data2=tile[0:64], op=new_nl.add)

    with pytest.raises((Refused, ValueError)):
        run(kernel, SQUARE, dialect="new")


def test_bit_operators_on_floats():
    assert refused(lambda x: nl.bitwise_and(nl.load(x), 1), SQUARE) == "neuron/dtype"


def test_too_long_a_row_for_statistics():
    assert refused(lambda x: nisa.bn_stats(nl.load(x)), np.ones((128, 513), np.float32)) == "neuron/free-size"


def test_slices_beyond_the_end():
    assert refused(lambda x: nl.load(x[64:192]), SQUARE) == "neuron/bounds"


def test_a_pattern_beyond_the_end():
    with pytest.raises(Refused) as caught:
        run(lambda x: x.ap(pattern=[[128, 129], [1, 128]]), SQUARE, dialect="new")
    assert caught.value.code == "neuron/bounds"


@pytest.mark.parametrize(
    ("pattern", "offset", "columns"),
    [([[32, 8], [1, 4]], 2, slice(2, 6)), ([[8, 8], [1, 4]], 2, slice(18, 22)), ([[8, 4], [1, 8]], 8 * 4, slice(16, 24))],
    ids=["of the tensor", "of the view", "of the view's later rows"],
)
def test_a_pattern_of_a_pattern_steps_over_what_its_first_step_says(pattern, offset, columns):
    x = np.arange(8 * 32, dtype=np.float32).reshape(8, 32)
    rows = slice(8 - pattern[0][1], 8)

    def kernel(x):
        tile = new_nl.load(x)
        part = tile.ap([[32, 8], [1, 8]], offset=16).ap(pattern, offset=offset)
        out = new_nl.ndarray(part.shape, part.dtype, buffer=new_nl.shared_hbm)
        new_isa.dma_copy(out, part)
        return out

    np.testing.assert_array_equal(run(kernel, x, dialect="new").outputs, x[rows, columns])


def codes(result):
    return {finding["code"] for finding in result.findings}


@pytest.mark.parametrize("axis, keepdims", [((0, 1), False), ((0, 1), True), (0, False), ((0, 2), False), ((0, 1, 2), True), (-1, False)])
@pytest.mark.parametrize("name", ["sum", "max", "min"])
def test_reductions_over_the_partition_axis(name, axis, keepdims):
    x = np.arange(64 * 6 * 4, dtype=np.float32).reshape(64, 6, 4)[:, ::-1]
    if axis == (0, 1):
        x = x[:, :, 0]

    def kernel(x):
        tile = new_nl.ndarray(x.shape, x.dtype)
        new_isa.dma_copy(tile, x)
        found = getattr(new_nl, name)(tile, axis=axis, keepdims=keepdims)
        out = new_nl.ndarray(found.shape, x.dtype, buffer=new_nl.shared_hbm)
        new_isa.dma_copy(out, found)
        return out

    expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
    found = run(kernel, np.ascontiguousarray(x), dialect="new", chip="trainium2").outputs
    assert found.size == expected.size and np.array_equal(found.reshape(expected.shape), expected)


def test_sbuf_overflow_is_found_with_its_holders():
    def kernel(x):
        tiles = [nl.load(x) for _ in range(3)]
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for tile in tiles:
            nl.store(out, tile)
        return out

    result = run(kernel, np.ones((128, 20_000), np.float32))
    (finding,) = [one for one in result.findings if one["code"] == "neuron/sbuf-capacity"]
    assert "240000 bytes" in finding["message"] and __file__ in finding["message"]
    assert "180224 bytes" in finding["allowed"]
    assert finding["severity"] == "warning" and "spills them to HBM" in finding["instead"]
    assert result.timing["spill_save_bytes"] + result.timing["spill_reload_bytes"] > 0


def test_tiles_of_one_instruction_that_do_not_fit_cannot_be_spilled():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        nl.store(out, nl.add(tile, tile))
        return out

    result = run(kernel, np.ones((128, 25_000), np.float32))
    (finding,) = [one for one in result.findings if one["code"] == "neuron/sbuf-capacity"]
    assert finding["severity"] == "error" and "cannot be spilled" in finding["instead"]


def test_tensors_beyond_the_hbm_of_a_device_are_found():
    def kernel(x, count):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for _ in range(count):
            nl.ndarray((1024, 1024, 256), nl.float32, buffer=nl.hbm)
        nl.store(out, nl.load(x))
        return out

    rows = np.ones((128, 8), np.float32)
    (finding,) = [one for one in run(kernel, rows, 64).findings if one["code"] == "neuron/hbm-capacity"]
    assert finding["severity"] == "error" and __file__ in finding["message"] and "bytes of HBM on" in finding["allowed"]
    assert "neuron/hbm-capacity" not in codes(run(kernel, rows, 4))


def test_psum_overflow_is_found():
    def kernel(x):
        tile = nl.load(x)
        sums = [nisa.nc_matmul(tile, tile) for _ in range(33)]
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for one in sums:
            nl.store(out, one)
        return out

    assert "neuron/psum-capacity" in codes(run(kernel, SQUARE))


def test_sines_that_the_table_lacks():
    angles = np.linspace(-np.pi, np.pi, SQUARE.size, dtype=np.float32).reshape(SQUARE.shape)

    def kernel(x, sine):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, sine(nl.load(x)))
        return out

    def table(x):
        return nisa.activation(np.sin, x)

    assert codes(run(kernel, angles, table)) == codes(run(kernel, angles * 3, nl.sin)) == set()
    assert codes(run(kernel, angles * 3, table)) == {"neuron/domain"}


def test_reads_of_memory_that_nobody_wrote():
    def kernel(x):
        tile = nl.ndarray((128, 128), nl.float32)
        tile[0:128, 0:64] = nl.load(x[:, 0:64])
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.exp(tile))
        return out

    result = run(kernel, SQUARE)
    assert codes(result) == {"neuron/uninitialised"}
    assert np.isnan(result.outputs[:, 64:]).all() and not np.isnan(result.outputs[:, :64]).any()


def test_outputs_that_are_never_written_are_named():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name="result")
        nl.store(out[0:64], nl.load(x[0:64]))
        return out

    (finding,) = run(kernel, SQUARE).findings
    assert finding["code"] == "neuron/never-written" and "result" in finding["message"]


def test_partitions_that_start_where_they_may_not():
    def kernel(x):
        tile = nl.load(x)
        tile[5:6, :] = 0
        nl.store(x, tile)

    assert "neuron/start-partition" in codes(run(kernel, SQUARE.copy()))


def test_errors_of_the_kernel_keep_their_traceback():
    def kernel(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(kernel, SQUARE)


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (1 << 40, 1 << 40)])
def test_odd_shapes_raise_and_never_abort(shape):
    try:
        run(lambda: nl.ndarray(shape, dtype=nl.float32, buffer=nl.hbm))
    except (Refused, ValueError, MemoryError, OverflowError):
        pass


def test_names_that_do_not_exist_say_what_is_near():
    with pytest.raises(AttributeError, match="the nearest is neuronxcc.nki.isa.tensor_tensor"):
        nisa.tensor_tenser


def test_a_mask_has_no_single_truth():
    with pytest.raises(TypeError, match="&"):
        bool(nl.arange(4)[:, None] < 2)


def test_masks_joined_with_words():
    limit = 100

    def kernel(x):
        out = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
        rows, columns = nl.arange(128)[:, None], nl.arange(64)[None, :]
        nl.store(out[rows, columns], nl.load(x[rows, columns]) * 0.0)
        tile = nl.load(x[rows, columns], mask=(rows < limit and columns < 50))
        nl.store(out[rows, columns], tile, mask=(rows < limit and columns < 50))
        return out if x is not None and limit > 0 else None

    x = np.random.default_rng(0).standard_normal((128, 64)).astype(np.float32)
    expected = x.copy()
    expected[100:], expected[:, 50:] = 0, 0
    assert np.array_equal(run(kernel, x).outputs, expected)


def test_a_condition_on_a_mask_has_no_answer():
    def kernel(x):
        if nl.arange(4)[:, None] < 2:
            return x

    with pytest.raises(TypeError, match="no single truth"):
        run(kernel, SQUARE)


def test_arithmetic_on_block_scaled_words():
    def kernel():
        words = new_nl.ndarray((128, 8), dtype=new_nl.float8_e4m3fn_x4, buffer=new_nl.sbuf)
        new_isa.memset(words, 0)
        new_isa.tensor_tensor(words, words, words, new_nl.add)

    assert refused(kernel, dialect="new", chip="trainium3") == "neuron/dtype"


def test_a_copy_between_words_and_floats():
    def kernel(x):
        words = new_nl.ndarray((128, 128), dtype=new_nl.float8_e4m3fn_x4, buffer=new_nl.sbuf)
        new_isa.dma_copy(words, x)

    assert refused(kernel, SQUARE, dialect="new", chip="trainium3") == "neuron/dtype"


@pytest.mark.parametrize(("position", "size"), [((32, 0), (64, 64)), ((0, 0), (48, 128)), ((0, 0), (32, 32)), ((96, 0), (64, 128))])
def test_parts_of_the_array_that_do_not_exist(position, size):
    def kernel(x):
        tile = new_nl.load(x)
        out = new_nl.ndarray((128, 128), dtype=new_nl.float32, buffer=new_nl.psum)
        new_isa.nc_matmul(out, tile, tile, tile_position=position, tile_size=size)

    assert refused(kernel, SQUARE, dialect="new", chip="trainium2") == "neuron/tile-position"


def test_an_operator_that_the_scalar_engine_lacks():
    def kernel(x):
        tile = new_nl.load(x)
        new_isa.tensor_scalar(tile, tile, new_nl.maximum, 0.0, engine=new_isa.scalar_engine)

    assert refused(kernel, SQUARE, dialect="new", chip="trainium2") == "neuron/operator"


def test_an_operator_that_nobody_has():
    def kernel(x):
        new_isa.tensor_scalar(new_nl.load(x), new_nl.load(x), "nonsense", 0.0)

    assert refused(kernel, SQUARE, dialect="new") == "neuron/operator"


def test_a_tensor_larger_than_any_device():
    assert refused(lambda: nl.ndarray((1 << 20, 1 << 20), dtype=nl.float32, buffer=nl.hbm)) == "neuron/capacity"


def test_picked_rows_in_another_order():
    def kernel(x):
        rows = nl.load(x[:, 0:1])
        picked = x[rows[nl.arange(8)[:, None], 0], nl.arange(4)[None, :]]
        return nl.load(picked.permute(1, 0))

    assert refused(kernel, np.zeros((8, 4), np.int32)) == "neuron/pattern"


def test_a_block_scaled_product_costs_energy_of_its_own():
    """A quarter of what BF16 takes for a product; both machine figures are named in trainium3."""

    def tensor_energy(kernel):
        result = run(kernel, chip="trainium3", dialect="new")
        return result.energy["tensor"] / result.timing["macs"]

    def scaled():
        words, scales = new_nl.ndarray((128, 128), new_nl.float8_e4m3fn_x4), new_nl.ndarray((128, 128), new_nl.uint8)
        new_isa.memset(words, 0)
        new_isa.memset(scales, 127)
        new_isa.nc_matmul_mx(new_nl.ndarray((128, 128), new_nl.float32, buffer=new_nl.psum), words, words, scales, scales)

    def plain(dtype):
        def kernel():
            tile = new_nl.ndarray((128, 128), dtype)
            new_isa.memset(tile, 0)
            new_isa.nc_matmul(new_nl.ndarray((128, 128), new_nl.float32, buffer=new_nl.psum), tile, tile)

        return kernel

    mx, half = tensor_energy(scaled), tensor_energy(plain(new_nl.bfloat16))
    assert mx * 1e12 == pytest.approx(0.08) and half * 1e12 == pytest.approx(0.32)
