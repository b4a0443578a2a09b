"""Arrays of other libraries: to NumPy and back, and kernels inside functions that JAX traces."""

import sys

import numpy as np

from . import dtypes


def _library(value):
    """The library that a value is of."""
    return type(value).__module__.split(".")[0]


def to_numpy(value):
    """A NumPy array for anything that is an array; None for other values."""
    if isinstance(value, np.ndarray):
        return value
    if _library(value) == "torch" and hasattr(value, "detach"):
        return _from_torch(value)
    if isinstance(value, (np.generic, bool, int, float, str, type)):
        return None
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (TypeError, RuntimeError, BufferError, ValueError):
            pass  # types that DLpack or NumPy's reader do not know
    return np.asarray(value) if hasattr(value, "__array__") else None


def _from_torch(value):
    """Types that NumPy lacks go through an integer type of the same size."""
    import torch

    value = value.detach().cpu().contiguous()
    views = {torch.bfloat16: (torch.int16, dtypes.bfloat16)}
    for name, dtype in (("float8_e4m3fn", dtypes.float8_e4m3fn), ("float8_e5m2", dtypes.float8_e5m2)):
        if hasattr(torch, name):
            views[getattr(torch, name)] = (torch.uint8, dtype)
    if value.dtype in views:
        carrier, dtype = views[value.dtype]
        return value.view(carrier).numpy().view(dtype)
    return value.numpy()


def like(array, example):
    """The array in the kind of the caller's own."""
    kind = _library(example) if example is not None else ""
    if kind == "torch":
        return _to_torch(array)
    if kind in ("jax", "jaxlib"):
        import jax.numpy as jnp

        return jnp.asarray(array)
    return array


def _to_torch(array):
    import torch

    if array.dtype == dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    for name in ("float8_e4m3fn", "float8_e5m2"):
        if array.dtype == getattr(dtypes, name):
            return torch.from_numpy(array.view(np.uint8).copy()).view(getattr(torch, name))
    if array.dtype.name in ("uint16", "uint32") and not hasattr(torch, array.dtype.name):
        raise TypeError(f"this version of torch has no {array.dtype.name}: store the output as another type")
    return torch.from_numpy(array.copy())


def share_memory(one, other):
    """True if two arrays have a byte in common."""
    one, other = to_numpy(one), to_numpy(other)
    try:
        return np.shares_memory(one, other, max_work=1000)
    except np.exceptions.TooHardError:
        return np.may_share_memory(one, other)


def write_back(value, array, name=""):
    """Changes an argument of the caller in place; an error for arrays that never change."""
    if isinstance(value, np.ndarray):
        if not value.flags.writeable:
            raise ValueError(f"the kernel writes to its argument {name}, which is a read-only array: pass a copy")
        value[...] = array.astype(value.dtype)
    elif _library(value) == "torch":
        value.copy_(like(array, value).to(value.dtype))
    else:
        kind = _library(value)
        raise ValueError(f"the kernel writes to its argument {name}, an array of {kind} that cannot be changed: return a tensor instead, or pass a NumPy array")


def is_traced(values):
    """True if JAX is tracing a function that calls the kernel."""
    jax = sys.modules.get("jax")
    return jax is not None and _holds(values, jax.core.Tracer)


def _holds(value, kind):
    """True if there is one of a kind among the values; plain Python, which `torch.compile` can follow."""
    if isinstance(value, (tuple, list)):
        return any([_holds(item, kind) for item in value])
    if isinstance(value, dict):
        return any([_holds(item, kind) for item in value.values()])
    return isinstance(value, kind)


def call_traced(run, args, kwargs, differentiable):
    """A call that JAX makes when the traced function runs: shapes are known from a run with zeros.

    `differentiable(function of arrays, rebuild)` is that function for JAX to differentiate; `rebuild` makes the kernel's outputs of its results."""
    import jax

    leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
    places = _arrays_at(leaves)

    def call(given, told):
        filled = list(leaves)
        for at, array in zip(places, given):
            filled[at] = np.asarray(array)
        args, kwargs = jax.tree_util.tree_unflatten(tree, filled)
        return run(args, kwargs, told)

    zeros = [np.zeros(leaves[at].shape, leaves[at].dtype) for at in places]
    # Nobody asked for this run: it is not told as a call. What is no array stays as it is.
    outputs, shape = jax.tree_util.tree_flatten(call(zeros, told=False))
    found = _arrays_at(outputs)

    def arrays(*given):
        leaves = jax.tree_util.tree_leaves(call(given, told=True))
        return [leaves[at] for at in found]

    shapes = [jax.ShapeDtypeStruct(outputs[at].shape, outputs[at].dtype) for at in found]
    def rebuild(results):
        filled = list(outputs)
        for at, result in zip(found, results):
            filled[at] = result
        return jax.tree_util.tree_unflatten(shape, filled)

    def callback(*given):
        return tuple(jax.pure_callback(arrays, shapes, *given, vmap_method="sequential"))

    return rebuild(differentiable(callback, rebuild)(*(leaves[at] for at in places)))


def positions(args, kwargs):
    """For each array among the arguments, as JAX lists them, the positional argument that it is; None for one inside another value."""
    import jax

    found = []
    for at, value in enumerate(args):
        leaves = jax.tree_util.tree_leaves(value)
        alone = len(leaves) == 1 and leaves[0] is value
        found += [at if alone else None] * len(_arrays_at(leaves))
    return found + [None] * len(_arrays_at(jax.tree_util.tree_leaves(kwargs)))


def _arrays_at(leaves):
    return [at for at, leaf in enumerate(leaves) if hasattr(leaf, "shape") and hasattr(leaf, "dtype")]
