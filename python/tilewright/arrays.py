"""Arrays on their way to and from the simulator: which types go, and as what."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .errors import refuse, refuse_type

__all__ = ["given", "output"]

#: Types of the chips by the types of NumPy that carry them.
_CARRIED = {
    np.dtype(np.int8): "i8",
    np.dtype(np.uint8): "u8",
    np.dtype(np.bool_): "u8",
    np.dtype(np.int16): "i16",
    np.dtype(np.uint16): "u16",
    np.dtype(np.int32): "i32",
    np.dtype(np.uint32): "u32",
    np.dtype(np.float16): "f16",
    np.dtype(np.float32): "f32",
    np.dtype(ml_dtypes.bfloat16): "bf16",
    np.dtype(ml_dtypes.float8_e4m3fn): "f8e4m3fn",
    np.dtype(ml_dtypes.float8_e4m3): "f8e4m3",
    np.dtype(ml_dtypes.float8_e5m2): "f8e5m2",
}

#: Types of NumPy by the types of the chips; four-bit integers have a byte each.
_CARRIERS = {name: dtype for dtype, name in reversed(_CARRIED.items())} | {
    "u8": np.dtype(np.uint8),
    "i4": np.dtype(np.int8),
    "i5": np.dtype(np.int8),
    "i9": np.dtype(np.int16),
    "tf32": np.dtype(np.float32),
}


def given(name: str, value: Any) -> tuple[Any, str, tuple[int, ...]]:
    """An input as the core takes it: its bytes where they lie, its type and its shape."""
    array = _as_numpy(name, value)
    if array.dtype == np.dtype(ml_dtypes.int4):
        array = array.astype(np.int8)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        array = _narrowed(name, array)
    kind = _CARRIED.get(array.dtype)
    if kind is None:
        allowed = ", ".join(dtype.name for dtype in _CARRIED)
        instead = f"{name}.astype(numpy.float32)" if array.dtype == np.float64 else "one of these types"
        raise refuse("array/dtype", f"`{name}` is an array of {array.dtype.name}, which no chip has", allowed, instead)
    # A view for arrays that lie in order; others are put in order first.
    ordered = np.ascontiguousarray(array)
    return ordered.reshape(-1).view(np.uint8), kind, array.shape


def _as_numpy(name: str, value: Any) -> np.ndarray:
    from .nki.arrays import to_numpy

    array = to_numpy(value)
    if array is None:
        raise refuse_type(f"the array `{name}`", value, "a NumPy array, or what has DLPack", f"numpy.asarray({name}, dtype=numpy.float32)")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array


def _narrowed(name: str, array: np.ndarray) -> np.ndarray:
    """Integers of eight bytes, which NumPy makes unless told otherwise, if they fit four."""
    least, most = (0, 2**32 - 1) if array.dtype.kind == "u" else (-(2**31), 2**31 - 1)
    if array.size and (array.min() < least or array.max() > most):
        raise refuse("array/range", f"`{name}` has integers from {array.min()} to {array.max()}", f"{least} to {most}", "smaller integers")
    return array.astype(np.uint32 if array.dtype.kind == "u" else np.int32)


def output(handle: Any, name: str, dtype: str, extents: list[int]) -> np.ndarray:
    """An output, written by the core into memory that NumPy owns."""
    array = np.empty(extents, dtype=_CARRIERS[dtype])
    handle.read_output(name, array.reshape(-1).view(np.uint8))
    return array
