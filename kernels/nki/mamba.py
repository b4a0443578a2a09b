"""A selective state-space layer in three versions, first dialect.

delta, u: [batch, channels, length]; a: [channels, states]; b, c: [batch, states, length]. For every channel and state
h = exp(delta a) h + delta u b along the sequence; the result is the sum of h c over the states.
"""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np

PART = 128


def _scan(delta, delta_u, scale, b_row, c_row, initial):
    """One state of one tile of channels: running values, and their product with c."""
    length = delta.shape[1]
    decay = nisa.activation(np.exp, delta, scale=scale)
    added = nisa.tensor_tensor(delta_u, b_row.broadcast_to((PART, length)), op=np.multiply)
    state = nisa.tensor_tensor_scan(decay, added, initial=initial, op0=np.multiply, op1=np.add)
    return state, nisa.tensor_tensor(state, c_row.broadcast_to((PART, length)), op=np.multiply)


@nki.jit
def states_outside(delta, u, a, b, c):
    """The states are the outer loop: delta and u come from HBM once for each of them."""
    batch, channels, length = delta.shape
    states = a.shape[1]
    out = nl.ndarray((batch, channels, length), dtype=delta.dtype, buffer=nl.shared_hbm)
    for one in nl.affine_range(batch):
        sums = nl.zeros((channels // PART, nl.par_dim(PART), length), nl.float32)
        for state in nl.affine_range(states):
            for tile in nl.affine_range(channels // PART):
                rows = nl.ds(tile * PART, PART)
                delta_tile, u_tile = nl.load(delta[one, rows]), nl.load(u[one, rows])
                scale = nl.load(a[rows, nl.ds(state, 1)])
                b_row, c_row = nl.load(b[one, nl.ds(state, 1)]), nl.load(c[one, nl.ds(state, 1)])
                delta_u = nisa.tensor_tensor(delta_tile, u_tile, op=np.multiply)
                _, part = _scan(delta_tile, delta_u, scale, b_row, c_row, 0)
                sums[tile] += part
        for tile in nl.affine_range(channels // PART):
            nl.store(out[one, nl.ds(tile * PART, PART)], sums[tile])
    return out


@nki.jit
def channels_outside(delta, u, a, b, c):
    """The channels are the outer loop: delta, u and their product stay in SBUF for all states."""
    batch, channels, length = delta.shape
    states = a.shape[1]
    out = nl.ndarray((batch, channels, length), dtype=delta.dtype, buffer=nl.shared_hbm)
    for one in nl.affine_range(batch):
        for tile in nl.affine_range(channels // PART):
            rows = nl.ds(tile * PART, PART)
            sums = nl.zeros((nl.par_dim(PART), length), nl.float32)
            delta_tile, u_tile = nl.load(delta[one, rows]), nl.load(u[one, rows])
            delta_u = nisa.tensor_tensor(delta_tile, u_tile, op=np.multiply)
            for state in nl.affine_range(states):
                scale = nl.load(a[rows, nl.ds(state, 1)])
                b_row, c_row = nl.load(b[one, nl.ds(state, 1)]), nl.load(c[one, nl.ds(state, 1)])
                _, part = _scan(delta_tile, delta_u, scale, b_row, c_row, 0)
                sums += part
            nl.store(out[one, rows], sums)
    return out


@nki.jit
def sequence_tiled(delta, u, a, b, c, wide=512):
    """As before, and the sequence in pieces of one PSUM bank, with the state carried from piece to piece."""
    batch, channels, length = delta.shape
    states = a.shape[1]
    out = nl.ndarray((batch, channels, length), dtype=delta.dtype, buffer=nl.shared_hbm)
    for one in nl.affine_range(batch):
        for tile in nl.affine_range(channels // PART):
            rows = nl.ds(tile * PART, PART)
            sums = nl.zeros((nl.par_dim(PART), length), nl.float32)
            delta_tile, u_tile = nl.load(delta[one, rows]), nl.load(u[one, rows])
            delta_u = nisa.tensor_tensor(delta_tile, u_tile, op=np.multiply)
            for state in nl.affine_range(states):
                scale = nl.load(a[rows, nl.ds(state, 1)])
                carried = nl.zeros((nl.par_dim(PART), 1), nl.float32)
                for piece in nl.static_range(length // wide):
                    cut = nl.ds(piece * wide, wide)
                    b_row, c_row = nl.load(b[one, nl.ds(state, 1), cut]), nl.load(c[one, nl.ds(state, 1), cut])
                    held, part = _scan(delta_tile[:, cut], delta_u[:, cut], scale, b_row, c_row, carried)
                    carried[:, :] = nl.copy(held[:, wide - 1 : wide])
                    sums[:, cut] += part
            nl.store(out[one, rows], sums)
    return out
