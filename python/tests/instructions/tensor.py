"""Instructions of the Tensor engine."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
from tilewright.nki import mx

from .harness import BF16, F16, F32, FP8, PLAIN, U8, U16, Mode, case
from .vector import picked

SIZES = {"a": (128, 64), "b": (128, 512)}
OUT = {"out": (64, 512)}
PSUM = {"out_memories": {"out": "psum"}, "out_dtypes": {"out": F32}, "tolerance": 1e-4}
TYPES = (Mode(), Mode(BF16), Mode(F16), Mode(FP8))


def _product(a, b):
    return np.float64(a).T @ np.float64(b)


@case("tensor", "nc_matmul", SIZES, OUT, _product, modes=TYPES, **PSUM)
def _(t):
    nisa.nc_matmul(t.out, t.a, t.b)


def _picked_product(a, b, i):
    return _product(a, picked(b, i, 32, 100))


@case(
    "tensor", "indirect moving tile of nc_matmul", {"a": (128, 64), "b": (128, 256), "i": (128, 4)}, {"out": (64, 100)},
    _picked_product, modes=(Mode(BF16),), dtypes={"i": U16}, since=4, **PSUM,
)  # fmt: skip
def _(t):
    nisa.nc_matmul(t.out, t.a, t.b.indirect(t.i, 100))


@case("tensor", "nc_matmul of one column", {"a": (128, 128), "b": (128, 1)}, {"out": (128, 1)}, _product, modes=(Mode(), Mode(BF16)), **PSUM)
def _(t):
    nisa.nc_matmul(t.out, t.a, t.b)


@case("tensor", "nc_matmul that adds", SIZES, OUT, lambda a, b: 2 * _product(a, b), modes=(Mode(), Mode(BF16)), **PSUM)
def _(t):
    nisa.nc_matmul(t.out, t.a, t.b)
    nisa.nc_matmul(t.out, t.a, t.b)


@case("tensor", "nc_matmul that does not add", SIZES, OUT, _product, **PSUM)
def _(t):
    nisa.nc_matmul(t.out, t.a, t.b)
    nisa.nc_matmul(t.out, t.a, t.b, accumulate=False)


_ONES = {"a": np.arange(128 * 64).reshape(128, 64) % 2}


@case("tensor", "nc_matmul of zeros and ones", SIZES, OUT, _product, values=_ONES, modes=(Mode(), Mode(BF16)), **PSUM)
def _(t):
    nisa.nc_matmul(t.out, t.a, t.b, is_stationary_onezero=True)


@case("tensor", "nc_matmul on a part of the array", {"a": (64, 32), "b": (64, 512)}, {"out": (32, 512)}, _product, modes=(Mode(BF16),), **PSUM)
def _(t):
    nisa.nc_matmul(t.out, t.a, t.b, tile_position=(64, 32), tile_size=(64, 32))


@case("tensor", "nc_matmul with double rows", {"a": (128, 2, 64), "b": (128, 2, 512)}, OUT, lambda a, b: np.einsum("kpm,kpn->mn", np.float64(a), np.float64(b)), modes=(Mode(FP8),), since=3, **PSUM)
def _(t):
    nisa.nc_matmul(t.out, t.a, t.b, perf_mode=nisa.matmul_perf_mode.double_row)


@case("tensor", "nc_matmul as a transpose", {"a": (128, 64), "b": (128, 128)}, {"out": (64, 128)}, lambda a, b: a.T, values={"b": np.identity(128)}, out_memories={"out": "psum"}, modes=(Mode(), Mode(BF16)))
def _(t):
    nisa.nc_matmul(t.out, t.a, t.b, is_transpose=True)


@case("tensor", "nc_transpose", {"a": (128, 64)}, {"out": (64, 128)}, lambda a: a.T, out_memories={"out": "psum"}, modes=(Mode(), Mode(BF16)))
def _(t):
    nisa.nc_transpose(t.out, t.a)


def _words(rows, columns, dtype, seed):
    values = np.random.default_rng(seed).standard_normal((rows, columns * 4)).astype(np.float32)
    return mx.packed(values, dtype)


def _scales(seed):
    return np.random.default_rng(seed).integers(124, 130, (128, 512)).astype(np.uint8)


def _scaled(words, scales):
    """Elements times scales, as [partition, column, lane]; written out block by block."""
    values = mx.unpacked(words).astype(np.float64).reshape(words.shape[0], words.shape[1], 4)
    out = np.empty_like(values)
    for partition in range(words.shape[0]):
        block = partition // 8
        row = block // 4 * 32 + block % 4
        out[partition] = values[partition] * 2.0 ** (np.float64(scales[row, : words.shape[1]])[:, None] - 127)
    return out


def _block_product(a, b, sa, sb):
    return np.einsum("kmq,knq->mn", _scaled(a, sa), _scaled(b, sb))


for _label, _type in (("fp8", nl.float8_e4m3fn_x4), ("e5m2", nl.float8_e5m2_x4), ("fp4", nl.float4_e2m1fn_x4)):

    @case(
        "tensor",
        f"nc_matmul_mx of {_label}",
        {"a": (128, 64), "b": (128, 512), "sa": (128, 512), "sb": (128, 512)},
        OUT,
        _block_product,
        dtypes={"a": _type, "b": _type, "sa": U8, "sb": U8},
        values={"a": _words(128, 64, _type, 1), "b": _words(128, 512, _type, 2), "sa": _scales(3), "sb": _scales(4)},
        since=4,
        modes=PLAIN,
        **PSUM,
    )
    def _(t):
        nisa.nc_matmul_mx(t.out, t.a, t.b, t.sa, t.sb)


