"""Kernels import the vendor's modules; ours stand for them. Notes which rules of the hardware were broken."""

import os
import pathlib
import sys

import tilewright.nki
from tilewright.nki import Refused

tilewright.nki.install()
sys.path.insert(0, str(pathlib.Path(__file__).parent))

# Hooks of this run.
from skips import pytest_collectreport, pytest_configure, pytest_runtest_logreport  # noqa: E402, F401

#: `file:line` of the rules that refused something so far.
BROKEN = set()


def _note(self, name, value):
    if name == "rule":
        BROKEN.add(value)
    Exception.__setattr__(self, name, value)


Refused.__setattr__ = _note


#: Where `./test` has the processes of a parallel run leave what they noted, one file each.
NOTES = os.environ.get("TILEWRIGHT_REFUSED_RULES")


def pytest_sessionfinish():
    """Leaves what was noted to the run that asks for all rules."""
    if NOTES and BROKEN:
        (pathlib.Path(NOTES) / f"{os.getpid()}.txt").write_text("\n".join(sorted(BROKEN)))


def broken_by_all():
    """Rules that refused something, in this process and in those that left notes."""
    notes = pathlib.Path(NOTES).glob("*.txt") if NOTES else ()
    return BROKEN.union(*(note.read_text().split() for note in notes))


#: Whether this is the long run, with every case instead of a draw.
DEEP = os.environ.get("TILEWRIGHT_DEEP", "0") not in ("", "0")


def example(package, name):
    """The command of an example of a crate: what `./test` has built, or Cargo's."""
    built = os.environ.get("TILEWRIGHT_EXAMPLES")
    return [str(pathlib.Path(built) / name)] if built else ["cargo", "run", "-q", "-p", package, "--example", name, "--"]


def pytest_collection_modifyitems(items):
    """What asks for all rules runs last."""
    items.sort(key=lambda item: item.path.name == "test_nki_every_rule.py")
