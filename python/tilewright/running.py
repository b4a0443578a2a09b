"""Programs and their runs: values, timeline, energy and findings from one simulation."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Iterator

import numpy as np

from . import _core, arrays as _arrays, drawing, tables
from .errors import refuse, refuse_type
from .machine import Machine, machine_of

__all__ = ["Energy", "Finding", "Findings", "Program", "Run", "Timeline", "Trace", "simulate"]


class Program:
    """A command program of either chip family, as text.

    >>> from tilewright import Einsum
    >>> program = Einsum.parse(open("kernels/qk-fig10.tw").read()).lower()
    >>> sorted(program.tensors)
    ['in0', 'in1', 'out']
    """

    def __init__(self, text: str, *, name: str = "program", machine: Machine | None = None, folder: str = "."):
        if not isinstance(text, str):
            raise refuse_type("a program", text, "its text", "Program.load('kernels/attention.tcp')")
        #: What complaints call it.
        self.name = name
        #: The text, as `tilewright sim` reads it.
        self.text = text
        self._folder = folder
        self._machine = machine

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Program:
        """A program text from a file; arrays that it names are looked for beside it."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise refuse("program/unreadable", f"cannot read `{path}`: {error}", "the text of a program", "Program.load('kernels/attention.tcp')") from error
        return cls(text, name=str(path), folder=str(Path(path).parent))

    @cached_property
    def _read(self) -> tuple[str, list[tuple[str, str, str, list[int]]]]:
        return _core.program_tensors(self.name, self.text)

    @property
    def machine(self) -> Machine:
        """The machine that it is for."""
        return self._machine if self._machine is not None else machine_of(self._read[0])

    @property
    def tensors(self) -> dict[str, tuple[str, str, tuple[int, ...]]]:
        """Role, element type and shape of each tensor; none for programs of a NeuronCore."""
        return {name: (role, dtype, tuple(extents)) for name, role, dtype, extents in self._read[1]}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the text."""
        Path(path).write_text(self.text, encoding="utf-8")

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        tensors = ", ".join(f"{name}: {dtype}{list(extents)}" for name, (_, dtype, extents) in self.tensors.items())
        return f"Program({self.name!r}, {len(self.text.splitlines())} lines{', ' if tensors else ''}{tensors})"


@dataclass(frozen=True)
class Finding:
    """Something that is wrong though the program ran."""

    code: str
    severity: str
    message: str
    place: str
    allowed: str
    instead: str
    notes: tuple[str, ...]

    def __str__(self) -> str:
        rows = [f"{self.severity}[{self.code}] {self.place}", f"  asked:   {self.message}"]
        rows += [f"  allowed: {self.allowed}"] if self.allowed else []
        rows += [f"  instead: {self.instead}"] if self.instead else []
        return "\n".join(rows + [f"  note:    {note}" for note in self.notes])


class Findings(Sequence[Finding]):
    """All findings of a run, in order."""

    def __init__(self, found: list[Finding]):
        self._found = found

    def __getitem__(self, at: Any) -> Any:
        return self._found[at]

    def __len__(self) -> int:
        return len(self._found)

    def to_dataframe(self, library: str | None = None) -> Any:
        """As a table of pandas, polars or Arrow."""
        names = ("code", "severity", "message", "place", "allowed", "instead")
        return tables.dataframe({name: [getattr(one, name) for one in self._found] for name in names}, library)

    def __repr__(self) -> str:
        return "\n".join(map(str, self._found)) if self._found else "no findings"

    def _repr_html_(self) -> str:
        if not self._found:
            return "<p>no findings</p>"
        rows = [(one.severity, one.code, one.place, one.message, one.instead) for one in self._found]
        return tables.html_table(("", "code", "place", "what", "instead"), rows)


class Energy(Mapping[str, float]):
    """Joules by component."""

    def __init__(self, joules: dict[str, float]):
        self._joules = joules

    def __getitem__(self, component: str) -> float:
        return self._joules[component]

    def __iter__(self) -> Iterator[str]:
        return iter(self._joules)

    def __len__(self) -> int:
        return len(self._joules)

    @property
    def total(self) -> float:
        """All joules."""
        return sum(self._joules.values())

    def to_dataframe(self, library: str | None = None) -> Any:
        """As a table of pandas, polars or Arrow."""
        return tables.dataframe({"component": list(self._joules), "joules": list(self._joules.values())}, library)

    def __repr__(self) -> str:
        rows = [f"{joules * 1e6:12.4f} uJ  {name}" for name, joules in self._joules.items() if joules]
        return "\n".join([f"{self.total * 1e6:12.4f} uJ", *rows])

    def _repr_html_(self) -> str:
        return drawing.bars([(name, joules) for name, joules in self._joules.items() if joules], "J")


class Timeline:
    """When each command ran, on what, and what decided its length; as columns."""

    def __init__(self, handle: Any):
        tracks, names, sources, stages, rows = handle.timeline()
        table = np.array(rows, dtype=np.int64).reshape(-1, 6)
        #: Paths of tracks, such as `chip0/pe0/main`.
        self.tracks: list[str] = tracks
        self._names, self._sources, self._stages = names, sources, stages
        self._rows = table
        #: Ticks of `start` and `end` in a second: cycles of the TCP, picoseconds of a NeuronCore.
        self.ticks_per_s: int = handle.clock_hz
        self._counters = handle.counters

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def start(self) -> np.ndarray:
        """First tick of each command."""
        return self._rows[:, 4]

    @property
    def end(self) -> np.ndarray:
        """The tick after the last of each command."""
        return self._rows[:, 5]

    @property
    def track(self) -> np.ndarray:
        """Number of the track of each command."""
        return self._rows[:, 0]

    @property
    def name(self) -> list[str]:
        """What ran."""
        return [self._names[at] for at in self._rows[:, 1]]

    def columns(self) -> dict[str, Any]:
        """All columns, with texts in place of numbers."""
        return {
            "track": [self.tracks[at] for at in self.track],
            "name": self.name,
            "start": self.start,
            "end": self.end,
            "bound_by": [self._stages[at] for at in self._rows[:, 3]],
            "source": [self._sources[at] for at in self._rows[:, 2]],
        }

    def to_dataframe(self, library: str | None = None) -> Any:
        """One row for each command, as a table of pandas, polars or Arrow."""
        return tables.dataframe(self.columns(), library)

    @cached_property
    def counters(self) -> dict[str, tuple[str, np.ndarray, np.ndarray]]:
        """Values over time by path: unit, ticks from which they hold, values."""
        return {path: (unit, np.array(at, dtype=np.int64), np.array(values, dtype=np.int64)) for path, unit, at, values in self._counters()}

    def __repr__(self) -> str:
        end = int(self.end.max()) if len(self) else 0
        return f"{len(self):,} commands on {len(set(self.track.tolist()))} tracks, {end:,} ticks of {self.ticks_per_s:,} a second"

    def _repr_svg_(self) -> str:
        return drawing.lanes(self)


class Trace:
    """A Perfetto trace of a run, which opens at ui.perfetto.dev and in `tilewright view`."""

    def __init__(self, handle: Any):
        self._handle = handle

    def __bytes__(self) -> bytes:
        return self._handle.trace()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the trace, all of it or nothing, and gives the path."""
        target = Path(path)
        partial = target.with_name(f"{target.name}.partial-{os.getpid()}")
        try:
            partial.write_bytes(bytes(self))
            os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)
        return target

    def __repr__(self) -> str:
        return "a Perfetto trace: .save(path)"


