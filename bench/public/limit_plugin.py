"""A pytest plugin: a test that takes too long fails, and the others go on; a draw of the tests where there are many."""

import contextlib
import os
import signal

import pytest

#: Seconds of the processor that a test may take, all threads together: by the clock it would depend on what else the host does.
LIMIT_S = int(os.environ.get("TILEWRIGHT_TEST_LIMIT_S", "600"))
#: Tests that are run of those that were chosen; 0 for all.
MOST = int(os.environ.get("TILEWRIGHT_TESTS_AT_MOST", "0"))


class TooLong(Exception):
    """The time is over."""


def _stop(_signal, _frame):
    raise TooLong(f"more than {LIMIT_S} s of processor time")


@contextlib.contextmanager
def limited(seconds):
    """Ends what runs inside after so many seconds of the processor, or twenty times as many by the clock if it only waits."""
    before = [(which, signal.signal(which, _stop)) for which in (signal.SIGPROF, signal.SIGALRM)]
    timers = [signal.setitimer(signal.ITIMER_PROF, seconds), signal.setitimer(signal.ITIMER_REAL, 20 * seconds)]
    try:
        yield
    finally:
        # What was limited around it goes on with what it had left.
        signal.setitimer(signal.ITIMER_PROF, timers[0][0])
        signal.setitimer(signal.ITIMER_REAL, timers[1][0])
        for which, handler in before:
            signal.signal(which, handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Runs a test with a limit; where a plugin limits what is ours by itself, all of the test may take ten times as long."""
    with limited(LIMIT_S * (10 if item.config.pluginmanager.hasplugin("library_plugin") else 1)):
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Keeps tests that are spread evenly over all: the same each time."""
    if 0 < MOST < len(items):
        kept = [items[at * len(items) // MOST] for at in range(MOST)]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept
