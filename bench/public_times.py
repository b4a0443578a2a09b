"""Times of public NKI kernels, unmodified, beside those that were published for them.

    python bench/public_times.py --samples nki-samples --accelopt AccelOpt --library nki-library [--chip trainium1] [--only F.1,silu] [--accounts]

Checkouts as for public_kernels.py. Nothing is computed but times; what stands for a row is in public/times.py, and for one that is recorded with the tests of the library in
public/library.py. Those have the launch in them, and stand in groups, with errors of calibration rows, which constants were fitted on, and of development rows, which they were not; and with
the order of the rows of a group, as rank correlation. Errors of held-out rows are part of these sums only. Below the rows stands the order of the variants of each kernel
(kernel, number of variants, Spearman's rho), and beside each row what its run says of races. `--accounts` adds where the time of each row goes: what each engine
is busy for and with how many instructions, and bytes of HBM, for comparison with profiles that were published (average Vector instruction of the Mamba tutorial, passes of FP32 products).
"""

import argparse
import collections
import contextlib
import os
import pathlib
import statistics
import sys
import time
import tomllib

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE / "public"))

from library import launch  # noqa: E402
from ordering import Ordering, races, rank_correlation  # noqa: E402
from times import ROWS, timed  # noqa: E402

from tilewright import _core  # noqa: E402
from tilewright.nki.published import CEILING, LARGE, UNITS, read_rows  # noqa: E402


def library(folder, only):
    """Rows that are recorded with the tests of the library, by group."""
    with open(HERE / "published_library.toml", "rb") as file:
        rows = tomllib.load(file)["row"]
    groups, ordering = collections.defaultdict(list), Ordering()
    for row in rows:
        if only and row["name"] not in only and row["group"] not in only:
            continue
        try:
            # The library tells of every launch.
            with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
                kernel, arguments = launch(folder, row["group"], row["what"])
                result = kernel.run((), arguments, "trainium2", values=False)
        except Exception as error:  # a kernel that fails must not end the others
            print(f"{row['name']:<7} failed: {type(error).__name__}: {str(error)[:200]}", flush=True)
            continue
        ours = result.timing["launch_s"] * 1e6
        groups[row["group"]].append((row, ours))
        ordering.add("trainium2", result.name, row["published"], ours)
        found = sorted({one["code"] for one in result.findings if one["severity"] == "error"})
        short, lines = races(result.findings)
        print(f"{row['name']:<7} {_compared(row, ours)} {row['what']} {' '.join(found)} {short}", flush=True)
        print_lines(lines)
    print_lines(ordering.lines())
    for name, found in groups.items():
        print(f"{name:<4} {described(_ratios(found))}")
    known = [one for found in groups.values() for one in found if "ratio" not in one[0]]
    if known:
        print(f"all  {described(known)}")


def _compared(row, ours):
    """A row and ours; of one that is held out neither ours nor the error, and of a ratio no error by itself."""
    if row["kind"] == "held-out":
        return f"{row['published']:>9.6g} us {'':>9} {'':>7}{'':<2} {row['kind']:<11}"
    error = ours / row["published"] - 1.0
    mark = " !" if abs(error) > LARGE else ""
    shown = f"{'ratio':>7}{'':<2}" if "ratio" in row else f"{error:>+7.1%}{mark:<2}"
    return f"{row['published']:>9.6g} us {ours:>9.6g} {shown} {row['kind']:<11}"


def _ratios(found):
    """Rows whose chip is not documented, over the median of what ours are to theirs; others as they are."""
    shown = [ours / row["published"] for row, ours in found if row["kind"] != "held-out"]
    scale = statistics.median(shown) if shown else 1.0
    return [(row, ours / scale if "ratio" in row else ours) for row, ours in found]


def collectives():
    """Collectives that were published, by run."""
    with open(HERE / "published_collectives.toml", "rb") as file:
        rows = tomllib.load(file)["row"]
    runs = collections.defaultdict(list)
    for row in rows:
        chip = _core.instance_chip(row["instance"])
        ours = sum(_core.collective_time(chip, row["collective"], row["bytes"], row["ranks"], row["instance"], row["cores"])) * 1e6
        run = f"{row['collective']} of {row['ranks']} ranks on {row['instance']}, {row['what']}"
        runs[run].append((row, ours))
        error = ours / row["published"] - 1.0
        mark = " !" if abs(error) > LARGE else ""
        print(f"{row['name']:<6} {row['published']:>9.6g} us {ours:>9.6g} {error:>+7.1%}{mark:<2} {row['kind']:<11} {row['bytes']} B, {run}")
    for run, found in runs.items():
        print(f"{run}: {described(found)}")
    print(f"all: {described([one for found in runs.values() for one in found])}")


