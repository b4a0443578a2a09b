"""Sweeps: one question asked of many points, on all cores of this machine or on a Ray cluster.

A sweep is a product of lists: einsums or models, sizes, chips, figures of machines, goals. Every point is checked before the first one runs. Results go to an
append-only log under the hash of what was asked and of the core that answers, so that the same sweep goes on where it was stopped, even by `kill -9`, and asks
nothing twice. A point that ends its worker is tried once more alone, and then recorded as poison.

    [space]
    einsum = "MK,NK->MN"
    dims = { M = [1, 16, 256], N = 4096, K = 4096 }
    chip = "tcp"
    goal = ["time", "energy"]
    set = { "dm.capacity_bytes" = [262144, 524288] }
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import re
import sys
import time
import tomllib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Callable

from . import _core, tables
from .errors import Refused, refuse, refuse_type
from .exploring import explore
from .machine import Machine
from .models import compile as compile_model
from .notation import Einsum
from .progress import reporter

__all__ = ["Sweep", "sweep"]

#: Keys of a space whose values may be lists.
_KEYS = ("einsum", "model", "dims", "dtype", "chip", "set", "goal", "pes", "context", "evaluations")
#: Seconds that a batch should take: long beside what it costs to hand one out, short beside what a lost worker loses.
BATCH_SECONDS = 5.0
#: Seconds that a batch takes at most where many workers ask for them.
LONGEST_BATCH_SECONDS = 30.0
#: Seconds that handing a batch out and taking it back costs (measured on Ray: docs/python.md).
BATCH_OVERHEAD_SECONDS = 0.036
#: Points of a batch, at most.
MOST_POINTS = 256
#: Times that a point may end its worker.
MOST_DEATHS = 2

Point = dict[str, Any]


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def points_of(space: Mapping[str, Any]) -> list[Point]:
    """All points of a space, in a fixed order.

    >>> [point["dims"] for point in points_of({"einsum": "mk,kn->mn", "dims": {"m": [1, 2], "k": 8, "n": 8}})]
    [{'m': 1, 'k': 8, 'n': 8}, {'m': 2, 'k': 8, 'n': 8}]
    """
    if not isinstance(space, Mapping):
        raise refuse_type("the space of a sweep", space, "a dictionary", "sweep({'einsum': 'mk,kn->mn', 'dims': {'m': [1, 2], 'k': 8, 'n': 8}})")
    unknown = sorted(set(space) - set(_KEYS))
    if unknown:
        raise refuse("sweep/key", f"a space has no `{unknown[0]}`", ", ".join(_KEYS), "einsum")
    if ("einsum" in space) == ("model" in space):
        raise refuse("sweep/what", "a space needs an einsum or a model", "one of `einsum` and `model`", "einsum = 'mk,kn->mn'")
    axes: list[list[tuple[tuple[str, ...], Any]]] = []
    for key in _KEYS:
        if key not in space:
            continue
        if key in ("dims", "set"):
            if not isinstance(space[key], Mapping):
                raise refuse_type(f"`{key}` of a space", space[key], "a dictionary of values or lists", f"{key} = {{ M = [1, 2] }}")
            axes += [[((key, name), value) for value in _listed(values)] for name, values in space[key].items()]
        else:
            axes.append([((key,), value) for value in _listed(space[key])])
    if any(not axis for axis in axes):
        raise refuse("sweep/empty", "a list of the space is empty", "lists with a value", "chip = ['tcp']")
    found = []
    for chosen in itertools.product(*axes):
        point: Point = {}
        for path, value in chosen:
            if len(path) == 1:
                point[path[0]] = value
            else:
                point.setdefault(path[0], {})[path[1]] = value
        found.append(point)
    return found


def check_point(point: Point) -> None:
    """Refuses a point that no search could answer: names, sizes, figures, models."""
    machine = _machine(point)
    if point.get("goal", "time") not in ("time", "energy", "edp") and not re.fullmatch(r"time@\d+(\.\d+)?", str(point.get("goal"))):
        raise refuse("explore/goal", f"`{point['goal']}` is no goal", "time, energy, edp, time@WATTS", "time")
    for key in ("pes", "context", "evaluations"):
        count = point.get(key, 1)
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise refuse("sweep/count", f"{key} is {count!r}", "a whole number of at least 1", f"{key} = 1")
    if "einsum" in point:
        Einsum(point["einsum"], dims=point.get("dims", {}), dtype=point.get("dtype"))
        return
    if machine.architecture != "tcp":
        raise refuse("compile/machine", f"models are not compiled for `{machine.name}`", "machines of architecture tcp", "tcp")
    for key in ("dims", "evaluations"):
        if key in point:
            raise refuse("sweep/key", f"`{key}` in a space of models", "dtype, chip, set, goal, pes, context", f"leave `{key}` out")
    if point.get("pes", 1) not in (1, 2, 4, 8):
        raise refuse("compile/count", f"{point['pes']} PEs", "1, 2, 4, 8", "pes = 1")
    positions, _ = _model(point)
    if point.get("context", 1) > positions:
        raise refuse("compile/context", f"a context of {point['context']} tokens", f"1 to {positions}, the positions of the model", f"context = {positions}")


_machines: dict[str, Machine] = {}
_models: dict[tuple[str, str], tuple[int, str]] = {}


def _model(point: Point) -> tuple[int, str]:
    """Positions of the model of a point, and the hash of its kernels, which its times follow from; those that were read before are kept."""
    if not isinstance(point["model"], str) or not isinstance(point.get("dtype", "bf16"), str):
        raise refuse_type("the model or the dtype of a space", point["model"], "a path or a name, and a type", "model = 'fables'")
    key = (point["model"], point.get("dtype", "bf16"))
    if key not in _models:
        positions, kernels = _core.model_kernels(*key)
        _models[key] = (positions, hashlib.sha256(kernels.encode()).hexdigest())
    return _models[key]


def _machine(point: Point) -> Machine:
    """The machine of a point; those that were loaded before are kept."""
    key = json.dumps([point.get("chip", "tcp"), point.get("set", {})], sort_keys=True)
    if key not in _machines:
        machine = Machine(point.get("chip", "tcp"))
        _machines[key] = machine.vary(point["set"]) if point.get("set") else machine
    return _machines[key]


def answer(point: Point) -> dict[str, Any]:
    """The answer to one point: figures of the best tactic or tiling, or of a compiled model; why there is none."""
    machine = _machine(point)
    try:
        if "model" in point:
            model = compile_model(point["model"], machine, dtype=point.get("dtype", "bf16"), pes=point.get("pes", 1), context=point.get("context", 256), goal=point.get("goal", "time"))
            decode, prefill = model.costs["decode"], model.costs["prefill"]
            return {"ms_per_token": decode["ms_per_token"], "energy_mj_per_token": decode["energy_mj_per_token"], "milliwatts": decode["milliwatts"], "prefill_ms_per_token": prefill["ms_per_token"]}
        options = {key: point[key] for key in ("goal", "pes", "evaluations", "dims", "dtype") if key in point}
        found = explore(point["einsum"], machine, keep=1, verify=0, progress=False, **options)
    except Refused as refused:
        return {"refused": refused.code, "why": refused.asked}
    best = found.best.data
    figures = {name: best[name] for name in ("cycles", "picoseconds", "energy_pj", "milliwatts", "utilisation", "tactic") if name in best}
    return {**figures, "complete": found.complete, "gap": best.get("gap"), "evaluated": found.evaluated}


def answer_batch(points: Sequence[Point]) -> list[tuple[dict[str, Any], float]]:
    """Answers with the seconds that each took."""
    found = []
    for point in points:
        begun = time.perf_counter()
        found.append((answer(point), time.perf_counter() - begun))
    return found


def core_digest() -> str:
    """What answers: the hash of the extension's bytes."""
    global _digest
    if _digest is None:
        with open(_core.__file__, "rb") as file:
            _digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    return _digest


