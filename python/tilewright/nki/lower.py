"""What language-level operations are on the machine: one or more instructions, into a new tile or a given one."""

import math
import types

import numpy as np

from tilewright._core import Index, Tensor, promote

from . import dtypes, masks, state, team
from .enums import matmul_perf_mode, reduce_cmd
from .refusals import refused

#: Types that need no conversion.
_PLAIN = frozenset((int, float, bool, type(None), Tensor))


def number(value):
    """A Python number, from NumPy's or ours."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    if isinstance(value, (np.number, np.bool_)):
        return value.item()
    return value


#: Names of operators that were asked for before: NumPy's functions make theirs anew each time.
_OP_NAMES = {}


def op_name(op):
    """The name of an operator given as a function, NumPy function or string."""
    try:
        return _OP_NAMES[op]
    except (KeyError, TypeError):
        pass
    name = op if isinstance(op, str) else getattr(op, "__name__", None)
    if name is None:
        raise TypeError(f"{op!r} is not an operator")
    if isinstance(op, (str, np.ufunc, types.FunctionType)):
        _OP_NAMES[op] = name
    return name


_ENGINES = {0: "", 1: "tensor", 2: "scalar", 3: "gpsimd", 4: "dma", 5: "vector", 6: "sync"}


def engine_name(engine):
    """The name of an engine, empty if it is left to be chosen."""
    if engine is None:
        return ""
    name = getattr(engine, "name", None)
    if name is not None:
        return "" if name == "unknown" else name
    return engine if isinstance(engine, str) else _ENGINES.get(int(engine), "")


#: Ways to make descriptors by the numbers of the second dialect; the first has others (`old.isa.dge_mode`).
_DGE_MODES = {0: "unknown", 1: "swdge", 2: "hwdge", 3: "none"}


def dge_name(mode, numbers=_DGE_MODES):
    """The name of a way to make descriptors."""
    if mode is None:
        return "unknown"
    name = getattr(mode, "name", mode)
    return numbers.get(name, str(name)) if isinstance(name, int) else str(name)


def double_row(perf_mode):
    """True if the tensor engine takes two rows in one pass."""
    name = getattr(perf_mode, "value", perf_mode) or "none"
    known = [mode.value for mode in matmul_perf_mode]
    if name not in known:
        raise refused("neuron/operand", f"the perf_mode {perf_mode!r}", ", ".join(known), "leave perf_mode out, or name one of these")
    return name != "none"


def array_part(position, size):
    """First row and column, rows and columns of the part of the array that is asked for; None for all of it."""
    if not position and not size:
        return None
    if not position or not size:
        raise ValueError("tile_position and tile_size go together")
    return [int(one) for one in (*position, *size)]


def free_size(tile):
    """Elements of a partition."""
    return tile.size // max(1, tile.shape[0])


def tile_shape(shape):
    """The shape of an on-chip tile: at least two dimensions."""
    if len(shape) >= 2:
        return shape
    return list(shape) + [1] * (2 - len(shape))


def new(shape, code, memory="sbuf"):
    """A new tile."""
    return state.running().alloc(tile_shape(shape), code, memory)


def emit(method, shape, code, mask, tiles, *args, memory="sbuf", out_mask=None):
    """Runs an instruction into a new tile of that shape, or shaped as a tensor, where the mask holds."""
    session = state.program.session or state.running()
    run = getattr(session, method)
    if mask is None:
        out = session.result(shape, code, memory)
        run(out, *tiles, *args)
        return out
    out = new(shape.shape if type(shape) is Tensor else shape, code, memory)
    parts = [tile.masked(mask) if isinstance(tile, Tensor) else tile for tile in tiles]
    target = out.masked(mask if out_mask is None else out_mask)
    if target is not None and all(part is not None for part in parts):
        run(target, *parts, *args)
        out.adopt(target, mask if out_mask is None else out_mask)
    else:
        out.set_mask(False)
    return out


def broadcast_shapes(a, b):
    """The shape that two tiles are repeated to."""
    rank = max(len(a), len(b))
    # Missing free dimensions are added behind the partition dimension of the smaller one.
    a, b = _pad(a, rank), _pad(b, rank)
    out = []
    for x, y in zip(a, b):
        if x != y and x != 1 and y != 1:
            raise ValueError(f"shapes {tuple(a)} and {tuple(b)} do not fit")
        out.append(y if x == 1 else x)
    return out


def _pad(shape, rank):
    missing = rank - len(shape)
    return [shape[0]] + [1] * missing + list(shape[1:]) if missing else list(shape)


def fit(tile, shape):
    """A view of a tile with that shape; partitions are repeated by a copy."""
    if list(tile.shape) == list(shape):
        return tile
    padded = _pad(list(tile.shape), len(shape))
    if padded != list(tile.shape):
        tile = tile.reshaped(padded)
    if padded[0] == 1 and shape[0] > 1:
        tile = repeat_partitions(tile, shape[0])
    return tile.broadcasted(list(shape))


#: Elements of a row that the tensor engine spreads at once, and fewest for which it does.
_ROW_MOST, _ROW_LEAST = 512, 64


def repeat_partitions(tile, count):
    """A row on every partition: by the tensor engine, where it stays if it fits a bank of PSUM; short rows by a copy."""
    session = state.running()
    shape = [count] + list(tile.shape[1:])
    columns = tile.size
    if columns < _ROW_LEAST or tile.memory != "sbuf" or tile.code not in _FLOATS:
        out = new(shape, tile.code)
        session.tensor_copy(out, tile.broadcasted(shape))
        return out
    if columns <= _ROW_MOST:
        out = new(shape, tile.code, "psum")
        session.partition_broadcast(out, tile)
        state.program.chosen_psum.add(out.storage_id)
        return out
    flat, out = tile.reshaped([1, columns]), new([count, columns], tile.code)
    for start in range(0, columns, _ROW_MOST):
        stop = min(start + _ROW_MOST, columns)
        part = new([count, stop - start], tile.code, "psum")
        session.partition_broadcast(part, flat[:, start:stop])
        session.activation(out[:, start:stop], part, "copy")
    return out.reshaped(shape)


def in_sbuf(tile):
    """The tile, or a copy in SBUF if it is in PSUM without the kernel asking for it: a row that was spread, a transpose."""
    if tile.memory == "psum" and tile.storage_id in state.program.chosen_psum:
        return _carry_mask(tile, copy(tile))
    return tile


def as_tile(value):
    """On-chip values as they are; index expressions as iota tiles."""
    if type(value) is Tensor and value.on_chip:
        return value
    if isinstance(value, Index):
        out = new(value.shape, dtypes.I32)
        state.running().iota(out, value)
        return out
    if isinstance(value, Tensor) and not value.on_chip:
        return load(value)
    return value


def scalar_code(value):
    """The type that an untyped number counts as."""
    if isinstance(value, (bool, np.bool_)):
        return dtypes.U8
    return dtypes.F32 if isinstance(value, float) else dtypes.I32


def binary(op, x, y, dtype=None, mask=None, engine="", default=None):
    """x op y. A comparison is what has a type by default."""
    if default is not None:
        made = _binary(op, x, y, dtype, mask, engine, default)
        made.set_compared()
        return made
    return _binary(op, x, y, dtype, mask, engine, None)


def _binary(op, x, y, dtype, mask, engine, default):
    x, y = as_tile(x), as_tile(y)
    if mask is None and type(x) is Tensor and type(y) is Tensor and op not in _BITWISE and x.shape == y.shape and x.memory == "sbuf" and x.ndim <= 5:
        # The commonest case: two tiles of one shape.
        code = dtypes.code(dtype) if dtype is not None else default if default is not None else promote(x.code, y.code)
        code = dtypes.F32 if op == "divide" and code not in _FLOATS and dtype is None and default is None else code
        return emit("tensor_tensor", x, code, None, (x, y), op, engine)
    x, y = number(x), number(y)
    x_tile, y_tile = isinstance(x, Tensor), isinstance(y, Tensor)
    if not x_tile and not y_tile:
        raise TypeError(f"{op} of two numbers inside a kernel")
    if dtype is not None:
        code = dtypes.code(dtype)
    elif default is not None:
        code = default
    elif op in _BITWISE:
        # Words stay words: promotion of signed and unsigned 32-bit integers would make FP32 of them.
        code = x.code if x_tile else y.code
        code = max(code, y.code, key=dtypes.size) if x_tile and y_tile else code
    else:
        code = promote(x.code if x_tile else scalar_code(x), y.code if y_tile else scalar_code(y))
        if op == "divide" and code not in _FLOATS:
            code = dtypes.F32
    if x_tile and y_tile:
        return _binary_tiles(op, x, y, code, mask, engine)
    tile, value, reverse = (x, y, False) if x_tile else (y, x, True)
    return emit("tensor_scalar", tile, code, mask, (tile,), op, value, reverse, None, None, False, engine)


_BITWISE = frozenset(("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"))
_FLOATS = {dtypes.CODES[name] for name in ("f32", "tf32", "bf16", "f16", "f8e4m3fn", "f8e4m3", "f8e5m2")}


def _binary_tiles(op, x, y, code, mask, engine):
    shape = broadcast_shapes(x.shape, y.shape)
    wide = x.code in _FLOATS or y.code in _FLOATS
    for tile, other, reverse in ((x, y, False), (y, x, True)):
        # One value for each partition is an operand of tensor_scalar.
        per_partition = other.size == other.shape[0] and list(tile.shape) == shape and tile.size > tile.shape[0]
        if per_partition and wide and other.shape[0] == shape[0] and op not in _PAIRED:
            operand = masks.operand(other.reshaped([other.shape[0], 1]), mask)
            return emit("tensor_scalar", shape, code, mask, (tile,), op, operand, reverse, None, None, False, engine)
    x, y = fit(x, shape), fit(y, shape)
    if x.memory == "psum" and y.memory == "psum":
        y = copy(y, y.code)
    if mask is None and len(shape) > 5:
        x, y = x.reshaped([shape[0], -1]), y.reshaped([shape[0], -1])
    return emit("tensor_tensor", shape, code, mask, [x, y], op, engine)


_PAIRED = {"bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "power"}


def unary(function, x, dtype=None, mask=None):
    """function(x) on the Scalar engine."""
    x = as_tile(x)
    code = x.code if dtype is None else dtypes.code(dtype)
    if code not in _FLOATS and dtype is None and function not in ("relu", "square", "abs", "sign", "copy"):
        code = dtypes.F32
    return emit("activation", x, code, mask, [x], function)


def scaled(x, op, value, dtype=None, mask=None):
    """x op value on the Vector engine."""
    x = as_tile(x)
    return emit("tensor_scalar", x, x.code if dtype is None else dtypes.code(dtype), mask, [x], op, value)


def copy(x, code=None, mask=None, engine=""):
    """A copy of a tile, cast."""
    return emit("tensor_copy", x, x.code if code is None else code, mask, [x], engine)


def sine(x, shift, dtype=None, mask=None):
    """sin(x + shift) with the argument brought to [-pi, pi] first."""
    turned = emit(
        "tensor_scalar", x, dtypes.F32, mask, [x], "add", shift + math.pi, False, "mod", 2 * math.pi, False
    )
    centred = emit("tensor_scalar", x, dtypes.F32, mask, [turned], "subtract", math.pi)
    return emit("activation", x, x.code if dtype is None else dtypes.code(dtype), mask, [centred], "sin")


def rounded(x, how, dtype=None, mask=None):
    """floor, ceil or trunc."""
    code = x.code if dtype is None else dtypes.code(dtype)
    if how == "ceil":
        return scaled(rounded(scaled(x, "multiply", -1.0, np.float32, mask), "floor", None, mask), "multiply", -1.0, dtypes.NAMES[code], mask)
    part = emit("tensor_scalar", x, dtypes.F32, mask, [x], "mod" if how == "floor" else "fmod", 1.0)
    return emit("tensor_tensor", x, code, mask, [x, part], "subtract", "")


def axes_of(axis, rank):
    """Axes as a sorted list of non-negative numbers."""
    axes = [axis] if isinstance(axis, (int, np.integer)) else list(axis)
    axes = sorted({int(one) + rank if one < 0 else int(one) for one in axes})
    if not axes or axes[-1] >= rank:
        raise ValueError(f"axes {axis} of a tile of {rank} dimensions")
    if axes[0] == 0:
        raise ValueError("the partition dimension cannot be reduced on the Vector engine: use nc_matmul or tensor_partition_reduce")
    return axes


def reduce_shape(shape, axes, keepdims):
    """The shape that is left."""
    return [1 if at in axes else size for at, size in enumerate(shape) if keepdims or at not in axes]


def reduce(op, x, axis, dtype=None, mask=None, keepdims=False, negate=False):
    """x reduced over free axes."""
    x = as_tile(x)
    axes = axes_of(axis, len(x.shape))
    code = x.code if dtype is None else dtypes.code(dtype)
    out = new(reduce_shape(x.shape, axes, keepdims), code)
    if mask is None:
        reduce_into(out, op, x, axes, negate)
        return out
    ranges, x = masks.left_of(x, mask, f"reduction with {op}"), x.masked(mask)
    if x is None:
        out.set_mask(False)
        return out
    # Only what is left of the kept axes is written.
    left = [(0, 1) if at in axes else one for at, one in enumerate(ranges) if keepdims or at not in axes]
    left += [(0, 1)] * (len(out.shape) - len(left))
    target = masks.boxed(out, left)
    reduce_into(target, op, x, axes, negate)
    if target is not out:
        out.adopt(target, masks.of_box(out.shape, left))
    return out


def reduce_over_all(op, x, axis, dtype=None, keepdims=False):
    """x reduced over any axes, the partition axis among them: free axes first, then over partitions on GpSimd."""
    x = as_tile(x)
    rank = len(x.shape)
    axes = sorted({int(one) + rank if one < 0 else int(one) for one in ([axis] if isinstance(axis, (int, np.integer)) else axis)})
    if not axes or axes[0] != 0 or axes[-1] >= rank:
        return reduce(op, x, axis, dtype, None, keepdims)
    code = x.code if dtype is None else dtypes.code(dtype)
    free = axes[1:]
    part = reduce(op, x, free, dtypes.NAMES[code], None, True) if free else in_sbuf(x)
    flat = part.reshaped([part.shape[0], -1])
    out = new([1, flat.shape[1]], code)
    state.running().tensor_partition_reduce(out, flat, op)
    kept = [1 if at in axes else size for at, size in enumerate(x.shape) if keepdims or at not in free]
    return out.reshaped(kept if len(kept) > 1 else [1, kept[0] if kept else 1])


def reduce_into(dst, op, x, axes, negate=False):
    """A reduction into a given tile."""
    kept = [at for at in range(len(x.shape)) if at not in axes]
    order = kept + axes
    if order != list(range(len(x.shape))):
        x = x.permuted(order)
    state.running().tensor_reduce(dst, x, op, len(axes), negate)


def load(src, dtype=None, mask=None):
    """An HBM view in a new SBUF tile."""
    code = src.code if dtype is None else dtypes.code(dtype)
    return emit("dma_copy", src, code, mask, [src])


def store(dst, value, mask=None):
    """A tile to an HBM view."""
    session = state.running()
    value = number(value)
    if not isinstance(value, Tensor):
        tile = new(dst.shape, dst.code)
        session.memset(tile, value)
        value = tile
    if mask is None and value.has_mask:
        mask = value.mask
    if value.shape != dst.shape:
        value = conform(value, dst.shape)
    if mask is not None:
        dst, value = dst.masked(mask), value.masked(mask)
        if dst is None or value is None:
            return
    session.dma_copy(dst, copy(value) if value.memory == "psum" else value)
    team.stored(dst)


def _carry_mask(old, fresh):
    if old.has_mask:
        fresh.adopt(fresh, old.mask)
    return fresh


def conform(value, shape):
    """A view of as many elements with another shape, or a broadcast one."""
    shape = list(shape)
    if value.size == math.prod(shape):
        if [size for size in value.shape if size != 1] == [size for size in shape if size != 1]:
            return value.reshaped(shape)
        return value.reshaped(shape)
    mine = list(value.shape)
    # Unit dimensions come and go.
    while len(mine) > len(shape) and 1 in mine:
        mine.remove(1)
    if len(mine) != len(value.shape):
        value = value.reshaped(mine)
    if len(mine) < len(shape):
        value = value.reshaped(_pad(mine, len(shape)))
    if value.on_chip and value.shape[0] == 1 and shape[0] > 1:
        value = repeat_partitions(value, shape[0])
    return value.broadcasted(shape)


def assign(target, value, temporary):
    """target[...] = value: the instruction that made value writes target itself if nobody else holds value.

    Where that is all there is to do, it is done before this is asked."""
    session = state.running()
    value = number(value)
    if isinstance(value, Index):
        value = as_tile(value)
    if not isinstance(value, Tensor):
        if target.on_chip:
            session.memset(target, value)
        else:
            store(target, value)
        return
    mask = value.mask if value.has_mask else None
    if value.shape != target.shape:
        fresh = value
        value = conform(value, target.shape)
        if fresh.is_fresh and value.size == fresh.size:
            value.adopt(fresh, True)
            if mask is not None and len(mask.shape) > len(target.shape):
                mask = None
    part, target = value, target
    if mask is not None:
        part, target = value.masked(mask), target.masked(mask)
        if part is None or target is None:
            return
        if value.is_fresh:
            part.adopt(value, True)
    if temporary and session.reaches(part, target):
        session.retarget(target, part, False)
    elif target.on_chip and part.on_chip:
        session.tensor_copy(target, part)
    else:
        session.dma_copy(target, part)


def iadd(target, value, temporary):
    """target += value; a matmul adds to PSUM by itself."""
    session = state.running()
    value = number(value)
    if isinstance(value, Tensor) and temporary and target.memory == "psum" and session.producer(value) == "nc_matmul":
        mask = value.mask if value.has_mask else None
        part = value
        if mask is not None:
            part, target = value.masked(mask), target.masked(mask)
            if part is None or target is None:
                return
            part.adopt(value, True)
        if part.shape != target.shape:
            fresh, part = part, part.reshaped(list(target.shape))
            part.adopt(fresh, True)
        session.retarget(target, part, True)
        return
    combine_into(target, "add", value)


def combine_into(target, op, value):
    """target = target op value."""
    session = state.running()
    if not isinstance(value, Tensor):
        session.tensor_scalar(target, target, op, value)
        return
    mask = value.mask if value.has_mask else None
    value = as_tile(value)
    if value.shape != target.shape:
        value = conform(value, target.shape)
    if mask is not None:
        value, target = value.masked(mask), target.masked(mask)
        if value is None or target is None:
            return
    if value.memory == "psum" and target.memory == "psum":
        value = copy(value)
    session.tensor_tensor(target, target, value, op)


_REDUCE, _RESET_REDUCE, _LOAD_REDUCE = 2, 3, 4
#: The command that leaves the lanes alone.
IDLE = reduce_cmd.idle


def accumulate(engine, command, result, partitions, initial=None):
    """The tile that an instruction's running values go to, and whether it goes on from what is there.

    Running values stay in the lanes between instructions; a result tile gets them when one is given. `initial` is what
    the lanes are loaded with first, if the command says so: a number or a tile."""
    if result is None and command is IDLE:
        return None, False
    number = int(getattr(command, "value", command))
    if number not in (_REDUCE, _RESET_REDUCE, _LOAD_REDUCE):
        return None, False
    if number == _LOAD_REDUCE and initial is not None:
        if result is None:
            result = state.program.lanes[engine, partitions] = new([partitions, 1], dtypes.F32)
        if isinstance(initial, Tensor):
            state.running().retarget(result, initial, False)
        else:
            state.running().preset(result, float(initial))
        return result, True
    lanes = state.program.lanes.get((engine, partitions))
    accumulates = number != _RESET_REDUCE
    if result is None:
        if lanes is None or not accumulates:
            lanes = state.program.lanes[engine, partitions] = new([partitions, 1], dtypes.F32)
            accumulates = False
        return lanes, accumulates
    if accumulates and number == _REDUCE and lanes is not None:
        state.running().retarget(result, lanes, False)
    return result, accumulates


def cumulative(dst, src, op0, op1, imm0, imm1, command):
    """A running reduction along the free dimension, which goes on where the last one ended if the command says so."""
    number = int(getattr(command, "value", command))
    lanes = state.program.lanes
    key = ("vector", src.shape[0])
    initial = imm1 if number == _LOAD_REDUCE else lanes.get(key) if number == _REDUCE else None
    state.running().tensor_scalar_cumulative(dst, src, op0, imm0, op1, initial)
    last = dst.reshaped([dst.shape[0], -1])
    held = lanes[key] = new([src.shape[0], 1], dtypes.F32)
    state.running().retarget(held, last[:, last.shape[1] - 1 : last.shape[1]], False)


def select(condition, x, y, dtype=None, mask=None):
    """x where the condition holds, y elsewhere."""
    condition, x, y = as_tile(condition), number(as_tile(x)), number(as_tile(y))
    shape = list(condition.shape)
    for value in (x, y):
        if isinstance(value, Tensor):
            shape = broadcast_shapes(shape, value.shape)
    codes = [value.code if isinstance(value, Tensor) else scalar_code(value) for value in (x, y)]
    code = promote(*codes) if dtype is None else dtypes.code(dtype)
    session = state.running()
    out = new(shape, code)
    target = out
    operands = [fit(value, shape) if isinstance(value, Tensor) else value for value in (condition, x, y)]
    if mask is not None:
        target = out.masked(mask)
        if target is None:
            out.set_mask(False)
            return out
        operands = [value.masked(mask) if isinstance(value, Tensor) else value for value in operands]
    condition, x, y = operands
    if isinstance(y, Tensor):
        session.tensor_copy(target, y)
    else:
        session.memset(target, y)
    session.tensor_copy_predicated(target, x, condition, False, False)
    if mask is not None:
        out.adopt(target, mask)
    return out
