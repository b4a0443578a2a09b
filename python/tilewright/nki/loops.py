"""Loop iterators, which tell `loop_reduce` where they are, and shapes with a marked partition dimension."""

import numpy as np

from . import refusals, registers, state


class LoopInt(int):
    """A loop index that knows its loop."""

    def __new__(cls, value, loop):
        made = super().__new__(cls, value)
        made.loop = loop
        return made


class Loop:
    """A running loop."""

    __slots__ = ("first", "value")

    def __init__(self, first):
        self.first = first
        self.value = first


def counted(*args, start=None, stop=None, step=None, **_options):
    """`range` whose indices know their loop; the second dialect has names for its bounds."""
    if start is not None:
        args = (start, *args)
    if stop is not None:
        args = (*args, stop) if args else (0, stop)
    if step is not None:
        args = (*args, step) if len(args) > 1 else (0, *args, step)
    steps = range(*[_bound(arg) for arg in args])
    stack = state.program.loops
    loop = Loop(steps.start)
    stack.append(loop)
    try:
        for value in steps:
            loop.value = value
            yield LoopInt(value, loop)
    finally:
        if loop in stack:
            stack.remove(loop)


def _bound(value):
    if type(value) is int:
        return value
    if isinstance(value, (float, np.floating)):
        return refusals.whole(float(value), "a loop with a bound of")
    registers.branch(value)
    return int(value)


class ParDim(int):
    """The partition dimension of a shape."""


def blocks_of(shape):
    """Dimensions before the partition dimension."""
    marked = [at for at, size in enumerate(shape) if isinstance(size, ParDim)]
    if len(marked) > 1:
        raise refusals.refused("neuron/shape", f"a tensor of shape {tuple(map(int, shape))} with nl.par_dim {len(marked)} times", "one partition dimension", "mark the dimension whose steps lie on partitions, and no other")
    return marked[0] if marked else 0
