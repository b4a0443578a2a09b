"""Low-level einsum: an einsum with sizes, lowered shapes and a tactic; checked, drawn and lowered to a program."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Mapping

from . import _core
from .errors import Refused, refuse_type
from .machine import Machine, machine_of

if TYPE_CHECKING:
    from .running import Program

__all__ = ["Check", "Drawing", "Einsum", "Shape", "Tactic"]


@dataclass(frozen=True)
class _Texts:
    """What the core reads: one text for each part."""

    einsum: str
    dims: str | None = None
    in0: str | None = None
    in1: str | None = None
    out: str | None = None
    tactic: str | None = None
    stationary: str | None = None
    dtype: str | None = None


class _Text:
    """A piece of notation, in its canonical spelling."""

    _part = ""

    def __init__(self, text: str):
        if isinstance(text, type(self)):
            text = text.text
        if not isinstance(text, str):
            raise refuse_type(f"a {type(self).__name__.lower()}", text, "a text", f"{type(self).__name__}({self._example!r})")
        parsed = json.loads(_core.notation_format(_Texts("a,a->a", **{self._part: text})))
        #: The canonical spelling.
        self.text: str = parsed[self._part]

    _example = ""

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.text == self.text

    def __hash__(self) -> int:
        return hash((type(self), self.text))


class Shape(_Text):
    """A lowered shape: which digits of a tensor's axes lie across slices, and which on each.

    >>> from tilewright import Shape
    >>> Shape("H[4] | Q [256] D[128]")
    Shape('H^1[4] | Q^1[256] D^1[128]')
    """

    _part = "in0"
    _example = "H[4] | Q[256] D[128]"


class Tactic(_Text):
    """A tactic: which loops run across slices, in time, across lanes and within a packet.

    >>> from tilewright import Tactic
    >>> Tactic("H^1[4] K^{16}[16] | Q^1[256] D^{64}[2] | K^1[16] | D^1[64]").text
    'H^1[4] K^{16}[16] | Q^1[256] D^{64}[2] | K^1[16] | D^1[64]'
    """

    _part = "tactic"
    _example = "H^1[4] | Q^1[256] | K^1[8] | D^1[64]"


class Check:
    """Whether an einsum is legal on a machine, and what was worked out on the way."""

    def __init__(self, data: dict[str, Any]):
        #: With the keys of `tilewright notation check --json`.
        self.data = data

    @property
    def legal(self) -> bool:
        """Whether it is."""
        return self.data["legal"]

    @property
    def diagnostics(self) -> list[dict[str, Any]]:
        """Why it is not, and what is odd: code, message, place, allowed, instead."""
        return self.data["diagnostics"]

    def __bool__(self) -> bool:
        return self.legal

    def __repr__(self) -> str:
        if self.legal:
            engine = self.data["engine"] or {}
            cycles = f", {engine['cycles']:,} cycles a slice" if engine else ""
            return f"legal on {self.data['chip']}{cycles}"
        return f"illegal on {self.data['chip']}: " + "; ".join(f"{one['code']}: {one['message']}" for one in self.diagnostics)


class Drawing:
    """Pictures of an einsum: text for terminals, SVG for notebooks."""

    def __init__(self, text: str, svg: str):
        #: For terminals.
        self.text = text
        #: As SVG.
        self.svg = svg

    def save(self, path: str) -> None:
        """Writes the SVG."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg)

    def __repr__(self) -> str:
        return self.text

    def _repr_svg_(self) -> str:
        return self.svg


