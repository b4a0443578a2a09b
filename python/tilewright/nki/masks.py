"""What a mask leaves of a tile. A comparison says which steps of one dimension are valid (NKI API masking), so that comparisons joined with & leave
a box; what combines or moves elements takes boxes only."""

import math

from tilewright._core import Index, Tensor

from .refusals import refused


def operand(value, mask):
    """A [P, 1] operand where the mask holds; all of it where the mask leaves no box."""
    if mask is None or not isinstance(value, Tensor):
        return value
    ranges = value.ranges(mask)
    return value if ranges is None or ranges[0][1] == 0 else boxed(value, ranges)


def left_of(tile, mask, what):
    """First step and number of steps of each dimension that a mask leaves of a tile whose elements are combined."""
    ranges = tile.ranges(mask)
    if ranges is None:
        raise refused(
            "neuron/pattern",
            f"{what} of {tuple(tile.shape)} where a mask leaves no box of it",
            "comparisons of one index each, joined with &",
            "put a value that changes nothing where the mask fails, with nisa.affine_select or nl.where",
        )
    return ranges


def boxed(tile, ranges):
    """A box of a tile."""
    if all(start == 0 and count == size for (start, count), size in zip(ranges, tile.shape)):
        return tile
    return tile[tuple(slice(start, start + count) for start, count in ranges)]


def free_range(shape, ranges, what):
    """The same of the free dimensions taken as one."""
    inner = math.prod(shape[2:])
    if any(one != (0, size) for one, size in zip(ranges[2:], shape[2:])):
        raise refused("neuron/pattern", f"{what} with a mask on the last of the dimensions {tuple(shape)}", "masks on the first two", "reshape the tile, or slice it")
    start, count = ranges[1] if len(shape) > 1 else (0, 1)
    return start * inner, count * inner


def of_box(full, ranges):
    """The mask of a box of a tile."""
    mask = True
    for axis, (size, (start, count)) in enumerate(zip(full, ranges)):
        if count < size:
            shape = [None] * len(full)
            shape[axis] = slice(None)
            place = Index.arange(0, size)[tuple(shape)]
            term = (place >= start) & (place < start + count)
            mask = term if mask is True else mask & term
    return mask
