"""Products with something before or behind them in one kernel: residual and norm, low-rank terms, quantisation."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import nki as new_nki
import nki.isa as new_isa
import nki.language as new_nl

PART, WIDE = 128, 512


def _turned(row, steps, dtype):
    """The pieces of a row of tiles, each with rows and columns exchanged."""
    out = nl.ndarray((steps, nl.par_dim(PART), PART), dtype=dtype, buffer=nl.sbuf)
    for step in nl.affine_range(steps):
        out[step] = nl.copy(nisa.nc_transpose(row[:, nl.ds(step * PART, PART)]), dtype=dtype)
    return out


def _held(matrix):
    """All of a matrix in SBUF, its rows on partitions."""
    steps, columns = matrix.shape[0] // PART, matrix.shape[1]
    out = nl.ndarray((steps, nl.par_dim(PART), columns), dtype=matrix.dtype, buffer=nl.sbuf)
    for step in nl.affine_range(steps):
        out[step] = nl.load(matrix[nl.ds(step * PART, PART)])
    return out


@nki.jit
def matmul_add_norm(x, weights, residual, gain, epsilon=1e-5):
    """RMS norm of x weights + residual, times a gain for each column; x is turned again for every block of columns, as in the kernel whose profile
    was published. x: [M, K]; weights: [K, N]; residual: [M, N]."""
    (m, k), n = x.shape, weights.shape[1]
    out = nl.ndarray((m, n), dtype=x.dtype, buffer=nl.shared_hbm)
    held = _held(weights)
    wide = nl.load(gain.reshape((1, n))).broadcast_to((PART, n))
    for i in nl.affine_range(m // PART):
        rows = nl.ds(i * PART, PART)
        row = nl.load(x[rows])
        product = nl.ndarray((nl.par_dim(PART), n), dtype=x.dtype, buffer=nl.sbuf)
        for j in nl.affine_range(n // WIDE):
            cut = nl.ds(j * WIDE, WIDE)
            turned = _turned(row, k // PART, x.dtype)
            sums = nl.zeros((PART, WIDE), nl.float32, buffer=nl.psum)
            for step in nl.affine_range(k // PART):
                sums += nisa.nc_matmul(turned[step], held[step][:, cut])
            product[:, cut] = nl.copy(sums, dtype=x.dtype)
        total = nl.add(product, nl.load(residual[rows]))
        squares = nl.sum(nl.square(total), axis=[1], keepdims=True)
        inverse = nl.rsqrt(nl.add(squares / n, epsilon))
        nl.store(out[rows], nl.multiply(nl.multiply(total, inverse), wide))
    return out


@nki.jit
def lora(x, weights, down, up, wide=1024):
    """x weights + (x down) up. x: [M, K]; weights: [K, N]; down: [K, R]; up: [R, N] with R of at most 128."""
    (m, k), n, rank = x.shape, weights.shape[1], down.shape[1]
    out = nl.ndarray((m, n), dtype=x.dtype, buffer=nl.shared_hbm)
    steps = k // PART
    low = nl.ndarray((nl.par_dim(rank), m), dtype=x.dtype, buffer=nl.sbuf)
    held = _held(down)
    for i in nl.affine_range(m // PART):
        turned = _turned(nl.load(x[nl.ds(i * PART, PART)]), steps, x.dtype)
        sums = nl.zeros((rank, PART), nl.float32, buffer=nl.psum)
        for step in nl.affine_range(steps):
            sums += nisa.nc_matmul(held[step], turned[step])
        low[:, nl.ds(i * PART, PART)] = nl.copy(sums, dtype=x.dtype)
    for block in nl.affine_range(n // wide):
        high = nl.load(up[:, nl.ds(block * wide, wide)])
        for i in nl.affine_range(m // PART):
            rows = nl.ds(i * PART, PART)
            row = nl.load(x[rows])
            sums = [nl.zeros((PART, WIDE), nl.float32, buffer=nl.psum) for _ in range(wide // WIDE)]
            for step in nl.affine_range(steps):
                turned = nl.copy(nisa.nc_transpose(row[:, nl.ds(step * PART, PART)]))
                b = nl.load(weights[nl.ds(step * PART, PART), nl.ds(block * wide, wide)])
                for j, part in enumerate(sums):
                    part += nisa.nc_matmul(turned, b[:, nl.ds(j * WIDE, WIDE)])
            for j, part in enumerate(sums):
                part += nisa.nc_matmul(low[:, rows], high[:, nl.ds(j * WIDE, WIDE)])
                nl.store(out[rows, nl.ds(block * wide + j * WIDE, WIDE)], nl.copy(part, dtype=out.dtype))
    return out


#: The greatest finite value of the 8-bit float.
_MOST = 240.0


@new_nki.jit
def quantised(x, weights, scales, tiles_m=2, steps_held=16):
    """x in BF16 is quantised row by row, then multiplied by FP8 weights two rows in a pass. x: [M, K]; weights: [K, N] in FP8; scales: [1, N]."""
    (m, k), n = x.shape, weights.shape[1]
    out = new_nl.ndarray((m, n), dtype=x.dtype, buffer=new_nl.shared_hbm)
    pairs = k // (2 * PART)
    gain = new_nl.ndarray((PART, n), new_nl.float32)
    new_isa.dma_copy(dst=gain, src=scales.broadcast(0, PART))
    for first in range(0, m, tiles_m * PART):
        rows = [_quantised_row(x, first + at * PART, k) for at in range(tiles_m)]
        totals = [new_nl.ndarray((PART, n), new_nl.float32) for _ in rows]
        for begin in range(0, pairs, steps_held):
            end = min(begin + steps_held, pairs)
            held = []
            for pair in range(begin, end):
                tile = new_nl.ndarray((PART, 2, n), weights.dtype)
                source = weights[pair * 2 * PART : (pair + 1) * 2 * PART].reshape((2, PART, n)).permute((1, 0, 2))
                new_isa.dma_copy(dst=tile, src=source)
                held.append(tile)
            for (turned, _), total in zip(rows, totals):
                for column in range(0, n, WIDE):
                    sums = new_nl.ndarray((PART, WIDE), new_nl.float32, buffer=new_nl.psum)
                    for pair, tile in enumerate(held, begin):
                        new_isa.nc_matmul(
                            dst=sums, stationary=turned[pair], moving=tile[:, :, column : column + WIDE], perf_mode="double_row"
                        )
                    part = total[:, column : column + WIDE]
                    if begin == 0:
                        new_isa.tensor_copy(dst=part, src=sums)
                    else:
                        new_isa.tensor_tensor(dst=part, data1=part, data2=sums, op=new_nl.add)
        for at, ((_, scale), total) in enumerate(zip(rows, totals)):
            result = new_nl.ndarray((PART, n), x.dtype)
            new_isa.scalar_tensor_tensor(dst=result, data=total, op0=new_nl.multiply, operand0=scale, op1=new_nl.multiply, operand1=gain)
            new_isa.dma_copy(dst=out[first + at * PART : first + (at + 1) * PART], src=result)
    return out


def _quantised_row(x, first, k):
    """A row of tiles as pairs of 8-bit pieces with the contraction on partitions, and the scale of each row."""
    row = new_nl.ndarray((PART, k), x.dtype)
    new_isa.dma_copy(dst=row, src=x[first : first + PART])
    scale, inverse = new_nl.ndarray((PART, 1), new_nl.float32), new_nl.ndarray((PART, 1), new_nl.float32)
    new_isa.tensor_reduce(dst=scale, op=new_nl.abs_max, data=row, axis=1)
    new_isa.tensor_scalar(dst=scale, data=scale, op0=new_nl.multiply, operand0=1.0 / _MOST, op1=new_nl.maximum, operand1=1e-30)
    new_isa.reciprocal(dst=inverse, data=scale)
    new_isa.tensor_scalar(dst=row, data=row, op0=new_nl.multiply, operand0=inverse)
    turned = []
    for pair in range(k // (2 * PART)):
        flipped = new_nl.ndarray((PART, 2, PART), x.dtype, buffer=new_nl.psum)
        for half in range(2):
            start = (2 * pair + half) * PART
            new_isa.nc_transpose(dst=flipped[:, half], data=row[:, start : start + PART])
        tile = new_nl.ndarray((PART, 2, PART), new_nl.float8_e4m3)
        new_isa.tensor_copy(dst=tile, src=flipped)
        turned.append(tile)
    return turned, scale