_digest: str | None = None


def key_of(point: Point) -> str:
    """The address of a point's answer: what is asked, the text of its machine, the kernels of its model, and what answers."""
    asked = {"point": point, "machine": str(_machine(point)), "core": core_digest()}
    if "model" in point:
        asked["model"] = _model(point)[1]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:32]


class Log:
    """Answers by their address in a file that only grows; each line is written whole and reaches the disk before it counts."""

    def __init__(self, path: Path):
        self.path = path
        self.lines: dict[str, dict[str, Any]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            self._read()
        self._file = open(path, "ab")

    def _read(self) -> None:
        data = self.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        for number, line in enumerate(data[:whole].splitlines(), 1):
            try:
                entry = json.loads(line)
                self.lines[entry["key"]] = entry
            except (ValueError, TypeError, KeyError) as error:
                raise refuse("sweep/log", f"`{self.path}` line {number} is no answer", "what a sweep wrote", "another folder, or remove the line") from error
        # What was being written when somebody pulled the plug.
        if whole < len(data):
            os.truncate(self.path, whole)

    def add(self, entries: Sequence[dict[str, Any]]) -> None:
        """Adds answers; they are on the disk when this returns."""
        self._file.write(b"".join(json.dumps(entry, sort_keys=True).encode() + b"\n" for entry in entries))
        self._file.flush()
        os.fsync(self._file.fileno())
        self.lines.update({entry["key"]: entry for entry in entries})

    def close(self) -> None:
        """Gives the file up."""
        self._file.close()


class Died(Exception):
    """A worker ended while it worked on a batch."""


class Sweep:
    """The answers of a sweep, in the order of its points."""

    def __init__(self, points: list[Point], answers: list[dict[str, Any]], fresh: int, path: Path | None):
        self.points = points
        self.answers = answers
        #: Points that were answered now; the others were answered before.
        self.fresh = fresh
        #: The log.
        self.path = path

    def __len__(self) -> int:
        return len(self.points)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Points and answers side by side, one flat row each."""
        return [{**_flat(point), **{name: value for name, value in answer.items()}} for point, answer in zip(self.points, self.answers)]

    def best(self, figure: str = "energy_pj") -> dict[str, Any]:
        """The row with the least of a figure."""
        rows = [row for row in self.rows if isinstance(row.get(figure), (int, float))]
        if not rows:
            raise refuse("sweep/figure", f"no answer has `{figure}`", ", ".join(sorted({name for row in self.rows for name in row})), "cycles")
        return min(rows, key=lambda row: row[figure])

    def to_dataframe(self, library: str | None = None) -> Any:
        """All rows as a table of pandas, polars or Arrow."""
        return tables.dataframe(self.rows, library)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the rows as Parquet or CSV, by what the name ends in."""
        target = Path(path)
        if target.suffix == ".parquet":
            import pyarrow.parquet

            pyarrow.parquet.write_table(self.to_dataframe("pyarrow"), target)
        elif target.suffix == ".csv":
            import csv

            names = list(dict.fromkeys(name for row in self.rows for name in row))
            with open(target, "w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, names)
                writer.writeheader()
                writer.writerows(self.rows)
        else:
            raise refuse("sweep/format", f"`{target.name}` ends in `{target.suffix}`", ".parquet, .csv", f"{target.stem}.parquet")
        return target

    def __repr__(self) -> str:
        refused = sum("refused" in answer or "poison" in answer for answer in self.answers)
        return f"Sweep of {len(self):,} points, {self.fresh:,} of them answered now, {refused:,} refused"

    def _repr_html_(self) -> str:
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        return tables.html_table(names, [[row.get(name) for name in names] for row in self.rows[:500]])


def _flat(point: Point) -> dict[str, Any]:
    flat = {}
    for key, value in point.items():
        if isinstance(value, dict):
            flat.update({(name if key == "dims" else f"{key}.{name}"): one for name, one in value.items()})
        else:
            flat[key] = value
    return flat


def sweep(
    space: Mapping[str, Any] | Sequence[Mapping[str, Any]] | str | os.PathLike[str],
    *,
    engine: str = "local",
    workers: int | None = None,
    out: str | os.PathLike[str] | None = None,
    address: str | None = None,
    progress: bool | Callable[[float], None] | None = None,
) -> Sweep:
    """Asks all points of a space, given as a dictionary or as the path of a TOML file, or of several spaces one after the other, given as a list.

    `engine` is `local` (processes of this machine), `serial` (this process) or `ray` (a Ray cluster at `address`, or one that is started here). Results are the
    same with any of them. With `out`, a folder, answers are kept there and asked no more.

    >>> import tilewright
    >>> found = tilewright.sweep({"einsum": "mk,kn->mn", "dims": {"m": [16, 32], "k": 64, "n": 64}}, engine="serial")
    >>> [row["m"] for row in found.rows], found.best("cycles")["m"]
    ([16, 32], 16)
    """
    if isinstance(space, (str, os.PathLike)):
        space = read_file(space)
    if engine not in ("local", "serial", "ray"):
        raise refuse("sweep/engine", f"there is no engine `{engine}`", "local, serial, ray", "engine='local'")
    points = [point for one in (space if isinstance(space, (list, tuple)) else [space]) for point in points_of(one)]
    for point in points:
        check_point(point)
    keys = [key_of(point) for point in points]
    log = Log(Path(out) / "answers.jsonl") if out is not None else None
    known: dict[str, dict[str, Any]] = dict(log.lines) if log else {}
    todo = deque(dict((key, point) for key, point in zip(keys, points) if key not in known).items())
    fresh = len(todo)

    def keep(entries: list[dict[str, Any]]) -> None:
        known.update({entry["key"]: entry for entry in entries})
        if log:
            log.add(entries)

    try:
        if todo:
            with reporter(progress, "sweep") as told:
                _drive(todo, _runner(engine, workers, address), keep, told)
    finally:
        if log:
            log.close()
    return Sweep(points, [known[key]["answer"] for key in keys], fresh, log.path if log else None)


def read_file(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """The space of a TOML file."""
    try:
        with open(path, "rb") as file:
            data = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise refuse("sweep/file", f"`{path}`: {error}", "a TOML file with a table [space]", "[space]") from error
    if not isinstance(data.get("space"), dict) or set(data) != {"space"}:
        raise refuse("sweep/file", f"`{path}` has {', '.join(sorted(data)) or 'nothing'}", "a table [space] and nothing else", "[space]")
    return data["space"]


def _drive(todo: deque[tuple[str, Point]], runner: Any, keep: Callable[[list[dict[str, Any]]], None], told: Callable[[float], None] | None) -> None:
    """Hands out batches until all points are answered. Batches grow until they take as long as they should; those of dead workers go on one by one."""
    total, done, each = len(todo), 0, None
    alone: deque[tuple[str, Point]] = deque()
    deaths: dict[str, int] = {}
    running: dict[Any, list[tuple[str, Point]]] = {}
    with runner:
        while todo or alone or running:
            while (todo or alone) and len(running) < runner.slots:
                # What ended a worker is tried where it harms nobody else.
                if alone and running and not runner.isolated:
                    break
                batch = [alone.popleft()] if alone else [todo.popleft() for _ in range(min(len(todo), _size(each, len(todo), runner.slots)))]
                running[runner.submit([point for _, point in batch])] = batch
            handle, outcome = runner.wait(list(running))
            batch = running.pop(handle)
            if isinstance(outcome, Died):
                # A pool that broke took the others with it.
                lost = [batch, *(running.pop(other) for other in runner.lost(list(running)))]
                entries = []
                for key, point in itertools.chain(*lost):
                    deaths[key] = deaths.get(key, 0) + (1 if len(batch) == 1 and key == batch[0][0] else 0)
                    if deaths[key] >= MOST_DEATHS:
                        entries.append({"key": key, "point": point, "answer": {"poison": f"ended its worker {deaths[key]} times"}, "seconds": None})
                    else:
                        alone.append((key, point))
                if entries:
                    keep(entries)
                    done += len(entries)
                continue
            keep([{"key": key, "point": point, "answer": found, "seconds": round(seconds, 6)} for (key, point), (found, seconds) in zip(batch, outcome)])
            spent = sum(seconds for _, seconds in outcome) / len(outcome)
            each = spent if each is None else 0.7 * each + 0.3 * spent
            done += len(batch)
            if told:
                told(done / total)


def _size(each: float | None, left: int, slots: int) -> int:
    """Points of the next batch: one until it is known how long they take, and at the end no more than leaves all workers some."""
    if each is None:
        return 1
    # One driver serves all workers: batches grow with their number.
    wanted = min(LONGEST_BATCH_SECONDS, max(BATCH_SECONDS, BATCH_OVERHEAD_SECONDS * slots))
    return max(1, min(MOST_POINTS, int(wanted / max(each, 1e-6)), -(-left // (2 * slots))))


class _Serial:
    """This process."""

    slots = 1
    isolated = False

    def __enter__(self) -> _Serial:
        self._done: deque[tuple[int, Any]] = deque()
        self._count = 0
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def submit(self, points: list[Point]) -> int:
        self._count += 1
        self._done.append((self._count, answer_batch(points)))
        return self._count

    def wait(self, _: list[int]) -> tuple[int, Any]:
        return self._done.popleft()

    def lost(self, _: list[int]) -> list[int]:
        return []


class _Local:
    """Processes of this machine, each with one thread; a pool that breaks is made anew, and takes all batches with it."""

    isolated = False

    def __init__(self, workers: int | None):
        self.slots = workers or len(os.sched_getaffinity(0))

    def _pool(self) -> Any:
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        return ProcessPoolExecutor(self.slots, multiprocessing.get_context("spawn"), initializer=_one_thread)

    def __enter__(self) -> _Local:
        self._executor = self._pool()
        return self

    def __exit__(self, *_: Any) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)

    def submit(self, points: list[Point]) -> Any:
        from concurrent.futures.process import BrokenProcessPool

        try:
            return self._executor.submit(answer_batch, points)
        except BrokenProcessPool:
            self._executor = self._pool()
            return self._executor.submit(answer_batch, points)

    def wait(self, handles: list[Any]) -> tuple[Any, Any]:
        from concurrent.futures import FIRST_COMPLETED, wait
        from concurrent.futures.process import BrokenProcessPool

        first = next(iter(wait(handles, return_when=FIRST_COMPLETED).done))
        try:
            return first, first.result()
        except BrokenProcessPool as error:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = self._pool()
            return first, Died(str(error))

    def lost(self, handles: list[Any]) -> list[Any]:
        """A broken pool ends all of its futures; those that had finished before keep their results."""
        return [handle for handle in handles if not handle.done() or handle.cancelled() or handle.exception() is not None]


def _one_thread() -> None:
    """Before the core starts a pool of threads: workers share the cores."""
    os.environ["RAYON_NUM_THREADS"] = "1"


class _Ray:
    """Workers of a Ray cluster; each ends alone."""

    isolated = True

    def __init__(self, workers: int | None, address: str | None):
        try:
            import ray
        except ImportError as error:
            raise refuse("sweep/ray", "Ray is not installed", "engine='local', or Ray", "pip install 'tilewright[ray]'") from error
        self._ray, self._workers, self._address = ray, workers, address

    def __enter__(self) -> _Ray:
        ray = self._ray
        self._own = not ray.is_initialized()
        if self._own:
            ray.init(address=self._address, num_cpus=self._workers if self._address is None else None, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        self.slots = self._workers or int(ray.cluster_resources().get("CPU", 1))
        digest = core_digest()

        def work(points: list[Point], wanted: str) -> list[tuple[dict[str, Any], float]]:
            _one_thread()
            if core_digest() != wanted:
                raise refuse("sweep/core", f"a worker has the core {core_digest()}", wanted, "the same package on all nodes")
            return answer_batch(points)

        # A lost worker is for the driver to see: it decides what is tried again.
        self._work = ray.remote(num_cpus=1, max_retries=0)(work)
        self._digest = digest
        return self

    def __exit__(self, *_: Any) -> None:
        if self._own:
            self._ray.shutdown()

    def submit(self, points: list[Point]) -> Any:
        return self._work.remote(points, self._digest)

    def wait(self, handles: list[Any]) -> tuple[Any, Any]:
        [first], _ = self._ray.wait(handles, num_returns=1)
        try:
            return first, self._ray.get(first)
        except self._ray.exceptions.RayTaskError as error:
            raise error.as_instanceof_cause() from error
        except self._ray.exceptions.RayError as error:
            return first, Died(str(error))

    def lost(self, _: list[Any]) -> list[Any]:
        return []


def _runner(engine: str, workers: int | None, address: str | None) -> Any:
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise refuse("sweep/workers", f"workers is {workers!r}", "a whole number of at least 1", "workers=2")
    if engine == "serial":
        return _Serial()
    return _Ray(workers, address) if engine == "ray" else _Local(workers)


def _table(found: Sweep) -> Iterator[str]:
    """Rows for a terminal."""
    names = [name for name in dict.fromkeys(name for row in found.rows for name in row) if name not in ("complete", "gap", "evaluated")]
    rows = [names, *[["" if row.get(name) is None else str(row[name]) for name in names] for row in found.rows]]
    widths = [max(len(row[at]) for row in rows) for at in range(len(names))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()


def main(arguments: Sequence[str] | None = None) -> int:
    """The verb `tilewright sweep`."""
    parser = argparse.ArgumentParser("tilewright sweep", description="Ask one question of many points: einsums or models, sizes, chips, machine figures, goals.")
    parser.add_argument("file", help="a TOML file with a table [space]")
    parser.add_argument("--out", metavar="DIR", help="keep answers here: the same sweep goes on where it stopped")
    parser.add_argument("--workers", metavar="N", type=int, help="processes, or workers of a Ray cluster; all cores if not given")
    parser.add_argument("--engine", default="local", metavar="NAME", help="local, serial or ray")
    parser.add_argument("--address", metavar="HOST:PORT", help="a Ray cluster; without it one is started here")
    parser.add_argument("--save", metavar="FILE", help="write the rows as .parquet or .csv")
    parser.add_argument("--json", action="store_true", help="print data as JSON on standard output, and nothing else there")
    chosen = parser.parse_args(arguments)
    try:
        found = sweep(chosen.file, engine=chosen.engine, workers=chosen.workers, out=chosen.out, address=chosen.address)
        if chosen.save:
            found.save(chosen.save)
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on where it was" if chosen.out else "stopped", file=sys.stderr)
        return 130
    print(json.dumps({"sweep": found.rows}, indent=2) if chosen.json else "\n".join([*_table(found), repr(found)]))
    return 1 if any("poison" in one for one in found.answers) else 0


if __name__ == "__main__":
    sys.exit(main())
