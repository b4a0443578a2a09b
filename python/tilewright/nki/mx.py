"""Arrays of block-scaled operands on the host: four small floats in a word, packed and unpacked with NumPy."""

import ml_dtypes
import numpy as np

from . import dtypes

_ELEMENTS = {
    dtypes.float8_e4m3fn_x4: (np.dtype(ml_dtypes.float8_e4m3fn), np.uint32, 448.0),
    dtypes.float8_e5m2_x4: (np.dtype(ml_dtypes.float8_e5m2), np.uint32, 57344.0),
    dtypes.float4_e2m1fn_x4: (np.dtype(ml_dtypes.float4_e2m1fn), np.uint16, 6.0),
}


def is_packed(dtype):
    """True for a type whose words hold four elements."""
    return isinstance(dtype, np.dtype) and dtype in _ELEMENTS


def packed(array, dtype):
    """Rows of floats as words of four elements each; too large values become the largest finite one."""
    element, word, most = _ELEMENTS[dtype]
    array = np.asarray(array)
    if array.shape[-1] % 4:
        raise ValueError(f"rows of {array.shape[-1]} elements cannot be packed by four")
    narrow = np.clip(np.asarray(array, np.float32), -most, most).astype(element)
    codes = np.ascontiguousarray(narrow).view(np.uint8).reshape(*array.shape[:-1], -1, 4)
    bits = np.dtype(word).itemsize * 2
    words = np.zeros(codes.shape[:-1], np.uint32)
    for lane in range(4):
        words |= codes[..., lane].astype(np.uint32) << (bits * lane)
    return words.astype(word).view(dtype)


def unpacked(array):
    """Words of four elements as rows of float32; other arrays as they are."""
    if not is_packed(array.dtype):
        return array
    element, word, _ = _ELEMENTS[array.dtype]
    bits = np.dtype(word).itemsize * 2
    words = np.ascontiguousarray(array).view(word)
    lanes = [(words >> (bits * lane) & ((1 << bits) - 1)).astype(np.uint8) for lane in range(4)]
    codes = np.stack(lanes, -1).reshape(*words.shape[:-1], -1)
    return codes.view(element).astype(np.float32)
