"""`neuronxcc.nki.kernels.vision`: pictures."""

import tilewright.nki.old as nki
import tilewright.nki.old.language as nl

#: Rows of a tile.
ROWS = 128


@nki.jit
def resize_nearest_fixed_dma_kernel(data_tensor, out_shape):
    """A picture of [batch, height, width, channels] in another height and width: each place takes the nearest one at or before it."""
    batch, height, width, channels = data_tensor.shape
    _, high, wide, _ = out_shape
    if (out_shape[0], out_shape[3]) != (batch, channels):
        raise ValueError(f"{data_tensor.shape} resized to {tuple(out_shape)}: batch and channels stay")
    out = nl.ndarray(out_shape, dtype=data_tensor.dtype, buffer=nl.shared_hbm)
    for sample in range(batch):
        for row in range(high):
            source = min(row * height // high, height - 1)
            for first in range(0, wide, ROWS):
                count = min(ROWS, wide - first)
                tile = nl.ndarray((count, channels), dtype=data_tensor.dtype, buffer=nl.sbuf)
                for run, start, size in _runs(first, count, width, wide):
                    column = nl.load(data_tensor[sample, source, nl.ds(start, 1), :])
                    tile[nl.ds(run, size), :] = column.broadcast_to((size, channels)) if size > 1 else column
                nl.store(out[sample, row, nl.ds(first, count), :], tile)
    return out


def _runs(first, count, width, wide):
    """(place in the tile, column of the source, columns that take it), for columns one after the other."""
    at = 0
    while at < count:
        source = min((first + at) * width // wide, width - 1)
        size = 1
        while at + size < count and min((first + at + size) * width // wide, width - 1) == source:
            size += 1
        yield at, source, size
        at += size


@nki.jit
def select_and_scatter_kernel(operand_tensor, source_tensor):
    """The gradient of the largest of each window of 3 x 3, two apart, with a border of one: where its first largest element is, `source_tensor` is added."""
    batch, channels, height, width = operand_tensor.shape
    high, wide = source_tensor.shape[2:]
    out = nl.ndarray(operand_tensor.shape, dtype=operand_tensor.dtype, buffer=nl.shared_hbm)
    for sample in range(batch):
        for first in range(0, channels, ROWS):
            place = nl.ds(first, min(ROWS, channels - first))
            _scatter(out, operand_tensor, source_tensor, sample, place, (height, width, high, wide))
    return out


def _scatter(out, operand, source, sample, place, sizes):
    height, width, high, wide = sizes
    count = place.stop - place.start
    padded = nl.full((count, height + 2, width + 2), nl.fp32.min, dtype=nl.float32, buffer=nl.sbuf)
    padded[:, 1 : height + 1, 1 : width + 1] = nl.load(operand[sample, place, :, :])
    gradient = nl.load(source[sample, place, :, :], dtype=nl.float32)
    total = nl.zeros((count, height + 2, width + 2), dtype=nl.float32, buffer=nl.sbuf)
    i, j, k = nl.arange(count)[:, None, None], nl.arange(high)[None, :, None], nl.arange(wide)[None, None, :]
    windows = [(row, column) for row in range(3) for column in range(3)]
    largest = nl.copy(padded[i, 2 * j, 2 * k])
    for row, column in windows[1:]:
        largest = nl.maximum(largest, padded[i, 2 * j + row, 2 * k + column])
    # The first of equal ones takes the gradient: what it took is no longer to be given.
    left = gradient
    for row, column in windows:
        chosen = nl.equal(padded[i, 2 * j + row, 2 * k + column], largest, dtype=nl.float32)
        given = nl.multiply(left, chosen)
        left = nl.subtract(left, given)
        total[i, 2 * j + row, 2 * k + column] = nl.add(total[i, 2 * j + row, 2 * k + column], given)
    nl.store(out[sample, place, :, :], nl.copy(total[:, 1 : height + 1, 1 : width + 1], dtype=out.dtype))
