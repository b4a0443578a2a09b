"""Kernels that are called in several threads of a script have nothing to do with one another."""

import threading

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import nki as new
import nki.isa as isa
import nki.language as language
import numpy as np
from tilewright.nki import run

CALLS = 20


@nki.jit
def powers(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for _ in range(10):
        nl.store(out, nl.exp(nl.load(a)))
    return out


def test_threads_have_runs_of_their_own():
    found, failed = {}, []
    chips = ("trainium1", "trainium2")

    def calls(at):
        try:
            given = np.full((128, 64), at, np.float32)
            found[at] = [run(powers, given, chip=chips[at]) for _ in range(CALLS)]
        except BaseException as error:  # told below
            failed.append(error)

    threads = [threading.Thread(target=calls, args=(at,)) for at in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    for at, results in found.items():
        assert {result.chip for result in results} == {chips[at]}
        assert {len(result.instructions) for result in results} == {30}
        assert all(np.allclose(result.outputs, np.exp(np.float32(at))) for result in results)


def test_a_thread_beside_a_kernel_is_outside_of_it():
    seen = []

    @nki.jit
    def kernel(a):
        beside = threading.Thread(target=lambda: seen.append(nisa.get_nc_version()))
        beside.start()
        beside.join()
        seen.append(nisa.get_nc_version())
        return a

    run(kernel, np.ones((8, 8), np.float32), chip="trainium3")
    assert seen == [nisa.nc_version.gen2, nisa.nc_version.gen4]


@new.jit
def halves(a):
    at = language.program_id(0)
    out = language.ndarray((2, *a.shape), a.dtype, buffer=language.shared_hbm)
    tile = language.ndarray(a.shape, a.dtype, buffer=language.sbuf)
    isa.dma_copy(dst=tile, src=a)
    for _ in range(8):
        isa.activation(dst=tile, op=language.tanh, data=tile)
    isa.dma_copy(dst=out[at], src=tile)
    return out


def test_a_core_starts_while_another_computes():
    given = np.linspace(-1, 1, 128 * 4096, dtype=np.float32).reshape(128, 4096)
    first = run(halves[2], given, chip="trainium2").outputs
    assert np.array_equal(first[0], first[1])
    for _ in range(7):
        assert np.array_equal(run(halves[2], given, chip="trainium2").outputs, first)
