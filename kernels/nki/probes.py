"""Single instructions and transfers, as profiles show them; both dialects."""

import neuronxcc.nki as old
import neuronxcc.nki.isa as old_isa
import neuronxcc.nki.language as old_nl
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@old.jit
def activations(x, count=16):
    """Activations that each take the result of the one before."""
    out = old_nl.ndarray(x.shape, dtype=x.dtype, buffer=old_nl.shared_hbm)
    tile = old_nl.load(x)
    for _ in range(count):
        tile = old_isa.activation(np.exp, tile)
    old_nl.store(out, tile)
    return out


@old.jit
def addition(a, b):
    """One addition of two tiles in SBUF."""
    out = old_nl.ndarray(a.shape, dtype=a.dtype, buffer=old_nl.shared_hbm)
    old_nl.store(out, old_isa.tensor_tensor(old_nl.load(a), old_nl.load(b), np.add))
    return out


@nki.jit
def product(a, b, count=16):
    """Products one after the other, and the copy of the last."""
    out = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    left, right = nl.ndarray(a.shape, a.dtype), nl.ndarray(b.shape, b.dtype)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)
    for _ in range(count):
        sums = nl.ndarray((a.shape[1], b.shape[1]), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=sums, stationary=left, moving=right)
    held = nl.ndarray((a.shape[1], b.shape[1]), nl.float32)
    nisa.tensor_copy(dst=held, src=sums)
    nisa.dma_copy(dst=out, src=held)
    return out


@nki.jit
def through(x):
    """A load, one activation, a store."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile, hot = nl.ndarray(x.shape, x.dtype), nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(dst=tile, src=x)
    nisa.activation(dst=hot, op=nl.exp, data=tile)
    nisa.dma_copy(dst=out, src=hot)
    return out


@nki.jit
def by_software(x):
    """The same, with descriptors that GpSimd makes."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile, hot = nl.ndarray(x.shape, x.dtype), nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(dst=tile, src=x, dge_mode=nisa.dge_mode.swdge)
    nisa.activation(dst=hot, op=nl.exp, data=tile)
    nisa.dma_copy(dst=out, src=hot, dge_mode=nisa.dge_mode.swdge)
    return out
