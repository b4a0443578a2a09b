"""NKI kernels of both dialects on a laptop: values, findings, times.

    import tilewright.nki  # from now on `import neuronxcc.nki` and `import nki` work
    result = tilewright.nki.run(kernel, a, b, chip="trainium1")
    print(result.outputs, result.summary())
"""

import os as _os

from tilewright import _core

from . import hook, kernel, methods
from .kernel import Kernel, Result, benchmark, simulate, simulate_kernel  # noqa: F401

Refused = _core.Refused

_core.set_folder(_os.path.dirname(_os.path.abspath(__file__)))
methods.install()
hook.offer()


def run(func, *args, chip=None, grid=None, dialect=None, values=True, **kwargs):
    """Runs a kernel, decorated or not, and gives what it leaves behind. Without values only times are followed."""
    made = func if isinstance(func, Kernel) else Kernel(func, dialect or kernel.dialect_of(func))
    if grid is not None:
        made = made[grid]
    return made.run(args, kwargs, chip, values)


def run_ranks(func, arguments, chip=None, grid=None, dialect="new", instance=None):
    """Runs a kernel on several ranks together, which may communicate; `arguments` has the keywords of each rank.

    The ranks take the cores of an instance in order, `instance="trn1.32xlarge"`; without one, of the smallest that has as many."""
    made = func if isinstance(func, Kernel) else Kernel(func, dialect)
    return (made if grid is None else made[grid]).run_ranks(arguments, chip, instance)


def install():
    """Makes `import neuronxcc.nki` and `import nki` find this package even where the vendor's is installed."""
    hook.install()


def pytest_configure(config):
    """As a pytest plugin: `pytest -p tilewright.nki their_tests/`."""
    install()
    config.addinivalue_line("markers", "simulation: runs without a device")
