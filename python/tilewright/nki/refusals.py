"""Refusals of the front end: what cannot be handed to the engine, told as the engine tells its own."""

import contextlib
import operator
import os
import re

from tilewright import _core

from . import state

_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep


def refused(code, asked, allowed, instead, line=None):
    """A refusal at the line of the kernel that runs now."""
    if line is None:
        line = state.program.session.here() if state.program.session is not None else ""
    place = f" {line}" if line else ""
    error = _core.Refused(f"error[{code}]{place}\n  asked:   {asked}\n  allowed: {allowed}\n  instead: {instead}")
    error.code, error.asked, error.allowed, error.instead, error.line = code, asked, allowed, instead, line
    return error


def tell(code, message, allowed, instead):
    """A finding that is an error, at the line of the kernel that runs now: once for each line."""
    line = state.program.session.here()
    known = state.program.shared.findings
    if not any((one["code"], one["line"]) == (code, line) for one in known):
        words = {"message": message, "allowed": allowed, "instead": instead}
        known.append({"code": code, "severity": "error", "line": line, **words})


#: A place outside its tensor, in the words of NumPy and of the vendor's simulator.
_OUTSIDE = re.compile(r"index -?\d+ is out of bounds for axis 0 with size \d+")


@contextlib.contextmanager
def as_in_the_simulator():
    """What the vendor's simulator raises for a place outside its tensor: a plain IndexError with NumPy's words.

    It carries what was refused: `code` and the other fields, and as a note, below a traceback, all of its lines."""
    try:
        yield
    except IndexError as error:
        found = _OUTSIDE.match(getattr(error, "asked", ""))
        if found is None:
            raise
        plain = IndexError(found[0])
        plain.__dict__.update(vars(error))
        plain.add_note(str(error))
        raise plain.with_traceback(error.__traceback__) from None


def whole(value, what):
    """An integer from whatever stands for one; a float only if it is whole."""
    if type(value) is int:
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    try:
        return operator.index(value)
    except TypeError:
        raise refused("neuron/shape", f"{what} {value!r}", "whole numbers", "round with // or int() where it is computed") from None


def sizes(shape, what):
    """Sizes of dimensions, none of them negative."""
    found = [whole(size, f"{what} with a size of") for size in shape]
    if any(size < 0 for size in found):
        raise refused("neuron/shape", f"{what} of shape {tuple(found)}", "sizes of 0 or more", "check what the sizes are computed from")
    return found


def not_negative(value, what):
    """A number of a place."""
    found = whole(value, what)
    if found < 0:
        raise refused("neuron/bounds", f"{what} {found}", "0 or more", "check what it is computed from")
    return found


def _came_through(error):
    """The last line of somebody else's files, the call of ours that it made, and whether the error was raised in there."""
    trace, line, ours, called = error.__traceback__, "", False, ""
    while trace is not None:
        code = trace.tb_frame.f_code
        ours = code.co_filename.startswith(_FOLDER)
        if not ours:
            line, called = f"{code.co_filename}:{trace.tb_lineno}", ""
        elif not called or not code.co_name.startswith("_"):
            called = code.co_name
        trace = trace.tb_next
    return line, called, ours


#: Refusals that code which expects Python's own exceptions catches as well.
_KINDS = {kind: type(f"Refused{kind.__name__}", (_core.Refused, kind), {}) for kind in (TypeError, ValueError, OverflowError)}


def of_operands(error):
    """A refusal for an exception that Python raised in a call of this package: an operand of a type or size that it does not take.

    None for refusals, and for exceptions of the kernel's own code."""
    line, called, ours = _came_through(error)
    kind = next((kind for kind in _KINDS if type(error) is kind), None)
    if kind is None or not ours or not line:
        return None
    text = str(error)[:200] or type(error).__name__
    told = refused("neuron/operand", f"{called}: {text}", f"operands of the types and sizes that {called} takes", "check its arguments in this line", line)
    made = _KINDS[kind](str(told))
    made.__dict__.update(told.__dict__)
    return made


def of_no_tensor(error):
    """A refusal for an AttributeError of this package about a value of somebody else's: a tensor was needed. None for any other."""
    line, called, ours = _came_through(error)
    given = type(error.obj)
    if not ours or given.__module__.startswith("tilewright") or error.name not in _OF_TENSORS:
        return None
    return refused(
        "neuron/operand",
        f"{called} of {getattr(error.obj, '__name__', None) or repr(error.obj)}, a {given.__name__}"[:200],
        "a tensor of the kernel",
        "pass arrays as arguments of the kernel, and constants through nl.full or nisa.memset",
        line,
    )


#: Attributes that only tensors are asked for.
_OF_TENSORS = {"shape", "code", "size", "memory", "on_chip", "masked", "dtype", "buffer", "storage_id", "reshaped", "permuted", "mask", "has_mask", "skipping"}
