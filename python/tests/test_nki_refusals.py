"""A refused kernel for each rule of single instructions and views: one call that breaks it, the code and what is said of it.

Legal twins of these calls are in `instructions/`, where each instruction runs.
"""

import nki.collectives as ncoll
import nki.isa as isa
import nki.language as nl
import numpy as np
import pytest
from tilewright.nki import Refused, run, run_ranks, state

V2, V3, V4 = "trainium1", "trainium2", "trainium3"


def tile(*shape, dtype=nl.float32, buffer=nl.sbuf):
    """A tile of zeros, which are legal values of every type."""
    made = nl.ndarray(shape, dtype, buffer=buffer)
    isa.memset(made, 0)
    return made


def psum(*shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype, buffer=nl.psum)


def packed(*shape, dtype=nl.float8_e4m3fn_x4):
    return tile(*shape, dtype=dtype)


def words(columns=8):
    return tile(8, columns, dtype=nl.int32)


def on_bits(instruction, **options):
    """An instruction that computes in FP32, of integers."""
    instruction(words(), words(), **options)


#: What those say that bit operators do not belong to.
BITS = ("neuron/operator", "with ")

#: Chip, what is called, its code, and a part of what is said.
CASES = {
    "bits before a tensor": (V2, lambda: on_bits(isa.scalar_tensor_tensor, op0=nl.left_shift, operand0=1, op1=nl.add, operand1=words()), *BITS),
    "bits of a tensor": (V2, lambda: on_bits(isa.scalar_tensor_tensor, op0=nl.add, operand0=1, op1=nl.bitwise_or, operand1=words()), *BITS),
    "bits that are summed": (V2, lambda: on_bits(isa.tensor_scalar_reduce, op0=nl.bitwise_and, operand0=1, reduce_op=nl.add, reduce_res=words(1)), *BITS),
    "bits that are joined": (V2, lambda: on_bits(isa.tensor_scalar_reduce, op0=nl.add, operand0=1, reduce_op=nl.bitwise_or, reduce_res=words(1)), *BITS),
    "bits of a running sum": (V3, lambda: isa.tensor_scalar_cumulative(words(), words(), nl.bitwise_and, nl.add, 1, 0), *BITS),
    "bits of a scan": (V2, lambda: isa.tensor_tensor_scan(words(), words(), words(), 0.0, nl.bitwise_or, nl.add), *BITS),
    "bits of floats, reduced": (V2, lambda: isa.tensor_reduce(tile(8, 1), nl.bitwise_or, tile(8, 8), axis=1), "neuron/dtype", "bitwise_or of f32"),
    "bits of integers and floats": (V2, lambda: isa.tensor_tensor(words(), words(), tile(8, 8), nl.bitwise_or), "neuron/dtype", "bitwise_or of f32"),
    "bits into floats": (V2, lambda: isa.tensor_scalar(tile(8, 8), words(), op0=nl.bitwise_or, operand0=1), "neuron/dtype", "bitwise_or of f32"),
    "bits of a fraction": (V2, lambda: isa.tensor_scalar(words(), words(), op0=nl.bitwise_or, operand0=1.5), "neuron/operand", "bitwise_or with 1.5"),
    "bits of no number": (V2, lambda: isa.tensor_scalar(words(), words(), op0=nl.bitwise_or, operand0=float("nan")), "neuron/operand", "bitwise_or with NaN"),
    "bits of 33": (V2, lambda: isa.tensor_scalar(words(), words(), op0=nl.bitwise_or, operand0=2**32), "neuron/operand", "bitwise_or with 4294967296"),
    "a shift backwards": (V2, lambda: isa.tensor_scalar(words(), words(), op0=nl.left_shift, operand0=-1), "neuron/operand", "left_shift with -1"),
    "a mode that the tensor engine lacks": (V3, lambda: isa.nc_matmul(psum(8, 8), tile(8, 8), tile(8, 8), perf_mode="fast"), "neuron/operand", "the perf_mode 'fast'"),
    "half a turn of a loop": (V2, lambda: list(nl.affine_range(5 / 2)), "neuron/shape", "a loop with a bound of 2.5"),
    "a pattern that is none": (V2, lambda: tile(8, 8).ap("ab"), "neuron/pattern", "an access pattern with 'a' in it"),
    "a slice beyond a dimension": (V2, lambda: tile(8, 8).slice(1, 4, 12), "neuron/bounds", "elements 4 to"),
    "a reshape to another size": (V2, lambda: tile(8, 8).reshape(8, 9), "neuron/shape", "reshaped to [8, 9]"),
    "a reshape across strides": (V2, lambda: tile(8, 4, 8)[:, :, 0:4].reshape(8, 16), "neuron/shape", "strided view"),
    "a dimension twice": (V2, lambda: tile(8, 4, 8).permute(0, 1, 1), "neuron/shape", "in the order [0, 1, 1]"),
    "a part of an element": (V2, lambda: tile(8, 3, dtype=nl.bfloat16).view(nl.float32), "neuron/dtype", "as f32"),
    "a pattern of every other partition": (V2, lambda: tile(16, 32).ap([[64, 8], [1, 32]]), "neuron/pattern", "steps 64 elements"),
    "a dimension that is not there": (V2, lambda: tile(8, 8).squeeze_dim(2), "neuron/shape", "dimension 2"),
    "a reduction that Scalar lacks": (
        V2,
        lambda: isa.activation(tile(8, 8), nl.exp, tile(8, 8), reduce_op=nl.maximum, reduce_res=tile(8, 1), reduce_cmd=isa.reduce_cmd.reset_reduce),
        "neuron/operator",
        "reducing with max",
    ),
    "operators that activate2 lacks": (
        V4,
        lambda: isa.activate2(tile(8, 8), nl.exp, tile(8, 8), op0=nl.maximum, imm0=1.0),
        "neuron/operator",
        "activate2 with",
    ),
    "sums of another shape": (
        V2,
        lambda: isa.activation_reduce(tile(8, 8), nl.exp, tile(8, 8), nl.add, tile(4, 1)),
        "neuron/shape",
        "sums of 8 partitions",
    ),
    "a product of FP32 and BF16": (
        V2,
        lambda: isa.nc_matmul(psum(8, 8), tile(8, 8), tile(8, 8, dtype=nl.bfloat16)),
        "neuron/dtype",
        "nc_matmul of f32 and bf16",
    ),
    "a product of another shape": (V2, lambda: isa.nc_matmul(psum(8, 4), tile(8, 8), tile(8, 8)), "neuron/shape", "into [8, 4]"),
    "a transpose that is too wide": (
        V2,
        lambda: isa.nc_transpose(psum(128, 8), tile(8, 256), engine=isa.tensor_engine),
        "neuron/free-size",
        "nc_transpose of 256 columns",
    ),
    "a transpose into SBUF by the tensor engine": (
        V2,
        lambda: isa.nc_transpose(tile(8, 8), tile(8, 8), engine=isa.tensor_engine),
        "neuron/memory",
        "from sbuf to sbuf",
    ),
    "a transpose into another shape": (
        V2,
        lambda: isa.nc_transpose(psum(8, 16), tile(8, 16), engine=isa.tensor_engine),
        "neuron/shape",
        "a transpose of [8, 16]",
    ),
    "a transpose that Vector cannot do": (
        V2,
        lambda: isa.nc_transpose(tile(64, 8), tile(8, 64), engine=isa.vector_engine),
        "neuron/shape",
        "on the vector engine",
    ),
    "an operand of several columns": (
        V2,
        lambda: isa.tensor_scalar(tile(8, 8), tile(8, 8), nl.add, tile(8, 2)),
        "neuron/shape",
        "a scalar operand of shape [8, 2]",
    ),
    "operands of different shapes": (
        V2,
        lambda: isa.tensor_reduce(tile(4, 1), nl.add, tile(8, 8), axis=1),
        "neuron/shape",
        "tensor_reduce of [8, 8]",
    ),
    "tiles of different partitions": (
        V2,
        lambda: isa.max8(tile(4, 8), tile(8, 16)),
        "neuron/shape",
        "[4, 8]",
    ),
    "sums of other partitions": (
        V2,
        lambda: isa.tensor_reduce(tile(4, 2), nl.add, tile(8, 8), axis=1),
        "neuron/shape",
        "into [4, 2]",
    ),
    "places on other partitions": (
        V2,
        lambda: isa.nc_find_index8(tile(4, 8, dtype=nl.uint32), tile(8, 16), tile(8, 8)),
        "neuron/shape",
        "of shape [4, 8]",
    ),
    "replacements on other partitions": (
        V2,
        lambda: isa.nc_match_replace8(tile(4, 16), tile(8, 16), tile(8, 8), 0.0),
        "neuron/shape",
        "nc_match_replace8 of",
    ),
    "a gather from other partitions": (
        V2,
        lambda: isa.nc_n_gather(tile(4, 8), tile(8, 8), tile(4, 8, dtype=nl.uint32)),
        "neuron/shape",
        "from [8, 8]",
    ),
    "a gather into other partitions": (
        V2,
        lambda: isa.local_gather(tile(32, 16), tile(16, 16), tile(16, 1, dtype=nl.uint16)),
        "neuron/partitions",
        "into 32",
    ),
    "a pattern of another size": (V2, lambda: isa.iota(tile(8, 8, dtype=nl.int32), [[1, 4]]), "neuron/shape", "iota of 32"),
    "a selection into another size": (
        V2,
        lambda: isa.affine_select(tile(8, 4), [[1, 8]], 1, tile(8, 8), 0.0, cmp_op=nl.greater),
        "neuron/shape",
        "affine_select of",
    ),
    "sums over partitions into several rows": (
        V2,
        lambda: isa.tensor_partition_reduce(tile(2, 8), nl.add, tile(8, 8)),
        "neuron/shape",
        "a row of 8",
    ),
    "a gather on part of a processor": (
        V2,
        lambda: isa.local_gather(tile(8, 16), tile(8, 16), tile(8, 1, dtype=nl.uint16)),
        "neuron/partitions",
        "local_gather on 8",
    ),
    "an index beyond its row": (V2, lambda: beyond(), "neuron/bounds", "element 9 of a row of 8"),
    "a gather into another shape": (
        V2,
        lambda: isa.nc_n_gather(tile(8, 4), tile(8, 8), tile(8, 8, dtype=nl.uint32)),
        "neuron/shape",
        "a gather of [8, 8]",
    ),
    "bounds into another shape": (
        V2,
        lambda: isa.sequence_bounds(tile(1, 2, 4), tile(1, 8)),
        "neuron/shape",
        "sequence_bounds of 8",
    ),
    "nonzeros without room for the count": (
        V3,
        lambda: isa.nonzero_with_count(tile(128, 8, dtype=nl.int32), tile(128, 8)),
        "neuron/shape",
        "nonzero_with_count of",
    ),
    "the largest of part of a processor": (
        V4,
        lambda: isa.topk(tile(8, 8, dtype=nl.bfloat16), tile(8, 8, dtype=nl.uint32), tile(8, 8, dtype=nl.bfloat16), 64),
        "neuron/shape",
        "topk of",
    ),
    "the largest of floats of 32 bits": (
        V4,
        lambda: isa.topk(tile(16, 8), tile(16, 8, dtype=nl.uint32), tile(16, 8), 128),
        "neuron/dtype",
        "topk of f32",
    ),
    "the largest of too few": (
        V4,
        lambda: isa.topk(tile(16, 1, dtype=nl.bfloat16), tile(16, 1, dtype=nl.uint32), tile(16, 1, dtype=nl.bfloat16), 4),
        "neuron/free-size",
        "of 4 elements",
    ),
    "a row that is too long": (
        V2,
        lambda: isa.tensor_copy(tile(1, 1), tile(1, 1).broadcast(1, 2)[:, 0:1]) or wide(),
        "neuron/free-size",
        "elements for each partition",
    ),
    "a block-scaled copy of FP32": (
        V4,
        lambda: isa.quantize_mx(packed(32, 8), tile(32, 32), tile(32, 8, dtype=nl.uint8)),
        "neuron/dtype",
        "quantize_mx of f32",
    ),
    "a block-scaled product into FP16": (
        V4,
        lambda: scaled(dst=psum(8, 8, dtype=nl.float16)),
        "neuron/memory",
        "nc_matmul_mx into f16",
    ),
    "a block-scaled product of part of a quadrant": (V4, lambda: scaled(rows=16), "neuron/partitions", "of 16 partitions"),
    "a block-scaled product of plain floats": (
        V4,
        lambda: scaled(a=tile(32, 8, dtype=nl.bfloat16)),
        "neuron/dtype",
        "nc_matmul_mx with",
    ),
    "a block-scaled product with scales of FP32": (
        V4,
        lambda: scaled(scales=tile(32, 8)),
        "neuron/dtype",
        "with scales of",
    ),
    "a block-scaled product with too few scales": (
        V4,
        lambda: scaled(scales=tile(32, 4, dtype=nl.uint8)),
        "neuron/shape",
        "with scales of shape",
    ),
    "block-scaled operands of different partitions": (
        V4,
        lambda: scaled(b=packed(64, 8)),
        "neuron/shape",
        "nc_matmul_mx of",
    ),
    "a transfer that transposes in another order": (
        V3,
        lambda: isa.dma_transpose(tile(8, 4, 8, dtype=nl.bfloat16), tile(8, 4, 8, dtype=nl.bfloat16), axes=(0, 2, 1)),
        "neuron/shape",
        "in the order [0, 2, 1]",
    ),
    "a transfer that transposes five dimensions": (
        V3,
        lambda: isa.dma_transpose(tile(8, 1, 1, 1, 8, dtype=nl.bfloat16), tile(8, 1, 1, 1, 8, dtype=nl.bfloat16)),
        "neuron/shape",
        "of 5 dimensions",
    ),
    "a transfer that transposes to HBM": (
        V3,
        lambda: isa.dma_transpose(nl.ndarray((8, 16), nl.bfloat16, buffer=nl.shared_hbm), tile(16, 8, dtype=nl.bfloat16)),
        "neuron/memory",
        "dma_transpose to shared_hbm",
    ),
    "a transfer that transposes to another rank": (
        V3,
        lambda: isa.dma_transpose(tile(8, 1, 16, dtype=nl.bfloat16), tile(16, 8, dtype=nl.bfloat16)),
        "neuron/shape",
        "to [8, 1, 16]",
    ),
    "hardware that transposes words": (V3, lambda: turned(16, 128, dtype=nl.float32), "neuron/dtype", "dma_transpose of f32 with dge_mode hwdge"),
    "hardware that transposes other rows than 16": (V3, lambda: turned(32, 128), "neuron/shape", "of [32, 128] with dge_mode hwdge"),
    "hardware that transposes three rows": (V3, lambda: turned(3, 4, 128), "neuron/shape", "of [3, 4, 128] with dge_mode hwdge"),
    "hardware that transposes rows that are too long": (
        V3,
        lambda: turned(16, 4, 192, into=(96, 4, 32)),
        "neuron/free-size",
        "of [16, 4, 192]",
    ),
    "a transpose of picked words": (V3, lambda: turned_rows(nl.float32), "neuron/dtype", "dma_transpose of f32 of rows"),
    "a transpose of picked rows before it was there": (V2, lambda: turned_rows(nl.bfloat16), "neuron/generation", "dma_transpose of rows"),
    "a sum of no tensors": (V2, lambda: isa.dma_compute(tile(8, 8), [], nl.add), "neuron/shape", "no source"),
    "a sum of different sizes": (
        V2,
        lambda: isa.dma_compute(tile(8, 8), [tile(8, 4)], nl.add),
        "neuron/shape",
        "dma_compute of [8, 4]",
    ),
    "random bits from GpSimd of the first generation": (
        V2,
        lambda: isa.rng(tile(8, 8, dtype=nl.uint32), engine=isa.gpsimd_engine),
        "neuron/generation",
        "rng on the gpsimd engine",
    ),
    "random bits as floats": (V2, lambda: isa.rng(tile(8, 8)), "neuron/dtype", "rng into"),
    "a seed of several numbers": (
        V3,
        lambda: isa.set_rng_seed(tile(1, 2, dtype=nl.uint32)),
        "neuron/shape",
        "set_rng_seed from",
    ),
    "a state of another size": (
        V3,
        lambda: isa.rand_set_state(tile(128, 3, dtype=nl.uint32)),
        "neuron/shape",
        "a state of",
    ),
    "a second result of another shape": (
        V2,
        lambda: isa.tensor_scalar_reduce(tile(8, 8), tile(8, 8), nl.add, 1.0, nl.add, tile(8, 2)),
        "neuron/shape",
        "reduce_res of shape [8, 2]",
    ),
    "statistics into another shape": (V2, lambda: isa.bn_stats(tile(8, 5), tile(8, 8)), "neuron/shape", "bn_stats into"),
    "part of statistics": (V2, lambda: isa.bn_aggr(tile(8, 2), tile(8, 7)), "neuron/free-size", "bn_aggr of 7"),
    "means into another shape": (V2, lambda: isa.bn_aggr(tile(8, 3), tile(8, 6)), "neuron/shape", "bn_aggr into"),
    "the eight largest of seven": (V2, lambda: isa.max8(tile(8, 8), tile(8, 7)), "neuron/free-size", "max8 of 7"),
    "seven values to find": (
        V2,
        lambda: isa.nc_find_index8(tile(8, 8, dtype=nl.uint32), tile(8, 16), tile(8, 7)),
        "neuron/shape",
        "of shape [8, 7]",
    ),
    "the largest of a selection into two columns": (
        V2,
        lambda: isa.select_reduce(
            tile(8, 8), tile(8, 8, dtype=nl.uint8), tile(8, 8), 0.0, reduce_res=tile(8, 2), reduce_cmd=isa.reduce_cmd.reset_reduce
        ),
        "neuron/shape",
        "reduce_res of shape [8, 2]",
    ),
    "bits and arithmetic": (
        V2,
        lambda: isa.tensor_scalar(
            tile(8, 8, dtype=nl.int32), tile(8, 8, dtype=nl.int32), nl.bitwise_and, 1, op1=nl.add, operand1=1
        ),
        "neuron/operator",
        "a bit operator and an arithmetic one",
    ),
    "a shuffle of too few": (V2, lambda: isa.nc_stream_shuffle(tile(32, 8), tile(32, 8), [0] * 31), "neuron/shape", "31 entries"),
    "a shuffle of different rows": (
        V2,
        lambda: isa.nc_stream_shuffle(tile(32, 8), tile(32, 4), [0] * 32),
        "neuron/shape",
        "different free sizes",
    ),
    "every other partition": (
        V2,
        lambda: isa.tensor_copy(tile(4, 8), tile(8, 8)[0:8:2]),
        "neuron/partitions",
        "steps 16 elements of 8",
    ),
    "free elements as partitions": (
        V2,
        lambda: isa.tensor_copy(tile(8, 8), tile(8, 8).permute(1, 0)),
        "neuron/partitions",
        "steps 1 elements of 8",
    ),
    "more partitions by repetition": (V2, lambda: isa.max8(tile(8, 8), tile(1, 8).broadcast(0, 200)), "neuron/partitions", "of 200 partitions"),
    "a block-scaled product from PSUM": (
        V4,
        lambda: scaled(a=psum(32, 8, dtype=nl.float8_e4m3fn_x4)),
        "neuron/memory",
        "with stationary in psum",
    ),
    "a transpose of picked elements": (
        V4,
        lambda: isa.nc_matmul(psum(32, 32), tile(32, 32), tile(32, 64).indirect(tile(32, 1, dtype=nl.int32)), is_transpose=True),
        "neuron/shape",
        "a moving tile with offsets",
    ),
    # What the layer above never asks for: it is said all the same.
    "a sum over all dimensions": (
        V2,
        lambda: state.running().tensor_reduce(tile(8, 1), tile(8, 8), "add", 2, False),
        "neuron/shape",
        "over 2 of 2 dimensions",
    ),
    "several rows on every partition": (
        V2,
        lambda: state.running().partition_broadcast(psum(8, 8), tile(2, 4)),
        "neuron/shape",
        "partition_broadcast of [2, 4]",
    ),
    "a row on every partition of SBUF": (
        V2,
        lambda: state.running().partition_broadcast(tile(8, 8), tile(1, 8)),
        "neuron/memory",
        "partition_broadcast",
    ),
    "too few bytes for a tensor": (
        V2,
        lambda: state.running().input(np.zeros(3, np.uint8), [8, 8], 0, "x"),
        "neuron/shape",
        "3 bytes for a tensor",
    ),
    "exponentials with sums of another shape": (
        V4,
        lambda: isa.exponential(tile(8, 8), tile(8, 8), reduce_res=tile(8, 2), reduce_cmd=isa.reduce_cmd.reset_reduce),
        "neuron/shape",
        "exponential with reduce_res",
    ),
}


