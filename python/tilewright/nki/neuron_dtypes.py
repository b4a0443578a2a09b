"""`neuron_dtypes`: a few helpers that library tests import."""

import numpy as np

from .dtypes import *  # noqa: F403
from .dtypes import code
from .lower import _FLOATS
from .mx import is_packed, packed, unpacked


def static_cast(array, dtype):
    """The array in another type; packing or unpacking words of four elements if need be."""
    array = unpacked(np.asarray(array))
    return packed(array, dtype) if is_packed(dtype) else array.astype(dtype)


def is_float_type(dtype):
    """True for floats."""
    return code(dtype) in _FLOATS


def sizeinbytes(dtype):
    """Bytes of an element."""
    return np.dtype(dtype).itemsize
