"""Kernels under test: limits on cycles, findings as failures, and readings that are kept beside the tests.

A pytest plugin that comes with the package:

    from tilewright.testing import assert_cycles, assert_no_findings

    def test_attention(readings):
        run = assert_cycles("kernels/attention.tcp", at_most=14_000)
        readings.check(run)

`readings.check` compares with `snapshots/TEST.json` beside the test file, and writes it the first time or with `pytest --update-readings`.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from pathlib import Path
from typing import Any, Callable, Sequence

import pytest

from .errors import refuse
from .machine import Machine, machine_of
from .running import Run, simulate

__all__ = ["Readings", "assert_cycles", "assert_no_findings", "assert_time", "readings_of", "run_of"]

#: Figures of a report that count as equal up to this part; everything else must be equal.
RELATIVE = 1e-9


def run_of(kernel: Any, chip: Machine | str | None = None, args: Sequence[Any] = (), arrays: dict[str, Any] | None = None, grid: Any = None) -> Any:
    """A run of a program, an einsum or a candidate, or a launch of an NKI kernel with these arguments; a run that is given is taken as it is."""
    if isinstance(kernel, Run) or hasattr(kernel, "critical_path"):
        return kernel
    if callable(kernel) and not hasattr(kernel, "lower"):
        from . import nki

        return nki.run(kernel, *args, chip=chip.name if isinstance(chip, Machine) else chip, grid=grid)
    return simulate(kernel, arrays, chip=chip)


def _cycles(run: Any) -> int:
    """Cycles of a run; of an NKI launch those of the tensor engine's clock."""
    if isinstance(run, Run) and "cycles" in run.data:
        return run.cycles
    chip = run.machine if isinstance(run, Run) else run.chip
    return round(run.time * machine_of(chip)["tensor.clock_hz"])


def _shown(run: Any) -> str:
    return str(run) if not isinstance(run, Run) else f"{run!r}\n{run.findings!r}"


def assert_no_findings(kernel: Any, *, chip: Machine | str | None = None, args: Sequence[Any] = (), allow: Sequence[str] = (), **options: Any) -> Any:
    """Fails if a run has findings, but for codes that are allowed; gives the run."""
    __tracebackhide__ = True
    run = run_of(kernel, chip, args, **options)
    found = [one for one in _findings(run) if one["code"] not in allow]
    if found:
        lines = "\n".join(f"{one['severity']}[{one['code']}] {one['place']}\n  asked:   {one['message']}\n  instead: {one['instead']}" for one in found)
        pytest.fail(f"{len(found)} findings:\n{lines}", pytrace=False)
    return run


def assert_cycles(kernel: Any, *, at_most: int, chip: Machine | str | None = None, args: Sequence[Any] = (), findings: bool = True, **options: Any) -> Any:
    """Fails if a kernel takes more cycles, or has findings unless `findings=False`; gives the run."""
    __tracebackhide__ = True
    run = assert_no_findings(kernel, chip=chip, args=args, **options) if findings else run_of(kernel, chip, args, **options)
    cycles = _cycles(run)
    if cycles > at_most:
        pytest.fail(f"{cycles:,} cycles, {cycles / at_most - 1:+.1%} of the {at_most:,} that are allowed\n{_shown(run)}", pytrace=False)
    return run


def assert_time(kernel: Any, *, at_most_us: float, chip: Machine | str | None = None, args: Sequence[Any] = (), findings: bool = True, **options: Any) -> Any:
    """Fails if a kernel takes longer, or has findings unless `findings=False`; gives the run."""
    __tracebackhide__ = True
    run = assert_no_findings(kernel, chip=chip, args=args, **options) if findings else run_of(kernel, chip, args, **options)
    if run.time * 1e6 > at_most_us:
        pytest.fail(f"{run.time * 1e6:,.3f} us, {run.time * 1e6 / at_most_us - 1:+.1%} of the {at_most_us:,} us that are allowed\n{_shown(run)}", pytrace=False)
    return run


