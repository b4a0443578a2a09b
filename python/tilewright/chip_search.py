"""A search for a chip, as a worked example: the TCP with the least energy per token of a model under an area budget.

Optuna proposes chips in numbered generations (ask), a sweep compiles the model for all of a generation and times it, and Optuna learns from the answers (tell).
The same seed gives the same chips. Answers are those of `tilewright.sweep`: with `out` they are kept, so that a search goes on after `kill -9`, and with
`engine="ray"` a generation is spread over a cluster.

The area of a chip that nobody built is a model, and a rough one: every figure of it is in `AREA` with its source, and most are assumptions.
`pip install 'tilewright[search]'` brings Optuna.

    python -m tilewright.chip_search llama2-7b --budget-mm2 500 --out search/
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from typing import Any

from .errors import refuse
from .machine import Machine
from .sweeps import sweep

__all__ = ["AREA", "Assumption", "Chip", "ChipSearch", "area_mm2", "search"]


@dataclass(frozen=True)
class Assumption:
    """A figure of the area model, and what it rests on."""

    value: float
    unit: str
    source: str


#: What the area of a chip follows from.
AREA = {
    "die_mm2": Assumption(632.1, "mm2", "TCP paper, Table I: the die of eight PEs with 256 MB of data memory"),
    "sram_um2_per_bit": Assumption(0.021, "um2", "literature: the densest SRAM cell announced for 5 nm"),
    "sram_efficiency": Assumption(0.5, "of a macro are cells", "assumption: banks, decoders, repair"),
    "shared_part": Assumption(0.35, "of the die", "assumption: HBM and PCIe interfaces, control processors, the network between PEs, pads; it does not shrink with the PEs"),
    "slice_fixed_part": Assumption(0.4, "of a slice's logic", "assumption: sequencers, switch, vector engine, commit; the rest goes with the lanes of the contraction engine"),
}

#: Figures of the chip that a search varies, and what each may be. PEs are those that are built and used.
CHOICES: dict[str, tuple[int, ...]] = {
    "pes": (1, 2, 4, 8),
    "pe.slices": (32, 64, 128),
    "dm.capacity_bytes": (262144, 524288, 1048576),
    "ce.lanes": (4, 8),
}

#: Slices and bytes of data memory that the published die has, and lanes of a slice.
_PUBLISHED = {"slices": 512, "dm_bytes": 524288, "lanes": 8}


def _sram_mm2(bits: float) -> float:
    return bits * AREA["sram_um2_per_bit"].value / AREA["sram_efficiency"].value / 1e6


def area_mm2(chip: dict[str, int]) -> float:
    """The area of a chip, by figures of `CHOICES`; the published die has its published area.

    >>> round(area_mm2({"pes": 8, "pe.slices": 64, "dm.capacity_bytes": 524288, "ce.lanes": 8}), 1)
    632.1
    >>> area_mm2({"pes": 4, "pe.slices": 64, "dm.capacity_bytes": 524288, "ce.lanes": 8}) < 450
    True
    """
    die, slices = AREA["die_mm2"].value, _PUBLISHED["slices"]
    shared = die * AREA["shared_part"].value
    logic = (die - shared - _sram_mm2(8 * slices * _PUBLISHED["dm_bytes"])) / slices
    fixed = AREA["slice_fixed_part"].value
    of_lanes = fixed + (1 - fixed) * chip["ce.lanes"] / _PUBLISHED["lanes"]
    slice_mm2 = logic * of_lanes + _sram_mm2(8 * chip["dm.capacity_bytes"])
    return shared + chip["pes"] * chip["pe.slices"] * slice_mm2


@dataclass(frozen=True)
class Chip:
    """A chip that a search looked at: its figures, its area, and what a token took, unless that was refused."""

    generation: int
    figures: dict[str, int]
    area_mm2: float
    energy_mj_per_token: float | None
    ms_per_token: float | None
    #: Why there is no answer; empty if there is one.
    why: str = ""


@dataclass(frozen=True)
class ChipSearch:
    """All chips of a search, in the order in which they were proposed, and the budget."""

    budget_mm2: float
    chips: list[Chip]

    @property
    def best(self) -> Chip:
        """The chip with the least energy per token; the smaller one of equals."""
        answered = [chip for chip in self.chips if chip.energy_mj_per_token is not None]
        if not answered:
            raise refuse("search/none", f"no chip of at most {self.budget_mm2:g} mm2 was found that the model fits", "a larger budget or more generations", "budget_mm2=632")
        return min(answered, key=lambda chip: (chip.energy_mj_per_token, chip.area_mm2))

    def __str__(self) -> str:
        lines = [f"{'generation':>10}  {'PEs':>3}  {'slices':>6}  {'DM KiB':>6}  {'lanes':>5}  {'mm2':>6}  {'mJ/token':>8}  {'ms/token':>8}"]
        for chip in self.chips:
            figures = chip.figures
            head = f"{chip.generation:>10}  {figures['pes']:>3}  {figures['pe.slices']:>6}  {figures['dm.capacity_bytes'] // 1024:>6}  {figures['ce.lanes']:>5}  {chip.area_mm2:>6.1f}"
            if chip.energy_mj_per_token is None:
                lines.append(f"{head}  {chip.why}")
            else:
                lines.append(f"{head}  {chip.energy_mj_per_token:>8.1f}  {chip.ms_per_token:>8.3f}{'  best' if chip is self.best else ''}")
        return "\n".join(lines)


def search(
    model: str,
    *,
    budget_mm2: float,
    generations: int = 4,
    size: int = 8,
    dtype: str = "int8",
    context: int = 2048,
    seed: int = 1,
    engine: str = "local",
    workers: int | None = None,
    out: str | os.PathLike[str] | None = None,
) -> ChipSearch:
    """Looks for the chip with the least energy per token of a model, among those of at most an area.

    Each generation asks for `size` chips. Those above the budget, and those that were proposed before, cost nothing; all others are compiled for and timed, one
    point of a sweep each.
    """
    optuna = _optuna()
    for name, count in (("generations", generations), ("size", size)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise refuse("search/count", f"{name} is {count!r}", "a whole number of at least 1", f"{name}=4")
    # Startup trials are random; from then on chips are proposed from what others took.
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=size, constant_liar=True)
    study = optuna.create_study(direction="minimize", sampler=sampler)
    known: dict[tuple[int, ...], Chip] = {}
    for generation in range(1, generations + 1):
        trials = [study.ask() for _ in range(size)]
        asked = [{name: trial.suggest_categorical(name, list(values)) for name, values in CHOICES.items()} for trial in trials]
        fresh = {_key(chip): chip for chip in asked if _key(chip) not in known}
        for chip in _answered(model, generation, list(fresh.values()), budget_mm2, dtype, context, engine, workers, out):
            known[_key(chip.figures)] = chip
        for trial, chip in zip(trials, asked):
            energy = known[_key(chip)].energy_mj_per_token
            if energy is None:
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            else:
                study.tell(trial, energy)
    return ChipSearch(budget_mm2, list(known.values()))


def _key(figures: dict[str, int]) -> tuple[int, ...]:
    return tuple(figures[name] for name in CHOICES)


def _answered(model: str, generation: int, asked: list[dict[str, int]], budget_mm2: float, dtype: str, context: int, engine: str, workers: int | None, out: Any) -> list[Chip]:
    """The chips of a generation, with what a token takes on those that the budget allows."""
    areas = [area_mm2(chip) for chip in asked]
    # The published value of a figure is left out: the same chip is the same point.
    published = Machine("tcp")
    spaces = []
    for chip, area in zip(asked, areas):
        if area <= budget_mm2:
            changed = {name: value for name, value in chip.items() if name != "pes" and value != published[name]}
            spaces.append({"model": model, "pes": chip["pes"], "dtype": dtype, "context": context, "goal": "energy", **({"set": changed} if changed else {})})
    answers = iter(sweep(spaces, engine=engine, workers=workers, out=out).answers if spaces else [])
    found = []
    for chip, area in zip(asked, areas):
        answer = next(answers) if area <= budget_mm2 else {"why": "above the budget"}
        why = (answer.get("why") or answer.get("poison") or "").split("\n")[0]
        found.append(Chip(generation, chip, area, answer.get("energy_mj_per_token"), answer.get("ms_per_token"), why))
    return found


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise refuse("search/optuna", "a search for a chip needs Optuna", "pip install optuna", "pip install 'tilewright[search]'") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def main(arguments: list[str] | None = None) -> int:
    """The search on the command line."""
    parser = argparse.ArgumentParser(prog="python -m tilewright.chip_search", description="Look for the TCP with the least energy per token of a model under an area budget.")
    parser.add_argument("model", help="a known model such as llama2-7b, or a model file")
    parser.add_argument("--budget-mm2", type=float, default=500.0, help="area of the chip at most, by the area model of this module (default 500)")
    parser.add_argument("--generations", type=int, default=4)
    parser.add_argument("--size", type=int, default=8, help="chips that are proposed in a generation (default 8)")
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--dtype", default="int8")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", default="local", choices=["local", "serial", "ray"])
    parser.add_argument("--out", help="folder that keeps answers: the same search goes on from them")
    args = parser.parse_args(arguments)
    found = search(args.model, budget_mm2=args.budget_mm2, generations=args.generations, size=args.size, dtype=args.dtype, context=args.context, seed=args.seed, engine=args.engine, out=args.out)
    print(found)
    for name, figure in AREA.items():
        print(f"area: {name} = {figure.value:g} {figure.unit} ({figure.source})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