def beyond():
    """A gather whose index lies outside its row."""
    index = tile(8, 1, dtype=nl.uint32)
    isa.memset(index, 9)
    isa.nc_n_gather(tile(8, 1), tile(8, 8), index)


def wide():
    """More elements of PSUM than one instruction reads."""
    isa.tensor_copy(tile(8, 4608), psum(8, 4608))


def turned(*shape, dtype=nl.bfloat16, into=None):
    """A transposing transfer with descriptors made by hardware."""
    isa.dma_transpose(tile(*(into or shape[::-1]), dtype=dtype), tile(*shape, dtype=dtype), dge_mode=isa.dge_mode.hwdge)


def turned_rows(dtype):
    """A transposing transfer of rows that a tile picks."""
    table, rows = nl.ndarray((64, 1, 1, 32), dtype, buffer=nl.shared_hbm), tile(16, 1, dtype=nl.uint32)
    isa.dma_transpose(tile(32, 1, 1, 16, dtype=dtype), table.ap([[32, 16], [1, 1], [1, 1], [1, 32]], vector_offset=rows))


def scaled(a=None, b=None, dst=None, scales=None, rows=32):
    """A block-scaled product, legal as it is."""
    a = packed(rows, 8) if a is None else a
    b = packed(rows, 8) if b is None else b
    scales = tile(rows, 8, dtype=nl.uint8) if scales is None else scales
    isa.nc_matmul_mx(psum(8, 8) if dst is None else dst, a, b, scales, scales)


