"""`neuronxcc.nki.isa`: instructions that return tiles and take masks."""

import enum

from tilewright._core import Tensor

from .. import dtypes, keywords, lower, masks, products, state
from ..enums import *  # noqa: F403  names of the module
from ..enums import engine, matmul_perf_mode, nc_version, oob_mode, reduce_cmd  # noqa: F401
from ..language import _dma_transpose
from ..refusals import refused
from . import isa_constants as constants  # noqa: F401


class dge_mode(enum.Enum):
    """Where descriptors come from; other numbers than in the second dialect."""

    none = 0
    swdge = 1
    hwdge = 2
    unknown = 3


_DGE_MODES = {mode.value: mode.name for mode in dge_mode}


def _code(dtype, *tiles):
    if dtype is not None:
        return dtypes.code(dtype)
    return tiles[0].code


def get_nc_version():
    """The generation of the core."""
    if state.program.session is not None:
        return nc_version(state.program.session.generation)
    from ..kernel import chip_name

    return {"trainium2": nc_version.gen3, "trainium3": nc_version.gen4}.get(chip_name(), nc_version.gen2)


def nc_matmul(
    stationary,
    moving,
    *,
    is_stationary_onezero=False,
    is_moving_onezero=False,
    is_transpose=False,
    tile_position=(),
    tile_size=(),
    perf_mode=None,
    mask=None,
    **_options,
):
    """stationary.T @ moving in PSUM."""
    options = {
        "stationary_onezero": bool(is_stationary_onezero),
        "moving_onezero": bool(is_moving_onezero),
        "double_row": lower.double_row(perf_mode),
        "part": lower.array_part(tile_position, tile_size),
    }
    return products.nc_matmul(stationary, moving, mask, bool(is_transpose), **options)


def nc_transpose(data, *, mask=None, dtype=None, engine=None, **_options):
    """Partitions and free dimensions swapped."""
    return products.transpose(data, dtype, mask, lower.engine_name(engine))


def activation(
    op,
    data,
    *,
    bias=None,
    scale=1.0,
    reduce_op=None,
    reduce_res=None,
    reduce_cmd=reduce_cmd.idle,
    mask=None,
    dtype=None,
    **_options,
):
    """op(data * scale + bias)."""
    return _activation(op, data, bias, scale, reduce_op, reduce_res, reduce_cmd, mask, dtype)


def _activation(op, data, bias, scale, reduce_op, reduce_res, command, mask, dtype):
    name = lower.op_name(op)
    code = _code(dtype, data)
    shrink = mask is not None
    bias = masks.operand(_operand(bias), mask) if shrink else _operand(bias)
    scale = masks.operand(_operand(scale), mask) if shrink else _operand(scale)
    if reduce_res is not None and shrink:
        reduce_res = masks.operand(reduce_res, mask)
    if reduce_res is not None and int(getattr(command, "value", command)) == 0:
        command = reduce_cmd.reset_reduce
    sums, accumulates = lower.accumulate("scalar", command, reduce_res, data.shape[0])
    if sums is not None and shrink:
        masks.left_of(data, mask, "activation_reduce")
    return lower.emit(
        "activation",
        data,
        code,
        mask,
        (data,),
        name,
        bias,
        scale,
        sums,
        "add" if reduce_op is None else lower.op_name(reduce_op),
        accumulates,
    )


def _operand(value):
    """A [P, 1] tile or a number."""
    if value is None or type(value) is float or (type(value) is Tensor and value.ndim == 2 and value.on_chip):
        return value
    value = lower.number(value)
    if isinstance(value, Tensor):
        if len(value.shape) != 2 and value.size == value.shape[0]:
            return value.reshaped([value.shape[0], 1])
        return lower.load(value) if not value.on_chip else value
    return value


def activation_reduce(op, data, *, reduce_op, reduce_res, bias=None, scale=1.0, mask=None, dtype=None, **_options):
    """op(data * scale + bias), and its sums."""
    return _activation(op, data, bias, scale, reduce_op, reduce_res, reduce_cmd.reset_reduce, mask, dtype)


