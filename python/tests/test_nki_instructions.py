"""Every instruction in each mode of the data path: values against NumPy formulas, costs against kept texts.

`BLESS=1` writes the texts of `goldens/`; the difference is then reviewed like code.
"""

import os
import pathlib

import numpy as np
import pytest
from instructions import dma, gpsimd, scalar, tensor, vector  # noqa: F401  they register their cases
from instructions.harness import CASES, CHIPS, close, execute, expected
from tilewright.nki import Refused

GOLDENS = pathlib.Path(__file__).parent / "goldens"
GENERATION = {"trainium1": 2, "trainium2": 3, "trainium3": 4}
RUNS = [(case, mode) for case in CASES for mode in case.modes]


@pytest.mark.parametrize(("case", "mode"), RUNS, ids=[f"{case.family} {case.name}, {mode}" for case, mode in RUNS])
def test_values(case, mode):
    chip = {2: "trainium2", 3: "trainium2", 4: "trainium3"}[case.since]
    found, _, result = execute(case, mode, chip)
    wanted = expected(case, mode)
    for name, values in wanted.items():
        if values is not None:
            assert found[name].shape == np.shape(values), name
            assert close(found[name], values, case.tolerance), name
    again, _, _ = execute(case, mode, chip)
    assert all(found[name].tobytes() == again[name].tobytes() for name in found), "the same bits each time"


def test_random_numbers_are_spread_over_their_range():
    by_name = {case.name: case for case in CASES}
    bits = execute(by_name["rng"], by_name["rng"].modes[0], "trainium3")[0]["out"]
    assert len(np.unique(bits)) > 32_000 and 0.49 < bits.astype(np.float64).mean() / 2**32 < 0.51
    floats = execute(by_name["rand2"], by_name["rand2"].modes[0], "trainium3")[0]["out"]
    assert floats.min() >= -1 and floats.max() < 3 and 0.98 < floats.mean() < 1.02


def rows(case, mode):
    """What each chip takes for the case, or the code of its refusal."""
    for chip in CHIPS:
        try:
            costs = execute(case, mode, chip)[1]
        except Refused as refused:
            yield f"  {chip:<10} {refused.code}"
            continue
        for opcode, engine, busy, latency, macs, hbm in costs:
            extra = (f" {macs} macs" if macs else "") + (f" {hbm} HBM bytes" if hbm else "")
            yield f"  {chip:<10} {opcode} on {engine}: busy {busy} ps, latency {latency} ps{extra}"


@pytest.mark.parametrize("family", ["tensor", "vector", "scalar", "gpsimd", "dma"])
def test_costs(family):
    lines = []
    for case, mode in RUNS:
        if case.family == family:
            lines += [f"{case.name}, {mode}", *rows(case, mode)]
    text, path = "\n".join(lines) + "\n", GOLDENS / f"instructions-{family}.txt"
    if os.environ.get("BLESS", "0") not in ("", "0"):
        path.write_text(text)
    assert path.read_text() == text, f"to accept: BLESS=1 pytest {pathlib.Path(__file__).name}"


@pytest.mark.parametrize(("case", "mode"), RUNS, ids=[f"{case.family} {case.name}, {mode}" for case, mode in RUNS])
def test_generations_that_lack_it_refuse_it_by_name(case, mode):
    for chip in CHIPS:
        if GENERATION[chip] < case.since:
            with pytest.raises(Refused) as caught:
                execute(case, mode, chip)
            assert caught.value.code == "neuron/generation"
            assert case.name.split()[0].rstrip(",") in caught.value.asked and chip in caught.value.asked
