"""What cannot be done, as exceptions: each has a stable `code`, what was `asked`, what is `allowed`, and what to write `instead`."""

from __future__ import annotations

import json
from typing import Any

from ._core import Refused

__all__ = ["Refused", "WrongType", "diagnostics_of", "refuse", "refuse_type"]

# What a refusal has before the core or this module fills it in.
for _name in ("code", "asked", "allowed", "instead", "place", "diagnostics_json"):
    if not hasattr(Refused, _name):
        setattr(Refused, _name, "")


class WrongType(Refused, TypeError):
    """A value of a type that is not taken.

    >>> import tilewright
    >>> try:
    ...     tilewright.Einsum(7)
    ... except tilewright.WrongType as error:
    ...     error.code
    'python/type'
    """


def _filled(kind: type[Refused], code: str, asked: str, allowed: str, instead: str) -> Refused:
    error = kind(f"error[{code}]\n  asked:   {asked}\n  allowed: {allowed}\n  instead: {instead}")
    for name, value in (("code", code), ("asked", asked), ("allowed", allowed), ("instead", instead)):
        setattr(error, name, value)
    return error


def refuse(code: str, asked: str, allowed: str, instead: str) -> Refused:
    """An exception with all its fields."""
    return _filled(Refused, code, asked, allowed, instead)


def refuse_type(what: str, value: Any, allowed: str, instead: str) -> Refused:
    """An exception for a value of the wrong type."""
    return _filled(WrongType, "python/type", f"{what} is of type {type(value).__name__}", allowed, instead)


def diagnostics_of(error: Refused) -> list[dict[str, Any]]:
    """All complaints of a refusal, with code, severity, message, place, allowed, instead and notes.

    >>> import tilewright
    >>> from tilewright.errors import diagnostics_of
    >>> try:
    ...     tilewright.Tactic("H^1[4")
    ... except tilewright.Refused as error:
    ...     [one["severity"] for one in diagnostics_of(error)]
    ['error']
    """
    return json.loads(error.diagnostics_json) if error.diagnostics_json else []
