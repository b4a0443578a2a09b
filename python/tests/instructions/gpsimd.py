"""Instructions of the GpSimd engine."""

import nki.isa as nisa
import nki.language as nl
import numpy as np

from .harness import BF16, F32, I32, U16, U32, WIDTHS, Mode, case

ROWS = {"a": (128, 256)}
OUT = {"out": (128, 256)}
_P, _X = np.arange(128)[:, None], np.arange(256)[None, :]


@case("gpsimd", "iota", {}, OUT, lambda: 5 + 2 * _P + 3 * _X, modes=(Mode(I32), Mode(F32)))
def _(t):
    nisa.iota(t.out, [[3, 256]], 5, 2)


@case("gpsimd", "affine_select", ROWS, OUT, lambda a: np.where(_P - _X >= 0, a, -7.0), modes=WIDTHS)
def _(t):
    nisa.affine_select(t.out, [[-1, 256]], 1, t.a, -7.0, cmp_op=nl.greater_equal)


for _op, _formula in {"add": np.sum, "maximum": np.max}.items():

    @case("gpsimd", f"tensor_partition_reduce {_op}", ROWS, {"out": (1, 256)}, lambda a, f=_formula: f(np.float64(a), axis=0, keepdims=True), tolerance=1e-5)
    def _(t, op=_op):
        nisa.tensor_partition_reduce(t.out, getattr(nl, op), t.a)


def _gathered(a, i):
    out = np.zeros((128, 64), a.dtype)
    for core in range(8):
        rows = slice(core * 16, core * 16 + 16)
        order = [int(i[core * 16 + at % 16, at // 16]) for at in range(64)]
        out[rows] = a[rows][:, order]
    return out


@case("gpsimd", "local_gather", {"a": (128, 256), "i": (128, 4)}, {"out": (128, 64)}, _gathered, dtypes={"i": U16})
def _(t):
    nisa.local_gather(t.out, t.a, t.i, 1, 64)


@case("gpsimd", "nc_n_gather", {"a": (128, 256), "i": (128, 64)}, {"out": (128, 64)}, lambda a, i: np.take_along_axis(a, i, 1), dtypes={"i": U32})
def _(t):
    nisa.nc_n_gather(t.out, t.a, t.i)


_SEGMENTS = np.array([[1, 1, 1, 2, 2, 3, 3, 3, 0, 0]])


def _bounds(s):
    starts = [[0, 0, 0, 3, 3, 5, 5, 5, 10, 10], [3, 3, 3, 5, 5, 8, 8, 8, -1, -1]]
    assert np.array_equal(s, _SEGMENTS)
    return np.array([starts])


@case("gpsimd", "sequence_bounds", {"s": (1, 10)}, {"out": (1, 2, 10)}, _bounds, values={"s": _SEGMENTS}, modes=(Mode(I32),))
def _(t):
    nisa.sequence_bounds(t.out, t.s)


_SPARSE = np.where(np.arange(128 * 16).reshape(128, 16) % 3 == 0, 1, 0)


def _nonzero(a):
    out = np.full((128, 17), 4)
    for row in range(0, 128, 16):
        found = list(np.flatnonzero(a[row]) + 100)
        out[row] = found + [-1] * (16 - len(found)) + [len(found)]
    return out


@case("gpsimd", "nonzero_with_count", {"a": (128, 16)}, {"out": (128, 17)}, _nonzero, values={"a": _SPARSE}, modes=(Mode(I32),), since=3)
def _(t):
    nisa.nonzero_with_count(t.out, t.a, 100, -1)


_SNAKE = np.random.default_rng(9).permutation(256)[: 32 * 4].reshape(32, 4).astype(np.float32)


def _largest(a):
    values, places = np.zeros((32, 8)), np.zeros((32, 8), np.int64)
    for group in range(2):
        snake = [a[group * 16 + at % 16, at // 16] for at in range(60)]
        order = sorted(range(60), key=lambda at: snake[at])[-8:]
        values[group * 16 : group * 16 + 16] = [snake[at] for at in order]
        places[group * 16 : group * 16 + 16] = order
    return {"out": values, "at": places}


@case("gpsimd", "topk", {"a": (32, 4)}, {"out": (32, 8), "at": (32, 8)}, _largest, values={"a": _SNAKE}, modes=(Mode(BF16),), out_dtypes={"at": U32})
def _(t):
    nisa.topk(t.out, t.at, t.a, 60)


@case("gpsimd", "tensor_tensor of integers", {"a": (128, 256), "b": (128, 256)}, OUT, lambda a, b: a * b + 0, modes=(Mode(I32),), values={"a": np.full((128, 256), 54_321), "b": np.arange(128 * 256).reshape(128, 256)})
def _(t):
    nisa.tensor_tensor(t.out, t.a, t.b, nl.multiply)


@case("gpsimd", "tensor_tensor power", {"a": (128, 256), "b": (128, 256)}, OUT, lambda a, b: np.power(np.float64(a), np.float64(b)), values={"a": np.linspace(0.5, 2, 128 * 256).reshape(128, 256)}, tolerance=1e-5)
def _(t):
    nisa.tensor_tensor(t.out, t.a, t.b, nl.power)


@case("gpsimd", "tensor_copy", ROWS, OUT, lambda a: a, modes=WIDTHS)
def _(t):
    nisa.tensor_copy(t.out, t.a, engine=nisa.gpsimd_engine)


@case("gpsimd", "memset", {}, OUT, lambda: np.full((128, 256), 2.5), modes=WIDTHS)
def _(t):
    nisa.memset(t.out, 2.5, engine=nisa.gpsimd_engine)


_STATES = np.arange(1, 128 * 6 + 1).reshape(128, 6)


@case("gpsimd", "rand_set_state and rand_get_state", {"s": (128, 6)}, {"out": (128, 6)}, lambda s: s, values={"s": _STATES}, modes=(Mode(U32),), since=3)
def _(t):
    nisa.rand_set_state(t.s)
    nisa.rand_get_state(t.out)


def _xorwow(s):
    """The generator written out for each lane."""
    out = np.zeros((128, 5), np.int64)
    word = 0xFFFFFFFF
    for lane in range(128):
        x, y, z, w, v, d = (int(one) for one in s[lane])
        for at in range(5):
            turned = x ^ (x >> 2)
            x, y, z, w = y, z, w, v
            v = (v ^ (v << 4) ^ turned ^ (turned << 1)) & word
            d = (d + 362437) & word
            out[lane, at] = (d + v) & word
    return out


@case("gpsimd", "rand_set_state, then rng", {"s": (128, 6)}, {"out": (128, 5)}, _xorwow, values={"s": _STATES}, modes=(Mode(U32),), since=3)
def _(t):
    nisa.rand_set_state(t.s)
    nisa.rng(t.out, engine=nisa.gpsimd_engine)