def tensor_tensor(data1, data2, op, *, dtype=None, mask=None, engine=None, **_options):
    """data1 op data2."""
    name = lower.op_name(op)
    return lower.binary(name, data1, data2, dtype, mask, lower.engine_name(engine))


def tensor_scalar(
    data,
    op0,
    operand0,
    reverse0=False,
    op1=None,
    operand1=None,
    reverse1=False,
    *,
    dtype=None,
    mask=None,
    engine=None,
    **_options,
):
    """(data op0 operand0) op1 operand1."""
    name0 = lower.op_name(op0)
    name1 = None if op1 is None else lower.op_name(op1)
    operand0, operand1 = _operand(operand0), _operand(operand1)
    if mask is not None:
        operand0, operand1 = masks.operand(operand0, mask), masks.operand(operand1, mask)
    if dtype is None:
        code = data.code
        if code not in lower._FLOATS and any(_floating(operand) for operand in (operand0, operand1)):
            code = dtypes.F32
    else:
        code = dtypes.code(dtype)
    return lower.emit(
        "tensor_scalar",
        data,
        code,
        mask,
        (data,),
        name0,
        operand0,
        bool(reverse0),
        name1,
        operand1,
        bool(reverse1),
        lower.engine_name(engine),
    )


def _floating(operand):
    return isinstance(operand, float) or (isinstance(operand, Tensor) and operand.code in lower._FLOATS)


def scalar_tensor_tensor(
    *, data, op0, operand0, op1, operand1, reverse0=False, reverse1=False, dtype=None, mask=None, **_options
):
    """(data op0 operand0) op1 tensor."""
    operand1 = lower.fit(operand1, list(data.shape))
    out = lower.new(data.shape, _code(dtype, data))
    session = state.running()
    target = out
    if mask is not None:
        target, data, operand1 = out.masked(mask), data.masked(mask), operand1.masked(mask)
        operand0 = masks.operand(operand0, mask)
        if target is None:
            out.set_mask(False)
            return out
    session.scalar_tensor_tensor(
        target, data, lower.op_name(op0), _operand(operand0), bool(reverse0), lower.op_name(op1), operand1, bool(reverse1)
    )
    if mask is not None:
        out.adopt(target, mask)
    return out


def tensor_reduce(op, data, axis, *, mask=None, dtype=None, negate=False, keepdims=False, **_options):
    """data reduced over free axes."""
    return lower.reduce(lower.op_name(op), data, axis, dtype, mask, keepdims, negate)


def tensor_partition_reduce(op, data, *, mask=None, dtype=None, **_options):
    """data reduced over partitions."""
    out = lower.new([1] + list(data.shape[1:]), _code(dtype, data))
    target = out
    if mask is not None:
        ranges = masks.left_of(data, mask, "tensor_partition_reduce")
        left = [(0, 1), *ranges[1:]]
        data, target = data.masked(mask), masks.boxed(out, left)
        if data is None:
            out.set_mask(False)
            return out
    state.running().tensor_partition_reduce(target, data, lower.op_name(op))
    if target is not out:
        out.adopt(target, masks.of_box(out.shape, left))
    return out


def tensor_scalar_reduce(*, data, op0, operand0, reduce_op, reduce_res, reverse0=False, dtype=None, mask=None, **_options):
    """data op0 operand0, and its reduction."""
    if mask is not None:
        masks.left_of(data, mask, "tensor_scalar_reduce")
    return lower.emit(
        "tensor_scalar_reduce",
        data.shape,
        _code(dtype, data),
        mask,
        [data],
        lower.op_name(op0),
        masks.operand(_operand(operand0), mask),
        bool(reverse0),
        lower.op_name(reduce_op),
        masks.operand(reduce_res, mask),
        False,
    )


