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
    return _iterations(_steps(args, start, stop, step), False)


def independent(*args, start=None, stop=None, step=None, **_options):
    """As `counted`; the kernel says that no iteration needs what an earlier one made."""
    return _iterations(_steps(args, start, stop, step), True)


def _steps(args, start, stop, step):
    if start is not None:
        args = (start, *args)
    if stop is not None:
        args = (*args, stop) if args else (0, stop)
    if step is not None:
        args = (*args, step) if len(args) > 1 else (0, *args, step)
    return range(*[_bound(arg) for arg in args])


def _iterations(steps, affine):
    stack, session = state.program.loops, state.program.session
    loop = Loop(steps.start)
    stack.append(loop)
    number = session.enter_loop(affine) if session is not None and len(steps) > 1 else None
    try:
        for value in steps:
            loop.value = value
            if number is not None:
                session.next_iteration(number)
            yield LoopInt(value, loop)
    finally:
        if number is not None:
            session.leave_loop(number)
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
