"""Element types: NumPy types, their numbers in the core, and the names kernels use."""

import warnings

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

#: What hosts have and devices do not, and what takes its place.
_NARROWED = {"float64": np.dtype(np.float32), "int64": np.dtype(np.int32), "uint64": np.dtype(np.uint32)}

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


_register()


def code(dtype):
    """The number of an element type, however it is named."""
    try:
        return _codes[dtype]
    except (KeyError, TypeError):
        pass
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    name = name.rsplit(".", 1)[-1]
    if name in _NARROWED:
        raise TypeError(f"devices have no 64-bit types such as {name}: write {_NARROWED[name]}")
    try:
        number = _codes[name]
    except KeyError:
        raise TypeError(f"no element type of the device is called {name}") from None
    try:
        _codes[dtype] = number
    except TypeError:
        pass
    return number


def host_code(dtype):
    """The number of the element type that a host's array gets on the device."""
    name = getattr(dtype, "name", None)
    return code(_NARROWED.get(name, dtype))


def by_code(number):
    """The NumPy type of an element type's number."""
    return _BY_NAME[NAMES[number]]


def size(number):
    """Bytes of an element."""
    return _BY_NAME[NAMES[number]].itemsize


def device_array(array, name=""):
    """A contiguous NumPy array of a type that the device has, in its order of bytes.

    64-bit types become those of 32: an error where values would be others altogether, a warning where digits are lost."""
    array = np.asarray(array)
    if array.dtype.kind not in "biuf" and array.dtype.name not in _NARROWED:
        code(array.dtype)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    wanted = _NARROWED.get(array.dtype.name)
    if wanted is not None and array.size:
        _check_narrowed(array, wanted, f"argument {name}" if name else "an array")
    if wanted is not None:
        array = array.astype(wanted)
    return np.ascontiguousarray(array).reshape(array.shape)


def _check_narrowed(array, wanted, what):
    """Says what is lost."""
    if array.dtype.kind in "iu":
        least, most = array.min(), array.max()
        limits = np.iinfo(wanted)
        if least < limits.min or most > limits.max:
            raise ValueError(f"{what} has {array.dtype} values from {least} to {most}, and devices have no 64-bit types: {wanted} has {limits.min} to {limits.max}")
        return
    with np.errstate(over="ignore"):
        narrow = array.astype(wanted)
    if (np.isinf(narrow) & np.isfinite(array)).any():
        raise ValueError(f"{what} has {array.dtype} values that {wanted} does not have, and devices have no 64-bit types")
    if not np.array_equal(narrow, array, equal_nan=True):
        warnings.warn(f"{what} is rounded from {array.dtype} to {wanted}: devices have no 64-bit types", UserWarning, stacklevel=2)
