"""Products of large matrices in four tilings, first dialect: left_t is [K, M], right is [K, N]."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np

PART, WIDE = 128, 512


def _store(out, rows, columns, sums):
    nl.store(out[nl.ds(rows, PART), nl.ds(columns, WIDE)], nl.copy(sums, dtype=out.dtype))


@nki.jit
def tiled(left_t, right):
    """Both operands come from HBM for every tile."""
    (k, m), n = left_t.shape, right.shape[1]
    out = nl.ndarray((m, n), dtype=left_t.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(m // PART):
        for j in nl.affine_range(n // WIDE):
            sums = nl.zeros((PART, WIDE), nl.float32, buffer=nl.psum)
            for step in nl.affine_range(k // PART):
                a = nl.load(left_t[nl.ds(step * PART, PART), nl.ds(i * PART, PART)])
                b = nl.load(right[nl.ds(step * PART, PART), nl.ds(j * WIDE, WIDE)])
                sums += nl.matmul(a, b, transpose_x=True)
            _store(out, i * PART, j * WIDE, sums)
    return out


@nki.jit
def hoisted(left_t, right):
    """The left tiles of a row of results are loaded once."""
    (k, m), n = left_t.shape, right.shape[1]
    out = nl.ndarray((m, n), dtype=left_t.dtype, buffer=nl.shared_hbm)
    steps = k // PART
    for i in nl.affine_range(m // PART):
        a = nl.ndarray((steps, nl.par_dim(PART), PART), dtype=left_t.dtype, buffer=nl.sbuf)
        for step in nl.affine_range(steps):
            a[step] = nl.load(left_t[nl.ds(step * PART, PART), nl.ds(i * PART, PART)])
        for j in nl.affine_range(n // WIDE):
            b = nl.ndarray((steps, nl.par_dim(PART), WIDE), dtype=right.dtype, buffer=nl.sbuf)
            for step in nl.affine_range(steps):
                b[step] = nl.load(right[nl.ds(step * PART, PART), nl.ds(j * WIDE, WIDE)])
            sums = nl.zeros((PART, WIDE), nl.float32, buffer=nl.psum)
            for step in nl.affine_range(steps):
                sums += nl.matmul(a[step], b[step], transpose_x=True)
            _store(out, i * PART, j * WIDE, sums)
    return out


@nki.jit
def block_free(left_t, right, tiles_m=2, tiles_n=2):
    """Blocks of rows and columns stay on the chip for all of the contraction."""
    (k, m), n = left_t.shape, right.shape[1]
    out = nl.ndarray((m, n), dtype=left_t.dtype, buffer=nl.shared_hbm)
    steps, high, wide = k // PART, tiles_m * PART, tiles_n * WIDE
    for i in nl.affine_range(m // high):
        a = nl.ndarray((steps, nl.par_dim(PART), high), dtype=left_t.dtype, buffer=nl.sbuf)
        for step in nl.affine_range(steps):
            a[step] = nl.load(left_t[nl.ds(step * PART, PART), nl.ds(i * high, high)])
        for j in nl.affine_range(n // wide):
            b = nl.ndarray((tiles_n, steps, nl.par_dim(PART), WIDE), dtype=right.dtype, buffer=nl.sbuf)
            for bn in nl.affine_range(tiles_n):
                for step in nl.affine_range(steps):
                    b[bn, step] = nl.load(right[nl.ds(step * PART, PART), nl.ds(j * wide + bn * WIDE, WIDE)])
            for bm in nl.affine_range(tiles_m):
                for bn in nl.affine_range(tiles_n):
                    sums = nl.zeros((PART, WIDE), nl.float32, buffer=nl.psum)
                    for step in nl.affine_range(steps):
                        sums += nl.matmul(a[step][:, nl.ds(bm * PART, PART)], b[bn, step], transpose_x=True)
                    _store(out, i * high + bm * PART, j * wide + bn * WIDE, sums)
    return out


@nki.jit
def full(left_t, right, tiles_m=16, tiles_n=2, tiles_k=8):
    """Blocks on all three dimensions; partial sums stay in SBUF."""
    (k, m), n = left_t.shape, right.shape[1]
    out = nl.ndarray((m, n), dtype=left_t.dtype, buffer=nl.shared_hbm)
    high, wide, deep = tiles_m * PART, tiles_n * WIDE, tiles_k * PART
    for j in nl.affine_range(n // wide):
        totals = nl.zeros((m // high, tiles_m, tiles_n, nl.par_dim(PART), WIDE), out.dtype, buffer=nl.sbuf)
        for step in nl.sequential_range(k // deep):
            b = nl.ndarray((tiles_k, nl.par_dim(PART), wide), dtype=right.dtype, buffer=nl.sbuf)
            for bk in nl.affine_range(tiles_k):
                b[bk] = nl.load(right[nl.ds((tiles_k * step + bk) * PART, PART), nl.ds(j * wide, wide)])
            for i in nl.affine_range(m // high):
                a = nl.ndarray((tiles_k, nl.par_dim(PART), high), dtype=left_t.dtype, buffer=nl.sbuf)
                for bk in nl.affine_range(tiles_k):
                    a[bk] = nl.load(left_t[nl.ds((tiles_k * step + bk) * PART, PART), nl.ds(i * high, high)])
                for bn in nl.affine_range(tiles_n):
                    for bm in nl.affine_range(tiles_m):
                        sums = nl.zeros((PART, WIDE), nl.float32, buffer=nl.psum)
                        for bk in nl.affine_range(tiles_k):
                            left, moving = a[bk][:, nl.ds(bm * PART, PART)], b[bk][:, nl.ds(bn * WIDE, WIDE)]
                            sums += nisa.nc_matmul(left, moving)
                        totals[i, bm, bn] += sums
        for i in nl.affine_range(m // high):
            for bm in nl.affine_range(tiles_m):
                row = nl.ndarray((nl.par_dim(PART), wide), dtype=out.dtype, buffer=nl.sbuf)
                for bn in nl.affine_range(tiles_n):
                    row[:, nl.ds(bn * WIDE, WIDE)] = nl.copy(totals[i, bm, bn], dtype=out.dtype)
                nl.store(out[nl.ds((i * tiles_m + bm) * PART, PART), nl.ds(j * wide, wide)], row)
    return out


@nki.jit
def row_major(left, right, wide=1024):
    """left is [M, K] as it lies and is turned by a product with an identity; both operands come from HBM for each block of columns."""
    (m, k), n = left.shape, right.shape[1]
    out = nl.ndarray((m, n), dtype=left.dtype, buffer=nl.shared_hbm)
    identity = nl.load(nl.shared_constant(np.identity(PART), dtype=left.dtype))
    steps = k // PART
    for block in nl.affine_range(n // wide):
        for i in nl.affine_range(m // PART):
            row = nl.load(left[nl.ds(i * PART, PART)])
            sums = [nl.zeros((PART, WIDE), nl.float32, buffer=nl.psum) for _ in range(wide // WIDE)]
            for step in nl.affine_range(steps):
                part_of_row = row[:, nl.ds(step * PART, PART)]
                turned = nl.copy(nisa.nc_matmul(part_of_row, identity, is_moving_onezero=True, is_transpose=True), dtype=left.dtype)
                b = nl.load(right[nl.ds(step * PART, PART), nl.ds(block * wide, wide)])
                for j, part in enumerate(sums):
                    part += nisa.nc_matmul(turned, b[:, nl.ds(j * WIDE, WIDE)])
            for j, part in enumerate(sums):
                _store(out, i * PART, block * wide + j * WIDE, part)
    return out


@nki.jit
def batched(left_t, right):
    """A product for each of many small contractions. left_t: [batch, K, M]; right: [batch, K, N]."""
    batch, _, m = left_t.shape
    n = right.shape[2]
    out = nl.ndarray((batch, m, n), dtype=left_t.dtype, buffer=nl.shared_hbm)
    for one in nl.affine_range(batch):
        a, b = nl.load(left_t[one]), nl.load(right[one])
        for i in nl.affine_range(m // PART):
            row = nl.ndarray((nl.par_dim(PART), n), dtype=out.dtype, buffer=nl.sbuf)
            for j in nl.affine_range(n // WIDE):
                cut = nl.ds(j * WIDE, WIDE)
                row[:, cut] = nl.copy(nisa.nc_matmul(a[:, nl.ds(i * PART, PART)], b[:, cut]), dtype=out.dtype)
            nl.store(out[one, nl.ds(i * PART, PART)], row)
    return out
