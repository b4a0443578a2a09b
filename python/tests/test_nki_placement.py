"""Kernels that place tiles themselves, and cores that share memory: overlaps and races are named with their lines."""

import inspect

import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import nki.isa as new_isa
import nki.language as new_nl
import numpy as np
import pytest
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


def line_of(func, text):
    """Where a line of a function stands, as `file:line`."""
    source, first = inspect.getsourcelines(func)
    return f"{__file__}:{first + next(at for at, line in enumerate(source) if text in line)}"


def test_an_address_used_again_waits_for_who_used_it():
    """The compiler orders accesses of one core to the same memory: a stall, and no race."""
    result = run(placed(reused_by_a_load, (0, 0)), SQUARE, dialect="new")
    assert not result.findings
    stored_at = line_of(reused_by_a_load, "dst=out, src=a")
    assert result.idle["dma"][f"stalled on the buffer used at {stored_at}"] > 0
    apart = run(placed(reused_by_a_load, (0, BYTES)), SQUARE, dialect="new")
    assert result.time > 1.05 * apart.time and not any("buffer" in why for why in apart.idle["dma"])


def test_another_buffer_is_advised_where_waiting_for_one_costs_time():
    result = run(placed(reused_by_a_load, (0, 0)), SQUARE, dialect="new")
    (advice,) = [one for one in result.advice if one["name"] == "single buffer"]
    assert line_of(reused_by_a_load, "dst=out, src=a") in advice["text"]
    assert advice["line"] == line_of(reused_by_a_load, "dst=b, src=x")
    assert 0.05 * result.time <= advice["at_most_s"] < result.time
    apart = run(placed(reused_by_a_load, (0, BYTES)), SQUARE, dialect="new")
    assert not [one for one in apart.advice if one["name"] == "single buffer"]


def test_a_buffer_of_a_loop_is_waited_for():
    """One tile for all iterations: the next load waits until the last store is through."""

    def kernel(x, buffers):
        out = new_nl.ndarray((8, 128, 512), new_nl.float32, buffer=new_nl.shared_hbm)
        tiles = [new_nl.ndarray((128, 512), new_nl.float32) for _ in range(buffers)]
        for at in range(8):
            new_isa.dma_copy(dst=tiles[at % buffers], src=x)
            new_isa.dma_copy(dst=out[at], src=tiles[at % buffers])
        return out

    data = np.ones((128, 512), np.float32)
    one, two = (run(kernel, data, buffers, dialect="new") for buffers in (1, 2))
    assert not one.findings and not two.findings and one.time > 1.2 * two.time
    assert [advice for advice in one.advice if advice["name"] == "single buffer"]


def taking_turns(x, out, a, b):
    """Both tiles again and again at the same bytes, each written before it is read."""
    for _ in range(2):
        new_isa.dma_copy(dst=a, src=x)
        new_isa.dma_copy(dst=out, src=a)
        new_isa.dma_copy(dst=b, src=x)
        new_isa.dma_copy(dst=out, src=b)


def test_tiles_that_take_turns_at_an_address():
    assert not run(placed(taking_turns, (0, 0)), SQUARE, dialect="new").findings


def read_again(columns):
    def use(x, out, a, b):
        new_isa.dma_copy(dst=a, src=x)
        new_isa.dma_copy(dst=b, src=x)
        new_isa.dma_copy(dst=out, src=b)
        new_isa.memset(dst=a[:, 0:64], value=0.0)
        new_isa.dma_copy(dst=out[:, columns], src=a[:, columns])

    return use


def test_only_what_was_overwritten_and_is_read_again_is_lost():
    assert not run(placed(read_again(slice(0, 64)), (0, 0)), SQUARE, dialect="new").findings
    finding = only(run(placed(read_again(slice(32, 96)), (0, 0)), SQUARE, dialect="new"), "neuron/address-overlap")
    assert finding["severity"] == "error"


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


def several(write):
    """Two programs of a grid of the old dialect that store to the same rows."""

    def kernel(x):
        out = nl.ndarray((128, 128), nl.float32, buffer=nl.shared_hbm, name="out")
        tile = nl.load(x)
        write(out, tile, nl.program_id(0))
        return out

    return kernel


def test_programs_that_write_other_values_to_the_same_bytes():
    result = run(several(lambda out, tile, at: nl.store(out, nl.multiply(tile, at + 1.0))), SQUARE, grid=(2,))
    finding = only(result, "neuron/core-race")
    assert finding["severity"] == "error" and "writes other values to bytes of `out`" in finding["message"]


def test_programs_that_write_the_same_values_to_the_same_bytes():
    finding = only(run(several(lambda out, tile, at: nl.store(out, tile)), SQUARE, grid=(2,)), "neuron/core-race")
    assert finding["severity"] == "warning"


def test_programs_that_write_other_values_where_their_rows_overlap():
    def halves(shift):
        def write(out, tile, at):
            nl.store(out[nl.ds(at * shift, 64), :], nl.multiply(tile[0:64, :], at + 1.0))

        return write

    def errors(shift):
        return [one for one in run(several(halves(shift)), SQUARE, grid=(2,)).findings if one["code"] == "neuron/core-race"]

    assert [one["severity"] for one in errors(32)] == ["error"]
    assert not errors(64)


