"""`nki.isa`: instructions that take their destination first."""

import numpy as np

from tilewright._core import Index, Tensor

from .. import dtypes, lower, picked, registers, state, team
from ..enums import *  # noqa: F403  names of the module
from ..enums import engine, matmul_perf_mode, nc_version, oob_mode, reduce_cmd  # noqa: F401
from ..old.isa import _largest, _operand, get_nc_version  # noqa: F401
from ..refusals import refused
from ..registers import Register
from . import isa_constants as constants  # noqa: F401

_name, _engine = lower.op_name, lower.engine_name


def get_nc_sub_version():
    """The revision of the silicon."""
    return 0


def _like(tile, dst):
    """A view of an operand with the shape of the destination, where only unit dimensions differ."""
    if tile.size == dst.size or type(tile) is np.ndarray:
        return tile
    return lower.conform(tile, dst.shape)


def nc_matmul(
    dst,
    stationary,
    moving,
    is_stationary_onezero=False,
    is_moving_onezero=False,
    is_transpose=False,
    accumulate=None,
    tile_position=(),
    tile_size=(),
    perf_mode=matmul_perf_mode.none,
    name=None,
):
    """dst (+)= stationary.T @ moving; without accumulate, the first write to a place overwrites and later ones add."""
    adds = None if accumulate is None else bool(accumulate)
    state.running().nc_matmul(
        dst,
        stationary,
        moving,
        adds,
        bool(is_transpose),
        bool(is_stationary_onezero),
        bool(is_moving_onezero),
        lower.double_row(perf_mode),
        lower.array_part(tile_position, tile_size),
    )


def nc_transpose(dst, data, engine=None, name=None):
    """dst = data with partitions and free dimensions swapped."""
    which = _engine(engine)
    columns = lower.free_size(data)
    if which == "" and (dst.memory == "sbuf" or data.memory == "psum") and data.shape[0] <= 32 and columns <= 32:
        which = "vector"
    state.running().nc_transpose(dst, data, which)


def activation(
    dst,
    op,
    data,
    bias=None,
    scale=1.0,
    reduce_op=None,
    reduce_res=None,
    reduce_cmd=reduce_cmd.idle,
    name=None,
):
    """dst = op(data * scale + bias)."""
    command, sums, accumulates = reduce_cmd, None, False
    if reduce_res is not None or command is not lower.IDLE:
        if reduce_res is not None and int(getattr(command, "value", command)) == 0:
            command = 3
        sums, accumulates = lower.accumulate("scalar", command, reduce_res, data.shape[0])
    state.running().activation(
        dst,
        _like(data, dst),
        _name(op),
        _operand(bias),
        _operand(scale),
        sums,
        "add" if reduce_op is None else _name(reduce_op),
        accumulates,
    )


def activation_reduce(dst, op, data, reduce_op, reduce_res, bias=None, scale=1.0, name=None):
    """dst = op(data * scale + bias), and its sums."""
    activation(dst, op, data, bias, scale, reduce_op, reduce_res, 3)


def tensor_tensor(dst, data1, data2, op, engine=None, name=None):
    """dst = data1 op data2."""
    state.running().tensor_tensor(dst, _like(data1, dst), _like(data2, dst), _name(op), _engine(engine))


def tensor_scalar(
    dst,
    data,
    op0,
    operand0,
    reverse0=False,
    op1=None,
    operand1=None,
    reverse1=False,
    engine=None,
    name=None,
):
    """dst = (data op0 operand0) op1 operand1."""
    state.running().tensor_scalar(
        dst,
        _like(data, dst),
        _name(op0),
        _operand(operand0),
        bool(reverse0),
        None if op1 is None else _name(op1),
        _operand(operand1),
        bool(reverse1),
        _engine(engine),
    )


def scalar_tensor_tensor(
    dst, data, op0, operand0, op1, operand1, reverse0=False, reverse1=False, name=None, dtype=None
):
    """dst = (data op0 operand0) op1 operand1, the last a tensor. The type of the result is that of dst."""
    state.running().scalar_tensor_tensor(
        dst,
        _like(data, dst),
        _name(op0),
        _operand(operand0),
        bool(reverse0),
        _name(op1),
        _like(operand1, dst),
        bool(reverse1),
    )


