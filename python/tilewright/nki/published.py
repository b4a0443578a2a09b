"""`python -m tilewright.nki.published --chip NAME [--group G] [--rows FILE] [--kernels FOLDER] [--json] [--out FILE]`.

What others published beside what the model gives: each row of bench/published.toml runs the kernel that it names, without
values, and prints both with the error; errors of rows that figures were fitted to, of rows that were seen and of rows that are held out stand apart.
Rows that no kernel here expresses are listed with the reason."""

import contextlib
import json
import os
import pathlib
import runpy
import statistics
import sys
import tomllib

import numpy as np

from . import dtypes, install, kernel
from .__main__ import Usage, argument

USAGE = "usage: tilewright study published --chip NAME [--group G] [--rows FILE] [--kernels FOLDER] [--json]"

#: How many of a unit are in one of the units that measures give: seconds, bytes, parts of one, floating-point operations, numbers of things.
UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9, "B": 1.0, "%": 100.0, "GF": 1e-9, "no.": 1.0}

#: Part of the ceiling of a regression test that is taken as what was measured.
CEILING = 0.95

#: Relative errors beyond this are marked.
LARGE = 0.25

#: What rows were used for: a figure was fitted to them, they were seen while rules were written, or they were never used.
KINDS = ("calibration", "development", "held-out")


def options(arguments):
    """Our options."""
    found = {"chip": None, "group": None, "rows": "bench/published.toml", "kernels": "kernels/nki", "json": False, "out": None}
    items = iter(arguments)
    for item in items:
        name = item[2:]
        if item == "--json":
            found["json"] = True
        elif item.startswith("--") and name in found:
            found[name] = next(items, None)
            if found[name] is None:
                raise Usage(f"{item} needs a value")
        else:
            raise Usage(f"{item} is unknown; {USAGE}")
    if found["chip"] is None:
        raise Usage(f"which chip? {USAGE}")
    found["chip"] = kernel.chip_name(found["chip"])
    return found


def read_rows(path):
    """The rows of a file, each checked for what it must have."""
    try:
        with open(path, "rb") as file:
            rows = tomllib.load(file).get("row", [])
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise Usage(f"{path}: {error}") from None
    for row in rows:
        missing = {"chip", "group", "name", "source", "published", "unit", "kind", "how"} - row.keys()
        if missing:
            raise Usage(f"{path}: row {row.get('name', '?')} lacks {', '.join(sorted(missing))}")
        if row["kind"] not in KINDS:
            raise Usage(f"{path}: row {row['name']} is of no kind {row['kind']}; there are {', '.join(KINDS)}")
    return rows


class Kernels:
    """Kernels by file and name, and runs that several rows share."""

    def __init__(self, folder):
        self.folder = folder
        self.files = {}
        self.runs = {}

    def find(self, target):
        path, _, name = target.partition("::")
        if path not in self.files:
            full = os.path.join(self.folder, path)
            if not os.path.isfile(full):
                raise Usage(f"there is no file {full}; name the folder with --kernels")
            self.files[path] = runpy.run_path(full, run_name="kernels")
        found = self.files[path].get(name)
        if not isinstance(found, kernel.Kernel):
            raise Usage(f"{path} has no kernel {name}")
        return found

    def run(self, chip, how):
        key = json.dumps([chip, how["kernel"], how["arguments"], how.get("options", {}), how.get("grid"), how.get("as_written")], sort_keys=True)
        if key not in self.runs:
            made = self.find(how["kernel"])
            if "grid" in how:
                made = made[how["grid"]]
            if how.get("as_written"):
                made = made[made.grid]
                made.as_written = True
            values = [shape_only(text) for text in how["arguments"]]
            self.runs[key] = made.run(values, how.get("options", {}), chip, False)
        return self.runs[key]


def shape_only(text):
    """An argument of which only shape and type matter."""
    value = argument(text, _NoValues())
    return kernel.ShapeOnly(value.shape, value.dtype) if isinstance(value, np.ndarray) else value


class _NoValues:
    """Stands for a generator of random numbers."""

    @staticmethod
    def standard_normal(shape, dtype):
        return np.broadcast_to(np.zeros((), dtype), shape)


def measured(result, how):
    """What a row measures: seconds, bytes, a part of one or a number of things."""
    words = how.get("measure", "time").split()
    timing = result.timing
    if words[0] in ("mfu", "hfu", "mbu", "matmuls", "matmul_flops"):
        return timing[words[0]]
    if words[0] in ("hbm_read", "hbm_written"):
        return timing[f"{words[0]}_bytes"]
    if words[0] in ("busy", "active", "instructions"):
        engine = timing["engines"][words[1]]
        return {"busy": engine["busy_s"], "active": engine["busy_s"] / timing["time_s"], "instructions": engine["instructions"]}[words[0]]
    if words[0] == "time":
        return timing["time_s"]
    return spanned(result, words) * 1e-9


#: Where a span of result.spans has its operation, its engine, and when it starts, when its engine is free and when its result is there, in ns.
OPCODE, ENGINE, START, END, DONE = 0, 1, 3, 4, 5


