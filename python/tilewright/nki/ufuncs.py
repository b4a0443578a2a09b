"""NumPy's functions of tensors: operators with a NumPy number on the left are the tensor's; the rest would run on the host, unseen, and is refused."""

import difflib
import os
import sys

import numpy as np

from tilewright._core import Tensor

from .refusals import refused

_NUMPY = os.path.dirname(np.__file__) + os.sep

#: What an operator of NumPy is for the tensor on its right.
_REFLECTED = {
    "add": "__radd__",
    "subtract": "__rsub__",
    "multiply": "__rmul__",
    "divide": "__rtruediv__",
    "bitwise_and": "__and__",
    "bitwise_or": "__or__",
    "bitwise_xor": "__xor__",
    "equal": "__eq__",
    "not_equal": "__ne__",
    "less": "__gt__",
    "less_equal": "__ge__",
    "greater": "__lt__",
    "greater_equal": "__le__",
}

#: Functions that the language calls otherwise.
_OTHERWISE = {"absolute": "abs", "fabs": "abs", "remainder": "mod", "add.reduce": "sum", "maximum.reduce": "max", "minimum.reduce": "min", "multiply.reduce": "prod"}


def of_tensor(self, ufunc, method, *inputs, **options):
    """`__array_ufunc__` of tensors."""
    reflected = _REFLECTED.get(ufunc.__name__)
    if method == "__call__" and reflected and len(inputs) == 2 and not options and not isinstance(inputs[0], Tensor):
        return getattr(inputs[1], reflected)(inputs[0])
    name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
    raise refused(
        "neuron/operand",
        f"np.{name} of a tensor of the kernel",
        "functions of nki.language and instructions of nki.isa: NumPy computes on the host",
        f"write nl.{_nearest(name)}",
        _line(),
    )


def _line():
    """The line that called NumPy, which may have called itself."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NUMPY):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _nearest(name):
    """The function of the language that comes nearest."""
    from .new import language as new
    from .old import language as old

    name = _OTHERWISE.get(name, name)
    known = [one for one in {*dir(new), *dir(old)} if not one.startswith("_")]
    return name if name in known else next(iter(difflib.get_close_matches(name, sorted(known), 1, 0.0)), name)
