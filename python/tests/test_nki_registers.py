"""Places and loops that are known at run time: who waits for the load of the register, and on which engine that load is."""

import operator

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from tilewright.nki import Refused, registers, run

X = np.arange(128 * 512, dtype=np.float32).reshape(128, 512)
AT = np.array([[64]], np.int32)
OPCODE, ENGINE, CORE, START, END, DONE = range(6)


def spans(result, opcode):
    return [span for span in result.spans if span[OPCODE] == opcode]


def line_of(result, opcode):
    """The line of the only instruction of that name."""
    (line,) = {line for name, _, line, _ in result.instructions if name == opcode}
    return line


def moved(place):
    """Columns of a tile from a place that a load of one element says; the tile itself is there long before."""

    def kernel(x, at):
        out = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
        tile, part, where = nl.ndarray(x.shape, x.dtype), nl.ndarray((128, 64), x.dtype), nl.ndarray((1, 1), nl.int32)
        nisa.dma_copy(tile, x)
        nisa.dma_copy(where, at)
        for _ in range(32):
            nisa.tensor_scalar(where, where, nl.add, 1, engine=nisa.gpsimd_engine)
            nisa.tensor_scalar(where, where, nl.subtract, 1, engine=nisa.gpsimd_engine)
        nisa.tensor_copy(part, place(tile, where), engine=nisa.vector_engine)
        nisa.dma_copy(out, part)
        return out

    return nki.jit(kernel)


def loaded(where):
    register = nisa.register_alloc()
    nisa.register_load(register, where)
    return register


PLACES = {
    "a slice from a register": lambda tile, where: tile[:, nl.ds(loaded(where), 64)],
    "bounds of a slice": lambda tile, where: (lambda at: tile[:, at : at + 64])(loaded(where)),
    "a sum with a register": lambda tile, where: tile[:, nl.ds(loaded(where) * 2 - 64, 64)],
    "another register": lambda tile, where: tile[:, nl.ds(nisa.register_alloc(loaded(where)), 64)],
    "a pattern": lambda tile, where: tile.ap([[512, 128], [1, 64]], scalar_offset=loaded(where), indirect_dim=1),
    "an offset of a pattern": lambda tile, where: tile.ap([[512, 128], [1, 64]], offset=loaded(where)),
    "a part of what lies there": lambda tile, where: tile.ap([[512, 128], [1, 128]], offset=loaded(where))[:, 0:64],
    "a slice by name": lambda tile, where: (lambda at: tile.slice(1, at, at + 64))(loaded(where)),
}


@pytest.mark.parametrize("name", PLACES)
def test_an_instruction_waits_for_the_register_that_says_where(name):
    result = run(moved(PLACES[name]), X, AT, chip="trainium2")
    assert np.array_equal(result.outputs, X[:, 64:128])
    (load,), (copy,) = spans(result, "register_load"), spans(result, "tensor_copy")
    assert load[ENGINE] == "vector", "a register of the engine that uses it"
    assert load[START] >= max(span[DONE] for span in spans(result, "tensor_scalar")), "it reads what was computed"
    assert copy[START] >= load[END]
    assert line_of(result, "register_load") in {share["line"] for share in result.critical_path}


def test_an_instruction_waits_for_the_tile_that_says_where():
    for place in (
        lambda tile, where: tile[:, nl.ds(where, 64)],
        lambda tile, where: tile.ap([[512, 128], [1, 64]], scalar_offset=where, indirect_dim=1),
    ):
        result = run(moved(place), X, AT, chip="trainium2")
        assert np.array_equal(result.outputs, X[:, 64:128])
        (copy,) = spans(result, "tensor_copy")
        assert copy[START] >= max(span[DONE] for span in spans(result, "tensor_scalar"))


def test_a_place_that_is_known_before_waits_for_nothing():
    result = run(moved(lambda tile, where: tile[:, nl.ds(64, 64)]), X, AT, chip="trainium2")
    (copy,) = spans(result, "tensor_copy")
    assert copy[END] < min(span[DONE] for span in spans(result, "tensor_scalar")[-1:])
    assert not spans(result, "register_load")