def tensor_scalar_cumulative(*, src, dst, op0, op1, imm0, imm1=None, reduce_cmd=reduce_cmd.reset_reduce, **_options):
    """A running reduction of src op0 imm0 along the free dimension."""
    lower.cumulative(dst, src, lower.op_name(op0), lower.op_name(op1), _operand(imm0), _operand(imm1), reduce_cmd)


def tensor_tensor_scan(data0, data1, initial, op0, op1, reverse0=False, reverse1=False, *, dtype=None, mask=None, **_options):
    """r[i] = (data0[i] op0 r[i - 1]) op1 data1[i]."""
    shape = lower.broadcast_shapes(data0.shape, data1.shape)
    data0, data1 = lower.fit(data0, shape), lower.fit(data1, shape)
    if mask is not None:
        masks.left_of(data0, mask, "tensor_tensor_scan")
    code = dtypes.code(dtype) if dtype is not None else lower.promote(data0.code, data1.code)
    return lower.emit(
        "tensor_tensor_scan",
        shape,
        code,
        mask,
        [data0, data1],
        masks.operand(_operand(initial), mask),
        lower.op_name(op0),
        lower.op_name(op1),
        bool(reverse0),
        bool(reverse1),
    )


def tensor_copy(src, *, mask=None, dtype=None, engine=None, **_options):
    """A copy, cast."""
    return lower.copy(src, None if dtype is None else dtypes.code(dtype), mask, lower.engine_name(engine))


def tensor_copy_dynamic_src(src, *, mask=None, dtype=None, engine=None, **_options):
    """A copy from a place known at run time."""
    code = src.code if dtype is None else dtypes.code(dtype)
    return lower.emit("tensor_copy_dynamic", src, code, mask, [src], "tensor_copy_dynamic_src", lower.engine_name(engine))


def tensor_copy_dynamic_dst(*, dst, src, mask=None, dtype=None, engine=None, **_options):
    """A copy to a place known at run time."""
    if mask is not None:
        dst, src = dst.masked(mask), src.masked(mask)
        if dst is None:
            return
    state.running().tensor_copy_dynamic(dst, src, "tensor_copy_dynamic_dst", lower.engine_name(engine))


def tensor_copy_predicated(*, src, dst, predicate, reverse_pred=False, mask=None, dtype=None, **_options):
    """dst = src where the predicate holds."""
    src = lower.number(src)
    parts = [dst, src, predicate]
    if mask is not None:
        parts = [part.masked(mask) if isinstance(part, Tensor) else part for part in parts]
        if parts[0] is None:
            return
    state.running().tensor_copy_predicated(parts[0], parts[1], parts[2], bool(reverse_pred))


def memset(shape, value, dtype, *, mask=None, engine=None, **_options):
    """A tile of one value."""
    return lower.emit("memset", shape, dtypes.code(dtype), mask, [], lower.number(value), lower.engine_name(engine))


def reciprocal(data, *, dtype=None, mask=None, **_options):
    """1 / data."""
    return lower.emit("reciprocal", data.shape, _code(dtype, data), mask, [data])


def iota(expr, dtype, *, mask=None, **_options):
    """The values of an index expression."""
    out = lower.new(expr.shape, dtypes.code(dtype))
    state.running().iota(out, expr)
    if mask is not None:
        out.adopt(out, mask)
    return out


def affine_select(pred, on_true_tile, on_false_value, *, mask=None, dtype=None, **_options):
    """The tile where the predicate holds, a constant elsewhere."""
    out = lower.new(on_true_tile.shape, _code(dtype, on_true_tile))
    if mask is not None and (mask is False or (not isinstance(mask, bool) and out.masked(mask) is None)):
        out.set_mask(False)
        return out
    state.running().affine_select(out, on_true_tile, pred, float(lower.number(on_false_value)))
    if mask is not None:
        out.adopt(out, mask)
    return out


def dropout(data, prob, *, mask=None, dtype=None, **_options):
    """Elements set to zero by chance."""
    return lower.emit("dropout", data.shape, _code(dtype, data), mask, [data], masks.operand(_operand(prob), mask))


