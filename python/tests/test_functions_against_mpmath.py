"""Functions of f32 against mpmath: every result is the nearest f32 of the real function.

Inputs cover every sign and exponent, and more densely the range where functions are not flat. mpmath rounds its own results at 140
bits; a result that close to the middle of two neighbours would be undecided, and the test says so.
"""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import DEEP, example

mpmath = pytest.importorskip("mpmath")

ROOT = Path(__file__).resolve().parents[2]
BITS = 140
QUIET_NAN = 0x7FC0_0000
SIGN = 0x8000_0000

FUNCTIONS = {
    "sqrt": mpmath.sqrt,
    "tanh": mpmath.tanh,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "erf": mpmath.erf,
    "log": mpmath.log,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "exp": mpmath.exp,
    "expneg": lambda x: mpmath.exp(-x),
}


#: Every how manieth input is evaluated by mpmath, but for the long run.
DRAWN = 16


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Runs the example once and returns a reader of its tables."""
    directory = tmp_path_factory.mktemp("functions")
    command = example("tilewright-num", "function_tables")
    subprocess.run([*command, str(directory)], cwd=ROOT, check=True)
    return lambda name: np.fromfile(directory / f"{name}.u32", dtype="<u4")


def values(patterns):
    with np.errstate(invalid="ignore"):
        return patterns.view(np.float32).astype(np.float64)


def half_ulp_ends(results):
    """The middles between each finite result and its neighbours, as f64, which holds them exactly."""
    with np.errstate(over="ignore", invalid="ignore"):
        below = np.nextafter(results, np.float32(-np.inf)).astype(np.float64)
        above = np.nextafter(results, np.float32(np.inf)).astype(np.float64)
    exact = results.astype(np.float64)
    # Past the largest finite value the next one would be 2^128.
    below = np.where(np.isinf(below), -(2.0**128), below)
    above = np.where(np.isinf(above), 2.0**128, above)
    return (below + exact) / 2, (exact + above) / 2


def evaluate(name, x):
    """The function at an f64, with enough bits for arguments that cancel."""
    with mpmath.workprec(BITS + (160 if name in ("sin", "cos") else 60)):
        return FUNCTIONS[name](mpmath.mpf(x))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_nearest(table, name):
    inputs = table("inputs")
    finite = np.isfinite(values(inputs))
    if name in ("sqrt", "log"):
        finite &= values(inputs) > 0
    inputs, results = inputs[finite], table(f"{name}_neuron")[finite]
    assert len(inputs) >= (100_000 if name not in ("sqrt", "log") else 50_000)
    if not DEEP:
        inputs, results = inputs[::DRAWN], results[::DRAWN]
    low, high = half_ulp_ends(results.view(np.float32))
    even = results & 1 == 0
    infinite = np.isinf(values(results))
    wrong = []
    for x, down, up, tie, overflow, word in zip(values(inputs), low, high, even, infinite, results):
        exact = evaluate(name, max(-1e4, min(1e4, x)) if name not in ("sqrt", "log", "sin", "cos") else x)
        if overflow:
            good = abs(exact) >= mpmath.mpf(2) ** 128 - mpmath.mpf(2) ** 103
        elif tie:
            good = down <= exact <= up
        else:
            good = down < exact < up
        if not good:
            wrong.append((x, hex(word)))
    assert not wrong, wrong[:5]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tcp_flushes_what_neuron_keeps_and_nothing_else(table, name):
    inputs, kept, flushed = table("inputs"), table(f"{name}_neuron"), table(f"{name}_tcp")
    subnormal_input = ((inputs & ~np.uint32(SIGN)) < 0x0080_0000) & ((inputs & ~np.uint32(SIGN)) != 0)
    magnitude = kept & ~np.uint32(SIGN)
    expected = np.where(magnitude < 0x0080_0000, kept & np.uint32(SIGN), kept)
    usual = ~subnormal_input
    np.testing.assert_array_equal(flushed[usual], expected[usual])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_long_evaluation_agrees(table, name):
    inputs, short, long = table("inputs"), table(f"{name}_neuron"), table(f"{name}_long")
    number = ~np.isnan(values(inputs)) & ~np.isnan(values(short))
    np.testing.assert_array_equal(short[number], long[number])
    assert (short[np.isnan(values(short))] == QUIET_NAN).all()