@dataclass(frozen=True)
class Einsum:
    """An einsum of two inputs, with sizes and as much of shapes and tactic as is decided.

    >>> from tilewright import Einsum
    >>> qk = Einsum("HQD,HKD->HQK", dims={"H": 4, "Q": 256, "K": 256, "D": 128}, dtype="int8")
    >>> qk.check("tcp").legal
    True
    >>> lanes = qk.using(tactic="H^1[4] K^{16}[16] | Q^1[256] D^{64}[2] | K^1[16] | D^1[64]")
    >>> [one["code"] for one in lanes.check("tcp").diagnostics]
    ['tcp/lanes']
    """

    text: str
    dims: Mapping[str, int | str] = field(default_factory=dict)
    dtype: str | None = None
    in0: Shape | str | None = None
    in1: Shape | str | None = None
    out: Shape | str | None = None
    tactic: Tactic | str | None = None
    stationary: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise refuse_type("an einsum", self.text, "a text", "Einsum('mk,kn->mn', dims={'m': 16, 'k': 16, 'n': 16})")
        if not isinstance(self.dims, Mapping):
            raise refuse_type("dims", self.dims, "a dictionary of sizes", "dims={'m': 16}")
        for axis, size in self.dims.items():
            if isinstance(size, bool) or not (isinstance(size, str) or hasattr(size, "__index__")):
                raise refuse_type(f"the size of {axis}", size, "a whole number, or '<=N' for an axis that may be shorter", f"dims={{{axis!r}: 16}}")
        for name, kind in (("in0", Shape), ("in1", Shape), ("out", Shape), ("tactic", Tactic)):
            given = getattr(self, name)
            if given is not None and not isinstance(given, kind):
                object.__setattr__(self, name, kind(given))
        spelled = json.loads(_core.notation_format(self._texts()))
        object.__setattr__(self, "text", spelled["einsum"])

    @classmethod
    def parse(cls, text: str) -> Einsum:
        """An einsum from the text of a `.tw` file, as the explorer spells candidates.

        >>> from tilewright import Einsum
        >>> Einsum.parse("mk,kn->mn\\ndims m=16, k=32, n=8").dims
        {'m': 16, 'k': 32, 'n': 8}
        """
        data = json.loads(_core.notation_parse(text))
        parts = {name: data[name] for name in ("in0", "in1", "out", "tactic", "stationary", "dtype")}
        return cls(data["einsum"], dims=_sizes(data["dims"]), **parts)

    def using(self, **changes: Any) -> Einsum:
        """The same with parts replaced: `dims`, `dtype`, `in0`, `in1`, `out`, `tactic`, `stationary`."""
        known = {name: getattr(self, name) for name in ("text", "dims", "dtype", "in0", "in1", "out", "tactic", "stationary")}
        return Einsum(**{**known, **changes})

    def _texts(self) -> _Texts:
        dims = ",".join(axis + (size if isinstance(size, str) else f"={int(size)}") for axis, size in self.dims.items()) or None
        parts = {name: None if (part := getattr(self, name)) is None else str(part) for name in ("in0", "in1", "out", "tactic")}
        return _Texts(self.text, dims=dims, stationary=self.stationary, dtype=self.dtype, **parts)

    def check(self, chip: Machine | str = "tcp", *, pes: int = 1) -> Check:
        """Whether it is legal on a machine with so many fused PEs."""
        return Check(json.loads(_core.notation_check(self._texts(), machine_of(chip)._handle, pes)))

    def show(self, chip: Machine | str = "tcp", *, pes: int = 1) -> Drawing:
        """What each slice holds, and which loop runs where."""
        return Drawing(*_core.notation_draw(self._texts(), machine_of(chip)._handle, pes))

    def lower(self, chip: Machine | str = "tcp", *, pes: int = 1, seeds: tuple[int, int] = (1, 2), from_hbm: bool | tuple[bool, bool] = False) -> Program:
        """Its command program. Inputs are drawn from seeds unless `simulate` is given arrays; they start in data memory, or in HBM."""
        from .running import Program

        starts = from_hbm if isinstance(from_hbm, tuple) else (from_hbm, from_hbm)
        machine = machine_of(chip)
        text = _core.notation_lower(self._texts(), machine._handle, pes, seeds, starts)
        return Program(text, name=self.text, machine=machine)

    def _repr_svg_(self) -> str | None:
        try:
            return self.show().svg if self.dims and (self.tactic or self.in0 or self.in1 or self.out) else None
        except Refused:
            return None


def _sizes(dims: list[str]) -> dict[str, int | str]:
    """Sizes as the notation spells them; `<=` is an axis that may be shorter."""
    found: dict[str, int | str] = {}
    for one in dims:
        axis, dynamic, size = re.split(r"(<=|=)", one, maxsplit=1)
        found[axis.strip()] = int(size) if dynamic == "=" and size.strip().isdigit() else f"{dynamic}{size}"
    return found
