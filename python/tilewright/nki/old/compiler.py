"""`neuronxcc.nki.compiler`: direct allocation and directives. Values never depend on addresses; findings do."""

import inspect
import math

import numpy as np

from .. import state
from ..kernel import identity
from ..language import no_reorder  # noqa: F401  it has the same name here
from ..methods import Buffer


class _Memory:
    """Allocators of one memory."""

    def __init__(self, name):
        self.name = name

    def alloc(self, func=None, **_options):
        """Placed by a function of the tile's index, its partitions and its bytes."""
        if not callable(func):
            return Buffer(self.name)

        def place(sizes, blocks, element_bytes):
            size = math.prod(sizes[blocks + 1 :]) * element_bytes
            indices = np.ndindex(*sizes[:blocks])
            return [self._flat(_call(func, tuple(map(int, index)), sizes[blocks], size)) for index in indices]

        return Buffer(self.name, place)

    def _flat(self, where):
        """Start partition and byte, from (partition, byte) or, for PSUM, (bank, partition, byte)."""
        *bank, partition, byte = (int(one) for one in where)
        return partition, (bank[0] * state.running().psum_bank_bytes if bank else 0) + byte

    def mod_alloc(self, base_addr=0, base_bank=0, base_partition=0, num_free_tiles=(), num_bank_tiles=(), num_par_tiles=(), **_options):
        """Placed one after the other, modulo a number of tiles in each dimension."""

        def place(sizes, blocks, element_bytes):
            step = math.prod(sizes[blocks + 1 :]) * element_bytes
            indices = list(np.ndindex(*sizes[:blocks]))
            bank = state.running().psum_bank_bytes if self.name == "psum" else 0
            return [
                (
                    int(base_partition) + _number(index, num_par_tiles) * sizes[blocks],
                    int(base_addr) + _number(index, num_free_tiles) * step + (int(base_bank) + _number(index, num_bank_tiles)) * bank,
                )
                for index in indices
            ]

        return Buffer(self.name, place)

    def auto_alloc(self, **_options):
        """Placed by the compiler."""
        return Buffer(self.name)


#: Names under which allocation functions are called.
_NAMES = ("idx", "pdim_size", "fdim_size")


def _call(func, *values):
    """Calls an allocation function by the names of its parameters, since others may come before them; by place where it has other names."""
    try:
        names = inspect.signature(func).parameters
    except (TypeError, ValueError):
        names = {}
    return func(**dict(zip(_NAMES, values))) if set(_NAMES) <= set(names) else func(*values)


def _number(index, counts):
    """The number of a tile among the tiles that have a place of their own."""
    counts = tuple(counts) if isinstance(counts, (tuple, list)) else (counts,)
    number = 0
    for at, count in zip(index, counts):
        number = number * int(count) + int(at) % int(count)
    return number


sbuf = _Memory("sbuf")
psum = _Memory("psum")


def skip_middle_end_transformations(kernel=None, **_options):
    """The kernel runs as it is written."""
    if kernel is None:
        return skip_middle_end_transformations
    getattr(kernel, "func", kernel).as_written = True
    return kernel


enable_stack_allocator = identity
force_auto_alloc = identity
force_manual_alloc = identity


def multi_buffer(*_args, **_options):
    """A directive of a loop."""
    return None