@pytest.mark.parametrize("name", CASES)
def test_refused(name):
    chip, call, code, said = CASES[name]
    with pytest.raises(Refused) as caught:
        run(lambda: call() and None, chip=chip, dialect="new")
    error = caught.value
    assert (error.code, said in error.asked) == (code, True), error
    assert error.allowed and error.instead and __file__ in error.line


def test_the_twin_of_the_block_scaled_ones_is_legal():
    run(lambda: scaled(), chip=V4, dialect="new")


@pytest.mark.parametrize("twin", [lambda: turned(16, 128), lambda: turned(4, 3, 128), lambda: turned_rows(nl.bfloat16)])
def test_the_twins_of_the_transposing_transfers_are_legal(twin):
    run(twin, chip=V3, dialect="new")


@pytest.mark.parametrize("kind", ["memory", "shape"])
def test_collectives_between_what_does_not_fit(kind):
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        other = tile(*x.shape) if kind == "memory" else nl.ndarray((4, 4), x.dtype, buffer=nl.shared_hbm)
        ncoll.all_reduce(srcs=[x], dsts=[other], replica_group=ncoll.ReplicaGroup([[0, 1]]), op=nl.add)
        return out

    with pytest.raises(Refused) as caught:
        run_ranks(kernel, [{"x": np.ones((4, 8), np.float32)} for _ in range(2)], chip=V3)
    assert caught.value.code == f"neuron/{kind}"


