"""Variables of the vendor's simulator: the chip that kernels run on, and whether narrow types round."""

import ml_dtypes
import nki
import nki.isa as isa
import nki.language as nl
import numpy as np
import pytest
from tilewright.nki import run


@nki.jit
def halves(x):
    out = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
    wide, narrow = nl.ndarray(x.shape, nl.float32), nl.ndarray(x.shape, nl.bfloat16)
    isa.dma_copy(dst=wide, src=x)
    isa.tensor_scalar(dst=narrow, data=wide, op0=nl.multiply, operand0=0.5)
    isa.dma_copy(dst=out, src=narrow)
    return out


X = np.random.default_rng(7).standard_normal((8, 16)).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "chip"), [("trn1", "trainium1"), ("inf2", "inferentia2"), ("gen3", "trainium2"), ("trn3", "trainium3")]
)
def test_the_chip_that_is_asked_for(name, chip, monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", name)
    assert run(halves, X).chip == chip
    assert run(halves, X, chip="trainium2").chip == "trainium2", "an argument says more"


def test_a_chip_that_does_not_exist(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn9")
    with pytest.raises(ValueError, match="trn9"):
        run(halves, X)


@pytest.mark.parametrize("precise", ["1", "0"])
def test_narrow_types_round_unless_they_are_told_not_to(precise, monkeypatch):
    monkeypatch.setenv("NKI_PRECISE_FP", precise)
    half = X * np.float32(0.5)
    expected = half.astype(ml_dtypes.bfloat16).astype(np.float32) if precise == "1" else half
    assert np.array_equal(run(halves, X).outputs, expected)
    assert np.array_equal(nki.simulate(halves)(X), expected)


@pytest.mark.parametrize("simulator", ["1", None])
def test_calls_run_here_with_the_simulator_asked_for_or_not(simulator, monkeypatch):
    if simulator:
        monkeypatch.setenv("NKI_SIMULATOR", simulator)
    assert np.array_equal(halves(X), (X * np.float32(0.5)).astype(ml_dtypes.bfloat16).astype(np.float32))
