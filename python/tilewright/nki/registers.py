"""Scalar registers: their values at once, and for the timeline which loads a number depends on."""

import operator

import numpy as np
from tilewright._core import Tensor

from . import refusals, state

#: Branches on a register whose value stays the same, before a loop on it is taken to be endless: a limit of
#: this project.
MOST_LOOKS = 1 << 16
#: Branches on one register at all, for loops in which values come again: another limit.
MOST_TURNS = 1 << 20
#: Reads of a value of a register, for loops that Python runs on a number made of it: a third.
MOST_READS = 1 << 20


class Loaded(int):
    """A number made of what registers hold: what lies where it says is known when they are."""

    def __new__(cls, value, registers):
        made = super().__new__(cls, value)
        made.__registers__ = registers
        return made


class Register:
    """A scalar register."""

    def __init__(self, value=None):
        self._value = 0 if value is None else int(value)
        #: It holds something.
        self._is_set = value is not None
        #: Loads that its value comes from.
        self.__registers__ = ()
        #: Branches on it since its value changed, and all of them.
        self._looks, self._turns = 0, 0
        #: Reads of its value.
        self._reads = 0

    def load(self, tile):
        """Takes one element."""
        self._take(tile.integer(), (state.running().register_load(tile),))

    def move(self, value):
        """Takes another register's value, or a number; one element of a tile is loaded."""
        if isinstance(value, Tensor):
            self.load(value)
            return
        number = _other(value, "a move")
        if number is NotImplemented:
            raise refusals.refused(
                "neuron/operand",
                f"a move of {value!r}, a {type(value).__name__}, into a register",
                "whole numbers, other registers and tiles of one element",
                "compute the number first",
            )
        self._take(number, of(value))

    def _take(self, value, registers):
        if value != self._value:
            self._looks = self._reads = 0
        self._value, self._is_set, self.__registers__ = value, True, registers

    @property
    def value(self):
        """What it holds; a finding if nobody put anything there."""
        if not self._is_set and state.program.session is not None:
            state.program.session.tell(
                "neuron/unset-register",
                True,
                "a register is read that nothing was loaded into",
                "registers that register_load, register_move or register_alloc(x) gave a value",
                "load it first, or allocate it with a value: nisa.register_alloc(0)",
            )
        self._reads += 1
        if self._reads > MOST_READS:
            raise refusals.refused(
                "neuron/endless-loop",
                f"a register read for the {self._reads}th time, which holds {self._value} and does not change",
                f"{MOST_READS} reads of a value of a register",
                "load a new value into the register in the loop, or move one into it that ends the loop",
            )
        return self._value

    def number(self):
        """Its value, which knows where it comes from."""
        return _number(self.value, self.__registers__)

    def _look(self):
        """Its value, for a branch on it."""
        branch(self)
        self._looks, self._turns = self._looks + 1, self._turns + 1
        if self._looks > MOST_LOOKS:
            raise refusals.refused(
                "neuron/endless-loop",
                f"a branch on a register for the {self._looks}th time, which holds {self._value} and does not change",
                f"{MOST_LOOKS} looks at a value of a register",
                "load a new value into the register in the loop, or move one into it that ends the loop",
            )
        if self._turns > MOST_TURNS:
            raise refusals.refused(
                "neuron/endless-loop",
                f"{self._turns} branches on a register, which holds {self._value} now",
                f"{MOST_TURNS} branches on one register",
                "end the loop earlier, or count its turns with nl.dynamic_range",
            )
        return self.value

    def __index__(self):
        return self.value

    __int__ = __index__

    def __bool__(self):
        return self._look() != 0

    def __hash__(self):
        return id(self)


def checked(value, what):
    """The register; whatever else is refused."""
    if isinstance(value, Register):
        return value
    raise refusals.refused(
        "neuron/operand",
        f"{what} of {value!r}, a {type(value).__name__}, as the register",
        "a register, which nisa.register_alloc makes",
        "make one with nisa.register_alloc() and hand it over as dst",
    )


def of(value):
    """Loads that a number comes from."""
    return getattr(value, "__registers__", ())


def branch(value):
    """What follows runs only if a register says so: it waits for its load. A tile is loaded into one."""
    session = state.program.session
    if session is None:
        return
    registers = (session.register_load(value),) if isinstance(value, Tensor) else of(value)
    if registers:
        session.branch(registers)


def placed(view, *values):
    """A view that lies where these numbers say."""
    registers = [register for value in values for register in of(value)]
    return view.placed_by(registers) if registers else view


def _number(value, registers):
    return Loaded(value, registers) if registers else value


def _other(value, what):
    """The number beside a register; NotImplemented for what stands for none, and a float is refused."""
    if isinstance(value, (int, np.integer, Register)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        raise refusals.refused(
            "neuron/operand",
            f"{what} of a register with {float(value)!r}",
            "whole numbers and other registers: a register holds an integer",
            "round the number first, or compute with a tile",
        )
    return NotImplemented


def _comparison(name):
    compare = getattr(operator, name)

    def comparison(self, other):
        number = other if isinstance(other, (float, np.floating)) else _other(other, "a comparison")
        return NotImplemented if number is NotImplemented else compare(self._look(), number)

    return comparison


def _operator(name):
    compute = getattr(int, name)

    def combined(self, other):
        if isinstance(other, float) and isinstance(self, int):
            return NotImplemented
        number = _other(other, name.strip("_"))
        if number is NotImplemented:
            return NotImplemented
        return _number(compute(int(self), number), (*of(self), *of(other)))

    return combined


def _of_one(name):
    compute = getattr(int, name)

    def changed(self):
        return _number(compute(int(self)), of(self))

    return changed


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Register, f"__{_name}__", _comparison(_name))
for _name in ("add", "sub", "mul", "floordiv", "mod", "lshift", "rshift", "and", "or", "xor"):
    for _kind in (f"__{_name}__", f"__r{_name}__"):
        setattr(Loaded, _kind, _operator(_kind))
        setattr(Register, _kind, _operator(_kind))
for _kind in ("__neg__", "__pos__", "__abs__", "__invert__"):
    setattr(Loaded, _kind, _of_one(_kind))
    setattr(Register, _kind, _of_one(_kind))
