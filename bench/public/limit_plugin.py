"""A pytest plugin: a test that takes too long fails, and the others go on; a draw of the tests where there are many."""

import os
import signal

import pytest

LIMIT_S = int(os.environ.get("TILEWRIGHT_TEST_LIMIT_S", "600"))
#: Tests that are run of those that were chosen; 0 for all.
MOST = int(os.environ.get("TILEWRIGHT_TESTS_AT_MOST", "0"))


class TooLong(Exception):
    """The time is over."""


def _stop(_signal, _frame):
    raise TooLong(f"more than {LIMIT_S} s")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Runs a test with an alarm."""
    before = signal.signal(signal.SIGALRM, _stop)
    signal.alarm(LIMIT_S)
    try:
        return (yield)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Keeps tests that are spread evenly over all: the same each time."""
    if 0 < MOST < len(items):
        kept = [items[at * len(items) // MOST] for at in range(MOST)]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept
