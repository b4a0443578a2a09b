"""Notes each test that skips, and why, in `target/skipped.txt`, which `./test` prints at its end.

A skip that nobody sees passes for a success.
"""

import os
import pathlib

_DEFAULT = pathlib.Path(__file__).parents[2] / "target" / "skipped.txt"
_notes = None


def pytest_configure(config):
    """The process that starts the others hears of all their tests, and alone takes notes."""
    global _notes
    path = pathlib.Path(os.environ.get("TILEWRIGHT_SKIPPED", _DEFAULT))
    _notes = None if hasattr(config, "workerinput") else path


def pytest_runtest_logreport(report):
    """A test, or what it needs."""
    _note(report)


def pytest_collectreport(report):
    """A file that skips as a whole."""
    _note(report)


def _note(report):
    # A failure that is expected counts as skipped, but has no place.
    if _notes is None or not report.skipped or not isinstance(report.longrepr, tuple):
        return
    name = report.nodeid.partition("::")[0].rpartition("/")[2]
    reason = " ".join(str(report.longrepr[2]).removeprefix("Skipped: ").split())
    _notes.parent.mkdir(parents=True, exist_ok=True)
    with _notes.open("a", encoding="utf-8") as notes:
        notes.write(f"{name}: {reason}\n")
