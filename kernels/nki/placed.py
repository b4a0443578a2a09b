"""Attention with every tile placed and every instruction ordered by hand, first dialect."""

import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np

PART, WIDE = 128, 512


class _Turns:
    """Tiles that take turns in a few places: the next use of a place waits for the one before, since both are of one tile."""

    def __init__(self, tensor, count):
        self.tensor, self.count = tensor, count

    def __getitem__(self, at):
        return self.tensor[at % self.count]


class _Sbuf:
    """Places in SBUF one behind the other."""

    def __init__(self):
        self.next = 0

    def tile(self, shape, dtype):
        """One tile."""
        return self.turns(1, shape, dtype)[0]

    def turns(self, count, shape, dtype):
        """So many places of one shape."""
        at, size = self.next, int(np.prod(shape[1:])) * nl.constants.sizeinbytes(dtype)
        self.next += count * size
        where = ncc.sbuf.mod_alloc(base_addr=at, num_free_tiles=(count,))
        return _Turns(nl.ndarray((count, nl.par_dim(shape[0]), *shape[1:]), dtype=dtype, buffer=where), count)


def _banks(first, count, shape, dtype):
    """So many banks of PSUM."""
    where = ncc.psum.mod_alloc(base_bank=first, num_bank_tiles=(count,))
    return _Turns(nl.ndarray((count, nl.par_dim(shape[0]), *shape[1:]), dtype=dtype, buffer=where), count)


@nki.jit
def attention(q, k, v):
    """As `attention.fused`: the scores of the next tile of queries are computed before the values of this one. q: [d, length]; k: [d, keys]; v: [keys, d]."""
    (d, length), keys = q.shape, k.shape[1]
    steps, banks, tiles = keys // PART, keys // WIDE, length // PART
    out = nl.ndarray((length, d), dtype=v.dtype, buffer=nl.shared_hbm)
    room = _Sbuf()
    k_all, q_all = room.tile((d, keys), k.dtype), room.tile((d, length), q.dtype)
    values = room.tile((PART, steps, d), v.dtype)
    k_all[...], q_all[...] = nl.load(k), nl.load(q)
    values[...] = nl.load(v.reshape((steps, PART, d)).permute(1, 0, 2))
    scores, powers = room.turns(2, (PART, keys), nl.float32), room.turns(2, (PART, keys), v.dtype)
    turned, tops = room.turns(4, (PART, WIDE), v.dtype), room.turns(2, (PART, banks), nl.float32)
    low, totals, inverse = (room.turns(2, (PART, 1), nl.float32) for _ in range(3))
    result = room.turns(2, (PART, d), v.dtype)
    products, flipped = _banks(0, 3, (PART, WIDE), nl.float32), _banks(3, 3, (PART, WIDE), v.dtype)
    sums = _banks(6, 2, (PART, d), nl.float32).tensor

    def score(i):
        """The scores of a tile of queries, and their powers."""
        for j in range(banks):
            at, cut = i * banks + j, nl.ds(j * WIDE, WIDE)
            products[at][...] = nisa.nc_matmul(q_all[:, nl.ds(i * PART, PART)], k_all[:, cut])
            tops[i][:, nl.ds(j, 1)] = nisa.tensor_reduce(np.max, products[at], axis=(1,))
            scores[i][:, cut] = nisa.activation(np.copy, products[at])
        low[i][...] = nisa.tensor_reduce(np.max, tops[i], axis=(1,), negate=True)
        powers[i][...] = nisa.activation_reduce(np.exp, scores[i], bias=low[i], reduce_op=np.add, reduce_res=totals[i], dtype=v.dtype)

    def weigh(i):
        """The values of a tile of queries; a bank is turned while the one before is multiplied."""
        for j in range(banks + 1):
            at = i * banks + j
            if j < banks:
                for step in range(WIDE // PART):
                    cut = nl.ds(step * PART, PART)
                    flipped[at][:, cut] = nisa.nc_transpose(powers[i][:, nl.ds(j * WIDE + step * PART, PART)])
                turned[at][...] = nisa.tensor_copy(flipped[at], engine=nisa.vector_engine)
            if j:
                for step in range(WIDE // PART):
                    left = turned[at - 1][:, nl.ds(step * PART, PART)]
                    right = values[:, (j - 1) * (WIDE // PART) + step, :]
                    if j == 1 and step == 0:
                        sums[i % 2] = nisa.nc_matmul(left, right)
                    else:
                        sums[i % 2] += nisa.nc_matmul(left, right)
        inverse[i][...] = nisa.reciprocal(totals[i])
        result[i][...] = nisa.tensor_scalar(sums[i % 2], np.multiply, inverse[i], dtype=v.dtype)
        nl.store(out[nl.ds(i * PART, PART)], result[i])

    score(0)
    for i in range(tiles):
        if i + 1 < tiles:
            score(i + 1)
        weigh(i)
    return out