def test_an_axis_that_the_launch_grid_lacks():
    for axis in (lambda: nl.program_id(2), lambda: nl.num_programs(2), lambda: nl.num_programs([2])):
        with pytest.raises(Refused, match="axis 2 of a launch grid of 1 dimensions"):
            run(lambda: axis() and None, chip=V3, dialect="old", grid=2)


def test_a_launch_that_would_never_end():
    with pytest.raises(Refused, match="a launch of 10000000000 programs"):
        run(lambda: None, chip=V3, dialect="old", grid=(100000, 100000))


INSTEAD = {
    "give a program more to do, in a loop": lambda: run(lambda: None, chip=V3, dialect="old", grid=(10**5, 10**5)),
    "launch the kernel on a grid with more dimensions": lambda: run(lambda: nl.program_id(2) and None, chip=V3, dialect="old", grid=2),
    "leave perf_mode out, or name one of these": lambda: run(lambda: isa.nc_matmul(psum(8, 8), tile(8, 8), tile(8, 8), perf_mode="fast"), chip=V3),
    "give one pair for each dimension": lambda: run(lambda: tile(8, 8).ap("ab") and None, chip=V2),
}


@pytest.mark.parametrize("words", INSTEAD)
def test_what_to_write_instead(words):
    with pytest.raises(Refused) as refusal:
        INSTEAD[words]()
    assert words in str(refusal.value)