def _findings(run: Any) -> list[dict[str, str]]:
    if isinstance(run, Run):
        return [{"code": one.code, "severity": one.severity, "place": one.place, "message": one.message, "instead": one.instead} for one in run.findings]
    return [{"code": one["code"], "severity": one["severity"], "place": one["line"], "message": one["message"], "instead": one["instead"]} for one in run.findings]


def readings_of(run: Any) -> dict[str, Any]:
    """The readings of a run that are kept: time, busy engines, energy, bytes and findings; places without folders, values not at all."""
    data = dict(run.data) if isinstance(run, Run) else run.json()
    kept = {name: data[name] for name in ("ended", "cycles", "time_us", "commands", "utilisation", "engines", "counts", "hbm_bytes", "spill_bytes", "energy_by_component_pj", "energy_j") if name in data}
    images = [{name: one[name] for name in ("name", "unit", "runs", "busy_cycles", "slowest_stage")} for one in data.get("images", [])]
    found = [{**one, "place": re.sub(r"^.*[/\\]", "", one["place"])} for one in _findings(run)]
    return {"chip": run.machine if isinstance(run, Run) else run.chip, **kept, **({"images": images} if images else {}), "findings": found}


def _differs(old: Any, new: Any) -> bool:
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() != new.keys() or any(_differs(old[name], new[name]) for name in old)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) != len(new) or any(map(_differs, old, new))
    if isinstance(old, float) or isinstance(new, float):
        return not (isinstance(old, (int, float)) and isinstance(new, (int, float)) and abs(old - new) <= RELATIVE * max(abs(old), abs(new)))
    return old != new


def _lines(data: Any) -> list[str]:
    return json.dumps(data, indent=2, sort_keys=True).splitlines()


class Readings:
    """Readings that are kept beside a test."""

    def __init__(self, path: Path, update: bool):
        #: The file that keeps them.
        self.path = path
        self._update = update
        self._count = 0

    def check(self, run: Any, name: str | None = None) -> None:
        """Compares the readings of a run with what is kept, and fails with a diff; keeps them if nothing was."""
        __tracebackhide__ = True
        self._count += 1
        path = self.path if name is None and self._count == 1 else self.path.with_name(f"{self.path.stem}-{name or self._count}.json")
        new = readings_of(run)
        if self._update or not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(f"{path.name}.partial-{os.getpid()}")
            partial.write_text("\n".join(_lines(new)) + "\n", encoding="utf-8")
            os.replace(partial, path)
            return
        try:
            old = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise refuse("testing/readings", f"`{path}` holds no readings: {error}", "what `readings.check` wrote", "pytest --update-readings") from error
        if _differs(old, new):
            diff = "\n".join(difflib.unified_diff(_lines(old), _lines(new), "kept", "now", lineterm="", n=2))
            pytest.fail(f"{_headline(old, new)}\n{diff}\n{path}: `pytest --update-readings` keeps what is now", pytrace=False)


def _headline(old: dict[str, Any], new: dict[str, Any]) -> str:
    """What changed most, in a line."""
    for name in ("cycles", "time_us"):
        if name in old and name in new and old[name]:
            return f"{name}: {old[name]:,} was kept, {new[name]:,} now ({new[name] / old[name] - 1:+.2%})"
    return "the readings changed"


def pytest_addoption(parser: Any) -> None:
    """`--update-readings`."""
    parser.getgroup("tilewright").addoption("--update-readings", action="store_true", help="keep the readings of this run")


@pytest.fixture
def readings(request: Any) -> Readings:
    """Readings that are kept beside the test, under its name."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", request.node.name).strip("-")
    return Readings(Path(request.node.path).parent / "snapshots" / f"{name}.json", request.config.getoption("--update-readings"))


#: What a test may pass where a kernel is wanted.
Kernel = Callable[..., Any]
