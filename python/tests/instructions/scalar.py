"""Instructions of the Scalar engine."""

import math

import nki.isa as nisa
import nki.language as nl
import numpy as np

from .harness import F32, PATHS, WIDTHS, case

ROWS = {"a": (128, 256)}
OUT = {"out": (128, 256)}


def each(function):
    """A function of one number for arrays."""
    return lambda a: np.vectorize(function, otypes=[np.float64])(np.float64(a))


def _sigmoid(x):
    return 1 / (1 + math.exp(-x))


def _density(x):
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _gelu_tanh(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


FUNCTIONS = {
    "copy": lambda x: x,
    "square": lambda x: x * x,
    "sigmoid": _sigmoid,
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
    "gelu_dx": lambda x: 0.5 * (1 + math.erf(x / math.sqrt(2))) + x * _density(x),
    "gelu_apprx_tanh": _gelu_tanh,
    "gelu_apprx_sigmoid": lambda x: x * _sigmoid(1.702 * x),
    "gelu_apprx_sigmoid_dx": lambda x: _sigmoid(1.702 * x) * (1 + 1.702 * x * (1 - _sigmoid(1.702 * x))),
    "silu": lambda x: x * _sigmoid(x),
    "silu_dx": lambda x: _sigmoid(x) * (1 + x * (1 - _sigmoid(x))),
    "tanh": math.tanh,
    "softplus": lambda x: math.log1p(math.exp(x)),
    "mish": lambda x: x * math.tanh(math.log1p(math.exp(x))),
    "erf": math.erf,
    "erf_dx": lambda x: 2 / math.sqrt(math.pi) * math.exp(-x * x),
    "exp": math.exp,
    "arctan": math.atan,
    "sign": lambda x: float((x > 0) - (x < 0)),
    "abs": abs,
}
#: Functions that want inputs above zero, or within half a turn.
BOUNDED = {
    "log": (math.log, lambda a: np.abs(a) + 0.1),
    "sqrt": (math.sqrt, lambda a: np.abs(a)),
    "rsqrt": (lambda x: 1 / math.sqrt(x), lambda a: np.abs(a) + 0.1),
    "reciprocal": (lambda x: 1 / x, lambda a: np.abs(a) + 0.1),
    "sin": (math.sin, lambda a: np.clip(a, -3, 3)),
}
_RANDOM = np.random.default_rng(5).standard_normal((128, 256)).astype(np.float32)

for _op, _formula in FUNCTIONS.items():

    @case("scalar", f"activation {_op}", ROWS, OUT, each(_formula), modes=PATHS if _op in ("copy", "exp") else WIDTHS, tolerance=2e-6)
    def _(t, op=_op):
        nisa.activation(t.out, getattr(nl, op), t.a)


for _op, (_formula, _bring) in BOUNDED.items():

    @case("scalar", f"activation {_op}", ROWS, OUT, each(_formula), modes=WIDTHS, values={"a": _bring(_RANDOM)}, tolerance=2e-6)
    def _(t, op=_op):
        nisa.activation(t.out, getattr(nl, op), t.a)


_BIASED = {"a": (128, 256), "bias": (128, 1), "scale": (128, 1)}


@case("scalar", "activation with scale and bias of partitions", _BIASED, OUT, lambda a, bias, scale: np.exp(np.float64(a * scale + bias)), modes=WIDTHS, dtypes={"bias": F32, "scale": F32}, tolerance=1e-5)
def _(t):
    nisa.activation(t.out, nl.exp, t.a, bias=t.bias, scale=t.scale)


@case("scalar", "activation with a constant bias", ROWS, OUT, lambda a: np.tanh(np.float64(a * 0.5 + 0.25)), since=3, tolerance=1e-5)
def _(t):
    nisa.activation(t.out, nl.tanh, t.a, bias=0.25, scale=0.5)


def _summed(a):
    powers = np.exp(np.float64(a))
    return {"out": powers, "sums": powers.sum(1, keepdims=True)}


@case("scalar", "activation_reduce", ROWS, {"out": (128, 256), "sums": (128, 1)}, _summed, modes=WIDTHS, out_dtypes={"sums": F32}, tolerance=1e-5)
def _(t):
    nisa.activation_reduce(t.out, nl.exp, t.a, nl.add, t.sums)


@case("scalar", "activation that goes on summing", ROWS, {"out": (128, 256), "sums": (128, 1)}, lambda a: {"out": a, "sums": 2 * a.sum(1, keepdims=True, dtype=np.float64)}, tolerance=1e-4)
def _(t):
    nisa.activation(t.out, nl.copy, t.a, reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce)
    nisa.activation(t.out, nl.copy, t.a, reduce_op=nl.add, reduce_res=t.sums, reduce_cmd=nisa.reduce_cmd.reduce)


@case(
    "scalar",
    "activate2",
    ROWS,
    {"out": (128, 256), "top": (128, 1)},
    lambda a: {"out": np.exp(np.float64(a * 0.5 - 1.0)), "top": np.exp(np.float64(a * 0.5 - 1.0)).max(1, keepdims=True)},
    modes=WIDTHS,
    out_dtypes={"top": F32},
    since=4,
    tolerance=1e-5,
)
def _(t):
    nisa.activate2(
        t.out, nl.exp, t.a, 0.5, 1.0, nl.multiply, nl.subtract,
        reduce_op=nl.maximum, reduce_res=t.top, reduce_cmd=nisa.reduce_cmd.reset_reduce,
    )  # fmt: skip


@case("scalar", "activate2 leaky relu", ROWS, OUT, lambda a: np.where(a > 0, a, a * np.float32(0.1)), since=4)
def _(t):
    nisa.activate2(t.out, nl.relu, t.a, relu_param=0.1)


@case("scalar", "activate2 prelu", ROWS, OUT, lambda a: np.where(a > 0, a, a * np.float32(0.25)), since=4)
def _(t):
    nisa.activate2(t.out, nl.prelu, t.a, relu_param=0.25)


@case("scalar", "tensor_copy", ROWS, OUT, lambda a: a, modes=PATHS)
def _(t):
    nisa.tensor_copy(t.out, t.a, engine=nisa.scalar_engine)


@case("scalar", "tensor_scalar", ROWS, OUT, lambda a: a * 2.0 + 1.0, modes=WIDTHS, since=3)
def _(t):
    nisa.tensor_scalar(t.out, t.a, nl.multiply, 2.0, op1=nl.add, operand1=1.0, engine=nisa.scalar_engine)
