"""Functions of the first dialect take keywords that nobody reads; one that is nearly the name of a parameter is a slip, and refused."""

import difflib
import functools
import inspect

from . import state

#: How alike two names are before one is taken for a slip of the other.
ALIKE = 0.75


def checked(function):
    """The function, which refuses keywords that are nearly its own, and says so if no kernel runs."""
    parameters = inspect.signature(function).parameters.values()
    known = frozenset(one.name for one in parameters if one.kind is not inspect.Parameter.VAR_KEYWORD)

    @functools.wraps(function)
    def call(*args, **options):
        if options and not known.issuperset(options):
            _refuse_slips(function, known, options)
        try:
            return function(*args, **options)
        except (AttributeError, TypeError, RuntimeError):
            # Outside kernels an array is no tensor, and that is not what is wrong.
            if state.program.session is None:
                raise state.outside(function.__name__) from None
            raise

    return call


def _refuse_slips(function, known, options):
    for name in options:
        if name not in known and (near := difflib.get_close_matches(name, known, 1, ALIKE)):
            raise TypeError(f"{function.__name__}() has no parameter {name!r}: is {near[0]!r} meant?")


def check_all(names):
    """Checks the keywords of every public function of a module that takes any."""
    for name, value in list(names.items()):
        if name.startswith("_") or not inspect.isfunction(value) or value.__module__ != names["__name__"]:
            continue
        if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in inspect.signature(value).parameters.values()):
            names[name] = checked(value)
