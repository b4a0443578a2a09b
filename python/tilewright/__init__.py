"""Tilewright: software-managed AI accelerators on a laptop.

From an einsum to the best tactic, its program, and a run of it with values, timeline, energy and findings:

>>> import tilewright
>>> einsum = tilewright.Einsum("HQD,HKD->HQK", dims={"H": 4, "Q": 64, "K": 64, "D": 64})
>>> found = tilewright.explore(einsum, chip="tcp", goal="time")
>>> run = tilewright.simulate(found.best)
>>> sorted(run.values)
['out']
>>> len(run.findings)
0

The same core runs NKI kernels in `tilewright.nki`, and the command `tilewright` prints the same figures.
"""

from .errors import Refused, WrongType
from .exploring import Candidate, Exploration, explore
from .machine import Figure, Machine
from .models import CompiledModel, Generation, compile, generate
from .notation import Check, Drawing, Einsum, Shape, Tactic
from .running import Energy, Finding, Findings, Program, Run, Timeline, Trace, simulate
from .studies import Study, study
from .sweeps import Sweep, sweep

__version__ = "0.1.0"

__all__ = [
    "Candidate",
    "Check",
    "CompiledModel",
    "Drawing",
    "Einsum",
    "Energy",
    "Exploration",
    "Figure",
    "Finding",
    "Findings",
    "Generation",
    "Machine",
    "Program",
    "Refused",
    "Run",
    "Shape",
    "Study",
    "Sweep",
    "Tactic",
    "Timeline",
    "Trace",
    "WrongType",
    "compile",
    "explore",
    "generate",
    "simulate",
    "study",
    "sweep",
]