def described(found):
    """Errors by kind, and how well the order of the rows is met."""
    parts = []
    for kind in ("calibration", "development", "held-out"):
        errors = sorted(abs(ours / row["published"] - 1.0) for row, ours in found if row["kind"] == kind)
        if errors:
            worst = errors[min(len(errors) - 1, int(0.9 * len(errors)))]
            parts.append(f"{kind} {len(errors)} rows, median {statistics.median(errors):.1%}, 90th percentile {worst:.1%}")
    rho = rank_correlation([row["published"] for row, _ in found], [ours for _, ours in found])
    if len(found) > 2 and rho is not None:
        parts.append(f"rank correlation {rho:.2f}")
    return "; ".join(parts)


def account(result):
    """What each engine is busy for, with how many instructions and how long one takes on average."""
    lines = []
    for name, engine in result.timing["engines"].items():
        count = engine["instructions"]
        if count:
            lines.append(f"    {name:<8} {engine['busy_s'] / max(result.time, 1e-12):>6.1%} of the time, {count} instructions, {engine['busy_s'] / count * 1e9:.0f} ns each")
    return "\n".join(lines)


def print_lines(lines):
    """One line each."""
    for line in lines:
        print(line, flush=True)


def main():
    """Runs what the flags ask for; errors of the model are printed, and fail nothing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag in ("samples", "accelopt", "library"):
        parser.add_argument(f"--{flag}", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--collectives", action="store_true", help="published collectives, which need no checkout")
    parser.add_argument("--accounts", action="store_true", help="what each engine is busy for")
    parser.add_argument("--chip", default="", help="rows of one chip only")
    parser.add_argument("--only", default="", metavar="ROWS", help="rows by name, with commas")
    args = parser.parse_args()
    published = {(one["chip"], one["name"]): one for one in read_rows(HERE / "published.toml")}
    only = [name for name in args.only.split(",") if name]
    groups, ordering = collections.defaultdict(list), Ordering()
    for chip, name, need, make, kernel in ROWS:
        folder = getattr(args, need)
        if folder is None or (args.chip and chip != args.chip) or (only and name not in only):
            continue
        wanted = published[(chip, name)]
        start = time.perf_counter()
        try:
            result = timed(chip, make, folder.resolve())
        except Exception as error:  # a kernel that fails must not end the others
            print(f"{chip} {name:<20} failed: {type(error).__name__}: {str(error)[:200]}", flush=True)
            continue
        ours = result.time * UNITS[wanted["unit"]]
        against = wanted["published"] * (CEILING if wanted.get("ceiling") else 1.0)
        # Seconds, since rows of a group have units of their own.
        published_s = against / UNITS[wanted["unit"]]
        groups[chip, wanted["group"]].append((dict(wanted, published=published_s), result.time))
        ordering.add(chip, kernel, published_s, result.time)
        short, lines = races(result.findings)
        seconds = f"({time.perf_counter() - start:.1f} s)"
        busy = max(result.timing["engines"].items(), key=lambda item: item[1]["busy_s"])
        error = ours / against - 1.0
        mark = " !" if abs(error) > LARGE else ""
        compared = f"{wanted['published']:>9.6g} {wanted['unit']:<3} {ours:>9.6g} {error:>+7.1%}{mark:<2}" if wanted["kind"] != "held-out" else f"{'':<30}"
        print(
            f"{chip} {name:<20} {compared} {wanted['kind']:<11} busiest {busy[0]} "
            f"{busy[1]['busy_s'] / max(result.time, 1e-12):.0%}  {short}  {seconds}",
            flush=True,
        )
        print_lines(lines)
        if args.accounts:
            print(account(result))
    print_lines(ordering.lines())
    for (chip, group), found in groups.items():
        print(f"{chip} {group:<4} {described(found)}")
    if groups:
        print(f"all  {described([one for found in groups.values() for one in found])}")
    if args.collectives:
        collectives()
    checkout = vars(args)["library"]
    if checkout is not None and args.chip in ("", "trainium2"):
        library(checkout.resolve(), only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