def tensor_reduce(dst, op, data, axis, negate=False, keepdims=False, name=None):
    """dst = data reduced over free axes."""
    lower.reduce_into(dst, _name(op), data, lower.axes_of(axis, len(data.shape)), bool(negate))


def tensor_partition_reduce(dst, op, data, name=None):
    """dst = data reduced over partitions."""
    state.running().tensor_partition_reduce(dst, data, _name(op))


def tensor_scalar_reduce(
    dst,
    data,
    op0,
    operand0,
    reduce_op,
    reduce_res=None,
    reverse0=False,
    reduce_cmd=reduce_cmd.reset_reduce,
    reduce_init=None,
    reduce_res_negate=False,
    name=None,
):
    """dst = data op0 operand0, and its reduction."""
    sums, accumulates = lower.accumulate("vector", reduce_cmd, reduce_res, data.shape[0], _operand(reduce_init))
    state.running().tensor_scalar_reduce(
        dst, _like(data, dst), _name(op0), _operand(operand0), bool(reverse0), _name(reduce_op), sums, accumulates
    )
    if reduce_res_negate and reduce_res is not None:
        state.running().tensor_scalar(reduce_res, reduce_res, "multiply", -1.0)


def tensor_scalar_cumulative(dst, src, op0, op1, imm0, imm1=None, reduce_cmd=reduce_cmd.reset_reduce, name=None):
    """A running reduction of src op0 imm0 along the free dimension."""
    lower.cumulative(dst, src, lower.op_name(op0), lower.op_name(op1), _operand(imm0), _operand(imm1), reduce_cmd)


def tensor_tensor_scan(dst, data0, data1, initial, op0, op1, reverse0=False, reverse1=False, name=None):
    """dst[i] = (data0[i] op0 dst[i - 1]) op1 data1[i]."""
    state.running().tensor_tensor_scan(
        dst, _like(data0, dst), _like(data1, dst), _operand(initial), _name(op0), _name(op1), bool(reverse0), bool(reverse1)
    )


def tensor_copy(dst, src, engine=None, name=None, dtype=None):
    """dst = src, cast."""
    state.running().tensor_copy(dst, _like(src, dst), _engine(engine))


def tensor_copy_dynamic_src(dst, src, engine=None, name=None):
    """A copy from a place known at run time."""
    state.running().tensor_copy_dynamic(dst, _like(src, dst), "tensor_copy_dynamic_src", _engine(engine))


def tensor_copy_dynamic_dst(dst, src, engine=None, name=None):
    """A copy to a place known at run time."""
    state.running().tensor_copy_dynamic(dst, _like(src, dst), "tensor_copy_dynamic_dst", _engine(engine))


def tensor_copy_predicated(dst, src, predicate, reverse_pred=False, name=None):
    """dst = src where the predicate holds."""
    src = lower.number(src)
    if isinstance(src, Tensor):
        src = _like(src, dst)
    state.running().tensor_copy_predicated(dst, src, _like(predicate, dst), bool(reverse_pred))


def memset(dst, value, engine=None, name=None):
    """dst = value."""
    state.running().memset(dst, lower.number(value), _engine(engine))


def reciprocal(dst, data, name=None):
    """dst = 1 / data."""
    state.running().reciprocal(dst, _like(data, dst))


def _pattern_index(pattern, offset, channel_multiplier, partitions):
    """offset + partition * multiplier + sum of step * position, over [partitions, counts...]."""
    rank = len(pattern) + 1

    def axis(at, count, step):
        place = [None] * rank
        place[at] = slice(None)
        return Index.arange(0, int(count))[tuple(place)] * int(step)

    index = axis(0, partitions, channel_multiplier) + int(offset)
    for at, (step, count) in enumerate(pattern):
        index = index + axis(at + 1, count, step)
    return index


def iota(dst, pattern, offset=0, channel_multiplier=0, name=None):
    """The values of an index pattern."""
    state.running().iota(dst, _pattern_index(pattern, offset, channel_multiplier, dst.shape[0]))