class Run:
    """What a simulation left behind.

    `values` are outputs as NumPy arrays, `timeline` says when what ran, `energy` is in joules by component, `findings` says what is wrong.
    """

    def __init__(self, handle: Any):
        self._handle = handle

    @cached_property
    def data(self) -> dict[str, Any]:
        """With the keys of `tilewright sim --json`."""
        return json.loads(self._handle.json())

    @property
    def machine(self) -> str:
        """The name of the machine."""
        return self._handle.machine

    @property
    def program(self) -> Program:
        """What ran."""
        return Program(self._handle.text, name=self._handle.name)

    @cached_property
    def values(self) -> dict[str, np.ndarray]:
        """Outputs by name."""
        return {name: _arrays.output(self._handle, name, dtype, extents) for name, dtype, extents in self._handle.outputs()}

    @cached_property
    def timeline(self) -> Timeline:
        """When what ran."""
        return Timeline(self._handle)

    @cached_property
    def energy(self) -> Energy:
        """Joules by component."""
        if "energy_j" in self.data:
            return Energy(self.data["energy_j"])
        return Energy({name: pj * 1e-12 for name, pj in self.data["energy_by_component_pj"].items()})

    @cached_property
    def findings(self) -> Findings:
        """What is wrong though it ran."""
        return Findings([_finding(one) for one in json.loads(self._handle.findings_json())])

    @property
    def trace(self) -> Trace:
        """A Perfetto trace."""
        return Trace(self._handle)

    def page(self, *others: Run) -> str:
        """The page that `tilewright view` shows, as one self-contained file: this run, and others to compare it with."""
        for other in others:
            if not isinstance(other, Run):
                raise refuse_type("a run to compare with", other, "a Run", "run.save_page('page.html', other_run)")
        return self._handle.page([other._handle for other in others])

    def save_page(self, path: str | os.PathLike[str], *others: Run) -> Path:
        """Writes the page, and gives its path.

        >>> import os, tempfile, tilewright
        >>> run = tilewright.simulate("kernels/softmax.tcp")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run.save_page(os.path.join(folder, "softmax.html")).read_text().startswith("<!doctype html>")
        True
        """
        target = Path(path)
        target.write_text(self.page(*others), encoding="utf-8")
        return target

    @property
    def time(self) -> float:
        """Seconds from launch to finish."""
        if "time_us" in self.data:
            return self.data["time_us"] * 1e-6
        return self.data["cycles"] / self._handle.clock_hz

    @property
    def cycles(self) -> int:
        """Cycles from launch to finish, of programs of the TCP."""
        if "cycles" not in self.data:
            raise refuse("run/cycles", f"`{self.machine}` is timed in seconds, not in cycles", "`.time`", "run.time")
        return self.data["cycles"]

    @property
    def ended(self) -> str:
        """`finished`, `deadlock` or `stopped`."""
        return self.data.get("ended", "finished")

    @property
    def utilisation(self) -> dict[str, float]:
        """Part of the time that each kind of engine was busy."""
        if "utilisation" in self.data:
            return self.data["utilisation"]
        return {name: used["busy_s"] / self.time if self.time else 0.0 for name, used in self.data["engines"].items()}

    def to_dataframe(self, library: str | None = None) -> Any:
        """The timeline, one row for each command."""
        return self.timeline.to_dataframe(library)

    def __repr__(self) -> str:
        busy = ", ".join(f"{name} {part:.1%}" for name, part in self.utilisation.items() if part)
        return (
            f"Run of {self._handle.name!r} on {self.machine}: {self.time * 1e6:,.3f} us, {self.energy.total * 1e6:,.3f} uJ, "
            f"{len(self.findings)} findings\n  busy: {busy}"
        )

    def _repr_html_(self) -> str:
        words = f"<pre>{html.escape(repr(self))}</pre>"
        return f"<div>{words}{drawing.lanes(self.timeline)}{self.energy._repr_html_()}{self.findings._repr_html_()}</div>"


