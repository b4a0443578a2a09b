"""`nki.language`: what both dialects share. Functions are also the operator tokens of instructions."""

import math

import numpy as np

from tilewright._core import Index, Tensor

from . import dtypes, kernel, keywords, loops, lower, masks, products, refusals, state
from .dtypes import (  # noqa: F401  names of the language
    bfloat16,
    bool_,
    float4_e2m1fn_x4,
    float8_e4m3,
    float8_e4m3fn,
    float8_e4m3fn_x4,
    float8_e5m2,
    float8_e5m2_x4,
    float8_e8m0fnu,
    float16,
    float32,
    int8,
    int16,
    int32,
    tfloat32,
    uint8,
    uint16,
    uint32,
)
from .limits import bfp16, finfo, fp32, sizeinbytes, tile_size  # noqa: F401
from .methods import Buffer
from .registers import Register

sbuf = Buffer.named("sbuf")
psum = Buffer.named("psum")
hbm = Buffer.named("hbm")
private_hbm = Buffer.named("private_hbm")
shared_hbm = Buffer.named("shared_hbm")


# Element-wise operations, one function for each operator.


def _binary(name, doc):
    def function(x, y, dtype=None, mask=None, **_options):
        return lower.binary(name, x, y, dtype, mask)

    function.__name__ = name
    function.__doc__ = doc
    return function


add = _binary("add", "x + y")
subtract = _binary("subtract", "x - y")
multiply = _binary("multiply", "x * y")
divide = _binary("divide", "x / y")
maximum = _binary("maximum", "The larger one.")
minimum = _binary("minimum", "The smaller one.")
power = _binary("power", "x to the y.")
mod = _binary("mod", "Remainder with the sign of y.")
fmod = _binary("fmod", "Remainder with the sign of x.")
abs_max = _binary("abs_max", "The larger magnitude.")
abs_min = _binary("abs_min", "The smaller magnitude.")
bitwise_and = _binary("bitwise_and", "Bits of both.")
bitwise_or = _binary("bitwise_or", "Bits of either.")
bitwise_xor = _binary("bitwise_xor", "Bits of one.")
left_shift = _binary("left_shift", "Bits moved left.")
right_shift = _binary("right_shift", "Bits moved right, zeros in front.")


def _comparison(name):
    def function(x, y, dtype=None, mask=None, **_options):
        return lower.binary(name, x, y, dtype, mask, default=dtypes.U8)

    function.__name__ = name
    function.__doc__ = "1 where it holds, 0 elsewhere."
    return function


equal = _comparison("equal")
not_equal = _comparison("not_equal")
less = _comparison("less")
less_equal = _comparison("less_equal")
greater = _comparison("greater")
greater_equal = _comparison("greater_equal")
logical_and = _comparison("logical_and")
logical_or = _comparison("logical_or")
logical_xor = _comparison("logical_xor")


def _function(name):
    def function(x, dtype=None, mask=None, **_options):
        return lower.unary(name, x, dtype, mask)

    function.__name__ = name
    function.__doc__ = f"{name} of each element, on the Scalar engine."
    return function


for _name in (
    "exp log sqrt rsqrt tanh sigmoid gelu gelu_dx gelu_apprx_tanh gelu_apprx_sigmoid gelu_apprx_sigmoid_dx silu silu_dx "
    "softplus mish erf erf_dx arctan sign square relu"
).split():
    globals()[_name] = _function(_name)
del _name


def prelu(*_operands, **_options):
    """x for x > 0, otherwise x times `relu_param`: the operator of `nisa.activate2`, which has that parameter."""
    raise TypeError("nl.prelu is an operator, not a function; write nisa.activate2(dst, nl.prelu, data, ..., relu_param=slope)")


def abs(x, dtype=None, mask=None, **_options):  # noqa: A001  the language calls it so
    """Magnitude."""
    return lower.scaled(x, "abs", 0.0, dtype, mask)


def negative(x, dtype=None, mask=None, **_options):
    """Sign changed."""
    return lower.scaled(x, "multiply", -1.0, dtype, mask)


def reciprocal(x, dtype=None, mask=None, **_options):
    """1 / x on the Vector engine."""
    code = x.code if dtype is None else dtypes.code(dtype)
    return lower.emit("reciprocal", x.shape, code, mask, [x])


def invert(x, dtype=None, mask=None, **_options):
    """Every bit changed."""
    return lower.scaled(x, "invert", 0, dtype, mask)