def affine_select(
    dst, pattern, channel_multiplier, on_true_tile, on_false_value, cmp_op=None, offset=0, name=None
):
    """The tile where an affine value compares with zero, a constant elsewhere."""
    index = _pattern_index(pattern, offset, channel_multiplier, on_true_tile.shape[0])
    compare = {
        "equal": lambda: index == 0,
        "not_equal": lambda: index != 0,
        "greater": lambda: index > 0,
        "greater_equal": lambda: index >= 0,
        "less": lambda: index < 0,
        "less_equal": lambda: index <= 0,
    }
    predicate = compare["equal" if cmp_op is None else _name(cmp_op)]()
    data = on_true_tile.reshaped(list(predicate.shape))
    state.running().affine_select(dst, data, predicate, float(lower.number(on_false_value)))


def dropout(dst, data, prob, name=None):
    """Elements set to zero by chance."""
    state.running().dropout(dst, data, _operand(prob))


def bn_stats(dst, data, name=None):
    """Six statistics of each partition."""
    state.running().bn_stats(dst, data)


def bn_aggr(dst, data, name=None):
    """Mean and variance from statistics."""
    state.running().bn_aggr(dst, data)


def max8(dst, src, name=None):
    """The eight largest of each row."""
    state.running().max8(dst, src)


def nc_find_index8(dst, data, vals, name=None):
    """Where eight values are."""
    state.running().nc_find_index8(dst, data, vals)


def nc_match_replace8(dst, data, vals, imm, dst_idx=None, name=None):
    """data with eight values replaced."""
    state.running().nc_match_replace8(dst, data, vals, float(imm), dst_idx)


def nc_stream_shuffle(dst, src, shuffle_mask, name=None):
    """Partitions copied within quadrants."""
    state.running().nc_stream_shuffle(dst, src, [int(entry) for entry in shuffle_mask])


def nc_n_gather(dst, data, indices, name=None):
    """Elements of each partition picked by index."""
    state.running().gather(dst, data, indices)


def local_gather(dst, src_buffer, index, num_elem_per_idx=1, num_valid_indices=None, name=None):
    """Gathers shared by 16 partitions."""
    state.running().local_gather(dst, src_buffer, index, int(num_elem_per_idx), num_valid_indices)


def sequence_bounds(dst, segment_ids, name=None):
    """Start and end of the segment of each element."""
    state.running().sequence_bounds(dst, segment_ids)


def nonzero_with_count(dst, src, index_offset=0, padding_val=-1, name=None):
    """Indices of non-zero elements, and their count."""
    state.running().nonzero_with_count(dst, src, int(index_offset), int(padding_val))


def select_reduce(
    dst,
    predicate,
    on_true,
    on_false,
    reduce_res=None,
    reduce_cmd=reduce_cmd.idle,
    reduce_op=None,
    reverse_pred=False,
    name=None,
):
    """dst = on_true where the predicate holds, and its row maxima."""
    sums, accumulates = _largest("select_reduce", reduce_cmd, reduce_res, reduce_op, dst)
    state.running().select_reduce(dst, predicate, on_true, lower.number(on_false), bool(reverse_pred), sums, accumulates)


def range_select(
    dst,
    on_true_tile,
    comp_op0,
    comp_op1,
    bound0,
    bound1,
    reduce_cmd=reduce_cmd.reset_reduce,
    reduce_res=None,
    reduce_op=None,
    range_start=0,
    on_false_value=-3.4028234663852886e38,
    name=None,
):
    """The tile where its column lies between two bounds, and its row maxima."""
    sums, accumulates = _largest("range_select", reduce_cmd, reduce_res, reduce_op, dst)
    state.running().range_select(
        dst,
        on_true_tile,
        (_name(comp_op0), _name(comp_op1)),
        (_operand(bound0), _operand(bound1)),
        float(lower.number(range_start)),
        float(on_false_value),
        sums,
        accumulates,
    )


def _check_transfer(instruction, dst, src, mode, priority):
    session = state.running()
    if mode is not None or priority is not None:
        session.check_trigger(instruction, lower.dge_name(mode), None if priority is None else int(priority))
    session.check_reach(instruction, dst)
    session.check_reach(instruction, src)


