"""The gradient of attention, first dialect: powers are computed again from the logarithms of their sums."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np

PART, WIDE = 128, 512
CUTS = WIDE // PART


@nki.jit
def flash_backward(turned, rows, v_t, out, sums, scale=1.0, causal=False):
    """Gradients of q, k and v. turned: q, k and the gradient of the result, [3, heads, d, length]; rows: the same as [3, heads, length, d];
    v_t: [heads, d, length]; out: [heads, length, d]; sums: logarithms of the sums of powers, [heads, length]."""
    _, heads, d, length = turned.shape
    found = nl.ndarray((3, heads, length, d), dtype=rows.dtype, buffer=nl.shared_hbm)
    tiles = length // PART
    for head in nl.affine_range(heads):
        low = nl.multiply(nl.load(sums[head].reshape((tiles, PART)).permute(1, 0)), -1.0)
        inner = nl.ndarray((nl.par_dim(PART), tiles), dtype=nl.float32)
        for i in nl.affine_range(tiles):
            cut = nl.ds(i * PART, PART)
            both = nl.multiply(nl.load(rows[2, head, cut]), nl.load(out[head, cut]), dtype=nl.float32)
            inner[:, nl.ds(i, 1)] = nl.sum(both, axis=1, keepdims=True)
        d_q = nl.zeros((nl.par_dim(PART), tiles, d), nl.float32, buffer=nl.sbuf)
        for j in nl.affine_range(length // WIDE):
            keys = nl.ds(j * WIDE, WIDE)
            k_t, values = nl.load(turned[1, head, :, keys]), nl.load(v_t[head, :, keys])
            k = nl.load(rows[1, head, keys].reshape((CUTS, PART, d)).permute(1, 0, 2))
            d_k, d_v = (nl.zeros((PART, CUTS, d), nl.float32, buffer=nl.psum) for _ in range(2))
            for i in nl.affine_range(j * CUTS if causal else 0, tiles):
                cut = nl.ds(i * PART, PART)
                q_t, dy_t = nl.load(turned[0, head, :, cut]), nl.load(turned[2, head, :, cut])
                q, dy = nl.load(rows[0, head, cut]), nl.load(rows[2, head, cut])
                kept = i * PART - j * WIDE if causal else None
                powers = _powers(q_t, k_t, low[:, nl.ds(i, 1)], scale, kept)
                d_scores = _gradient(dy_t, values, powers, inner[:, nl.ds(i, 1)], scale)
                for c in range(CUTS):
                    piece = nl.ds(c * PART, PART)
                    d_v[:, c, :] += nisa.nc_matmul(powers[:, piece], dy)
                    d_k[:, c, :] += nisa.nc_matmul(d_scores[:, piece], q)
                d_q[:, i, :] = nl.add(d_q[:, i, :], _back(d_scores, k, d))
            for at, total in ((1, d_k), (2, d_v)):
                place = found[at, head, keys].reshape((CUTS, PART, d)).permute(1, 0, 2)
                nl.store(place, nl.copy(total, dtype=found.dtype))
        for i in nl.affine_range(tiles):
            nl.store(found[0, head, nl.ds(i * PART, PART)], nl.copy(d_q[:, i, :], dtype=found.dtype))
    return found


def _powers(q_t, k_t, low, scale, kept):
    """Probabilities of a tile of queries; with `kept`, none of keys beyond a query, which is that many after the first key."""
    scores = nisa.nc_matmul(q_t, k_t)
    powers = nisa.activation(np.exp, scores, bias=low, scale=scale, dtype=q_t.dtype)
    if kept is not None and kept < WIDE:
        row, column = nl.arange(PART)[:, None], nl.arange(WIDE)[None, :]
        powers = nisa.affine_select(pred=kept + row >= column, on_true_tile=powers, on_false_value=0.0)
    return powers


def _gradient(dy_t, values, powers, inner, scale):
    """The gradient of scores before their scale, times it."""
    part = nisa.nc_matmul(dy_t, values)
    scaled = nisa.scalar_tensor_tensor(data=part, op0=np.subtract, operand0=inner, op1=np.multiply, operand1=powers)
    return nl.multiply(scaled, scale, dtype=powers.dtype)


def _back(d_scores, k, d):
    """d_scores @ k for one tile of queries."""
    bank = nl.ndarray((nl.par_dim(PART), WIDE), dtype=d_scores.dtype, buffer=nl.psum)
    for c in range(CUTS):
        piece = nl.ds(c * PART, PART)
        bank[:, piece] = nisa.nc_transpose(d_scores[:, piece])
    flipped = nl.copy(bank, dtype=k.dtype)
    sums = nl.zeros((PART, d), nl.float32, buffer=nl.psum)
    for c in range(CUTS):
        sums += nisa.nc_matmul(flipped[:, nl.ds(c * PART, PART)], k[:, c, :])
    return sums
