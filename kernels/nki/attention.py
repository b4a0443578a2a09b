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
    """powers @ values for one tile of queries: tiles of keys are turned by the tensor engine."""
    sums = nl.zeros((PART, d), nl.float32, buffer=nl.psum)
    for j in nl.affine_range(count):
        turned = nl.copy(nisa.nc_transpose(powers[:, nl.ds(j * PART, PART)]), dtype=values.dtype)
        sums += nisa.nc_matmul(turned, values[j])
    return sums


@nki.jit
def fused(q, k, v, scale=1.0):
    """A whole row of scores stays on the chip; q, k and v are loaded once."""
    d, length = q.shape
    keys = k.shape[1]
    out = nl.ndarray((length, d), dtype=v.dtype, buffer=nl.shared_hbm)
    k_all = nl.load(k)
    values = nl.ndarray((keys // PART, nl.par_dim(PART), d), dtype=v.dtype, buffer=nl.sbuf)
    for j in nl.affine_range(keys // PART):
        values[j] = nl.load(v[nl.ds(j * PART, PART)])
    for i in nl.affine_range(length // PART):
        rows = nl.ds(i * PART, PART)
        q_tile = nl.multiply(nl.load(q[:, rows]), scale, dtype=q.dtype)
        scores = nl.ndarray((nl.par_dim(PART), keys), dtype=nl.float32, buffer=nl.sbuf)
        highest = nl.ndarray((nl.par_dim(PART), keys // WIDE), dtype=nl.float32, buffer=nl.sbuf)
        for j in nl.affine_range(keys // WIDE):
            cut = nl.ds(j * WIDE, WIDE)
            part = nisa.nc_matmul(q_tile, k_all[:, cut])
            scores[:, cut] = nl.copy(part)
            highest[:, j] = nisa.tensor_reduce(np.max, part, axis=(1,))
        top = nisa.tensor_reduce(np.max, highest, axis=(1,), negate=True)
        total = nl.ndarray((nl.par_dim(PART), 1), dtype=nl.float32, buffer=nl.sbuf)
        powers = nisa.activation_reduce(np.exp, scores, bias=top, reduce_op=np.add, reduce_res=total, dtype=v.dtype)
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
        for i in nl.affine_range(length // PART):
            rows = nl.ds(i * PART, PART)
            q_tile = nl.load(q[head, :, rows])
            state = None
            for j in nl.sequential_range(keys // wide):
                if causal and j * wide > i * PART + PART - 1:
                    continue
                state = _flash_step(state, q_tile, k[group], v[group], i * PART, j * wide, wide, causal)
            highest, total, sums = state
            nl.store(out[head, rows], nl.multiply(sums, nl.reciprocal(total), dtype=v.dtype))
    return out


def _flash_step(state, q_tile, k, v, first_row, first_key, wide, causal):
    """One tile of queries against one large tile of keys."""
    d = q_tile.shape[0]
    k_tile = nl.load(k[:, nl.ds(first_key, wide)])
    values = nl.ndarray((wide // PART, nl.par_dim(PART), d), dtype=v.dtype, buffer=nl.sbuf)
    for j in nl.affine_range(wide // PART):
        values[j] = nl.load(v[nl.ds(first_key + j * PART, PART)])
    scores = nl.ndarray((nl.par_dim(PART), wide), dtype=nl.float32, buffer=nl.sbuf)
    tops = nl.ndarray((nl.par_dim(PART), wide // WIDE), dtype=nl.float32, buffer=nl.sbuf)
    row, column = nl.arange(PART)[:, None], nl.arange(WIDE)[None, :]
    for j in nl.affine_range(wide // WIDE):
        cut = nl.ds(j * WIDE, WIDE)
        part = nisa.nc_matmul(q_tile, k_tile[:, cut])
        start = first_key + j * WIDE
        if causal and start + WIDE - 1 > first_row:
            kept = first_row + row >= start + column
            scores[:, cut] = nisa.affine_select(pred=kept, on_true_tile=nl.copy(part), on_false_value=-9984.0)
            tops[:, j] = nisa.tensor_reduce(np.max, scores[:, cut], axis=(1,))
        else:
            scores[:, cut] = nl.copy(part)
            tops[:, j] = nisa.tensor_reduce(np.max, part, axis=(1,))
    top = nisa.tensor_reduce(np.max, tops, axis=(1,))
    if state is not None:
        top = nl.maximum(top, state[0])
    low = nl.multiply(top, -1.0)
    total = nl.ndarray((nl.par_dim(PART), 1), dtype=nl.float32, buffer=nl.sbuf)
    powers = nisa.activation_reduce(np.exp, scores, bias=low, reduce_op=np.add, reduce_res=total, dtype=v.dtype)
    sums = _weighted(powers, values, d, wide // PART)
    if state is None:
        return top, total, nl.copy(sums)
    fade = nisa.activation(np.exp, state[0], bias=low)
    total = nisa.scalar_tensor_tensor(data=state[1], op0=np.multiply, operand0=fade, op1=np.add, operand1=total)
    sums = nisa.scalar_tensor_tensor(data=state[2], op0=np.multiply, operand0=fade, op1=np.add, operand1=sums)
    return top, total, sums
