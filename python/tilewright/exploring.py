"""The explorer: the best lowered shapes and tactics of an einsum on the TCP, or the best tilings on a NeuronCore."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from . import _core, tables
from .errors import refuse, refuse_type
from .machine import Machine, machine_of
from .notation import Einsum, Tactic
from .progress import reporter
from .running import Program

__all__ = ["Candidate", "Exploration", "explore"]

#: Products of an einsum up to which values of the best are compared, if nothing else is said.
VERIFIED_PRODUCTS = 1 << 28


@dataclass(frozen=True)
class _Options:
    """What the core takes."""

    goal: str
    keep: int
    pes: int
    from_hbm: tuple[bool, bool]
    evaluations: int | None
    plot: bool
    verify: int
    verify_products: int


class Candidate:
    """A tactic or tiling with what it takes."""

    def __init__(self, data: dict[str, Any], machine: Machine, explained: str = "", texts: tuple[str, str] | None = None):
        #: With the keys of `tilewright explore --json`.
        self.data = data
        #: What it does in sentences, and why it takes so long; empty for points of the front.
        self.explained = explained
        self.machine = machine
        self._texts = texts

    @property
    def tactic(self) -> Tactic | str:
        """The tactic, or the tiling in words."""
        text = self.data["tactic"]
        return Tactic(text) if self.machine.architecture == "tcp" else text

    @property
    def shapes(self) -> dict[str, str]:
        """Lowered shapes of `in0`, `in1` and `out`."""
        return self.data["shapes"]

    @property
    def cycles(self) -> int:
        """Cycles that it takes."""
        return self.data["cycles"]

    @property
    def energy_pj(self) -> float:
        """Picojoules that it takes."""
        return self.data["energy_pj"]

    @property
    def milliwatts(self) -> float:
        """Its average power."""
        return self.data["milliwatts"]

    @property
    def utilisation(self) -> float:
        """Part of the multipliers that it uses."""
        return self.data["utilisation"]

    @property
    def energy_by_component(self) -> dict[str, float]:
        """Picojoules by component."""
        return self.data["energy_pj_by_component"]

    @property
    def einsum(self) -> Einsum:
        """One command of it as a low-level einsum: sizes, shapes and tactic."""
        return Einsum.parse(self._text()[0])

    def lower(self) -> Program:
        """The program of one command of it."""
        return Program(self._text()[1], name=str(self.data["tactic"]), machine=self.machine)

    def _text(self) -> tuple[str, str]:
        if self._texts is None:
            why = "a point of the front" if self.machine.architecture == "tcp" else f"a tiling of {self.machine.name}"
            raise refuse("explore/no-text", f"{why} has no program text", "`.best` and `.candidates` on machines of architecture tcp", "explore(einsum, chip='tcp').best.lower()")
        return self._texts

    def __repr__(self) -> str:
        return f"Candidate({self.data['tactic']!r}: {self.cycles:,} cycles, {self.energy_pj:,} pJ, {self.utilisation:.1%} used)"

    def _repr_html_(self) -> str:
        rows = [("tactic", self.data["tactic"]), *((f"shape of {name}", shape) for name, shape in self.shapes.items())]
        rows += [("cycles", self.cycles), ("pJ", self.energy_pj), ("mW", self.milliwatts), ("used", f"{self.utilisation:.1%}")]
        return tables.html_table(("", ""), rows)


class Exploration:
    """What a search found: the best, all that was kept, and the front of time against energy."""

    def __init__(self, data: dict[str, Any], machine: Machine, explained: list[str], texts: list[tuple[str, str] | None], svg: str | None):
        #: With the keys of `tilewright explore --json`.
        self.data = data
        self.machine = machine
        kept = zip(data["candidates"], explained, texts)
        #: The best first.
        self.candidates: list[Candidate] = [Candidate(one, machine, words, text) for one, words, text in kept]
        #: None of them is faster and takes less energy than another.
        self.front: list[Candidate] = [Candidate(one, machine) for one in data["pareto"]]
        #: Pictures, if `plot` was asked for.
        self.svg = svg

    @property
    def best(self) -> Candidate:
        """The best."""
        return self.candidates[0]

    @property
    def complete(self) -> bool:
        """Whether nothing better exists in the space that was searched."""
        return self.data["complete"]

    @property
    def evaluated(self) -> int:
        """Candidates whose cost was computed."""
        return self.data["evaluated"]

    @property
    def verified(self) -> list[dict[str, Any]]:
        """The first of the best beside their simulations: cycles, and results that were compared."""
        return self.data["verified"]

    def save_page(self, path: str | os.PathLike[str]) -> Path:
        """Writes a page with the front, parallel coordinates and the loops of each tactic, and gives its path."""
        target = Path(path)
        target.write_text(_core.exploration_page(self.data["einsum"], json.dumps(self.data)), encoding="utf-8")
        return target

    def to_dataframe(self, which: str = "candidates", library: str | None = None) -> Any:
        """Candidates or the `front` as a table of pandas, polars or Arrow."""
        if which not in ("candidates", "front"):
            raise refuse("explore/table", f"there is no table `{which}`", "candidates, front", "to_dataframe('front')")
        return tables.dataframe([_row(one) for one in getattr(self, which)], library)

    def __repr__(self) -> str:
        proof = "proved best" if self.complete else "best so far"
        return f"{self.data['einsum']} on {self.machine.name}: {proof} of {self.evaluated:,} evaluated\n{self.best!r}"

    def _repr_html_(self) -> str:
        rows = [(at + 1, *_row(one).values()) for at, one in enumerate(self.candidates)]
        table = tables.html_table(("#", *_row(self.best)), rows)
        return f"<div>{self.svg or ''}{table}</div>"


def _row(one: Candidate) -> dict[str, Any]:
    named = {name: one.data[name] for name in ("tactic", "stationary", "cycles", "energy_pj", "milliwatts", "utilisation")}
    return {**named, **({"picoseconds": one.data["picoseconds"]} if "picoseconds" in one.data else {})}


def explore(
    einsum: Einsum | str,
    chip: Machine | str = "tcp",
    *,
    dims: dict[str, int] | None = None,
    dtype: str | None = None,
    goal: str = "time",
    keep: int = 5,
    pes: int = 1,
    from_hbm: bool | tuple[bool, bool] = False,
    evaluations: int | None = None,
    plot: bool = False,
    verify: int = 1,
    progress: bool | Callable[[float], None] | None = None,
) -> Exploration:
    """Searches lowered shapes and tactics, or tilings on a NeuronCore, exactly unless `evaluations` bounds it.

    `goal` is `time`, `energy`, `edp`, or `time@WATTS`. `verify` of the best are run on the simulator and compared. With `plot` the whole space is
    looked at and drawn. The interpreter lock is free meanwhile, and Ctrl-C ends the search.

    >>> import tilewright
    >>> found = tilewright.explore("mk,kn->mn", dims={"m": 64, "k": 64, "n": 64}, goal="energy")
    >>> found.complete, found.best.cycles == found.candidates[0].cycles
    (True, True)
    >>> found.verified[0]["results_different"]
    0
    """
    if isinstance(einsum, str):
        einsum = Einsum(einsum, dims=dims or {}, dtype=dtype)
    elif not isinstance(einsum, Einsum):
        raise refuse_type("the einsum", einsum, "an Einsum or a text", "explore('mk,kn->mn', dims={'m': 16, 'k': 16, 'n': 16})")
    elif dims or dtype:
        einsum = einsum.using(dims={**einsum.dims, **(dims or {})}, dtype=dtype or einsum.dtype)
    for name, count in (("keep", keep), ("pes", pes)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise refuse("explore/count", f"{name} is {count!r}", "a whole number of at least 1", f"{name}=1")
    starts = from_hbm if isinstance(from_hbm, tuple) else (from_hbm, from_hbm)
    machine = machine_of(chip)
    options = _Options(goal, keep, pes, starts, evaluations, plot, verify, VERIFIED_PRODUCTS)
    with reporter(progress, f"explore {einsum.text}") as told:
        found, explained, texts, svg = _core.explore_einsum(einsum._texts(), machine._handle, options, told)
    data = json.loads(found)
    # How long it took is the caller's to measure: the same search gives the same data.
    del data["seconds"]
    return Exploration(data, machine, explained, texts, svg)
