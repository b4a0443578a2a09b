"""Instructions of the Vector engine."""

import nki.isa as nisa
import nki.language as nl
import numpy as np

from .harness import BF16, F16, F32, I32, PATHS, PLAIN, U16, U32, U8, WIDTHS, Mode, case

ROWS = {"a": (128, 256)}
PAIR = {"a": (128, 256), "b": (128, 256)}
OUT = {"out": (128, 256)}


def _flag(holds):
    return np.asarray(holds, np.float32)


BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "abs_max": lambda a, b: np.maximum(abs(a), abs(b)),
    "abs_min": lambda a, b: np.minimum(abs(a), abs(b)),
    "equal": lambda a, b: _flag(a == b),
    "not_equal": lambda a, b: _flag(a != b),
    "less": lambda a, b: _flag(a < b),
    "less_equal": lambda a, b: _flag(a <= b),
    "greater": lambda a, b: _flag(a > b),
    "greater_equal": lambda a, b: _flag(a >= b),
    "logical_and": lambda a, b: _flag((a != 0) & (b != 0)),
    "logical_or": lambda a, b: _flag((a != 0) | (b != 0)),
    "logical_xor": lambda a, b: _flag((a != 0) ^ (b != 0)),
}
for _op, _formula in BINARY.items():

    @case("vector", f"tensor_tensor {_op}", PAIR, OUT, _formula, modes=PATHS if _op == "add" else WIDTHS, in_sbuf=("b",))
    def _(t, op=_op):
        nisa.tensor_tensor(t.out, t.a, t.b, getattr(nl, op))

    @case("vector", f"tensor_scalar {_op}", ROWS, OUT, lambda a, f=_formula: f(a, np.float32(0.5)), modes=PATHS if _op == "add" else PLAIN)
    def _(t, op=_op):
        nisa.tensor_scalar(t.out, t.a, getattr(nl, op), 0.5)


BITS = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": lambda a, b: (a << b) & 0xFFFFFFFF,
    "right_shift": lambda a, b: a >> b,
}
for _op, _formula in BITS.items():
    _values = {"b": np.arange(128 * 256).reshape(128, 256) % 7}

    @case("vector", f"tensor_tensor {_op}", PAIR, OUT, _formula, modes=(Mode(U32),), values=_values)
    def _(t, op=_op):
        nisa.tensor_tensor(t.out, t.a, t.b, getattr(nl, op))

    @case("vector", f"tensor_scalar {_op}", ROWS, OUT, lambda a, f=_formula: f(a, 3), modes=(Mode(U32),))
    def _(t, op=_op):
        nisa.tensor_scalar(t.out, t.a, getattr(nl, op), 3)


@case("vector", "tensor_scalar two operators", ROWS, OUT, lambda a: (2.0 - a) * 3.0, modes=PATHS)
def _(t):
    nisa.tensor_scalar(t.out, t.a, nl.subtract, 2.0, True, nl.multiply, 3.0)


@case("vector", "tensor_scalar operand of partitions", {"a": (128, 256), "p": (128, 1)}, OUT, lambda a, p: a * p, modes=WIDTHS, dtypes={"p": F32})
def _(t):
    nisa.tensor_scalar(t.out, t.a, nl.multiply, t.p)


for _op, _formula in {"abs": abs, "square": np.square, "relu": lambda a: np.maximum(a, 0), "reciprocal": lambda a: 1 / a, "logical_not": lambda a: _flag(a == 0)}.items():

    @case("vector", f"tensor_scalar {_op}", ROWS, OUT, _formula)
    def _(t, op=_op):
        nisa.tensor_scalar(t.out, t.a, getattr(nl, op), 0.0)


@case("vector", "scalar_tensor_tensor", PAIR, OUT, lambda a, b: (a - 0.5) * b, modes=PATHS, in_sbuf=("b",))
def _(t):
    nisa.scalar_tensor_tensor(t.out, t.a, nl.subtract, 0.5, nl.multiply, t.b)