def logical_not(x, dtype=None, mask=None, **_options):
    """1 where x is zero."""
    return lower.scaled(x, "logical_not", 0, bool_ if dtype is None else dtype, mask)


def sin(x, dtype=None, mask=None, **_options):
    """Sine of any angle."""
    return lower.sine(x, 0.0, dtype, mask)


def cos(x, dtype=None, mask=None, **_options):
    """Cosine of any angle."""
    return lower.sine(x, math.pi / 2, dtype, mask)


def tan(x, dtype=None, mask=None, **_options):
    """Tangent."""
    return lower.binary("divide", lower.sine(x, 0.0, float32, mask), lower.sine(x, math.pi / 2, float32, mask), dtype or x.dtype, mask)


def floor(x, dtype=None, mask=None, **_options):
    """The next integer below."""
    return lower.rounded(x, "floor", dtype, mask)


def ceil(x, dtype=None, mask=None, **_options):
    """The next integer above."""
    return lower.rounded(x, "ceil", dtype, mask)


def trunc(x, dtype=None, mask=None, **_options):
    """The integer part."""
    return lower.rounded(x, "trunc", dtype, mask)


def copy(src, dtype=None, mask=None, **_options):
    """A copy, cast."""
    return lower.copy(lower.as_tile(src), None if dtype is None else dtypes.code(dtype), mask)


def static_cast(input_data, dtype):
    """A copy of another type; of host arrays too."""
    if not isinstance(input_data, Tensor):
        return np.asarray(input_data).astype(np.dtype(dtype))
    return copy(input_data, dtype)


cast = static_cast


def where(condition, x, y, dtype=None, mask=None, **_options):
    """x where the condition holds, y elsewhere."""
    return lower.select(condition, x, y, dtype, mask)


# Reductions.


def _reduction(name, op):
    def function(x, axis, dtype=None, mask=None, keepdims=False, **_options):
        return lower.reduce(op, x, axis, dtype, mask, keepdims)

    function.__name__ = name
    function.__doc__ = f"{name} over free axes."
    return function


sum = _reduction("sum", "add")  # noqa: A001
prod = _reduction("prod", "multiply")
max = _reduction("max", "maximum")  # noqa: A001
min = _reduction("min", "minimum")  # noqa: A001


def all(x, axis, dtype=bool_, mask=None, **_options):  # noqa: A001
    """1 where every element is true."""
    return lower.reduce("logical_and", x, axis, dtype, mask)


def mean(x, axis, dtype=None, mask=None, keepdims=False, **_options):
    """Mean over free axes."""
    count = math.prod(x.shape[at] for at in lower.axes_of(axis, len(x.shape)))
    total = lower.reduce("add", x, axis, float32, mask, keepdims)
    return lower.scaled(total, "multiply", 1.0 / count, x.dtype if dtype is None else dtype, total.mask)


def var(x, axis, dtype=None, mask=None, **_options):
    """Variance over free axes, which stay with size 1."""
    average = mean(x, axis, float32, mask, keepdims=True)
    difference = lower.binary("subtract", x, average, float32, mask)
    squares = lower.unary("square", difference, float32, mask)
    return mean(squares, axis, x.dtype if dtype is None else dtype, mask, keepdims=True)


def softmax(x, axis=-1, dtype=None, compute_dtype=None, mask=None, **_options):
    """exp(x - max) over its sum."""
    largest = lower.reduce("maximum", x, axis, float32, mask, True, negate=True)
    shifted = lower.binary("add", x, largest, float32, mask)
    powers = lower.unary("exp", shifted, float32, mask)
    total = lower.reduce("add", powers, axis, float32, mask, True)
    inverse = lower.emit("reciprocal", total.shape, dtypes.F32, total.mask, [total])
    return lower.binary("multiply", powers, inverse, x.dtype if dtype is None else dtype, mask)


def rms_norm(x, w, axis, n, epsilon=1e-6, dtype=None, compute_dtype=None, mask=None, **_options):
    """x times w over the root of its mean square."""
    squares = lower.unary("square", x, float32, mask)
    total = lower.reduce("add", squares, axis, float32, mask, True)
    inverse = lower.emit(
        "tensor_scalar", total.shape, dtypes.F32, total.mask, [total], "multiply", 1.0 / n, False, "add", float(epsilon), False
    )
    inverse = lower.emit("activation", inverse.shape, dtypes.F32, inverse.mask, [inverse], "rsqrt")
    normal = lower.binary("multiply", x, inverse, float32, mask)
    return lower.binary("multiply", normal, w, x.dtype if dtype is None else dtype, mask)


