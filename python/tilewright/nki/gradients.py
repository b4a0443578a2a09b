"""Kernels in functions that torch or JAX differentiate, and calls of which only shapes are wanted.

A kernel has no gradient of its own: `kernel.register_gradient(function)` gives it one, `function(args, outputs, gradients)`, which returns the gradient
of each positional argument (None for those without), as arrays; it may call another kernel.
"""

import sys
import warnings

import numpy as np

from . import arrays


def missing(name):
    """What to do about a gradient that nobody gave."""
    return (
        f"the kernel {name} has no gradient: register one with "
        f"{name}.register_gradient(lambda args, outputs, gradients: (gradient of each positional argument, ...))"
    )


def torch_tensors(values):
    """Tensors of torch among arguments, however they are nested."""
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    if isinstance(values, torch.Tensor):
        return [values]
    if isinstance(values, dict):
        values = list(values.values())
    return [one for value in values for one in torch_tensors(value)] if isinstance(values, (list, tuple)) else []


def call_with_torch(kernel, args, kwargs, tensors):
    """A call with tensors of torch: shapes for meta tensors, a node of the graph where gradients are wanted; None if it is a plain call."""
    import torch

    if any(tensor.device.type == "meta" for tensor in tensors):
        return (_shapes(kernel, args, kwargs),)
    if not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)):
        return None
    if kernel.gradient is None:
        warnings.warn(missing(kernel.__name__), stacklevel=3)
        return None
    return (_with_torch_gradient(kernel, args, kwargs),)


def _shapes(kernel, args, kwargs):
    """Meta tensors of the shapes that the kernel gives."""
    import torch

    from .kernel import ShapeOnly

    def shape_of(value):
        if isinstance(value, torch.Tensor):
            one = torch.empty(0, dtype=value.dtype)
            return ShapeOnly(tuple(value.shape), arrays.to_numpy(one).dtype)
        if isinstance(value, (list, tuple)):
            return type(value)(shape_of(one) for one in value)
        return {name: shape_of(one) for name, one in value.items()} if isinstance(value, dict) else value

    def meta(value):
        if isinstance(value, ShapeOnly):
            example = arrays.like(np.empty(0, value.dtype), torch.empty(0))
            return torch.empty(value.shape, dtype=example.dtype, device="meta")
        if isinstance(value, (list, tuple)):
            return type(value)(meta(one) for one in value)
        return {name: meta(one) for name, one in value.items()} if isinstance(value, dict) else value

    result = kernel.run(shape_of(tuple(args)), shape_of(dict(kwargs)), values=False, told=False)
    return meta(result.shapes)


def _with_torch_gradient(kernel, args, kwargs):
    """The call as a node of torch's graph."""
    import torch

    places = [at for at, value in enumerate(args) if isinstance(value, torch.Tensor)]
    structure = []

    class Call(torch.autograd.Function):
        @staticmethod
        def forward(context, *tensors):
            given = list(args)
            for at, tensor in zip(places, tensors):
                given[at] = tensor.detach()
            outputs = kernel.run(given, kwargs).outputs
            many = isinstance(outputs, (list, tuple))
            structure.append(type(outputs) if many else None)
            context.save_for_backward(*tensors, *(outputs if many else (outputs,)))
            return tuple(outputs) if many else outputs

        @staticmethod
        def backward(context, *gradients):
            saved = context.saved_tensors
            given = list(args)
            for at, tensor in zip(places, saved):
                given[at] = tensor.detach()
            outputs = saved[len(places) :]
            many = structure[0] is not None
            found = kernel.gradient(tuple(given), tuple(outputs) if many else outputs[0], gradients if many else gradients[0])
            found = _each(kernel, found, args)
            return tuple(found[at] for at in places)

    outputs = Call.apply(*(args[at] for at in places))
    return list(outputs) if structure and structure[0] is list else outputs


def call_with_jax(kernel, args, kwargs, run):
    """A call that JAX traces, and differentiates by the gradient that was registered."""
    import jax

    places = arrays.positions(args, kwargs)

    def differentiable(function, rebuild):
        made = jax.custom_vjp(function)

        def forward(*given):
            if kernel.gradient is None:
                raise TypeError(missing(kernel.__name__))
            results = function(*given)
            return results, (given, results)

        def backward(saved, gradients):
            given, results = saved
            values = list(args)
            for at, value in zip(places, given):
                if at is not None:
                    values[at] = value
            found = kernel.gradient(tuple(values), rebuild(results), rebuild(gradients))
            found = _each(kernel, found, args)
            wanted = [None if at is None else found[at] for at in places]
            return tuple(jax.numpy.zeros_like(value) if one is None else one for one, value in zip(wanted, given))

        made.defvjp(forward, backward)
        return made

    return arrays.call_traced(run, args, kwargs, differentiable)


def _each(kernel, found, args):
    """Gradients, one for each positional argument."""
    found = found if isinstance(found, (list, tuple)) else (found,)
    if len(found) != len(args):
        raise ValueError(f"the gradient of {kernel.__name__} returns {len(found)} values for {len(args)} positional arguments: one for each, None for those without")
    return found