def _finding(one: dict[str, Any]) -> Finding:
    place = one.get("place")
    notes = list(one.get("notes", []))
    if place:
        where = f"{place['source']}:{place['line']}:{place['column']}"
    else:
        where = next((note[3:] for note in notes if note.startswith("at ")), "")
    return Finding(one["code"], one["severity"], one["message"], where, one.get("allowed", ""), one.get("instead", ""), tuple(notes))


def simulate(
    program: Any,
    arrays: Mapping[str, Any] | None = None,
    *,
    chip: Machine | str | None = None,
    values: bool = True,
    findings: bool = True,
    timeline: bool = True,
) -> Run:
    """Runs a program: a `Program`, an `Einsum` with its tactic, a candidate of the explorer, or the path of a program text.

    `arrays` are inputs by the names of tensors: NumPy arrays, or what DLPack gives of torch and JAX; they are read where they lie. Tensors that get none
    hold what the program says. The interpreter lock is free meanwhile, and Ctrl-C ends a run that keeps its timeline.

    >>> import numpy, tilewright
    >>> found = tilewright.explore("mk,kn->mn", dims={"m": 16, "k": 64, "n": 64})
    >>> rng = numpy.random.default_rng(0)
    >>> a = rng.integers(-8, 8, (16, 64), dtype=numpy.int8)
    >>> b = rng.integers(-8, 8, (64, 64), dtype=numpy.int8)
    >>> run = tilewright.simulate(found.best, {"in0": a, "in1": b})
    >>> bool((run.values["out"] == a.astype(numpy.int32) @ b).all())
    True
    """
    program = _program(program)
    machine = machine_of(chip) if chip is not None else program._machine
    given = {}
    for name, value in (arrays or {}).items():
        if not isinstance(name, str):
            raise refuse_type("the name of a tensor", name, "a text", "simulate(program, {'in0': array})")
        given[name] = _arrays.given(name, value)
    handle = _core.simulate_program(
        program.name, program.text, machine._handle if machine is not None else None, given, program._folder, (values, findings, timeline)
    )
    return Run(handle)


def _program(program: Any) -> Program:
    if isinstance(program, Program):
        return program
    if isinstance(program, os.PathLike):
        return Program.load(program)
    if isinstance(program, str):
        return Program(program) if "\n" in program else Program.load(program)
    if hasattr(program, "lower"):
        return program.lower()
    raise refuse_type("the program", program, "a Program, an Einsum with a tactic, a candidate, or a path", "simulate(explore(einsum).best)")
