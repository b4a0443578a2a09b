"""`neuron_dtypes`: a few helpers that library tests import."""

import numpy as np

from .dtypes import *  # noqa: F403
from .dtypes import code
from .lower import _FLOATS


def static_cast(array, dtype):
    """The array in another type."""
    return np.asarray(array).astype(dtype)


def is_float_type(dtype):
    """True for floats."""
    return code(dtype) in _FLOATS


def sizeinbytes(dtype):
    """Bytes of an element."""
    return np.dtype(dtype).itemsize
