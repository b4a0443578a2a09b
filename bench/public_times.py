"""Times of public NKI kernels, unmodified, beside those that were published for them.

    python bench/public_times.py --samples nki-samples --accelopt AccelOpt [--chip trainium1] [--only F.1,silu]

Checkouts as for public_kernels.py. Nothing is computed but times; what stands for a row is in public/times.py.
"""

import argparse
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE / "public"))

from times import ROWS, timed  # noqa: E402

from tilewright.nki.published import CEILING, LARGE, UNITS, read_rows  # noqa: E402


def main():
    """Runs what the flags ask for; errors of the model are told, not judged."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag in ("samples", "accelopt"):
        parser.add_argument(f"--{flag}", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--chip", default="", help="rows of one chip only")
    parser.add_argument("--only", default="", metavar="ROWS", help="rows by name, with commas")
    args = parser.parse_args()
    published = {(one["chip"], one["name"]): one for one in read_rows(HERE / "published.toml")}
    only = [name for name in args.only.split(",") if name]
    errors = []
    for chip, name, need, make in ROWS:
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
        error = ours / against - 1.0
        errors.append(abs(error))
        busy = max(result.timing["engines"].items(), key=lambda item: item[1]["busy_s"])
        mark = " !" if abs(error) > LARGE else ""
        print(
            f"{chip} {name:<20} {wanted['published']:>9.6g} {wanted['unit']:<3} {ours:>9.6g} {error:>+7.1%}{mark:<2} "
            f"busiest {busy[0]} {busy[1]['busy_s'] / max(result.time, 1e-12):.0%}  ({time.perf_counter() - start:.1f} s)",
            flush=True,
        )
    if errors:
        over = sum(error > LARGE for error in errors)
        print(f"{len(errors)} rows; median error {statistics.median(errors):.1%}, {over} over {LARGE:.0%}, largest {max(errors):.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