def spanned(result, words):
    """Nanoseconds that single instructions take, and that lie between them."""
    named = {word: [span for span in result.spans if span[OPCODE] == word] for word in words[1:]}
    named.pop("duration", None)
    for word, found in named.items():
        if not found:
            raise Usage(f"the kernel runs no {word}")
    spans = named[words[-1]]
    first, last = spans[0], spans[-1]
    # Of a stream that has come to its full rate: its last two.
    interval = last[START] - spans[-2 if len(spans) > 1 else -1][START]
    if words[0] == "interval":
        return interval
    if words[0] in ("pass", "latency"):
        # Of one of the MATMULs that each product is.
        one = interval * len(spans) / result.timing["matmuls"]
        return one if words[0] == "pass" else one + last[DONE] - last[END]
    if words[0] == "start":
        return first[START]
    if words[0] == "gap":
        before = named[words[1]][0]
        return min(span[START] for span in spans if span[START] >= before[DONE]) - before[DONE]
    if words[0] == "arrival":
        return first[DONE]
    if words[0] == "whole":
        return first[DONE] - first[START]
    chosen = last if words[0] == "last" else first
    return chosen[END if chosen[ENGINE] == "dma" else DONE] - chosen[START]


def compare(row, kernels):
    """A row with our figure and its error, or with the reason why there is none."""
    out = {key: row[key] for key in ("chip", "group", "name", "published", "unit", "source", "kind")}
    out["what"] = row.get("what", "")
    out |= {key: row[key] for key in ("calibrates", "why") if key in row}
    how = row["how"]
    if "cannot" in how:
        return {**out, "cannot": how["cannot"]}
    with contextlib.redirect_stdout(sys.stderr):
        result = kernels.run(row["chip"], how)
    if row["unit"] not in UNITS:
        raise Usage(f"row {row['name']}: no unit is called {row['unit']}; there are {', '.join(UNITS)}")
    ours = measured(result, how) * UNITS[row["unit"]]
    against = row["published"] * (CEILING if row.get("ceiling") else 1.0)
    error = ours / against - 1.0 if against else float(ours != 0)
    return {**out, "ours": ours, "error": error, "ceiling": bool(row.get("ceiling"))}


def told(row):
    """A row as it may be told: of one that is held out, neither ours nor the error."""
    return {key: value for key, value in row.items() if row["kind"] != "held-out" or key not in ("ours", "error")}


def line(row):
    """A row as text."""
    head = f"{row['name']:<24} {row['kind']:<11} {row['published']:>14.6g} {row['unit']:<3}"
    if "cannot" in row:
        return f"{head} {'not run':>14}     {row['cannot']}"
    if row["kind"] == "held-out":
        return f"{head} {'held out':>14}     its error is part of the summary"
    mark = " !" if abs(row["error"]) > LARGE else ""
    ceiling = f" (against {CEILING:.0%} of a ceiling)" if row["ceiling"] else ""
    return f"{head} {row['ours']:>14.6g} {row['unit']:<3} {row['error']:>+7.1%}{mark:<2} {row['what']}{ceiling}"


def by_kind(rows):
    """Errors of each kind of row: how many, median, the one that nine of ten do not exceed, and the worst."""
    found = []
    for kind in KINDS:
        of = [row for row in rows if row["kind"] == kind]
        errors = sorted((abs(row["error"]), row["name"]) for row in of if "error" in row)
        sizes = [error for error, _ in errors]
        entry = {"kind": kind, "rows": len(sizes), "without": len(of) - len(sizes)}
        if sizes:
            entry |= {"median": statistics.median(sizes), "percentile_90": sizes[-(-9 * len(sizes) // 10) - 1], "worst": sizes[-1]}
            if kind != "held-out":
                entry["worst_row"] = errors[-1][1]
        found.append(entry)
    return found


def summary(rows):
    """Errors by kind as text; those of calibration rows are no results."""
    lines = [f"{'kind':<11} {'rows':>5} {'median':>7} {'90th percentile':>16} {'worst':>7}"]
    for entry in by_kind(rows):
        parts = [f"{entry[key]:.1%}" if key in entry else "-" for key in ("median", "percentile_90", "worst")]
        lines.append(f"{entry['kind']:<11} {entry['rows']:>5} {parts[0]:>7} {parts[1]:>16} {parts[2]:>7} {entry.get('worst_row', '')}".rstrip())
    return "\n".join(lines)


def main():
    """Exit code 2 for wrong usage; errors of the model are printed, and are no failure."""
    try:
        chosen = options(sys.argv[1:])
        rows = [
            {**row, "chip": chosen["chip"]}
            for row in read_rows(chosen["rows"])
            if chosen["chip"] in (row["chip"], *row.get("also", []))
        ]
        # Other chips have rows too; those that no kernel stands for are not ours.
        if not any("kernel" in row["how"] for row in rows):
            rows = []
        if chosen["group"]:
            rows = [row for row in rows if row["group"] == chosen["group"]]
        if not rows:
            raise Usage(f"{chosen['rows']} has no such row for {chosen['chip']}")
        install()
        kernels = Kernels(chosen["kernels"])
        done = []
        if not chosen["json"]:
            print(f"{'row':<24} {'kind':<11} {'published':>18} {'ours':>18} {'error':>7}")
        for row in rows:
            done.append(compare(row, kernels))
            if not chosen["json"]:
                print(line(done[-1]), flush=True)
    except Usage as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if chosen["json"]:
        text = json.dumps({"chip": chosen["chip"], "rows": [told(row) for row in done], "errors": by_kind(done)})
        if chosen["out"] is None:
            print(text)
        else:
            pathlib.Path(chosen["out"]).write_text(text)
    else:
        print("\nErrors by what rows were used for; those of calibration rows are no results.\n\n" + summary(done))
    return 0


if __name__ == "__main__":
    sys.exit(main())
