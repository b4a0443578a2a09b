"""Scalar registers: their values at once, and for the timeline which loads a number depends on."""

from tilewright._core import Tensor

from . import state


class Loaded(int):
    """A number made of what registers hold: what lies where it says is known when they are."""

    def __new__(cls, value, registers):
        made = super().__new__(cls, value)
        made.__registers__ = registers
        return made


class Register:
    """A scalar register."""

    def __init__(self, value=0):
        self.value = int(value)
        #: Loads that its value comes from.
        self.__registers__ = ()

    def load(self, tile):
        """Takes one element."""
        self.value = tile.integer()
        self.__registers__ = (state.running().register_load(tile),)

    def move(self, value):
        """Takes another register's value, or a number."""
        self.value, self.__registers__ = int(value), of(value)

    def number(self):
        """Its value, which knows where it comes from."""
        return _number(self.value, self.__registers__)

    def __index__(self):
        return self.value

    __int__ = __index__

    def __bool__(self):
        branch(self)
        return self.value != 0

    def __eq__(self, other):
        branch(self)
        return self.value == int(other)

    def __lt__(self, other):
        branch(self)
        return self.value < int(other)

    def __hash__(self):
        return id(self)


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


def _operator(name):
    compute = getattr(int, name)

    def operator(self, other):
        try:
            value = compute(int(self), int(other))
        except TypeError:
            return NotImplemented
        return _number(value, (*of(self), *of(other)))

    return operator


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    for _kind in (f"__{_name}__", f"__r{_name}__"):
        setattr(Loaded, _kind, _operator(_kind))
        setattr(Register, _kind, _operator(_kind))