def dma_copy(
    dst, src, priority=None, oob_mode=oob_mode.error, dge_mode=None, engine=None, name=None, dst_rmw_op=None
):
    """A copy between HBM and SBUF."""
    _check_transfer("dma_copy", dst, src, dge_mode, priority)
    if getattr(oob_mode, "value", oob_mode) == 1:
        dst, src = dst.skipping(), src.skipping()
    if src.size != dst.size:
        src = lower.conform(src, dst.shape)
    combine = None if dst_rmw_op is None else _name(dst_rmw_op)
    state.running().dma_copy(dst, src, combine, lower.dge_name(dge_mode), _engine(engine))
    team.stored(dst)


def dma_transpose(dst, src, axes=None, priority=None, dge_mode=None, oob_mode=oob_mode.error, name=None):
    """A transposing copy."""
    _check_transfer("dma_transpose", dst, src, dge_mode, priority)
    session, mode = state.running(), lower.dge_name(dge_mode)
    order = session.transpose_order(src, None if axes is None else [int(axis) for axis in axes])
    session.check_transpose(dst, src, mode)
    if getattr(oob_mode, "value", oob_mode) == 1:
        src = src.skipping()
    session.dma_transpose(dst, src, src.transposed(order), mode)


def dma_compute(dst, srcs, reduce_op, scales=None, unique_indices=True, oob_mode=oob_mode.error, name=None):
    """dst = the scaled sum of the sources."""
    scales, srcs = [1.0] * len(srcs) if scales is None else [float(scale) for scale in scales], list(srcs)
    picked.check_sum(dst, srcs, unique_indices)
    if getattr(oob_mode, "value", oob_mode) == 1:
        dst, srcs = dst.skipping(), [src.skipping() for src in srcs]
    state.running().dma_compute(dst, srcs, scales, _name(reduce_op))


def register_alloc(x=None):
    """A scalar register."""
    register = Register()
    if isinstance(x, Tensor):
        register.load(x)
    elif x is not None:
        register.move(x)
    return register


def register_load(dst, src):
    """register <- one element."""
    registers.checked(dst, "register_load").move(src)


def register_move(dst, src):
    """register <- register or constant."""
    registers.checked(dst, "register_move").move(src)


def register_store(dst, src):
    """One element <- register."""
    state.running().memset(dst, int(src))
    state.running().uses(registers.of(src))


def _cores():
    """Members of the team that are cores of this rank, by core."""
    program = state.program
    return {core: at for at, (rank, core) in enumerate(program.team.members) if rank == program.rank}


def core_barrier(data, cores, engine=None, name=None):
    """Waits until every core is here."""
    state.running().needs_generation("core_barrier", 3)
    program = state.program
    if program.team is None:
        return
    known, named = _cores(), [int(core) for core in cores]
    if len(known) > 1:
        _check_cores(f"core_barrier of cores {tuple(named)}", named, known)
        if named and program.core not in named:
            raise refused(
                "neuron/launch",
                f"core_barrier of cores {tuple(named)} on core {program.core}",
                "a barrier of cores of which the one that calls it is one",
                "name every core that calls it, or call it on those alone",
            )
    wanted = [known[core] for core in named if core in known]
    team.gather(("core_barrier", program.rank, data.storage_id), None, wanted or list(known.values()))


def _check_cores(what, named, known):
    """Refuses cores that the launch does not have."""
    for core in named:
        if core not in known:
            raise refused(
                "neuron/launch",
                f"{what}, where core {core} is none of the launch",
                f"cores {tuple(known)}",
                "count cores of the launch from 0",
            )