def picked(a, i, group, count):
    """Elements at the offsets of each group of partitions, which wind through the group column by column."""
    out = np.zeros((len(a), count), a.dtype)
    for p in range(len(a)):
        for at in range(count):
            out[p, at] = a[p, i[p // group * group + at % group, at // group]]
    return out


_OFFSETS = {"a": (128, 256), "i": (128, 4)}


@case("vector", "indirect source of tensor_copy", _OFFSETS, {"out": (128, 60)}, lambda a, i: picked(a, i, 16, 60), dtypes={"i": U16}, since=4)
def _(t):
    nisa.tensor_copy(t.out, t.a.indirect(t.i, 60))


def _scattered(a):
    out = np.zeros((16, 64), np.float32)
    out[:, _PLACES.T.reshape(-1)] = a + 1
    return out


#: Every place once, in no order.
_PLACES = np.random.default_rng(3).permutation(64).reshape(4, 16).T


@case(
    "vector", "indirect result of tensor_scalar", {"a": (16, 64), "i": (16, 4)}, {"out": (16, 64)}, lambda a, i: _scattered(a),
    dtypes={"i": U32}, values={"i": _PLACES}, since=4,
)  # fmt: skip
def _(t):
    nisa.tensor_scalar(t.out.indirect(t.i), t.a, nl.add, 1.0)


@case("vector", "tensor_copy", ROWS, OUT, lambda a: a, modes=PATHS)
def _(t):
    nisa.tensor_copy(t.out, t.a)


@case("vector", "tensor_copy cast", ROWS, OUT, lambda a: a, out_dtypes={"out": BF16})
def _(t):
    nisa.tensor_copy(t.out, t.a)


@case("vector", "memset zero", {}, OUT, lambda: np.zeros((128, 256)), modes=WIDTHS)
def _(t):
    nisa.memset(t.out, 0.0)


@case("vector", "memset constant", {}, OUT, lambda: np.full((128, 256), 1.5), modes=WIDTHS)
def _(t):
    nisa.memset(t.out, 1.5)


@case("vector", "reciprocal", ROWS, OUT, lambda a: 1 / a, modes=WIDTHS)
def _(t):
    nisa.reciprocal(t.out, t.a)


@case("vector", "nc_transpose", {"a": (32, 24)}, {"out": (24, 32)}, lambda a: a.T, modes=WIDTHS)
def _(t):
    nisa.nc_transpose(t.out, t.a, engine=nisa.vector_engine)


@case("vector", "nc_stream_shuffle", ROWS, OUT, lambda a: a.reshape(4, 32, 256)[:, ::-1].reshape(128, 256), modes=WIDTHS)
def _(t):
    nisa.nc_stream_shuffle(t.out, t.a, list(range(31, -1, -1)))


_CHECKED = np.arange(128 * 256).reshape(128, 256) % 2


@case("vector", "tensor_copy_predicated", {"a": (128, 256), "p": (128, 256)}, OUT, lambda a, p: np.where(p != 0, a, 2.0), dtypes={"p": U8}, values={"p": _CHECKED})
def _(t):
    nisa.memset(t.out, 2.0)
    nisa.tensor_copy_predicated(t.out, t.a, t.p)


@case(
    "vector",
    "select_reduce",
    {"a": (128, 256), "p": (128, 256)},
    {"out": (128, 256), "top": (128, 1)},
    lambda a, p: {"out": np.where(p != 0, a, -5.0), "top": np.where(p != 0, a, -5.0).max(1, keepdims=True)},
    dtypes={"p": U8},
    values={"p": _CHECKED},
)
def _(t):
    nisa.select_reduce(t.out, t.p, t.a, -5.0, t.top, nisa.reduce_cmd.reset_reduce, nl.maximum)


_COLUMN = np.arange(256)[None, :]
_LOWEST = np.finfo(np.float32).min


@case(
    "vector",
    "range_select",
    {"a": (128, 256), "low": (128, 1), "high": (128, 1)},
    {"out": (128, 256), "top": (128, 1)},
    lambda a, low, high: {
        "out": np.where((_COLUMN >= low) & (_COLUMN < high), a, _LOWEST),
        "top": np.where((_COLUMN >= low) & (_COLUMN < high), a, _LOWEST).max(1, keepdims=True),
    },
    values={"low": np.arange(128)[:, None] % 50, "high": 60 + np.arange(128)[:, None]},
    since=3,
)
def _(t):
    nisa.range_select(t.out, t.a, nl.greater_equal, nl.less, t.low, t.high, nisa.reduce_cmd.reset_reduce, t.top, nl.maximum)


@case("vector", "dropout of nothing", ROWS, OUT, lambda a: a)
def _(t):
    nisa.dropout(t.out, t.a, 0.0)


@case("vector", "dropout of everything", ROWS, OUT, lambda a: a * 0)
def _(t):
    nisa.dropout(t.out, t.a, 1.0)


REDUCTIONS = {"add": np.sum, "multiply": np.prod, "maximum": np.max, "minimum": np.min}
for _op, _formula in REDUCTIONS.items():

    @case("vector", f"tensor_reduce {_op}", ROWS, {"out": (128, 1)}, lambda a, f=_formula: f(a.astype(np.float64), axis=1, keepdims=True), modes=PATHS if _op == "add" else WIDTHS, tolerance=1e-5)
    def _(t, op=_op):
        nisa.tensor_reduce(t.out, getattr(nl, op), t.a, 1)


@case("vector", "tensor_reduce two axes, negated", {"a": (128, 16, 16)}, {"out": (128, 1)}, lambda a: -a.max(axis=(1, 2)).reshape(128, 1))
def _(t):
    nisa.tensor_reduce(t.out, nl.maximum, t.a, (1, 2), True)


@case(
    "vector",
    "tensor_scalar_reduce",
    ROWS,
    {"out": (128, 256), "sums": (128, 1)},
    lambda a: {"out": a * 2.0, "sums": (a.astype(np.float64) * 2.0).sum(1, keepdims=True)},
    modes=WIDTHS,
    out_dtypes={"sums": F32},
    tolerance=1e-5,
)
def _(t):
    nisa.tensor_scalar_reduce(t.out, t.a, nl.multiply, 2.0, nl.add, t.sums)


@case("vector", "tensor_scalar_cumulative", ROWS, OUT, lambda a: np.cumsum(a + 1.0, 1, dtype=np.float64), tolerance=1e-4)
def _(t):
    nisa.tensor_scalar_cumulative(t.out, t.a, nl.add, nl.add, 1.0)


def _scan(a, b):
    out, last = np.zeros_like(a, np.float64), np.zeros(a.shape[0])
    for at in range(a.shape[1]):
        last = out[:, at] = a[:, at] * last + b[:, at]
    return out


@case("vector", "tensor_tensor_scan", PAIR, OUT, lambda a, b: _scan(np.float64(a), np.float64(b)), modes=PLAIN, values={"a": np.sin(np.arange(128 * 256)).reshape(128, 256)}, tolerance=1e-5)
def _(t):
    nisa.tensor_tensor_scan(t.out, t.a, t.b, 0.0, nl.multiply, nl.add)


def _statistics(a):
    parts = []
    for half in (a[:, 0::2].astype(np.float64), a[:, 1::2].astype(np.float64)):
        count = half.shape[1]
        parts += [np.full(len(a), count), half.mean(1), half.var(1) * count]
    return np.stack(parts, 1)


@case("vector", "bn_stats", ROWS, {"out": (128, 6)}, _statistics, modes=WIDTHS, out_dtypes={"out": F32}, tolerance=1e-5)
def _(t):
    nisa.bn_stats(t.out, t.a)


@case("vector", "bn_aggr", ROWS, {"out": (128, 2)}, lambda a: np.stack([a.mean(1, dtype=np.float64), a.var(1, dtype=np.float64)], 1), tolerance=1e-5)
def _(t):
    stats = nl.ndarray((128, 6), dtype=nl.float32, buffer=nl.sbuf)
    nisa.bn_stats(stats, t.a)
    nisa.bn_aggr(t.out, stats)


@case("vector", "max8", ROWS, {"out": (128, 8)}, lambda a: -np.sort(-a, 1)[:, :8], modes=WIDTHS)
def _(t):
    nisa.max8(t.out, t.a)


_DISTINCT = np.random.default_rng(3).permuted(np.tile(np.arange(256.0), (128, 1)), axis=1)
_WANTED = np.tile(np.arange(8.0) * 3 + 1, (128, 1))


def _first_index(a, vals):
    return np.stack([[list(row).index(value) for value in wanted] for row, wanted in zip(a, vals)])


@case("vector", "nc_find_index8", {"a": (128, 256), "vals": (128, 8)}, {"out": (128, 8)}, _first_index, values={"a": _DISTINCT, "vals": _WANTED}, out_dtypes={"out": U32})
def _(t):
    nisa.nc_find_index8(t.out, t.a, t.vals)


@case("vector", "nc_match_replace8", {"a": (128, 256), "vals": (128, 8)}, OUT, lambda a, vals: np.where(np.isin(a, vals[0]), -9.0, a), values={"a": _DISTINCT, "vals": _WANTED})
def _(t):
    nisa.nc_match_replace8(t.out, t.a, t.vals, -9.0)


@case(
    "vector",
    "exponential",
    {"a": (128, 256), "m": (128, 1)},
    {"out": (128, 256), "sums": (128, 1)},
    lambda a, m: {"out": np.exp(np.float64(a - m)), "sums": np.exp(np.float64(a - m)).sum(1, keepdims=True)},
    modes=WIDTHS,
    dtypes={"m": F32},
    out_dtypes={"sums": F32},
    since=4,
    tolerance=1e-5,
)
def _(t):
    nisa.exponential(t.out, t.a, t.m, t.sums, nisa.reduce_cmd.reset_reduce)


@case("vector", "rng", {}, {"out": (128, 256)}, lambda: None, modes=(Mode(U32), Mode(U16)))
def _(t):
    nisa.rng(t.out)


@case("vector", "rand2", {}, {"out": (128, 256)}, lambda: None, since=4)
def _(t):
    nisa.rand2(t.out, -1.0, 3.0)


@case("vector", "set_rng_seed", {"seed": (1, 1)}, {}, lambda seed: {}, modes=(Mode(U32),))
def _(t):
    nisa.set_rng_seed(t.seed)


@case("vector", "activation copy of floats to integers", ROWS, OUT, lambda a: np.rint(a), out_dtypes={"out": I32})
def _(t):
    nisa.tensor_copy(t.out, t.a)


def _blocks(a):
    """Words of e4m3fn and scales by the OCP text, block by block."""
    import ml_dtypes

    words, scales = np.zeros((128, 64), np.uint32), np.full((128, 64), 4, np.uint8)
    for block in range(16):
        for word in range(64):
            part = a[block * 8 : block * 8 + 8, word * 4 : word * 4 + 4].astype(np.float64)
            exponent = int(np.floor(np.log2(np.abs(part).max()))) - 8
            scales[block // 4 * 32 + block % 4, word] = exponent + 127
            codes = np.clip(part * 2.0**-exponent, -448, 448).astype(ml_dtypes.float8_e4m3fn).view(np.uint8).astype(np.uint32)
            words[block * 8 : block * 8 + 8, word] = codes[:, 0] | codes[:, 1] << 8 | codes[:, 2] << 16 | codes[:, 3] << 24
    return {"out": words, "scales": scales}


@case("vector", "quantize_mx", ROWS, {"out": (128, 64), "scales": (128, 64)}, _blocks, modes=(Mode(BF16), Mode(F16)), out_dtypes={"out": nl.float8_e4m3fn_x4, "scales": U8}, since=4)
def _(t):
    nisa.quantize_mx(t.out, t.a, t.scales)


_PLACE = {"dtypes": {"at": I32}, "values": {"at": [[256]]}}


@case("vector", "tensor_copy_dynamic_src", {"a": (128, 1024), "at": (1, 1)}, {"out": (128, 512)}, lambda a, at: a[:, 256:768], modes=PATHS, **_PLACE)
def _(t):
    nisa.tensor_copy_dynamic_src(t.out, t.a[:, nl.ds(t.at, 512)])


@case("vector", "tensor_copy_dynamic_dst", {"a": (128, 512), "at": (1, 1)}, {"out": (128, 1024)}, lambda a, at: np.pad(a, ((0, 0), (256, 256))), modes=PATHS, **_PLACE)
def _(t):
    nisa.memset(t.out, 0.0)
    nisa.tensor_copy_dynamic_dst(t.out[:, nl.ds(t.at, 512)], t.a)


@case("vector", "tensor_copy_dynamic_src, long", {"a": (128, 2048), "at": (1, 1)}, {"out": (128, 1024)}, lambda a, at: a[:, 256:1280], modes=PATHS, **_PLACE)
def _(t):
    nisa.tensor_copy_dynamic_src(t.out, t.a[:, nl.ds(t.at, 1024)])


for _engine in ("scalar", "gpsimd"):

    @case("vector", f"tensor_copy_dynamic_src on {_engine}", {"a": (128, 1024), "at": (1, 1)}, {"out": (128, 512)}, lambda a, at: a[:, 256:768], **_PLACE)
    def _(t, engine=_engine):
        nisa.tensor_copy_dynamic_src(t.out, t.a[:, nl.ds(t.at, 512)], engine=getattr(nisa.engine, engine))