def bn_stats(data, *, mask=None, dtype=None, **_options):
    """Six statistics of each partition."""
    return _rowwise("bn_stats", lower.new([data.shape[0], 6], _code(dtype, data)), data, mask)


def bn_aggr(data, *, mask=None, dtype=None, **_options):
    """Mean and variance from statistics."""
    return _rowwise("bn_aggr", lower.new([data.shape[0], 2], _code(dtype, data)), data, mask)


def _rowwise(method, out, data, mask, *operands):
    """An instruction whose result and other operands have the partitions that a mask leaves of its data."""
    if mask is None:
        getattr(state.running(), method)(out, data, *operands)
        return out
    rows = masks.left_of(data, mask, method)[0]
    part = data.masked(mask)
    if part is None:
        out.set_mask(False)
        return out
    left = [rows, *((0, size) for size in out.shape[1:])]
    target = masks.boxed(out, left)
    getattr(state.running(), method)(target, part, *(_rows(operand, rows) for operand in operands))
    if target is not out:
        out.adopt(target, masks.of_box(out.shape, left))
    return out


def _rows(tile, rows):
    """The partitions of an operand that a mask leaves of the data."""
    return tile if tile is None else masks.boxed(tile, [rows, *((0, size) for size in tile.shape[1:])])


def max8(*, src, mask=None, dtype=None, **_options):
    """The eight largest of each row."""
    return _rowwise("max8", lower.new([src.shape[0], 8], _code(dtype, src)), src, mask)


def nc_find_index8(*, data, vals, mask=None, dtype=None, **_options):
    """Where eight values are."""
    out = lower.new([data.shape[0], 8], dtypes.CODES["u32"] if dtype is None else dtypes.code(dtype))
    return _rowwise("nc_find_index8", out, data, mask, vals)


def nc_match_replace8(*, data, vals, imm, dst_idx=None, mask=None, dtype=None, **_options):
    """data with eight values replaced."""
    out = lower.new(data.shape, _code(dtype, data))
    part, target = data, out
    if mask is not None:
        rows = masks.left_of(data, mask, "nc_match_replace8")[0]
        part, target = data.masked(mask), out.masked(mask)
        if part is None:
            out.set_mask(False)
            return out
        vals, dst_idx = _rows(vals, rows), _rows(dst_idx, rows)
    state.running().nc_match_replace8(target, part, vals, float(imm), dst_idx)
    if mask is not None:
        out.adopt(target, mask)
    return out


def _all_or_nothing(what, tile, mask):
    """Refuses a mask of an instruction whose elements do not stay where they are."""
    if mask is not None and tile.ranges(mask) != [(0, size) for size in tile.shape]:
        raise refused("neuron/pattern", f"{what} where a mask takes away part of {tuple(tile.shape)}", "a mask that leaves all of it", "copy what is wanted of the result with nl.copy and that mask")


def nc_stream_shuffle(src, dst, shuffle_mask, *, dtype=None, mask=None, **_options):
    """Partitions copied within quadrants."""
    _all_or_nothing("nc_stream_shuffle", dst, mask)
    state.running().nc_stream_shuffle(dst, src, [int(entry) for entry in shuffle_mask])


def _largest(instruction, command, result, op, tile):
    """Where the row maxima beside a selection go, and whether they go on."""
    sums, accumulates = lower.accumulate("vector", command, result, tile.shape[0])
    if sums is not None and op is not None:
        state.running().largest_only(instruction, lower.op_name(op))
    return sums, accumulates


def select_reduce(
    *,
    dst,
    predicate,
    on_true,
    on_false,
    reduce_res=None,
    reduce_cmd=reduce_cmd.idle,
    reduce_op=None,
    reverse_pred=False,
    mask=None,
    dtype=None,
    **_options,
):
    """dst = on_true where the predicate holds, and its row maxima."""
    sums, accumulates = _largest("select_reduce", reduce_cmd, reduce_res, reduce_op, dst)
    on_false = lower.number(on_false)
    parts = [dst, predicate, on_true, on_false]
    if mask is not None:
        masks.left_of(dst, mask, "select_reduce")
        parts = [part.masked(mask) if isinstance(part, Tensor) else part for part in parts]
        if parts[0] is None:
            return
        sums = masks.operand(sums, mask)
    state.running().select_reduce(parts[0], parts[1], parts[2], parts[3], bool(reverse_pred), sums, accumulates)


