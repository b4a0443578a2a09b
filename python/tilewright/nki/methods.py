"""Methods of tensors that kernels of both dialects call."""

import math
import sys

import numpy as np

from tilewright import _core
from tilewright._core import Tensor

from . import dtypes, lower, registers, state, ufuncs
from .refusals import not_negative, refused, whole


def _shape_of(args, shape):
    if shape is not None:
        args = (shape,)
    if len(args) == 1 and not isinstance(args[0], (int, np.integer)):
        args = tuple(args[0])
    return [int(size) for size in args]


def reshape(self, *args, shape=None):
    """The same elements in another shape."""
    return self.reshaped(_shape_of(args, shape))


def broadcast_to(self, *args, shape=None):
    """Dimensions of size 1 repeated."""
    shape = _shape_of(args, shape)
    if self.on_chip:
        return lower.fit(self, shape)
    return self.broadcasted(shape)


def astype(self, dtype):
    """A copy of another type."""
    return lower.copy(self, dtypes.code(dtype))


def view(self, dtype):
    """The same bytes as another type."""
    return self.reinterpreted(dtypes.code(dtype))


def expand_dims(self, axis):
    """A new dimension of size 1."""
    return self.expanded(axis)


def assert_shape(self, shape):
    """The tensor itself, if it has that shape."""
    if tuple(self.shape) != tuple(shape):
        raise AssertionError(f"shape {tuple(self.shape)}, not {tuple(shape)}")
    return self