@pytest.mark.parametrize("chip, engine", [("trainium1", "gpsimd"), ("trainium2", "sync")])
def test_descriptors_wait_for_the_register_of_their_transfer(chip, engine):
    @nki.jit
    def kernel(x, at):
        out = nl.ndarray((16, 512), x.dtype, buffer=nl.shared_hbm)
        tile, where = nl.ndarray((16, 512), x.dtype), nl.ndarray((1, 1), nl.int32)
        nisa.dma_copy(where, at)
        nisa.dma_copy(tile, x.ap([[512, 16], [1, 512]], scalar_offset=loaded(where)))
        nisa.dma_copy(out, tile)
        return out

    result = run(kernel, X, AT, chip=chip)
    assert np.array_equal(result.outputs, X[64:80])
    (load,), (made,) = spans(result, "register_load"), spans(result, "dma_descriptors")
    first, rows, _ = spans(result, "dma_copy")
    assert load[ENGINE] == made[ENGINE] == engine
    assert first[DONE] <= load[START] and load[END] <= made[START] and made[END] <= rows[START]


def test_the_body_of_a_loop_waits_for_its_bound():
    def kernel(bound):
        @nki.jit
        def loop(x, at):
            out = nl.ndarray((64, 64), x.dtype, buffer=nl.shared_hbm)
            where = nl.ndarray((1, 1), nl.int32)
            nisa.dma_copy(where, at)
            for row in nl.dynamic_range(bound(where)):
                tile = nl.ndarray((1, 64), x.dtype)
                nisa.memset(tile, 1.0)
                nisa.dma_copy(out[row : row + 1], tile)
            return out

        return run(loop, X, AT, chip="trainium2")

    known, register, tile = kernel(lambda _: 64), kernel(loaded), kernel(lambda where: where)
    assert min(span[START] for span in spans(known, "memset")) < spans(known, "dma_copy")[0][DONE]
    for result in (register, tile):
        assert np.array_equal(result.outputs, np.ones((64, 64), np.float32))
        (load,) = spans(result, "register_load")
        assert load[ENGINE] == "sync" and spans(result, "dma_copy")[0][DONE] <= load[START]
        assert min(span[START] for span in spans(result, "memset")) >= load[END]


def test_a_loop_waits_for_its_condition_each_time():
    @nki.jit
    def kernel(at):
        out = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)
        left = nl.ndarray((1, 1), nl.int32)
        nisa.dma_copy(left, at)
        register = loaded(left)
        while register:
            nisa.tensor_scalar(left, left, nl.subtract, 1)
            nisa.register_load(register, left)
        nisa.register_store(left, register)
        nisa.dma_copy(out, left)
        return out

    result = run(kernel, np.array([[3]], np.int32), chip="trainium2")
    assert result.outputs[0, 0] == 0
    loads, steps = spans(result, "register_load"), spans(result, "tensor_scalar")
    assert len(loads) == 4 and len(steps) == 3
    for before, step, after in zip(loads, steps, loads[1:]):
        assert before[END] <= step[START] and step[DONE] <= after[START]
    (stored,) = spans(result, "memset")
    assert stored[START] >= loads[-1][END]


def test_a_register_is_read_from_any_partition():
    """Lanes of an engine start at certain partitions; a sequencer reads one element anywhere."""

    @nki.jit
    def kernel(x, at):
        out = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
        tile, part, where = nl.ndarray(x.shape, x.dtype), nl.ndarray((128, 64), x.dtype), nl.ndarray((8, 1), nl.int32)
        nisa.dma_copy(tile, x)
        nisa.dma_copy(where, at)
        nisa.tensor_copy(part, tile[:, nl.ds(loaded(where[5:6]), 64)])
        nisa.tensor_copy(part, tile[:, nl.ds(where[5:6], 64)])
        nisa.dma_copy(out, part)
        return out

    result = run(kernel, X, np.full((8, 1), 64, np.int32), chip="trainium2")
    assert np.array_equal(result.outputs, X[:, 64:128]) and not result.findings


