"""A pytest plugin: a test that takes too long fails, and the others go on."""

import os
import signal

import pytest

LIMIT_S = int(os.environ.get("TILEWRIGHT_TEST_LIMIT_S", "600"))


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
