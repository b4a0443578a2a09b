"""The number formats against ml_dtypes and NumPy, table by table.

Where the rules agree every word must be equal. Where a rule set differs on purpose, the test states the exact
set of inputs on which it differs and what it gives there.
"""

import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from conftest import example

ROOT = Path(__file__).resolve().parents[2]

REFERENCE = {
    "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e4m3": ml_dtypes.float8_e4m3,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f4e2m1": ml_dtypes.float4_e2m1fn,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
}
EIGHT_BIT = ["f8e4m3fn", "f8e4m3", "f8e5m2"]
SOURCES = ["bf16", "f16"]
RULES = ["tcp", "neuron", "neuron-ieee"]

SIGN = np.uint32(0x8000_0000)
QUIET_NAN = np.uint32(0x7FC0_0000)
F32_INFINITY = np.uint32(0x7F80_0000)
F32_MIN_NORMAL = np.uint32(0x0080_0000)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Runs the example once and returns a reader of its tables."""
    directory = tmp_path_factory.mktemp("tables")
    command = example("tilewright-num", "conversion_tables")
    subprocess.run([*command, str(directory)], cwd=ROOT, check=True)
    return lambda name: np.fromfile(directory / f"{name}.u32", dtype="<u4")


def magnitude(patterns):
    return patterns & ~SIGN


def is_nan(patterns):
    return magnitude(patterns) > F32_INFINITY


def is_negative(patterns):
    return (patterns & SIGN) != 0


def is_subnormal(patterns):
    return (magnitude(patterns) != 0) & (magnitude(patterns) < F32_MIN_NORMAL)


def size(patterns):
    """The magnitudes as numbers, NaN as NaN."""
    with np.errstate(invalid="ignore"):
        return np.abs(patterns.view(np.float32).astype(np.float64))


def reference_decode(dtype, count):
    word = np.uint16 if count > 256 else np.uint8
    patterns = np.arange(count).astype(word).view(REFERENCE[dtype])
    return patterns.astype(np.float32).view(np.uint32)


def reference_encode(dtype, inputs):
    with np.errstate(all="ignore"):
        encoded = inputs.view(np.float32).astype(REFERENCE[dtype])
    return encoded.view(np.uint16 if encoded.itemsize == 2 else np.uint8).astype(np.uint32)


def with_sign(dtype, inputs, word):
    """A magnitude word of a format with the signs of the inputs."""
    bits = {"f4e2m1": 4, "bf16": 16, "f16": 16, "tf32": 32}.get(dtype, 8)
    return np.where(is_negative(inputs), np.uint32(1 << (bits - 1)), 0) | np.uint32(word)


def assert_differs_exactly(ours, theirs, where, instead):
    """Ours is `instead` on `where`, which is where the two differ, and theirs elsewhere."""
    np.testing.assert_array_equal(np.flatnonzero(ours != theirs), np.flatnonzero(where))
    np.testing.assert_array_equal(ours[where], np.broadcast_to(instead, ours.shape)[where])


# Decoding.


@pytest.mark.parametrize("rules", ["neuron", "neuron-ieee"])
@pytest.mark.parametrize("dtype", [*EIGHT_BIT, "f4e2m1"])
def test_small_formats_decode_alike(table, rules, dtype):
    ours = table(f"decode_{rules}_{dtype}")
    np.testing.assert_array_equal(ours, reference_decode(dtype, len(ours)))


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_neuron_drops_nan_payloads_and_nothing_else(table, dtype):
    ours = table(f"decode_neuron_{dtype}")
    theirs = reference_decode(dtype, len(ours))
    has_payload = is_nan(theirs) & (magnitude(theirs) != QUIET_NAN)
    assert has_payload.any()
    assert_differs_exactly(ours, theirs, has_payload, QUIET_NAN | (theirs & SIGN))


@pytest.mark.parametrize("dtype", [*EIGHT_BIT, "f4e2m1", "f16"])
def test_tcp_clears_the_sign_of_nan_and_nothing_else(table, dtype):
    ours = table(f"decode_tcp_{dtype}")
    theirs = table(f"decode_neuron_{dtype}")
    assert_differs_exactly(ours, theirs, is_nan(theirs) & is_negative(theirs), QUIET_NAN)


def test_tcp_flushes_bf16_subnormals(table):
    ours = table("decode_tcp_bf16")
    theirs = table("decode_neuron_bf16")
    flushed = is_subnormal(theirs)
    negative_nan = is_nan(theirs) & is_negative(theirs)
    assert flushed.sum() == 2 * 127
    assert_differs_exactly(ours, theirs, flushed | negative_nan, np.where(flushed, theirs & SIGN, QUIET_NAN))


# Encoding to 8 and 4 bits, of every bf16 and every f16 value.


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("dtype", EIGHT_BIT)
def test_neuron_without_saturation_encodes_alike(table, dtype, source):
    inputs = table(f"inputs_{source}")
    ours = table(f"encode_neuron-ieee_{dtype}_from_{source}")
    np.testing.assert_array_equal(ours, reference_encode(dtype, inputs))


def overflows(dtype, inputs):
    """Where nearest-even rounding leaves the finite range; a tie at the end does so where the end is odd."""
    sizes = size(inputs)
    return {"f8e4m3fn": sizes > 464, "f8e4m3": sizes >= 248, "f8e5m2": sizes >= 61440}[dtype]


MAX_WORD = {"f8e4m3fn": 0x7E, "f8e4m3": 0x77, "f8e5m2": 0x7B}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("dtype", EIGHT_BIT)
def test_neuron_saturates_only_where_the_format_has_no_infinity(table, dtype, source):
    """The vendor's page of range_select has -INF in FP8 for what is too small; e4m3fn has no word for it."""
    inputs = table(f"inputs_{source}")
    ours = table(f"encode_neuron_{dtype}_from_{source}")
    saturated = with_sign(dtype, inputs, MAX_WORD[dtype])
    differs = overflows(dtype, inputs) & (dtype == "f8e4m3fn")
    assert_differs_exactly(ours, reference_encode(dtype, inputs), differs, saturated)