def slice_(self, dim, start, end, step=1):
    """A slice of one dimension."""
    first, last = not_negative(int(start), "a slice from element"), int(end)
    return registers.placed(self.sliced(dim, first, max(0, -(-(last - first) // step)), step), start)


def _axis(self, dim, what):
    """The number of a dimension, which may be counted from the last."""
    found, rank = whole(dim, f"{what} of dimension"), len(self.shape)
    if not -rank <= found < rank:
        asked = f"{what} of dimension {found} of a tensor of shape {tuple(self.shape)}"
        allowed = f"dimensions 0 to {rank - 1}"
        raise refused("neuron/shape", asked, allowed, "count from 0, or from the last with -1")
    return found % rank


def select(self, dim, index):
    """A dimension dropped at one of its steps; partitions of on-chip tensors are kept."""
    key = [slice(None)] * len(self.shape)
    key[_axis(self, dim, "select")] = index
    return self[tuple(key)]


def permute(self, *dims):
    """Dimensions in another order."""
    if len(dims) == 1 and not isinstance(dims[0], int):
        dims = dims[0]
    return self.permuted([int(dim) for dim in dims])


def broadcast(self, dim, size):
    """A dimension of size 1 repeated."""
    shape = list(self.shape)
    shape[dim] = int(size)
    return self.broadcasted(shape)


def reshape_dim(self, dim, shape):
    """One dimension split into several."""
    dim = _axis(self, dim, "reshape_dim")
    shape = [int(size) for size in shape]
    if -1 in shape:
        known = -math.prod(shape)
        shape[shape.index(-1)] = self.shape[dim] // known if known else 0
    return self.reshaped(list(self.shape[:dim]) + shape + list(self.shape[dim + 1 :]))


def flatten_dims(self, start_dim, end_dim):
    """Several dimensions made one."""
    start, end = _axis(self, start_dim, "flatten_dims"), _axis(self, end_dim, "flatten_dims")
    if start > end:
        asked = f"flatten_dims from dimension {start} to {end}"
        raise refused("neuron/shape", asked, "a first dimension that is not behind the last", "swap the two")
    merged = math.prod(self.shape[start : end + 1])
    return self.reshaped(list(self.shape[:start]) + [merged] + list(self.shape[end + 1 :]))


def squeeze_dim(self, dim):
    """Without a dimension of size 1."""
    return self.squeezed(dim)


def expand_dim(self, dim):
    """A new dimension of size 1."""
    return self.expanded(dim)


def _register_value(value):
    if isinstance(value, Tensor):
        return value.integer()
    return int(value)


def _step(pair):
    """Stride and count of one dimension of an access pattern."""
    if not isinstance(pair, (list, tuple)) or len(pair) != 2:
        raise refused("neuron/pattern", f"an access pattern with {pair!r} in it", "pairs [stride, count]", "give one pair for each dimension")
    return whole(pair[0], "a step of"), not_negative(pair[1], "an access pattern with a count of")


def ap(self, pattern, offset=0, scalar_offset=None, vector_offset=None, indirect_dim=0, dtype=None):
    """An access pattern of [stride, count] pairs over the whole tensor, with offsets known only at run time."""
    pattern = [_step(pair) for pair in pattern]
    code = None if dtype is None else dtypes.code(dtype)
    place, offset = offset, _register_value(offset)
    if scalar_offset is None and vector_offset is None:
        view = self.pattern(pattern, not_negative(offset, "an access pattern from element"), code)
        return registers.placed(view, place)
    step = self._row_step(indirect_dim)
    if scalar_offset is not None:
        start = offset + _register_value(scalar_offset) * step
        last = start + sum(stride * (count - 1) for stride, count in pattern)
        if 0 <= start and last < self._total():
            view = self.pattern(pattern, start, code, scalar_offset if isinstance(scalar_offset, Tensor) else None)
            return registers.placed(view, place, scalar_offset)
        rows, first, offset = np.zeros(1, np.int64), 0, start
    else:
        # The dimension that the offsets stand for gives no step of its own.
        rows, first = _column_by_column(vector_offset), 1
    grid = np.zeros([count for _, count in pattern], np.int64)
    for axis, (stride, count) in enumerate(pattern):
        if axis < first:
            continue
        shape = [1] * len(pattern)
        shape[axis] = count
        grid = grid + (np.arange(count, dtype=np.int64) * stride).reshape(shape)
    lead = rows.reshape([-1] + [1] * (len(pattern) - 1))[: max(1, pattern[0][1])]
    offsets = grid + lead * step + offset
    limit = self._total()
    view = self.gathered(offsets.reshape(-1).tolist(), list(offsets.shape), 0, limit, vector_offset)
    return view if code is None or code == self.code else view.reinterpreted(code)


def indirect(self, index, num_elem=None):
    """The elements at offsets that a tile holds, for sources and results of NeuronCore-v4."""
    return state.running().indirect(self, index, None if num_elem is None else int(num_elem))


def _column_by_column(tile):
    """Indices of a tile, all partitions of a column before the next column (page of dma_transpose: `indices.T.flatten()`)."""
    return _values(tile).reshape(tile.shape[0], -1).T.reshape(-1)


def _values(tile):
    out = np.empty(tile.size, tile.dtype)
    tile.read_into(out.view(np.uint8))
    return out.astype(np.int64)


def _row_step(self, dim):
    """Elements from one step of a dimension of the whole tensor to the next."""
    return int(self.strides[dim]) if dim < len(self.strides) else 1


def _total(self):
    return int(self.storage_elements)


def numpy(self):
    """The elements as a NumPy array."""
    held = dtypes.by_code(self.held_code)
    out = np.empty(tuple(self.shape), held)
    if out.size:
        self.read_into(out.reshape(-1).view(np.uint8))
    return out if held == self.dtype else out.astype(self.dtype)


def rearrange(self, source, target, fixed_sizes=None):
    """Dimensions split, merged and reordered as names say: tuples of names are merged."""
    fixed = dict(fixed_sizes or {})
    sizes, names = [], []
    for group, size in zip(source, self.shape):
        group = (group,) if isinstance(group, str) else tuple(group)
        known = math.prod(fixed[name] for name in group if name in fixed)
        for name in group:
            fixed.setdefault(name, size // known)
        names += group
        sizes += [fixed[name] for name in group]
    split = self.reshaped(sizes)
    order = [names.index(name) for group in target for name in ((group,) if isinstance(group, str) else group)]
    merged = [
        math.prod(fixed[name] for name in ((group,) if isinstance(group, str) else group)) for group in target
    ]
    return split.permuted(order).reshaped(merged)


def get_pattern(self):
    """[stride, count] pairs of the view."""
    return [[stride, count] for stride, count in zip(self.strides, self.shape)]


def _index(self):
    return self.integer()


def _array(self, dtype=None, copy=None):
    array = numpy(self)
    return array if dtype is None else array.astype(dtype)


def _base_tensor(self):
    """The tensor behind a view. Public kernels take views of their own and plain tensors alike, and ask both for it."""
    if self.size != self.storage_elements:
        asked = f"the base_tensor of a view of {self.size} of {self.storage_elements} elements"
        raise refused("neuron/operand", asked, "a tensor that is not sliced", "keep the tensor that the view was made of")
    return self


def install():
    """Gives tensors their methods and operators."""
    methods = {
        "reshape": reshape,
        "broadcast_to": broadcast_to,
        "astype": astype,
        "view": view,
        "reinterpret_cast": view,
        "expand_dims": expand_dims,
        "assert_shape": assert_shape,
        "slice": slice_,
        "select": select,
        "permute": permute,
        "broadcast": broadcast,
        "reshape_dim": reshape_dim,
        "flatten_dims": flatten_dims,
        "squeeze_dim": squeeze_dim,
        "expand_dim": expand_dim,
        "ap": ap,
        "indirect": indirect,
        "numpy": numpy,
        "rearrange": rearrange,
        "get_pattern": get_pattern,
        "__array_ufunc__": ufuncs.of_tensor,
        "as_tile": lambda self: self,
        "get_view": lambda self: self,
        "__index__": _index,
        "__int__": _index,
        "__array__": _array,
        "_row_step": _row_step,
        "_total": _total,
    }
    for name, method in methods.items():
        setattr(Tensor, name, method)
    Tensor.buffer = property(lambda self: Buffer.named(self.memory))
    Tensor.base_tensor = property(_base_tensor)
    _core.set_operators(_operator)


class Buffer:
    """A memory, as kernels name it."""

    _known = {}

    def __init__(self, name, place=None):
        self.name = name
        #: Gives the places of a tensor's tiles; None if the compiler places them.
        self.place = place

    @classmethod
    def named(cls, name):
        if name not in cls._known:
            cls._known[name] = cls(name)
        return cls._known[name]

    def __eq__(self, other):
        return isinstance(other, Buffer) and _memory(self.name) == _memory(other.name)

    def __hash__(self):
        return hash(_memory(self.name))

    def __repr__(self):
        return f"nl.{self.name}"


def _memory(name):
    return "private_hbm" if name == "hbm" else name


_COMPARISONS = frozenset(("less", "less_equal", "equal", "not_equal", "greater", "greater_equal"))
_INPLACE = {"isubtract": "subtract", "imultiply": "multiply"}


def _operator(name, operands):
    if name == "assign":
        return lower.assign(*operands)
    if name == "iadd":
        return lower.iadd(*operands)
    if name in _INPLACE:
        return lower.combine_into(operands[0], _INPLACE[name], lower.number(operands[1]))
    if name == "negative":
        return lower.scaled(operands[0], "multiply", -1.0)
    if name == "invert":
        return lower.emit("tensor_scalar", operands[0].shape, operands[0].code, None, [operands[0]], "invert", 0)
    # As the functions of `nl`: 0 or 1 in a byte.
    return lower.binary(name, *operands, default=dtypes.U8 if name in _COMPARISONS else None)
