"""Element types: NumPy types, their numbers in the core, and the names kernels use."""

import ml_dtypes
import numpy as np

from tilewright import _core

_BY_NAME = {
    "f32": np.dtype(np.float32),
    "tf32": np.dtype(np.float32),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f16": np.dtype(np.float16),
    "f8e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8e4m3": np.dtype(ml_dtypes.float8_e4m3),
    "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "f4e2m1": np.dtype(np.uint8),
    "i4": np.dtype(np.int8),
    "i5": np.dtype(np.int8),
    "i8": np.dtype(np.int8),
    "i9": np.dtype(np.int16),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    # Words of four elements: NumPy has no such types, so they are records of one word that is called as they are.
    "float8_e4m3fn_x4": np.dtype([("float8_e4m3fn_x4", np.uint32)]),
    "float8_e5m2_x4": np.dtype([("float8_e5m2_x4", np.uint32)]),
    "float4_e2m1fn_x4": np.dtype([("float4_e2m1fn_x4", np.uint16)]),
    "float8_e8m0fnu": np.dtype(ml_dtypes.float8_e8m0fnu),
}

NAMES = _core.dtype_names()
CODES = {name: number for number, name in enumerate(NAMES)}
_core.register_dtypes([_BY_NAME[name] for name in NAMES])

F32 = CODES["f32"]
I32 = CODES["i32"]
U8 = CODES["u8"]
BF16 = CODES["bf16"]

float32 = _BY_NAME["f32"]
bfloat16 = _BY_NAME["bf16"]
float16 = _BY_NAME["f16"]
float8_e4m3 = _BY_NAME["f8e4m3"]
float8_e4m3fn = _BY_NAME["f8e4m3fn"]
float8_e5m2 = _BY_NAME["f8e5m2"]
int8 = _BY_NAME["i8"]
int16 = _BY_NAME["i16"]
int32 = _BY_NAME["i32"]
uint8 = _BY_NAME["u8"]
uint16 = _BY_NAME["u16"]
uint32 = _BY_NAME["u32"]
bool_ = np.dtype(np.bool_)
float8_e4m3fn_x4 = _BY_NAME["float8_e4m3fn_x4"]
float8_e5m2_x4 = _BY_NAME["float8_e5m2_x4"]
float4_e2m1fn_x4 = _BY_NAME["float4_e2m1fn_x4"]
float8_e8m0fnu = _BY_NAME["float8_e8m0fnu"]


class _TensorFloat32:
    """TF32 has no NumPy type; arrays of it are float32."""

    name = "tfloat32"
    itemsize = 4

    def __repr__(self):
        return "tfloat32"


tfloat32 = _TensorFloat32()

_codes = {}


def _register():
    for name in ("f32", "bf16", "f16", "f8e4m3fn", "f8e4m3", "f8e5m2", "i8", "i16", "i32", "u8", "u16", "u32"):
        dtype, number = _BY_NAME[name], CODES[name]
        for key in (dtype, dtype.type, dtype.name, name):
            _codes[key] = number
    for name in ("float8_e4m3fn_x4", "float8_e5m2_x4", "float4_e2m1fn_x4", "float8_e8m0fnu"):
        for key in (_BY_NAME[name], name):
            _codes[key] = CODES[name]
    for key in (bool_, np.bool_, bool, "bool", "bool_"):
        _codes[key] = U8
    for key in (tfloat32, "tfloat32", "tf32"):
        _codes[key] = CODES["tf32"]
    _codes[int] = I32
    _codes[float] = F32
    # Hosts work in 64 bits; devices have none of it.
    for key in (np.dtype(np.float64), np.float64, "float64"):
        _codes[key] = F32
    for key in (np.dtype(np.int64), np.int64, "int64"):
        _codes[key] = I32


_register()


def code(dtype):
    """The number of an element type, however it is named."""
    try:
        return _codes[dtype]
    except (KeyError, TypeError):
        pass
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    name = name.rsplit(".", 1)[-1]
    try:
        number = _codes[name]
    except KeyError:
        raise TypeError(f"no element type of the device is called {name}") from None
    try:
        _codes[dtype] = number
    except TypeError:
        pass
    return number


def by_code(number):
    """The NumPy type of an element type's number."""
    return _BY_NAME[NAMES[number]]


def size(number):
    """Bytes of an element."""
    return _BY_NAME[NAMES[number]].itemsize


def device_array(array):
    """A contiguous NumPy array of a type that the device has."""
    array = np.asarray(array)
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    elif array.dtype == np.int64:
        array = array.astype(np.int32)
    elif array.dtype == np.uint64:
        array = array.astype(np.uint32)
    return np.ascontiguousarray(array).reshape(array.shape)