@pytest.mark.parametrize("source", SOURCES)
def test_tcp_e4m3_saturates_and_has_one_nan(table, source):
    inputs = table(f"inputs_{source}")
    ours = table(f"encode_tcp_f8e4m3fn_from_{source}")
    saturates = overflows("f8e4m3fn", inputs)
    negative_nan = is_nan(inputs) & is_negative(inputs)
    instead = np.where(saturates, with_sign("f8e4m3fn", inputs, 0x7E), 0x7F)
    assert_differs_exactly(ours, reference_encode("f8e4m3fn", inputs), saturates | negative_nan, instead)


@pytest.mark.parametrize("source", SOURCES)
def test_tcp_ieee_e4m3_differs_in_the_sign_of_nan_only(table, source):
    inputs = table(f"inputs_{source}")
    ours = table(f"encode_tcp_f8e4m3_from_{source}")
    negative_nan = is_nan(inputs) & is_negative(inputs)
    assert_differs_exactly(ours, reference_encode("f8e4m3", inputs), negative_nan, 0x7C)


@pytest.mark.parametrize("source", SOURCES)
def test_tcp_e5m2_rounds_ties_away_clamps_subnormals_and_has_one_nan(table, source):
    inputs = table(f"inputs_{source}")
    ours = table(f"encode_tcp_f8e5m2_from_{source}")
    theirs = reference_encode("f8e5m2", inputs)
    sizes = np.where(is_nan(inputs), 0, size(inputs))
    # Magnitudes in steps of the result: 2 mantissa bits, the least normal exponent -14.
    finite = np.where(np.isinf(sizes), 0, sizes)
    steps = finite / np.exp2(np.maximum(np.frexp(finite)[1] - 1, -14) - 2.0)
    tie_down = (steps % 1 == 0.5) & (np.floor(steps) % 2 == 0) & (sizes < 57344)
    clamped = (sizes >= 3.5 * 2.0**-16) & (sizes < 2.0**-14)
    negative_nan = is_nan(inputs) & is_negative(inputs)
    for cause in (tie_down, clamped, negative_nan):
        assert cause.any()
    assert not (tie_down & clamped).any()
    instead = np.select(
        [tie_down, clamped, negative_nan],
        [theirs + 1, with_sign("f8e5m2", inputs, 0x03), np.uint32(0x7E)],
    )
    assert_differs_exactly(ours, theirs, tie_down | clamped | negative_nan, instead)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("rules", RULES)
def test_f4_takes_nan_to_its_largest_value(table, rules, source):
    inputs = table(f"inputs_{source}")
    ours = table(f"encode_{rules}_f4e2m1_from_{source}")
    instead = 0x7 if rules == "tcp" else with_sign("f4e2m1", inputs, 0x7)
    assert_differs_exactly(ours, reference_encode("f4e2m1", inputs), is_nan(inputs), instead)


# Encoding to 16 bits and tf32, at every value, midpoint and neighbour of a midpoint.


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_neuron_rounds_16_bit_floats_alike(table, dtype):
    inputs = table(f"edges_{dtype}")
    np.testing.assert_array_equal(table(f"edges_neuron_{dtype}"), reference_encode(dtype, inputs))


def test_tcp_bf16_flushes_before_rounding_and_has_one_nan(table):
    inputs = table("edges_bf16")
    ours = table("edges_tcp_bf16")
    theirs = reference_encode("bf16", inputs)
    flushed = is_subnormal(inputs) & ((theirs & 0x7FFF) != 0)
    negative_nan = is_nan(inputs) & is_negative(inputs)
    # The midpoint above the largest subnormal rounds up to the least normal value, unless flushed.
    assert (theirs[flushed] & 0x7FFF).max() == 0x0080
    instead = np.where(flushed, with_sign("bf16", inputs, 0), 0x7FC0)
    assert_differs_exactly(ours, theirs, flushed | negative_nan, instead)


def test_tcp_f16_differs_in_the_sign_of_nan_only(table):
    inputs = table("edges_f16")
    negative_nan = is_nan(inputs) & is_negative(inputs)
    assert_differs_exactly(table("edges_tcp_f16"), reference_encode("f16", inputs), negative_nan, 0x7E00)


def reference_tf32(inputs):
    """Nearest even in f64, since ml_dtypes has no tf32."""
    values = inputs.view(np.float32).astype(np.float64)
    finite = np.where(np.isfinite(values), values, 0)
    quantum = np.exp2(np.maximum(np.frexp(finite)[1] - 1, -126) - 10.0)
    rounded = np.where(np.isfinite(values), np.rint(finite / quantum) * quantum, values)
    with np.errstate(all="ignore"):
        return np.copysign(rounded, values).astype(np.float32).view(np.uint32)


def test_neuron_tf32_is_nearest_even(table):
    inputs = table("edges_tf32")
    np.testing.assert_array_equal(table("edges_neuron_tf32"), reference_tf32(inputs))


def test_tcp_tf32_flushes_before_rounding_and_has_one_nan(table):
    inputs = table("edges_tf32")
    theirs = reference_tf32(inputs)
    flushed = is_subnormal(inputs) & (magnitude(theirs) != 0)
    negative_nan = is_nan(inputs) & is_negative(inputs)
    instead = np.where(flushed, inputs & SIGN, QUIET_NAN)
    assert_differs_exactly(table("edges_tcp_tf32"), theirs, flushed | negative_nan, instead)