def test_programs_with_columns_of_their_own_share_no_byte():
    """Every second column: the rows overlap, the bytes do not."""

    def write(out, tile, at):
        i, j = nl.mgrid[0:128, 0:64]
        nl.store(out[i, 2 * j + at], nl.multiply(tile[0:128, 0:64], at + 1.0))

    found = [one for one in run(several(write), SQUARE, grid=(2,)).findings if one["code"] == "neuron/core-race"]
    assert all(one["severity"] == "warning" for one in found)


def loops(body, make=nl.affine_range):
    def kernel(x):
        out = nl.ndarray((4, 128, 128), nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(x)
        held = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf)
        held[...] = nl.copy(tile)
        for at in make(4):
            body(out, tile, held, at)
        return out

    return kernel


def goes_on(out, tile, held, at):
    nl.store(out[at], nl.exp(held))
    held[...] = nl.exp(tile)


def test_an_iteration_that_needs_what_an_earlier_one_made():
    finding = only(run(loops(goes_on), SQUARE), "neuron/loop-carried")
    assert finding["severity"] == "error" and "sequential_range" in finding["instead"]
    assert finding["line"] == line_of(goes_on, "nl.store") and line_of(goes_on, "held[...]") in finding["message"]
    assert "iteration 1" in finding["message"] and "iteration 0" in finding["message"]


def test_the_same_in_a_sequential_loop():
    assert not run(loops(goes_on, nl.sequential_range), SQUARE).findings


def own_tile(out, tile, held, at):
    held[...] = nl.exp(tile)
    nl.store(out[at], held)


def adds_up(out, tile, held, at):
    held[...] = nl.add(held, tile)


def test_iterations_that_need_nothing_of_each_other():
    def kernel(x):
        out = nl.ndarray((128, 128), nl.float32, buffer=nl.shared_hbm)
        sums = nl.zeros((128, 128), nl.float32, buffer=nl.psum)
        tile = nl.load(x)
        for _ in nl.affine_range(4):
            sums += nl.matmul(tile, tile, transpose_x=True)
        nl.store(out, nl.copy(sums))
        return out

    assert not run(kernel, SQUARE).findings
    for body in (own_tile, adds_up):
        assert not [one for one in run(loops(body), SQUARE).findings if one["code"] == "neuron/loop-carried"], body


def test_iterations_that_need_their_own_columns_only():
    def kernel(x):
        out = nl.ndarray((128, 128), nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(x)
        held = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf)
        for at in nl.affine_range(2):
            i, j = nl.mgrid[0:128, 0:64]
            held[i, 2 * j + at] = nl.exp(tile[i, 2 * j + at])
            nl.store(out[i, 2 * j + at], nl.exp(held[i, 2 * j + at]))
        return out

    assert not [one for one in run(kernel, SQUARE).findings if one["code"] == "neuron/loop-carried"]


def test_dependence_of_an_inner_loop_is_not_one_of_the_outer():
    def kernel(x):
        out = nl.ndarray((2, 128, 128), nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(x)
        for outer in nl.affine_range(2):
            held = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf)
            held[...] = nl.copy(tile)
            for _ in nl.sequential_range(3):
                held[...] = nl.exp(held)
            nl.store(out[outer], held)
        return out

    assert not run(kernel, SQUARE * 0).findings


def test_a_collective_beside_a_core_that_writes_its_buffer():
    import nki.collectives as collectives

    def kernel(x, order):
        given = new_nl.ndarray((128, 128), new_nl.float32, buffer=new_nl.shared_hbm, name="given")
        out = new_nl.ndarray((128, 128), new_nl.float32, buffer=new_nl.shared_hbm, name="out")
        core = new_nl.program_id(0)
        if core == 1:
            new_isa.dma_copy(dst=given, src=x)
        if order:
            new_isa.core_barrier(given, (0, 1))
        if core == 0:
            collectives.all_reduce(srcs=[given], dsts=[out], replica_group=collectives.ReplicaGroup([[0]]), op=new_nl.add)
        return out

    for order in (False, True):
        found = [one for one in run(kernel, SQUARE, order, grid=(2,), dialect="new").findings if one["code"] == "neuron/core-race"]
        assert bool(found) != order and all("all_reduce" in one["line"] or "`given`" in one["message"] for one in found)


@pytest.mark.parametrize("factor, severity", [(0.0, "warning"), (1.0, "error")])
def test_cores_that_read_back_what_both_wrote(factor, severity):
    """Both cores fill a shared tensor and read it: with the same values it does not matter who comes last."""

    def kernel(x):
        shared = new_nl.ndarray((128, 128), new_nl.float32, buffer=new_nl.shared_hbm, name="shared")
        out = new_nl.ndarray((2, 128, 128), new_nl.float32, buffer=new_nl.shared_hbm, name="out")
        core = new_nl.program_id(0)
        tile, back = (new_nl.ndarray((128, 128), new_nl.float32) for _ in range(2))
        new_isa.dma_copy(dst=tile, src=x)
        new_isa.tensor_scalar(tile, tile, new_nl.add, factor * core)
        new_isa.dma_copy(dst=shared, src=tile)
        new_isa.dma_copy(dst=back, src=shared)
        new_isa.dma_copy(dst=out[core], src=back)
        return out

    found = [one for one in run(kernel, SQUARE, grid=(2,), dialect="new").findings if one["code"] == "neuron/core-race"]
    assert found and severity in {one["severity"] for one in found}
    assert severity == "error" or all(one["severity"] == "warning" for one in found)
