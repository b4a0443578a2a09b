"""Programs as text: what a kernel executed, written and read again by `tilewright sim`, tells what its run told."""

import json
import sys

import numpy as np
import pytest
import tilewright.nki
from instructions import dma, gpsimd, scalar, tensor, vector  # noqa: F401  they register their cases
from instructions.harness import CASES, execute
from tilewright import _core

RUNS = [(case, case.modes[0]) for case in CASES]
CHIP = {2: "trainium2", 3: "trainium2", 4: "trainium3"}


def simulated(result, folder, capfd):
    """What `tilewright sim` says about the program of a result."""
    path = folder / "kernel.neuron"
    path.write_text(result.program)
    capfd.readouterr()
    code = _core.run_command(["tilewright", "sim", str(path), "--json"], sys.executable)
    out, err = capfd.readouterr()
    assert code in (0, 1), err
    return json.loads(out)


def same(result, told):
    """The readings of a run, times and joules to the last digits of a float."""
    known = result.json()
    for key in ("chip", "hbm_bytes", "spill_bytes", "dma_bytes", "bound_by"):
        assert told[key] == known[key], key
    assert told["findings"] == list(result._session.findings())
    assert told["time_us"] == pytest.approx(known["time_us"])
    for key in ("engines", "idle", "energy_j"):
        assert told[key].keys() == known[key].keys(), key
    assert all(told["energy_j"][name] == pytest.approx(known["energy_j"][name]) for name in known["energy_j"])
    assert all(told["engines"][name] == pytest.approx(known["engines"][name]) for name in known["engines"])
    assert [share["line"] for share in told["critical_path"]] == [share["line"] for share in known["critical_path"]]


@pytest.mark.parametrize(("case", "mode"), RUNS, ids=[f"{case.family} {case.name}" for case, _ in RUNS])
def test_every_instruction_is_told_alike(case, mode, tmp_path, capfd):
    result = execute(case, mode, CHIP[case.since])[2]
    same(result, simulated(result, tmp_path, capfd))


def test_a_kernel_of_the_first_dialect_is_compiled_alike(tmp_path, capfd):
    from neuronxcc import nki
    from neuronxcc.nki import language as nl

    @nki.jit
    def softmax(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(a.shape[0] // 128):
            tile = nl.load(a[i * 128 : (i + 1) * 128])
            powers = nl.exp(tile - nl.max(tile, axis=1, keepdims=True))
            nl.store(out[i * 128 : (i + 1) * 128], powers / nl.sum(powers, axis=1, keepdims=True))
        return out

    result = tilewright.nki.run(softmax, np.random.default_rng(1).standard_normal((512, 256), np.float32), chip="trainium1")
    assert "\ncompiled\n" in result.program
    same(result, simulated(result, tmp_path, capfd))
