"""Operators that stream through the chip, first dialect."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np

PART = 128


@nki.jit
def silu(x):
    """x / (1 + exp(-x)) step by step."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(x.shape[0] // PART):
        tile = nl.load(x[nl.ds(i * PART, PART)])
        below = nl.add(nl.exp(nl.multiply(tile, -1.0)), 1.0)
        nl.store(out[nl.ds(i * PART, PART)], nl.divide(tile, below))
    return out


@nki.jit
def silu_fused(x, wide):
    """One activation for each tile of so many columns."""
    rows, columns = x.shape
    flat = x.reshape((rows * columns // wide, wide))
    out = nl.ndarray((rows * columns // wide, wide), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(rows * columns // wide // PART):
        tile = nl.load(flat[nl.ds(i * PART, PART)])
        nl.store(out[nl.ds(i * PART, PART)], nl.silu(tile))
    return out


@nki.jit
def silu_prefetch(x, wide):
    """The same in order, each tile loaded while the one before is computed."""
    rows, columns = x.shape
    count = rows * columns // wide // PART
    flat = x.reshape((count * PART, wide))
    out = nl.ndarray((count * PART, wide), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(flat[nl.ds(0, PART)])
    for i in nl.sequential_range(count):
        following = nl.load(flat[nl.ds((i + 1) * PART, PART)]) if i + 1 < count else None
        nl.store(out[nl.ds(i * PART, PART)], nl.silu(tile))
        tile = following
    return out


@nki.jit
def adamw(weights, gradient, first, second, rate=0.01, beta1=0.9, beta2=0.999, epsilon=1e-8, decay=0.01):
    """One step of AdamW; the new weights."""
    rows, columns = weights.shape
    out = nl.ndarray(weights.shape, dtype=weights.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range((rows + PART - 1) // PART):
        count = min(PART, rows - i * PART)
        part = nl.ds(i * PART, count)
        w, g, m, v = (nl.load(one[part]) for one in (weights, gradient, first, second))
        m = nl.add(nl.multiply(m, beta1), nl.multiply(g, 1 - beta1))
        v = nl.add(nl.multiply(v, beta2), nl.multiply(nl.square(g), 1 - beta2))
        step = nl.divide(m, nl.add(nl.sqrt(v), epsilon))
        nl.store(out[part], nl.subtract(nl.multiply(w, 1 - rate * decay), nl.multiply(step, rate)))
    return out


@nki.jit
def norm_matmul(x, right, epsilon=1e-5):
    """RMS norm of the rows of x, then a product. x: [M, K]; right: [K, N]."""
    (m, k), n = x.shape, right.shape[1]
    out = nl.ndarray((m, n), dtype=x.dtype, buffer=nl.shared_hbm)
    identity = nl.load(nl.shared_constant(np.identity(PART), dtype=x.dtype))
    held = nl.ndarray((k // PART, nl.par_dim(PART), n), dtype=right.dtype, buffer=nl.sbuf)
    for step in nl.affine_range(k // PART):
        held[step] = nl.load(right[nl.ds(step * PART, PART)])
    for i in nl.affine_range(m // PART):
        tile = nl.load(x[nl.ds(i * PART, PART)])
        squares = nl.ndarray((nl.par_dim(PART), 1), dtype=nl.float32)
        nisa.activation_reduce(np.square, tile, reduce_op=np.add, reduce_res=squares)
        inverse = nl.rsqrt(squares / k + epsilon)
        scaled = nl.multiply(tile, inverse)
        turned = nl.ndarray((k // PART, nl.par_dim(PART), PART), dtype=x.dtype, buffer=nl.sbuf)
        for step in nl.affine_range(k // PART):
            part = scaled[:, nl.ds(step * PART, PART)]
            turned[step] = nl.copy(nisa.nc_matmul(part, identity, is_moving_onezero=True, is_transpose=True))
        for j in nl.affine_range(n // 512):
            sums = nl.zeros((PART, 512), nl.float32, buffer=nl.psum)
            for step in nl.affine_range(k // PART):
                sums += nisa.nc_matmul(turned[step], held[step][:, nl.ds(j * 512, 512)])
            nl.store(out[nl.ds(i * PART, PART), nl.ds(j * 512, 512)], nl.copy(sums))
    return out


@nki.jit
def adaptive_pool(x, high, wide):
    """Mean over windows that cover the input evenly. x: [channels, height, width]; one sum for each output."""
    channels, height, width = x.shape
    out = nl.ndarray((channels, high, wide), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range((channels + PART - 1) // PART):
        count = min(PART, channels - i * PART)
        part = nl.ds(i * PART, count)
        tile = nl.load(x[part])
        means = nl.ndarray((nl.par_dim(count), high, wide), dtype=nl.float32, buffer=nl.sbuf)
        for a in nl.affine_range(high):
            top, bottom = a * height // high, -(-(a + 1) * height // high)
            for b in nl.affine_range(wide):
                left, right = b * width // wide, -(-(b + 1) * width // wide)
                window = tile[:, top:bottom, left:right]
                total = nl.sum(window, axis=[1, 2])
                means[:, a, nl.ds(b, 1)] = nl.multiply(total, 1.0 / ((bottom - top) * (right - left)))
        nl.store(out[part], nl.copy(means, dtype=x.dtype))
    return out
