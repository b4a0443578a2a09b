"""Kernels in the dialect whose instructions return tiles."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np


@nki.jit
def add_grid(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    rows = nl.program_id(0) * 128 + nl.arange(128)[:, None]
    columns = nl.program_id(1) * 256 + nl.arange(256)[None, :]
    nl.store(out[rows, columns], value=nl.load(a[rows, columns]) + nl.load(b[rows, columns]))
    return out


@nki.jit
def matmul_tiled(left_t, right):
    k, m = left_t.shape
    _, n = right.shape
    out = nl.ndarray((m, n), dtype=left_t.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(m // 128):
        for j in nl.affine_range(n // 512):
            sums = nl.zeros((128, 512), nl.float32, buffer=nl.psum)
            for step in nl.affine_range(k // 128):
                a = nl.load(left_t[nl.ds(step * 128, 128), nl.ds(i * 128, 128)])
                b = nl.load(right[nl.ds(step * 128, 128), nl.ds(j * 512, 512)])
                sums += nl.matmul(a, b, transpose_x=True)
            nl.store(out[nl.ds(i * 128, 128), nl.ds(j * 512, 512)], value=nl.copy(sums, dtype=out.dtype))
    return out


@nki.jit
def softmax_rows(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    p, f = nl.mgrid[0:128, 0 : x.shape[1]]
    for i in nl.affine_range((x.shape[0] + 127) // 128):
        mask = i * 128 + p < x.shape[0]
        tile = nl.load(x[i * 128 + p, f], mask=mask)
        largest = nisa.tensor_reduce(np.max, tile, axis=(1,), negate=True, mask=mask)
        sums = nl.ndarray((nl.par_dim(128), 1), dtype=nl.float32)
        powers = nisa.activation_reduce(
            np.exp, tile, bias=largest, reduce_op=np.add, reduce_res=sums, dtype=nl.float32, mask=mask
        )
        nl.store(out[i * 128 + p, f], value=nl.divide(powers, sums, mask=mask), mask=mask)
    return out


@nki.jit
def rms_norm(x, weight):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, columns = nl.arange(128)[:, None], nl.arange(x.shape[1])[None, :]
    scale = nl.load(weight.reshape((1, x.shape[1]))[nl.arange(1)[:, None], columns])
    for i in nl.affine_range((x.shape[0] + 127) // 128):
        mask = i * 128 + rows < x.shape[0]
        tile = nl.load(x[i * 128 + rows, columns], mask=mask)
        mean = nl.sum(nl.square(tile, mask=mask), axis=[1], mask=mask) / x.shape[1]
        normal = nl.multiply(tile, nl.rsqrt(mean), mask=mask)
        normal[...] = nl.multiply(normal, scale.broadcast_to((128, x.shape[1])), mask=mask)
        nl.store(out[i * 128 + rows, columns], value=normal, mask=mask)
    return out


@nki.jit
def layer_norm(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(x.shape[0] // 128):
        tile = nl.load(x[nl.ds(i * 128, 128), :])
        pieces = x.shape[1] // 512
        stats = nl.ndarray((128, 6 * pieces), dtype=nl.float32)
        for piece in nl.affine_range(pieces):
            stats[:, nl.ds(6 * piece, 6)] = nisa.bn_stats(tile[:, nl.ds(512 * piece, 512)], dtype=np.float32)
        moments = nisa.bn_aggr(stats)
        inverse = nl.rsqrt(moments[:, 1] + 1e-5)
        normal = nisa.tensor_scalar(
            data=tile, op0=np.subtract, operand0=moments[:, 0], op1=np.multiply, operand1=inverse
        )
        nl.store(out[nl.ds(i * 128, 128), :], value=normal)
    return out


@nki.jit
def transpose_free(x, shape):
    rows, columns = shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    p = nl.arange(x.shape[0])[:, None, None]
    r = nl.arange(rows)[None, :, None]
    c = nl.arange(columns)[None, None, :]
    tile = nl.load(x)
    turned = nl.ndarray((x.shape[0], columns * rows), dtype=x.dtype)
    turned[p, c * rows + r] = nl.copy(tile[p, r * columns + c])
    nl.store(out, value=turned)
    return out


@nki.jit
def average_pool(x, window):
    channels, height, width = x.shape
    out = nl.ndarray((channels, height // window, width // window), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    p, i, j, di, dj = nl.mgrid[0:channels, 0 : height // window, 0 : width // window, 0:window, 0:window]
    total = nl.sum(tile[p, i * window + di, j * window + dj], axis=[3, 4])
    nl.store(out, value=nl.multiply(total, 1.0 / (window * window)))
    return out


@nki.jit
def attention(q, k, v):
    """q, k: [d, s]; v: [s, d]."""
    d, s = q.shape
    out = nl.ndarray((s, d), dtype=q.dtype, buffer=nl.shared_hbm)
    keys = nl.load(k)
    values = nl.ndarray((s // 128, nl.par_dim(128), d), dtype=v.dtype)
    for j in nl.affine_range(s // 128):
        values[j] = nl.load(v[nl.ds(j * 128, 128), :])
    for i in nl.affine_range(s // 128):
        queries = nl.load(q[:, nl.ds(i * 128, 128)])
        scores = nl.ndarray((nl.par_dim(128), s), dtype=nl.float32)
        for j in nl.affine_range(s // 512):
            scores[:, nl.ds(j * 512, 512)] = nl.matmul(queries, keys[:, nl.ds(j * 512, 512)], transpose_x=True)
        largest = nisa.tensor_reduce(np.max, scores, axis=(1,), negate=True)
        sums = nl.ndarray((nl.par_dim(128), 1), dtype=nl.float32)
        powers = nisa.activation_reduce(np.exp, scores, bias=largest, reduce_op=np.add, reduce_res=sums)
        result = nl.zeros((128, d), nl.float32, buffer=nl.psum)
        for j in nl.affine_range(s // 128):
            turned = nl.copy(nisa.nc_transpose(powers[:, nl.ds(j * 128, 128)]))
            result += nl.matmul(turned, values[j], transpose_x=True)
        nl.store(out[nl.ds(i * 128, 128), :], value=nl.multiply(result, nisa.reciprocal(sums)))
    return out


@nki.jit
def running_sums(x):
    """Sums over blocks of columns, by loop_reduce."""
    out = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.ndarray((nl.par_dim(x.shape[0]), 1), dtype=nl.float32)
    for j in nl.affine_range(x.shape[1] // 64):
        tile = nl.load(x[:, nl.ds(j * 64, 64)])
        total[...] = nl.loop_reduce(nl.sum(tile, axis=1), op=np.add, loop_indices=[j], dtype=np.float32)
    nl.store(out, value=total)
    return out


@nki.jit
def scan(decay, x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    result = nisa.tensor_tensor_scan(nl.load(decay), nl.load(x), initial=0.0, op0=np.multiply, op1=np.add)
    nl.store(out, value=result)
    return out


@nki.jit
def gather_rows(table, indices):
    out = nl.ndarray((indices.shape[0], table.shape[1]), dtype=table.dtype, buffer=nl.shared_hbm)
    rows = nl.load(indices[nl.arange(indices.shape[0])[:, None]])
    nl.store(out, value=nl.load(table[rows, nl.arange(table.shape[1])[None, :]]))
    return out
