"""Kernels that place tiles themselves, and cores that share memory: overlaps and races are named with their lines."""

import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import nki.isa as new_isa
import nki.language as new_nl
import numpy as np
from tilewright.nki import run

SQUARE = np.ones((128, 128), np.float32)
BYTES = 128 * 4


def only(result, code):
    (finding,) = result.findings
    assert finding["code"] == code, finding
    assert __file__ in finding["line"] and finding["allowed"] and finding["instead"]
    return finding


def placed(second, address):
    """A kernel of the new dialect with two tiles; the second use is given."""

    def kernel(x):
        out = new_nl.ndarray(x.shape, x.dtype, buffer=new_nl.shared_hbm)
        a = new_nl.ndarray((128, 128), new_nl.float32, name="a", address=(0, 0))
        b = new_nl.ndarray((128, 128), new_nl.float32, name="b", address=address)
        second(x, out, a, b)
        return out

    return kernel


def both_live(x, out, a, b):
    new_isa.dma_copy(dst=a, src=x)
    new_isa.dma_copy(dst=b, src=x)
    new_isa.tensor_tensor(dst=a, data1=a, data2=b, op=new_nl.add)
    new_isa.dma_copy(dst=out, src=a)


def test_tiles_that_lie_over_each_other():
    finding = only(run(placed(both_live, (0, BYTES - 4)), SQUARE, dialect="new"), "neuron/address-overlap")
    assert "`b`" in finding["message"] and "`a`" in finding["message"]
    assert f"byte {BYTES} on" in finding["instead"]


def test_tiles_side_by_side():
    assert not run(placed(both_live, (0, BYTES)), SQUARE, dialect="new").findings


def reused_by_a_load(x, out, a, b):
    new_isa.dma_copy(dst=a, src=x)
    new_isa.dma_copy(dst=out, src=a)
    new_isa.dma_copy(dst=b, src=x)
    new_isa.tensor_tensor(dst=b, data1=b, data2=b, op=new_nl.add)


def test_an_address_used_again_while_a_store_may_still_read_it():
    finding = only(run(placed(reused_by_a_load, (0, 0)), SQUARE, dialect="new"), "neuron/race")
    assert "dma_copy" in finding["message"] and "`a`" in finding["message"]


def reused_in_order(x, out, a, b):
    new_isa.dma_copy(dst=a, src=x)
    new_isa.tensor_tensor(dst=a, data1=a, data2=a, op=new_nl.add)
    new_isa.memset(dst=b, value=0.0, engine=new_isa.vector_engine)
    new_isa.dma_copy(dst=out, src=b)


def test_an_address_used_again_by_the_same_engine():
    assert not run(placed(reused_in_order, (0, 0)), SQUARE, dialect="new").findings


def rotating(tiles):
    """A kernel of the old dialect: four tiles loaded, then added, in `tiles` places."""

    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        block = nl.ndarray((4, nl.par_dim(128), 128), nl.float32, name="block", buffer=ncc.sbuf.mod_alloc(base_addr=0, num_free_tiles=(tiles,)))
        for at in nl.affine_range(4):
            block[at] = nl.load(x)
        for at in nl.affine_range(4):
            nl.store(out, block[at])
        return out

    return kernel


def test_too_few_places_for_the_tiles_that_are_live():
    finding = only(run(rotating(2), SQUARE), "neuron/address-overlap")
    assert "`block` tile 2" in finding["message"] and "`block` tile 0" in finding["message"]


def test_a_place_for_each_tile():
    assert not run(rotating(4), SQUARE).findings


def test_tiles_of_one_tensor_take_turns_at_their_place():
    """Modulo allocation says that they follow each other: the second waits, and is no race."""

    def kernel(x):
        out = nl.ndarray((4, 128, 128), x.dtype, buffer=nl.shared_hbm)
        block = nl.ndarray((4, nl.par_dim(128), 128), nl.float32, name="block", buffer=ncc.sbuf.mod_alloc(base_addr=0, num_free_tiles=(1,)))
        for at in nl.affine_range(4):
            block[at] = nl.load(x)
            nl.store(out[at], block[at])
        return out

    result = run(kernel, SQUARE)
    assert not result.findings
    moves = [(span[3], span[4]) for span in result.spans if span[0] == "dma_copy"]
    assert all(before[1] <= after[0] for before, after in zip(moves, moves[1:])), "no load overtakes a store of its place"


def test_tiles_placed_by_a_function_in_psum():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        one = nl.ndarray((nl.par_dim(128), 128), nl.float32, name="one", buffer=ncc.psum.alloc(lambda index, rows, size: (3, 0, 0)))
        two = nl.ndarray((nl.par_dim(128), 128), nl.float32, name="two", buffer=ncc.psum.mod_alloc(base_bank=3))
        one[...] = nisa.nc_matmul(tile, tile)
        two[...] = nisa.nc_matmul(tile, tile)
        nl.store(out, nl.add(nl.copy(one), nl.copy(two)))
        return out

    finding = only(run(kernel, SQUARE), "neuron/address-overlap")
    assert "psum" in finding["message"]


def exchange(meet):
    def kernel(x):
        shared = new_nl.ndarray((2, 128, 128), new_nl.float32, buffer=new_nl.shared_hbm, name="shared")
        out = new_nl.ndarray((2, 128, 128), new_nl.float32, buffer=new_nl.shared_hbm, name="out")
        core = new_nl.program_id(0)
        new_isa.dma_copy(dst=shared[core], src=x)
        if meet:
            new_isa.core_barrier(shared, (0, 1))
        new_isa.dma_copy(dst=out[core], src=shared[1 - core])
        return out

    return kernel


def test_cores_that_read_what_the_other_writes():
    result = run(exchange(False), SQUARE, grid=(2,), dialect="new")
    races = [one for one in result.findings if one["code"] == "neuron/core-race"]
    assert races and all(one["severity"] == "error" and "`shared`" in one["message"] and __file__ in one["line"] for one in races)


def test_cores_that_meet_first():
    result = run(exchange(True), SQUARE, grid=(2,), dialect="new")
    assert not result.findings and np.array_equal(result.outputs, np.stack([SQUARE, SQUARE]))


def test_programs_that_write_the_same_bytes():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name="out")
        nl.store(out, nl.load(x))
        return out

    finding = only(run(kernel, SQUARE, grid=(2,)), "neuron/core-race")
    assert finding["severity"] == "warning"
