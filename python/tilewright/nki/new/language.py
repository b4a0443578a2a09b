"""`nki.language`: explicit destinations, registers, views."""

import numpy as np

from tilewright._core import Tensor

from .. import dtypes, loops, lower, state
from ..language import *  # noqa: F403
from ..language import (  # noqa: F401
    Register,
    abs,
    all,
    constant,
    ndarray,
    no_reorder,
)

par_dim = loops.ParDim
#: The class of tensors, for annotations.
NkiTensor = Tensor
bool = dtypes.bool_  # noqa: A001  seen in kernels


class NKIObject:
    """Base of library classes: fields without a default are None."""

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        fields = dict(cls.__dict__.get("__annotations__", {}))
        for name in fields:
            if not hasattr(cls, name):
                setattr(cls, name, None)
        # Values without an annotation are fields too.
        for name, value in list(cls.__dict__.items()):
            plain = not callable(value) and not isinstance(value, (property, classmethod, staticmethod))
            if plain and not name.startswith("_"):
                fields.setdefault(name, object)
        cls.__annotations__ = fields

    def __init__(self, *args, **fields):
        """Fields by order or by name; a class of its own, or a dataclass, may say otherwise."""
        names = [name for base in reversed(type(self).__mro__) for name in base.__dict__.get("__annotations__", {})]
        for name, value in [*zip(names, args), *fields.items()]:
            setattr(self, name, value)


def is_hbm(buffer):
    """True for memory off the chip."""
    return buffer.name in ("hbm", "private_hbm", "shared_hbm")


def is_sbuf(buffer):
    """True for SBUF."""
    return buffer.name == "sbuf"


def is_psum(buffer):
    """True for PSUM."""
    return buffer.name == "psum"


def is_on_chip(buffer):
    """True for SBUF and PSUM."""
    return not is_hbm(buffer)


def shared_identity_matrix(n, dtype=dtypes.uint8, dst=None):
    """The identity in SBUF."""
    session = state.running()
    source = constant(np.identity(n, np.float32), dtype)
    out = dst if dst is not None else session.alloc([n, n], source.code, "sbuf")
    session.dma_copy(out, source)
    return out


def _reduction(name, op):
    def function(x, axis, dtype=None, keepdims=False, **_options):
        return lower.reduce_over_all(op, x, axis, dtype, keepdims)

    function.__name__ = name
    function.__doc__ = f"{name} over any axes; one element of the partition axis is left of it."
    return function


sum = _reduction("sum", "add")  # noqa: A001
prod = _reduction("prod", "multiply")
max = _reduction("max", "maximum")  # noqa: A001
min = _reduction("min", "minimum")  # noqa: A001

#: Every loop is unrolled: nothing relies on independent iterations.
affine_range = loops.counted
#: A loop on the device; bounds may be registers.
dynamic_range = loops.counted


def copy(x, dtype=None):
    """A copy, cast."""
    return lower.copy(lower.as_tile(x), None if dtype is None else dtypes.code(dtype))


def broadcast_to(x, shape, dtype=None):
    """Dimensions of size 1 repeated, cast if another type is asked for."""
    wide = x.broadcast_to(tuple(shape))
    code = wide.code if dtype is None else dtypes.code(dtype)
    return wide if code == wide.code else lower.copy(lower.as_tile(wide), code)


def expand_dims(x, axis):
    """A new dimension of size 1."""
    return x.expanded(axis)


def shared_constant(constant):  # noqa: F811  the parameter has this name
    """An array that the executable carries, in HBM."""
    return _constant(constant)


def device_print(print_prefix, tensor):
    """Prints a tile."""
    print(print_prefix, tensor.numpy() if isinstance(tensor, Tensor) else tensor)


def fori_loop(lower, upper, body_fun, step=1):
    """A loop on the device."""
    for index in loops.counted(lower, upper, step):
        body_fun(index)


def while_loop(init, body_fun):
    """A loop on the device that runs while its register is not zero."""
    register = init if isinstance(init, Register) else Register(int(init))
    while register:
        given = body_fun(register)
        if given is not None:
            register = given


_constant = constant
range = loops.counted  # noqa: A001  seen in kernels