# Tensors.


def _memory(buffer):
    if buffer is None:
        return "sbuf"
    if isinstance(buffer, str):
        return buffer
    return buffer.name


def ndarray(shape, dtype=None, buffer=None, name="", address=None, **_options):
    """A tensor that nobody wrote to."""
    if isinstance(shape, (int, np.integer)):
        shape = (shape,)
    memory = _memory(buffer)
    session = state.running()
    sizes = refusals.sizes(shape, "a tensor")
    code = dtypes.F32 if dtype is None else dtypes.code(dtype)
    program = state.program
    if memory == "shared_hbm" and program.shared is not None:
        return _shared(session, sizes, code, name, program)
    blocks = loops.blocks_of(shape)
    places = []
    if address is not None:
        places = _address(address)
    elif getattr(buffer, "place", None) is not None and (here := session.here()) not in program.placed:
        # A loop body was traced once: the first visit of a line says where its tile lies.
        program.placed.add(here)
        places = buffer.place(sizes, blocks, dtypes.size(code))
    return session.alloc(sizes, code, memory, blocks, name or "", places)


def _address(place):
    partition, offset = place
    if partition is None or offset is None:
        return []
    return [(refusals.not_negative(partition, "a tile at partition"), refusals.not_negative(offset, "a tile at byte"))]


def _shared(session, sizes, code, name, program):
    """The tensor that the first program of the launch made at this place in its order."""
    shared, at = program.shared, program.at
    program.at += 1
    if at < len(shared.made):
        made = shared.made[at]
        if list(made.shape) == sizes:
            return made
    tensor = session.alloc(sizes, code, "shared_hbm", 0, name or "")
    shared.made.insert(at, tensor)
    return tensor


def full(shape, fill_value, dtype=None, buffer=None, name="", lazy_initialization=False, **_options):
    """A tensor of one value."""
    tensor = ndarray(shape, dtype, buffer, name)
    _fill(tensor, lower.number(fill_value))
    return tensor


def _fill(tensor, value):
    session = state.running()
    if tensor.memory == "psum" or not tensor.on_chip:
        # The first matmul of a group overwrites PSUM; HBM is filled when the program is loaded.
        session.preset(tensor, value)
    elif tensor.blocks:
        for place in np.ndindex(*tensor.shape[: tensor.blocks]):
            session.memset(tensor[tuple(int(at) for at in place)], value)
    else:
        session.memset(tensor, value)


def zeros(shape, dtype=None, buffer=None, name="", **_options):
    """A tensor of zeros."""
    return full(shape, 0, dtype, buffer, name)


def ones(shape, dtype=None, buffer=None, name="", **_options):
    """A tensor of ones."""
    return full(shape, 1, dtype, buffer, name)


def zeros_like(x, dtype=None, buffer=None, name="", **_options):
    """Zeros with the shape and type of another tensor."""
    return full(x.shape, 0, dtype or x.dtype, buffer or x.buffer, name)


