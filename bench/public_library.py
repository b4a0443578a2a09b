"""Every test of the public kernel library that can run on a CPU: passed, failed, refused and too slow, by file.

    python bench/public_library.py --library nki-library [--files attention,mlp] [--limit-s 60] [--most 8] [--all]

The library is a checkout on branch 2.29_release; its references need torch, and those of attention, MLP, MoE and
QKV projections scipy. Its tests run in processes of their own, with the plugin public/library_plugin.py in place of what
compiles for devices. Without --all only those that it marks as fast are run. A test is too slow if its kernel takes more of the processor than the limit, all threads together (its inputs and
references may take ten times as long); refused if a rule of the hardware stops it; one
that wants an error, or that its own marks leave out, counts as pytest counts it.
"""

import argparse
import collections
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE / "public"))

from suites import Suite, run_suite  # noqa: E402

KINDS = ("passed", "failed", "refused", "too slow")
#: Parts in a hundred of what runs that should pass.
GOAL = 97


def kind_of(passed, reason):
    """What became of a test."""
    if passed:
        return "passed"
    if "TooLong" in reason or "more than" in reason and " s" in reason:
        return "too slow"
    return "refused" if "error[neuron/" in reason or "Refused" in reason else "failed"


def main():
    """Runs the files one after the other; exit code 1 if fewer than the goal pass."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", dest="checkout", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--files", default="", metavar="WORDS", help="only files whose path has one of these words, with commas")
    parser.add_argument("--limit-s", type=int, default=60, help="seconds of the processor that the kernel of one test may take, all threads together")
    parser.add_argument("--keep", default="", metavar="WORDS", help="only tests that match, as pytest -k")
    parser.add_argument("--most", type=int, default=0, metavar="N", help="only N tests of each file, spread over all of them; 0 for all")
    parser.add_argument("--all", action="store_true", help="also tests that are not marked as fast")
    parser.add_argument("--reasons", action="store_true", help="print why each test that did not pass did not")
    args = parser.parse_args()
    folder = args.checkout.resolve()
    words = [word for word in args.files.split(",") if word]
    options = ("--noconftest", "-p", "library_plugin") + (() if args.all else ("-m", "fast"))
    total = collections.Counter()
    print(f"{'file':<64} {'passed':>7} {'failed':>7} {'refused':>8} {'too slow':>9} {'longest kernel':>15}")
    for path in sorted((folder / "test").rglob("test_*.py")):
        name = str(path.relative_to(folder))
        if "integration" not in name or (words and not any(word in name for word in words)):
            continue
        start = time.perf_counter()
        found = run_suite(Suite("library", (name,), options, modules=(".", "src")), folder, args.limit_s, args.keep, args.most)
        # Files of helpers have no tests, and pytest says so.
        found = [case for case in found if case[0] != "pytest" or "no tests ran" not in case[3]]
        counts = collections.Counter(kind_of(passed, reason) for _, passed, _, reason in found)
        total.update(counts)
        if found:
            row = f"{counts['passed']:>7} {counts['failed']:>7} {counts['refused']:>8} {counts['too slow']:>9}"
            longest = max((seconds for _, passed, seconds, _ in found if passed), default=0.0)
            print(f"{name.removeprefix('test/integration/nkilib/'):<64} {row} {longest:>13.1f} s  {time.perf_counter() - start:.0f} s in all", flush=True)
        if args.reasons:
            for case, passed, seconds, reason in found:
                if not passed:
                    print(f"  {case.split('[')[0]}: {kind_of(passed, reason)} after {seconds:.0f} s: {reason}", flush=True)
    ran = sum(total.values())
    print(f"{'all':<64} {total['passed']:>7} {total['failed']:>7} {total['refused']:>8} {total['too slow']:>9}  {total['passed'] / max(ran, 1):.1%} of {ran}")
    return 0 if total["passed"] * 100 >= ran * GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
