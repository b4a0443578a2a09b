"""Kernels over pictures, first dialect: nearest resize, and the gradient of a pooling by maximum."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np

PART = 128


@nki.jit
def resize_nearest(x, high, wide):
    """Every pixel is that of the nearest place above and to the left. x: [batch, height, width, channels]; rows are gathered by a table."""
    batch, height, width, channels = x.shape
    count = batch * high * wide
    pixels = x.reshape((batch * height * width, channels))
    out = nl.ndarray((batch, high, wide, channels), dtype=x.dtype, buffer=nl.shared_hbm)
    flat = out.reshape((count, channels))
    rows, columns = np.arange(high) * height // high, np.arange(wide) * width // wide
    places = np.arange(batch)[:, None, None] * height * width + rows[:, None] * width + columns
    table = nl.shared_constant(places.reshape(count, 1).astype(np.int32))
    i_column = nl.arange(channels)[None, :]
    for first in range(0, count, PART):
        size = min(PART, count - first)
        index = nl.load(table[nl.ds(first, size)])
        tile = nl.load(pixels[index[nl.arange(size)[:, None], 0], i_column])
        nl.store(flat[nl.ds(first, size)], tile)
    return out


@nki.jit
def select_and_scatter(x, gradient, window=3, stride=2):
    """Each gradient goes to the first greatest element of its window. x: [planes, height, width], padded on all sides by one; gradient: [planes, high, wide]."""
    planes, height, width = x.shape
    high, wide = gradient.shape[1:]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(planes // PART):
        part = nl.ds(i * PART, PART)
        padded = nl.full((PART, height + 2, width + 2), nl.fp32.min, dtype=nl.float32, buffer=nl.sbuf)
        padded[:, nl.ds(1, height), nl.ds(1, width)] = nl.load(x[part])
        left = nl.load(gradient[part])
        sums = nl.zeros((PART, height + 2, width + 2), nl.float32, buffer=nl.sbuf)
        _, row, column = nl.mgrid[0:PART, 0:high, 0:wide]
        plane = nl.arange(PART)[:, None, None]
        greatest = nl.copy(padded[plane, stride * row, stride * column])
        for a in range(window):
            for b in range(window):
                if a or b:
                    greatest[...] = nl.maximum(greatest, padded[plane, stride * row + a, stride * column + b])
        for a in range(window):
            for b in range(window):
                at = (plane, stride * row + a, stride * column + b)
                given = nl.multiply(nl.equal(padded[at], greatest, dtype=nl.float32), left)
                sums[at] = nl.add(sums[at], given)
                left[...] = nl.subtract(left, given)
        nl.store(out[part], sums[:, nl.ds(1, height), nl.ds(1, width)])
    return out
