"""Normalisation of rows, first dialect."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np

PART = 128


@nki.jit
def layer_norm(x, gamma, beta, epsilon=1e-5):
    """Mean and variance with operations of the language."""
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    wide = nl.load(gamma.reshape((1, columns))).broadcast_to((PART, columns))
    shift = nl.load(beta.reshape((1, columns))).broadcast_to((PART, columns))
    for i in nl.affine_range(rows // PART):
        tile = nl.load(x[nl.ds(i * PART, PART)])
        mean = nl.sum(tile, axis=1, keepdims=True) / columns
        centred = nl.subtract(tile, mean)
        variance = nl.sum(nl.square(centred), axis=1, keepdims=True) / columns
        scaled = nl.multiply(centred, nl.rsqrt(variance + epsilon))
        nl.store(out[nl.ds(i * PART, PART)], nl.add(nl.multiply(scaled, wide), shift))
    return out


@nki.jit
def layer_norm_stats(x, gamma, beta, epsilon=1e-5):
    """Mean and variance with bn_stats and bn_aggr, shift and scale in one instruction."""
    rows, columns = x.shape
    most = nl.tile_size.bn_stats_fmax
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    wide = nl.load(gamma.reshape((1, columns))).broadcast_to((PART, columns))
    shift = nl.load(beta.reshape((1, columns))).broadcast_to((PART, columns))
    for i in nl.affine_range(rows // PART):
        tile = nl.load(x[nl.ds(i * PART, PART)])
        stats = nl.ndarray((nl.par_dim(PART), 6 * (columns // most)), dtype=nl.float32)
        for j in nl.affine_range(columns // most):
            stats[:, nl.ds(6 * j, 6)] = nisa.bn_stats(tile[:, nl.ds(j * most, most)], dtype=nl.float32)
        both = nisa.bn_aggr(stats)
        inverse = nl.rsqrt(both[:, 1:2] + epsilon)
        scaled = nisa.tensor_scalar(tile, np.subtract, both[:, 0:1], op1=np.multiply, operand1=inverse)
        nl.store(out[nl.ds(i * PART, PART)], nl.add(nl.multiply(scaled, wide), shift))
    return out


@nki.jit
def norm_qkv(x, weights, epsilon=1e-6):
    """RMS norm of each row, then a product with the weights. x: [rows, hidden]; weights: [hidden, outputs]."""
    rows, hidden = x.shape
    outputs = weights.shape[1]
    out = nl.ndarray((rows, outputs), dtype=x.dtype, buffer=nl.shared_hbm)
    steps = hidden // PART
    held = nl.ndarray((nl.par_dim(PART), steps, outputs), dtype=weights.dtype, buffer=nl.sbuf)
    for step in nl.affine_range(steps):
        held[:, step, :] = nl.load(weights[nl.ds(step * PART, PART)])
    for i in nl.affine_range(rows // PART):
        tile = nl.load(x[nl.ds(i * PART, PART)])
        squares = nl.ndarray((nl.par_dim(PART), 1), dtype=nl.float32)
        nisa.activation_reduce(np.square, tile, reduce_op=np.add, reduce_res=squares)
        inverse = nl.rsqrt(squares / hidden + epsilon)
        scaled = nl.multiply(tile, inverse, dtype=x.dtype)
        sums = nl.zeros((PART, outputs), nl.float32, buffer=nl.psum)
        for step in nl.affine_range(steps):
            turned = nl.copy(nisa.nc_transpose(scaled[:, nl.ds(step * PART, PART)]), dtype=x.dtype)
            sums += nisa.nc_matmul(turned, held[:, step, :])
        nl.store(out[nl.ds(i * PART, PART)], nl.copy(sums, dtype=x.dtype))
    return out