def empty_like(x, dtype=None, buffer=None, name="", **_options):
    """A tensor with the shape and type of another."""
    return ndarray(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def rand(shape, dtype=float32, buffer=None, name="", **_options):
    """Uniform random numbers in [0, 1)."""
    out = ndarray(lower.tile_shape(list(shape)), dtype, buffer, name)
    state.running().memset(out, 0)
    state.running().random(out)
    return out


def random_seed(seed, mask=None, **_options):
    """Seeds the generator from a tile."""
    value = seed.integer() if isinstance(seed, Tensor) and seed.size == 1 else 0 if isinstance(seed, Tensor) else int(seed)
    state.running().set_seed(value & 0xFFFFFFFFFFFFFFFF)


def dropout(x, rate, dtype=None, mask=None, **_options):
    """Elements set to zero by chance."""
    code = x.code if dtype is None else dtypes.code(dtype)
    return lower.emit("dropout", x.shape, code, mask, [x], lower.number(rate))


def constant(array, dtype=None):
    """An array that the executable carries, in HBM."""
    if isinstance(array, str):
        array = np.load(array)
    array = np.asarray(array)
    if dtype is not None:
        wanted = dtypes.code(dtype)
        array = array.astype(np.float32 if wanted == dtypes.CODES["tf32"] else dtypes.by_code(wanted))
    array = dtypes.device_array(array)
    return state.running().input(array.reshape(-1).view(np.uint8), list(array.shape), dtypes.code(array.dtype), "constant")


shared_constant = constant


def broadcast_to(src, shape=None, **_options):
    """Dimensions of size 1 repeated."""
    return src.broadcast_to(tuple(shape))


def expand_dims(data, axis):
    """A new dimension of size 1."""
    return data.expanded(axis)


def matmul(x, y, transpose_x=False, mask=None, **_options):
    """x @ y in PSUM; with transpose_x, x comes as [K, M]."""
    return products.matmul(x, y, transpose_x, mask)


def transpose(x, dtype=None, mask=None, **_options):
    """Partitions and free dimensions swapped."""
    out = products.transpose(x, dtype, mask)
    return lower.copy(out, None, out.mask) if out.memory == "psum" else out


def load(src, mask=None, dtype=None, mode=None, **_options):
    """An HBM view in a new tile."""
    return lower.load(src, dtype, mask)


def store(dst, value, mask=None, mode=None, **_options):
    """A tile to an HBM view."""
    lower.store(dst, value, mask)


def load_transpose2d(src, mask=None, dtype=None, **_options):
    """An HBM view, transposed, in a new tile."""
    code = src.code if dtype is None else dtypes.code(dtype)
    return _dma_transpose(src, code, mask)


def _dma_transpose(src, code, mask=None):
    """A transposing DMA into a new tile; only what the mask leaves is written."""
    whole = list(src.shape)
    out = lower.new([math.prod(whole[1:]), whole[0]], code)
    part, target = src, out
    if mask is not None:
        ranges, part = masks.left_of(src, mask, "dma_transpose"), src.masked(mask)
        if part is None:
            out.set_mask(False)
            return out
        left = [masks.free_range(whole, ranges, "dma_transpose"), ranges[0]]
        target = masks.boxed(out, left)
    order = list(range(1, len(part.shape))) + [0]
    state.running().dma_transpose(target, part, part.permuted(order))
    if target is not out:
        out.adopt(target, masks.of_box(out.shape, left))
    return out


def gather_flattened(data, indices, axis=0, dtype=None, mask=None, **_options):
    """Elements of each partition picked by index."""
    return lower.emit("gather", indices.shape, data.code, mask, [data, indices])


def device_print(prefix, x=None, mask=None, **options):
    """Prints a tile."""
    tensor = options.get("tensor", x)
    print(prefix, tensor.numpy() if isinstance(tensor, Tensor) else tensor)


# Programs and loops.


def program_id(axis=0):
    """The place of this program in the launch grid."""
    place = state.program.place
    return place[_grid_axis(axis, place)] if place else 0


def _grid_axis(axis, grid):
    """An axis of the launch grid."""
    if not -len(grid) <= axis < len(grid):
        raise refusals.refused("neuron/launch", f"axis {axis} of a launch grid of {len(grid)} dimensions", "axes that the grid has", "launch the kernel on a grid with more dimensions")
    return axis


def num_programs(axes=None):
    """Programs of the launch, in all or along axes."""
    grid = state.program.grid
    if axes is None:
        return math.prod(grid) if grid else 1
    if isinstance(axes, (tuple, list)):
        return math.prod(grid[_grid_axis(axis, grid)] for axis in axes) if grid else 1
    return grid[_grid_axis(axes, grid)] if grid else 1


def program_ndim():
    """Dimensions of the launch grid."""
    return len(state.program.grid)


sequential_range = static_range = loops.counted
#: Iterations that do not depend on each other: what the compiler of the first dialect relies on.
affine_range = loops.independent


def ds(start, size):
    """A slice by its start and size."""
    if isinstance(start, Tensor):
        # The tile stays in the slice: what is cut out lies where it says.
        return slice(start, int(start) + size)
    if isinstance(start, Register):
        start = start.number()
    if isinstance(start, Index):
        return start + Index.arange(0, size)
    return slice(start, start + size)


def nc(count):
    """Cores of a launch grid."""
    return kernel.Dim(count)


def spmd_dim(count, cores=1):
    """A size of a launch grid that is spread over cores."""
    return kernel.Dim(int(count) * int(cores))


class no_reorder:
    """Keeps program order on each engine, in all of the kernel."""

    def __enter__(self):
        if state.program.session is not None:
            state.program.session.in_order = True
        return self

    def __exit__(self, *_error):
        return False

    def __call__(self, func):
        return func


keywords.check_all(globals())
