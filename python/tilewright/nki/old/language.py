"""`neuronxcc.nki.language`: masks, index grids, block dimensions."""

import math
import sys

import numpy as np

from tilewright._core import Index, Mask, Tensor

from .. import dtypes, loops, lower, refusals, state, team
from ..language import *  # noqa: F403
from ..language import (  # noqa: F401  names that a star leaves out
    abs,
    all,
    float32,
    max,
    min,
    sum,
)
from ..language import constant as _constant
from ..language import empty_like as _empty_like
from ..language import zeros_like as _zeros_like
from . import constants  # noqa: F401

par_dim = loops.ParDim


def arange(*args):
    """An index vector; give it axes with [:, None] and [None, :]."""
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    return Index.arange(int(start), int(stop), int(step))


class Mesh:
    """Index vectors of every axis of a box."""

    def __init__(self, axes):
        self.__mesh__ = axes

    def __iter__(self):
        return iter(self.__mesh__)

    def __len__(self):
        return len(self.__mesh__)

    def __getitem__(self, at):
        return self.__mesh__[at]

    def __getattr__(self, name):
        if name not in "pxyzw" or len(name) != 1 or "pxyzw".index(name) >= len(self.__mesh__):
            raise AttributeError(name)
        return self.__mesh__["pxyzw".index(name)]


class _MeshMaker:
    def __getitem__(self, key):
        key = key if isinstance(key, tuple) else (key,)
        axes = []
        for at, part in enumerate(key):
            place = [None] * len(key)
            place[at] = slice(None)
            start = 0 if part.start is None else int(part.start)
            step = 1 if part.step is None else int(part.step)
            axes.append(Index.arange(start, int(part.stop), step)[tuple(place)])
        return Mesh(axes)


mgrid = _MeshMaker()


def shared_identity_matrix(n, dtype=dtypes.uint8, **_options):
    """The identity as a constant in HBM."""
    from ..language import constant

    return constant(np.identity(n, np.float32), dtype)


def zeros_like(a, dtype=None, *, buffer=None, name="", **_options):
    """Zeros with the shape and type of another tensor."""
    return _zeros_like(a, dtype, buffer, name)


def empty_like(a, dtype=None, *, buffer=None, name="", **_options):
    """A tensor with the shape and type of another."""
    return _empty_like(a, dtype, buffer, name)


def shared_constant(constant, dtype=None, **_options):
    """An array that the executable carries, in HBM."""
    return _constant(constant, dtype)


#: What changes nothing when it is combined with anything, by operator.
_NEUTRAL = {
    "add": 0.0,
    "subtract": 0.0,
    "multiply": 1.0,
    "max": float(np.finfo(np.float32).min),
    "maximum": float(np.finfo(np.float32).min),
    "min": float(np.finfo(np.float32).max),
    "minimum": float(np.finfo(np.float32).max),
    "bitwise_or": 0,
    "bitwise_xor": 0,
    "logical_or": 0,
    "logical_xor": 0,
    "logical_and": 1,
}


def loop_reduce(x, op, loop_indices, dtype=None, mask=None, **_options):
    """A running reduction over enclosing loops; whole after them. It begins where it is first reached in the outermost of them, and takes only
    what the mask leaves."""
    frame = sys._getframe(1)
    indices = loop_indices if isinstance(loop_indices, (list, tuple)) else (loop_indices,)
    reduced = [index.loop for index in indices if hasattr(index, "loop")]
    running = state.program.loops
    outermost = next((loop for loop in running if loop in reduced), None)
    key = (frame.f_code, frame.f_lasti, tuple(loop.value for loop in running if loop not in reduced))
    began_in, total = state.program.reductions.get(key, (None, None))
    code, name = x.code if dtype is None else dtypes.code(dtype), lower.op_name(op)
    mask = None if mask is None or _leaves_all(x, mask) else mask
    begins = total is None or began_in is not outermost
    if begins and mask is None:
        total = lower.copy(x, code)
    elif mask is None:
        total = lower.binary(name, total, x, dtypes.NAMES[code])
        state.running().reduces_over_loops()
    else:
        if begins:
            total = _neutral_tile(x, name, code)
        # What the mask leaves out keeps what it has.
        target, part = total.masked(mask), x.masked(mask)
        if target is not None and part is not None:
            state.running().tensor_tensor(target, target, part, name)
    state.program.reductions[key] = (outermost, total)
    state.running().running_reduction(total)
    return _alias(total)


def _leaves_all(x, mask):
    if isinstance(mask, (bool, np.bool_)):
        return bool(mask)
    return x.ranges(mask) == [(0, size) for size in x.shape]


def _neutral_tile(x, name, code):
    if name not in _NEUTRAL:
        raise refusals.refused("neuron/operator", f"loop_reduce with {name} and a mask", ", ".join(sorted(_NEUTRAL)), "reduce all of the tile, or combine it with nisa.tensor_tensor")
    total = lower.new(x.shape, code)
    state.running().memset(total, _NEUTRAL[name])
    return total


def _alias(tile):
    """Another handle of a fresh result, so that an assignment may take it over."""
    other = tile.reshaped(list(tile.shape))
    other.adopt(tile, tile.mask if tile.has_mask else True)
    return other


def atomic_rmw(dst, value, op, mask=None, **_options):
    """Read-modify-write of HBM."""
    if mask is not None:
        dst, value = dst.masked(mask), value.masked(mask)
        if dst is None:
            return
    state.running().dma_copy(dst, value, lower.op_name(op))


def all_reduce(x, op, program_axes, dtype=None, mask=None, parallel_reduce=True, asynchronous=False, **_options):
    """x combined over the programs that differ from this one only along these axes of the grid."""
    program = state.program
    axes = [program_axes] if isinstance(program_axes, int) else [int(axis) for axis in program_axes]
    if len(program.grid) == 0 or math.prod(program.grid[axis] for axis in axes) == 1:
        return lower.copy(x, None if dtype is None else dtypes.code(dtype), mask)
    if program.team is None:
        raise team.Together
    places = list(np.ndindex(*program.grid))
    mine = [at for axis, at in enumerate(program.place) if axis not in axes]
    peers = [at for at, place in enumerate(places) if [p for axis, p in enumerate(place) if axis not in axes] == mine]
    given = team.gather(("all_reduce", tuple(peers)), x.snapshot(), peers)
    out = lower.new(x.shape, x.code if dtype is None else dtypes.code(dtype))
    total = out if out.code == x.code else lower.new(x.shape, x.code)
    state.running().collective("all_reduce", [x], [(total, given)], peers, lower.op_name(op))
    if total is not out:
        state.running().tensor_copy(out, total)
    if mask is not None:
        out.set_mask(mask)
    return out