def test_a_transfer_transposes_the_rows_that_a_tile_picks():
    @nki.jit
    def kernel(table, rows):
        out = nl.ndarray((32, 1, 2, 16), table.dtype, buffer=nl.shared_hbm)
        where, turned = nl.ndarray((16, 1), nl.uint32), nl.ndarray((32, 1, 2, 16), table.dtype)
        nisa.dma_copy(where, rows)
        nisa.dma_transpose(turned, table.ap([[64, 16], [1, 1], [32, 2], [1, 32]], vector_offset=where))
        nisa.dma_copy(out, turned)
        return out

    table = np.arange(64 * 64, dtype=np.int16).reshape(64, 1, 2, 32)
    rows = np.random.default_rng(5).permutation(64)[:16].astype(np.uint32).reshape(16, 1)
    result = run(kernel, table, rows, chip="trainium2")
    assert np.array_equal(result.outputs, table[rows[:, 0]].transpose(3, 1, 2, 0))
    assert spans(result, "dma_descriptors")[0][ENGINE] == "gpsimd"


def with_register(use):
    def kernel(x, at):
        out = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
        tile, where = nl.ndarray(x.shape, x.dtype), nl.ndarray((1, 1), nl.int32)
        nisa.dma_copy(tile, x)
        nisa.dma_copy(where, at)
        nisa.dma_copy(out, use(tile, where))
        return out

    return nki.jit(kernel)


def test_a_register_that_nothing_was_loaded_into():
    def read_early(tile, where):
        return tile[:, nl.ds(nisa.register_alloc(), 64)]

    (finding,) = run(with_register(read_early), X, AT, chip="trainium2").findings
    assert (finding["code"], finding["severity"]) == ("neuron/unset-register", "error") and __file__ in finding["line"]
    assert "register_alloc(0)" in finding["instead"]
    for use in (lambda tile, where: tile[:, nl.ds(nisa.register_alloc(0), 64)], lambda tile, where: tile[:, nl.ds(loaded(where), 64)]):
        assert not run(with_register(use), X, AT, chip="trainium2").findings


@pytest.mark.parametrize("change", [False, True])
def test_a_loop_on_a_register_that_nothing_changes_ends(change):
    def turns(tile, where):
        register = loaded(where)
        left = 3
        while register:
            left -= 1
            if change:
                nisa.register_move(register, left)
        return tile[:, 0:64]

    if change:
        run(with_register(turns), X, AT, chip="trainium2")
        return
    with pytest.raises(Refused) as caught:
        run(with_register(turns), X, AT, chip="trainium2")
    assert caught.value.code == "neuron/endless-loop" and "holds 64 and does not change" in caught.value.asked
    instead = caught.value.instead
    assert "load a new value into the register in the loop, or move one into it that ends the loop" in instead
    assert __file__ in caught.value.line


def turning(turn, first=3):
    """A kernel that loops on a register while it is not 0; `turn` changes it, or does not."""

    def turns(tile, where):
        register = nisa.register_alloc(first)
        while register:
            turn(register, where)
        return tile[:, 0:64]

    return with_register(turns)


def test_a_loop_on_a_register_that_is_loaded_anew_with_the_same_value_ends():
    with pytest.raises(Refused) as caught:
        run(turning(nisa.register_load), X, AT, chip="trainium2")
    assert caught.value.code == "neuron/endless-loop" and "holds 64 and does not change" in caught.value.asked
    assert f"{registers.MOST_LOOKS} looks" in caught.value.allowed and __file__ in caught.value.line


def test_a_loop_on_a_register_that_takes_the_same_values_in_turn_ends(monkeypatch):
    monkeypatch.setattr(registers, "MOST_TURNS", 1000)
    flip = lambda register, _: nisa.register_move(register, 3 - int(register))
    with pytest.raises(Refused) as caught:
        run(turning(flip, first=1), X, AT, chip="trainium2")
    assert caught.value.code == "neuron/endless-loop" and "1001 branches on a register" in caught.value.asked
    assert "1000 branches on one register" in caught.value.allowed
    assert caught.value.instead == "end the loop earlier, or count its turns with nl.dynamic_range"


def test_a_loop_on_a_register_that_changes_runs_as_long_as_it_needs():
    count = registers.MOST_LOOKS + 10
    down = lambda register, _: nisa.register_move(register, register - 1)
    result = run(turning(down, first=count), X, AT, chip="trainium2")
    assert np.array_equal(result.outputs, X[:, 0:64]) and count < registers.MOST_TURNS