def range_select(
    *,
    on_true_tile,
    comp_op0,
    comp_op1,
    bound0,
    bound1,
    reduce_cmd=reduce_cmd.idle,
    reduce_res=None,
    reduce_op=None,
    range_start=0,
    on_false_value=-3.4028234663852886e38,
    mask=None,
    dtype=None,
    **_options,
):
    """The tile where its column lies between two bounds, and its row maxima."""
    sums, accumulates = _largest("range_select", reduce_cmd, reduce_res, reduce_op, on_true_tile)
    out = lower.new(on_true_tile.shape, _code(dtype, on_true_tile))
    target, bounds, start = out, [_operand(bound0), _operand(bound1)], float(lower.number(range_start))
    if mask is not None:
        ranges = masks.left_of(on_true_tile, mask, "range_select")
        on_true_tile, target = on_true_tile.masked(mask), out.masked(mask)
        if target is None:
            out.set_mask(False)
            return out
        # Columns are counted from the first that is left.
        start += masks.free_range(out.shape, ranges, "range_select")[0]
        bounds, sums = [masks.operand(bound, mask) for bound in bounds], masks.operand(sums, mask)
    ops = lower.op_name(comp_op0), lower.op_name(comp_op1)
    state.running().range_select(target, on_true_tile, ops, tuple(bounds), start, float(on_false_value), sums, accumulates)
    if mask is not None:
        out.adopt(target, mask)
    return out


def local_gather(src_buffer, index, num_elem_per_idx=1, num_valid_indices=None, *, mask=None, **_options):
    """Gathers shared by 16 partitions."""
    count = lower.free_size(index) * 16 if num_valid_indices is None else int(num_valid_indices)
    each = int(num_elem_per_idx)
    shape = [src_buffer.shape[0], count] + ([each] if each > 1 else [])
    out = lower.new(shape, src_buffer.code)
    _all_or_nothing("local_gather", out, mask)
    state.running().local_gather(out, src_buffer, index, each, count)
    return out


def sequence_bounds(*, segment_ids, dtype=None, **_options):
    """Start and end of the segment of each element."""
    out = lower.new([segment_ids.shape[0], 2, lower.free_size(segment_ids)], _code(dtype, segment_ids))
    state.running().sequence_bounds(out, segment_ids)
    return out


def dma_copy(*, dst, src, mask=None, dst_rmw_op=None, oob_mode=oob_mode.error, dge_mode=None, **_options):
    """A copy between HBM and SBUF."""
    mode = lower.dge_name(dge_mode, _DGE_MODES)
    if dge_mode is not None:
        state.running().check_trigger("dma_copy", mode)
    if getattr(oob_mode, "value", oob_mode) == 1:
        dst, src = dst.skipping(), src.skipping()
    if mask is not None:
        dst, src = dst.masked(mask), src.masked(mask)
        if dst is None:
            return
    state.running().dma_copy(dst, src, None if dst_rmw_op is None else lower.op_name(dst_rmw_op), mode)


def dma_transpose(src, *, axes=None, mask=None, dtype=None, **_options):
    """A transposing copy to SBUF."""
    if axes is not None and len(src.shape) > 2:
        order = state.running().transpose_order(src, [int(axis) for axis in axes])
        out = lower.new([src.shape[axis] for axis in order], _code(dtype, src))
        state.running().dma_transpose(out, src, src.permuted(order))
        return out
    return _dma_transpose(src, _code(dtype, src), mask)


def builtin_custom_op(function_name, *_args, **_options):
    """User operators are not executed."""
    raise NotImplementedError(f"nisa.builtin_custom_op({function_name!r}): user operators cannot be run here")


keywords.check_all(globals())
