"""Runs the public NKI kernels that a user has checked out, and prints passed/total for each set O1 to O17.

Nothing of them is part of this repository. Each flag names a checkout; sets without one are not run:

    python bench/public_kernels.py --samples nki-samples --sdk aws-neuron-sdk --accelopt AccelOpt \
        --library nki-library --fft trnfft --course asst4-trainium [--only O3,O7] [--limit-s 600]

--samples is at commit 0898a77, --sdk at 1db4d74e, --library on branch 2.29_release; the others at their newest.
Sets O12 to O17 need torch, which computes their references; O16 and a case of O7 need scipy, which the helpers of the
tests and the module of the kernel import; one variant of O1 needs jax.
"""

import argparse
import os
import pathlib
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE / "public"))

import findings  # noqa: E402
from cases import CASES  # noqa: E402
from suites import SUITES, run_suite  # noqa: E402


class Tally:
    """What passed of each set, and why the rest did not."""

    def __init__(self):
        self.rows = {}

    def add(self, name, case, passed, seconds, reason=""):
        """One case."""
        row = self.rows.setdefault(name, [0, 0])
        row[0] += bool(passed)
        row[1] += 1
        if not passed:
            print(f"  {name} {case}: failed after {seconds:.1f} s: {reason}", flush=True)

    def print_row(self, name, seconds):
        """The line of a set."""
        passed, total = self.rows.get(name, (0, 0))
        print(f"{name:<4} {passed}/{total}  {seconds:.1f} s", flush=True)


def reason_of(error):
    """The message and the last line of the kernel that it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    last = next((frame for frame in reversed(frames) if "tilewright" not in frame.filename), None)
    place = f" ({pathlib.Path(last.filename).name}:{last.lineno})" if last else ""
    return f"{type(error).__name__}: {str(error)[:300]}{place}"


def run_cases(name, folders, tally):
    """The cases of a set that call kernels directly."""
    for set_name, need, case, body in CASES:
        if set_name != name:
            continue
        if folders.get(need) is None:
            continue
        start = time.perf_counter()
        try:
            passed, reason = body(folders[need]), "values differ"
        except Exception as error:  # a case that fails must not end the others
            passed, reason = False, reason_of(error)
        tally.add(name, case, passed, time.perf_counter() - start, reason)


def main():
    """Runs what the flags ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag in ("samples", "sdk", "accelopt", "library", "fft", "course"):
        parser.add_argument(f"--{flag}", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--only", default="", metavar="SETS", help="sets by name, with commas")
    parser.add_argument("--limit-s", type=int, default=600, help="seconds that one test of a suite may take")
    parser.add_argument("--findings", action="store_true", help="print error-level findings of all runs: these kernels run on devices")
    parser.add_argument("--keep", default="", metavar="WORDS", help="only tests of suites that match, as pytest -k")
    args = parser.parse_args()
    folders = {name: path.resolve() for name, path in vars(args).items() if isinstance(path, pathlib.Path)}
    only = [name for name in args.only.split(",") if name]
    if not args.findings:
        return run_sets(args, folders, only)
    with tempfile.TemporaryDirectory() as scratch:
        found = os.environ[findings.FILE] = os.path.join(scratch, "findings")
        open(found, "w", encoding="utf-8").close()
        findings.listen()
        status = run_sets(args, folders, only)
        findings.report(found)
    return status


def run_sets(args, folders, only):
    """Runs the sets one after the other; the exit code."""
    tally = Tally()
    for number in range(1, 18):
        name = f"O{number}"
        if only and name not in only:
            continue
        start = time.perf_counter()
        run_cases(name, folders, tally)
        for suite in SUITES.get(name, []):
            if folders.get(suite.need) is not None:
                for case, passed, seconds, reason in run_suite(suite, folders[suite.need], args.limit_s, args.keep):
                    tally.add(name, case, passed, seconds, reason)
        if name in tally.rows:
            tally.print_row(name, time.perf_counter() - start)
        else:
            print(f"{name:<4} not run: no checkout given", flush=True)
    return 0 if all(passed == total for passed, total in tally.rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