@pytest.mark.parametrize("condition", [lambda register: int(register) > 3, lambda register: register - 1 > 3])
def test_a_loop_on_a_number_made_of_a_register_ends(condition, monkeypatch):
    monkeypatch.setattr(registers, "MOST_READS", 1000)

    def turns(tile, where):
        register = loaded(where)
        while condition(register):
            pass
        return tile[:, 0:64]

    with pytest.raises(Refused) as caught:
        run(with_register(turns), X, AT, chip="trainium2")
    assert caught.value.code == "neuron/endless-loop" and "holds 64 and does not change" in caught.value.asked
    assert "1000 reads" in caught.value.allowed and __file__ in caught.value.line


COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
CHANGES = [operator.neg, operator.pos, operator.abs, operator.invert]
SUMS = [
    *(operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod),
    *(operator.lshift, operator.rshift, operator.and_, operator.or_, operator.xor),
]


@pytest.mark.parametrize("compare", COMPARISONS)
def test_comparisons_of_registers_are_branches(compare):
    def use(tile, where):
        register, same = loaded(where), loaded(where)
        for value in (63, 64, 65, 64.5, np.int64(64)):
            assert compare(register, value) == compare(64, value)
            assert compare(value, register) == compare(value, 64)
        assert compare(register, same) == compare(64, 64)
        # What follows waits for the register that was looked at, the last of them.
        nisa.memset(tile, 1.0)
        return tile[:, 0:64]

    result = run(with_register(use), X, AT, chip="trainium2")
    (filled,) = spans(result, "memset")
    assert filled[START] >= max(span[END] for span in spans(result, "register_load"))


def test_a_register_is_no_other_thing():
    def use(tile, where):
        register = loaded(where)
        assert register != None and register != "64" and not register == None  # noqa: E711
        for compare in COMPARISONS[2:]:
            with pytest.raises(TypeError):
                compare(register, None)
        return tile[:, 0:64]

    assert not run(with_register(use), X, AT, chip="trainium2").findings


@pytest.mark.parametrize("change", CHANGES + SUMS)
def test_numbers_made_of_registers_know_their_loads(change):
    def use(tile, where):
        register = loaded(where)
        made = [change(number) if change in CHANGES else change(number, 3) for number in (register, register + 0)]
        if change in SUMS:
            made += [change(300, register % 5), change(300, (register + 0) % 5)]
        assert made == [change(64)] * 2 if change in CHANGES else [change(64, 3)] * 2 + [change(300, 4)] * 2
        assert all(len(registers.of(one)) == 1 for one in made)
        return tile[:, 0:64]

    run(with_register(use), X, AT, chip="trainium2")


@pytest.mark.parametrize("change", SUMS[:5])
def test_a_register_holds_no_part_of_a_number(change):
    for swapped in (False, True):
        use = lambda tile, where: change(*(1.5, loaded(where))[:: -1 if swapped else 1])
        with pytest.raises(Refused) as caught:
            run(with_register(use), X, AT, chip="trainium2")
        assert caught.value.code == "neuron/operand" and "1.5" in caught.value.asked
    assert change(registers.Loaded(64, ()), 1.5) == change(64, 1.5)


@pytest.mark.parametrize("where", [-5, -64, -100, 449, 600])
@pytest.mark.parametrize("name", PLACES)
def test_a_place_at_run_time_counts_from_no_end(name, where):
    """A device adds what a register holds to an address: there is no place before the first."""
    with pytest.raises((IndexError, Refused)) as caught:
        run(moved(PLACES[name]), X, np.array([[where]], np.int32), chip="trainium2")
    assert caught.value.code == "neuron/bounds" and __file__ in caught.value.line


CUTS = [lambda tile, at: tile[:, 0:at], lambda tile, at: tile[at : at + 1], lambda tile, at: tile[:, at]]


@pytest.mark.parametrize("cut", CUTS)
def test_bounds_at_run_time_count_from_no_end(cut):
    def use(tile, where):
        return cut(tile, loaded(where))

    with pytest.raises((IndexError, Refused)) as caught:
        run(with_register(use), X, np.array([[-2]], np.int32), chip="trainium2")
    assert __file__ in caught.value.line
