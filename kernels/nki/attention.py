"""Attention of one head in three versions, first dialect: q and k are [d, length], v is [length, d]."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np

PART, WIDE = 128, 512


@nki.jit
def naive(q, k, v):
    """Scores and probabilities go to HBM and come back, one pass for each step."""
    d, length = q.shape
    keys = k.shape[1]
    scores = nl.ndarray((length, keys), dtype=nl.float32, buffer=nl.private_hbm)
    weights = nl.ndarray((length, keys), dtype=nl.float32, buffer=nl.private_hbm)
    out = nl.ndarray((length, d), dtype=v.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(length // PART):
        rows = nl.ds(i * PART, PART)
        q_tile = nl.load(q[:, rows])
        for j in nl.affine_range(keys // WIDE):
            k_tile = nl.load(k[:, nl.ds(j * WIDE, WIDE)])
            nl.store(scores[rows, nl.ds(j * WIDE, WIDE)], nl.copy(nisa.nc_matmul(q_tile, k_tile)))
    for i in nl.affine_range(length // PART):
        rows = nl.ds(i * PART, PART)
        row = nl.load(scores[rows])
        shifted = nl.subtract(row, nl.max(row, axis=1, keepdims=True))
        powers = nl.exp(shifted)
        nl.store(weights[rows], nl.divide(powers, nl.sum(powers, axis=1, keepdims=True)))
    for i in nl.affine_range(length // PART):
        rows = nl.ds(i * PART, PART)
        sums = nl.zeros((PART, d), nl.float32, buffer=nl.psum)
        for j in nl.affine_range(keys // PART):
            part = nl.load(weights[rows, nl.ds(j * PART, PART)])
            turned = nl.copy(nisa.nc_transpose(part))
            sums += nisa.nc_matmul(turned, nl.load(v[nl.ds(j * PART, PART)]))
        nl.store(out[rows], nl.copy(sums, dtype=v.dtype))
    return out


def _weighted(powers, values, d, count):
    """powers @ values for one tile of queries: four tiles of keys are turned into one bank, then copied at once."""
    sums = nl.zeros((PART, d), nl.float32, buffer=nl.psum)
    for block in nl.affine_range(count // 4):
        bank = nl.ndarray((nl.par_dim(PART), WIDE), dtype=powers.dtype, buffer=nl.psum)
        for j in nl.affine_range(4):
            part = powers[:, nl.ds((block * 4 + j) * PART, PART)]
            bank[:, nl.ds(j * PART, PART)] = nisa.nc_transpose(part)
        turned = nl.copy(bank, dtype=values.dtype)
        for j in nl.affine_range(4):
            sums += nisa.nc_matmul(turned[:, nl.ds(j * PART, PART)], values[:, block * 4 + j, :])
    return sums


def _values(v, first, count):
    """Rows of v as a tile [128, count, d], tile by tile of rows."""
    d = v.shape[1]
    tiles = v.reshape((v.shape[0] // PART, PART, d))[nl.ds(first // PART, count)]
    return nl.load(tiles.permute(1, 0, 2))


@nki.jit
def fused(q, k, v, scale=1.0):
    """A whole row of scores stays on the chip; q, k and v are loaded once."""
    d, length = q.shape
    keys = k.shape[1]
    out = nl.ndarray((length, d), dtype=v.dtype, buffer=nl.shared_hbm)
    k_all, q_all = nl.load(k), nl.multiply(nl.load(q), scale, dtype=q.dtype)
    values = _values(v, 0, keys // PART)
    for i in nl.affine_range(length // PART):
        rows = nl.ds(i * PART, PART)
        scores = nl.ndarray((nl.par_dim(PART), keys), dtype=nl.float32, buffer=nl.sbuf)
        highest = nl.ndarray((nl.par_dim(PART), keys // WIDE), dtype=nl.float32, buffer=nl.sbuf)
        for j in nl.affine_range(keys // WIDE):
            cut = nl.ds(j * WIDE, WIDE)
            part = nisa.nc_matmul(q_all[:, rows], k_all[:, cut])
            scores[:, cut] = nisa.activation(np.copy, part)
            highest[:, j] = nisa.tensor_reduce(np.max, part, axis=(1,))
        low = nisa.tensor_reduce(np.max, highest, axis=(1,), negate=True)
        total = nl.ndarray((nl.par_dim(PART), 1), dtype=nl.float32, buffer=nl.sbuf)
        powers = nisa.activation_reduce(np.exp, scores, bias=low, reduce_op=np.add, reduce_res=total, dtype=v.dtype)
        sums = _weighted(powers, values, d, keys // PART)
        nl.store(out[rows], nl.multiply(sums, nl.reciprocal(total), dtype=v.dtype))
    return out


@nki.jit
def flash(q, k, v, causal=False, wide=2048):
    """Running maxima and sums over large tiles of keys; heads share keys in groups. q: [heads, d, length]."""
    heads, d, length = q.shape
    kv_heads, _, keys = k.shape
    wide = min(wide, keys)
    out = nl.ndarray((heads, length, d), dtype=v.dtype, buffer=nl.shared_hbm)
    for head in nl.affine_range(heads):
        group = head // (heads // kv_heads)
        q_all = nl.load(q[head])
        states = [None] * (length // PART)
        for j in nl.sequential_range(keys // wide):
            k_tile = nl.load(k[group, :, nl.ds(j * wide, wide)])
            values = _values(v[group], j * wide, wide // PART)
            for i in nl.affine_range(length // PART):
                if not causal or j * wide <= i * PART + PART - 1:
                    q_tile = q_all[:, nl.ds(i * PART, PART)]
                    states[i] = _flash_step(states[i], q_tile, k_tile, values, i * PART, j * wide, causal)
        for i in nl.affine_range(length // PART):
            _, total, sums = states[i]
            nl.store(out[head, nl.ds(i * PART, PART)], nl.multiply(sums, nl.reciprocal(total), dtype=v.dtype))
    return out


def _flash_step(state, q_tile, k_tile, values, first_row, first_key, causal):
    """One tile of queries against one large tile of keys."""
    d, wide = k_tile.shape
    needed = min(wide, first_row + PART - first_key) if causal else wide
    banks = (needed + WIDE - 1) // WIDE
    scores = nl.ndarray((nl.par_dim(PART), banks * WIDE), dtype=nl.float32, buffer=nl.sbuf)
    tops = nl.ndarray((nl.par_dim(PART), banks), dtype=nl.float32, buffer=nl.sbuf)
    row, column = nl.arange(PART)[:, None], nl.arange(WIDE)[None, :]
    for j in nl.affine_range(banks):
        cut = nl.ds(j * WIDE, WIDE)
        part = nisa.nc_matmul(q_tile, k_tile[:, cut])
        scores[:, cut] = nisa.activation(np.copy, part)
        start = first_key + j * WIDE
        if causal and start + WIDE - 1 > first_row:
            kept = first_row + row >= start + column
            scores[:, cut] = nisa.affine_select(pred=kept, on_true_tile=scores[:, cut], on_false_value=-9984.0)
            part = scores[:, cut]
        tops[:, j] = nisa.tensor_reduce(np.max, part, axis=(1,))
    low = nisa.tensor_reduce(np.max, tops, axis=(1,), negate=True)
    if state is not None:
        low = nl.minimum(low, state[0])
    total = nl.ndarray((nl.par_dim(PART), 1), dtype=nl.float32, buffer=nl.sbuf)
    powers = nisa.activation_reduce(
        np.exp, scores, bias=low, reduce_op=np.add, reduce_res=total, dtype=values.dtype
    )
    sums = _weighted(powers, values, d, banks * 4)
    if state is None:
        return low, total, nl.copy(sums)
    fade = nisa.activation(np.exp, state[0], scale=-1.0, bias=low)
    total = nisa.scalar_tensor_tensor(data=state[1], op0=np.multiply, operand0=fade, op1=np.add, operand1=total)
    sums = nisa.scalar_tensor_tensor(data=state[2], op0=np.multiply, operand0=fade, op1=np.add, operand1=sums)
    return low, total, sums