def sendrecv(src, dst, send_to_rank, recv_from_rank, pipe_id, dma_engine=None, name=None):
    """Exchanges tiles between two cores."""
    program = state.program
    session = state.running()
    session.needs_generation("sendrecv", 3)
    if program.team is None:
        raise RuntimeError("sendrecv needs a launch on two cores: kernel[2](...)")
    by_gpsimd = getattr(dma_engine, "name", dma_engine) == "gpsimd_dma" or dma_engine == 2
    if by_gpsimd:
        session.check_exchange(src)
    sent = session.alloc(list(src.shape), src.code, "sbuf")
    session.retarget(sent, src, False)
    turns, cores = program.team, _cores()
    if len(cores) > 1:
        peers = [int(send_to_rank), int(recv_from_rank)]
        _check_cores(f"sendrecv to core {peers[0]} from core {peers[1]}", peers, cores)
    box = ("sendrecv", program.rank, program.core, int(send_to_rank), int(pipe_id))
    turns.post(box, [*turns.mail.get(box, []), sent])
    wanted = ("sendrecv", program.rank, int(recv_from_rank), program.core, int(pipe_id))
    other = cores.get(int(recv_from_rank))

    def ready():
        if other is None or (turns.done[other] and not turns.mail.get(wanted)):
            raise RuntimeError(f"sendrecv: core {int(recv_from_rank)} ended without sending")
        return bool(turns.mail.get(wanted))

    turns.wait(ready, f"sendrecv from core {int(recv_from_rank)}")
    exchange = session.gpsimd_exchange if by_gpsimd else session.dma_copy
    exchange(dst, turns.mail[wanted].pop(0))
    team.met()


def quantize_mx(dst, src, dst_scale, name=None):
    """dst = src in blocks of 8 partitions by 4 elements, and the scale of each block."""
    state.running().quantize_mx(dst, src, dst_scale)


def nc_matmul_mx(
    dst,
    stationary,
    moving,
    stationary_scale,
    moving_scale,
    tile_position=None,
    tile_size=None,
    accumulate=None,
    name=None,
):
    """dst (+)= stationary.T @ moving, each element times the scale of its block."""
    part = lower.array_part(tile_position, tile_size)
    if part is not None:
        state.running().check_part("nc_matmul_mx", stationary, part)
    adds = None if accumulate is None else bool(accumulate)
    state.running().nc_matmul_mx(dst, stationary, moving, (stationary_scale, moving_scale), adds)


def activate2(
    dst,
    op,
    data,
    imm0=None,
    imm1=None,
    op0=None,
    op1=None,
    relu_param=0.0,
    reverse0=False,
    reverse1=False,
    reduce_op=None,
    reduce_res=None,
    reduce_cmd=reduce_cmd.idle,
    name=None,
):
    """dst = op((data op0 imm0) op1 imm1), and its reduction."""
    steps = [
        (_name(one), _operand(imm), bool(reverse))
        for one, imm, reverse in ((op0, imm0, reverse0), (op1, imm1, reverse1))
        if one is not None
    ]
    sums, accumulates = lower.accumulate("scalar", reduce_cmd, reduce_res, data.shape[0])
    reduce_name = "add" if reduce_op is None else _name(reduce_op)
    state.running().activate2(dst, _like(data, dst), _name(op), steps, float(relu_param), sums, reduce_name, accumulates)


def exponential(dst, src, max_value=0.0, reduce_res=None, reduce_cmd=reduce_cmd.idle, reduce_init=0.0, name=None):
    """dst = exp(src - max_value), and its sums."""
    sums, accumulates = lower.accumulate("vector", reduce_cmd, reduce_res, src.shape[0])
    loads = int(getattr(reduce_cmd, "value", reduce_cmd)) == 4
    start = _operand(reduce_init) if loads else sums if accumulates else 0.0
    state.running().exponential(dst, _like(src, dst), _operand(max_value), sums, start)


def topk(val_dst, idx_dst, src, n, name=None):
    """The largest elements, ascending, and where they were."""
    state.running().topk(val_dst, idx_dst, src, int(n))


def rng(dst, engine=engine.vector, name=None):
    """dst = random bits."""
    state.running().rng(dst, _engine(engine) or "vector")


def rand2(dst, min, max, name=None):  # noqa: A002  the instruction calls them so
    """dst = uniform random floats from min to max."""
    state.running().rand2(dst, _operand(min), _operand(max))


def set_rng_seed(src_seeds, name=None):
    """Seeds the generator of the Vector engine."""
    state.running().set_rng_seed(src_seeds)


def rand_set_state(src_seeds, engine=engine.gpsimd, name=None):
    """Sets the state of each lane's generator."""
    state.running().rand_set_state(src_seeds, _engine(engine) or "gpsimd")


def rand_get_state(dst, engine=engine.gpsimd, name=None):
    """dst = the state of each lane's generator."""
    state.running().rand_get_state(dst, _engine(engine) or "gpsimd")
