"""Programs that run together: ranks of collectives, programs that combine values, cores that wait for one another."""

import neuronxcc.nki.language as old_nl
import neuronxcc.nki.nccl as nccl
import nki.collectives as ncoll
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from tilewright.nki import Refused, run, run_ranks
from tilewright.nki.team import Deadlock

RANKS = 4


def arrays(*shape):
    return [np.random.default_rng(rank).standard_normal(shape).astype(np.float32) for rank in range(RANKS)]


def ranks(kernel, inputs, **options):
    results = run_ranks(kernel, [{"x": x} for x in inputs], **options)
    return [result.outputs for result in results]


def collective(kind, out_shape, groups=([0, 1, 2, 3],), **options):
    """A kernel of one collective."""

    def kernel(x):
        out = nl.ndarray(out_shape, x.dtype, buffer=nl.shared_hbm)
        getattr(ncoll, kind)([x], [out], ncoll.ReplicaGroup([list(group) for group in groups]), **options)
        return out

    return kernel


@pytest.mark.parametrize(("op", "formula"), [(nl.add, np.sum), (nl.maximum, np.max), (nl.minimum, np.min)])
def test_all_reduce(op, formula):
    inputs = arrays(16, 8)
    found = ranks(collective("all_reduce", (16, 8), op=op), inputs)
    for out in found:
        assert np.allclose(out, formula(np.stack(inputs), axis=0), atol=1e-6)
        assert out.tobytes() == found[0].tobytes(), "every rank has the same bits"


def test_all_reduce_in_groups():
    inputs = arrays(16, 8)
    found = ranks(collective("all_reduce", (16, 8), groups=([0, 2], [1, 3]), op=nl.add), inputs)
    for rank, out in enumerate(found):
        assert np.allclose(out, inputs[rank] + inputs[(rank + 2) % 4], atol=1e-6)


def test_all_gather():
    inputs = arrays(4, 8)
    for out in ranks(collective("all_gather", (16, 8), collective_dim=0), inputs):
        assert np.array_equal(out, np.concatenate(inputs))


def test_reduce_scatter():
    inputs = arrays(16, 8)
    total = np.sum(np.stack(inputs), axis=0)
    for rank, out in enumerate(ranks(collective("reduce_scatter", (4, 8), collective_dim=0, op=nl.add), inputs)):
        assert np.allclose(out, total[rank * 4 : rank * 4 + 4], atol=1e-6)


def test_all_to_all():
    inputs = arrays(16, 8)
    for rank, out in enumerate(ranks(collective("all_to_all", (16, 8), collective_dim=0), inputs)):
        assert np.array_equal(out, np.concatenate([x[rank * 4 : rank * 4 + 4] for x in inputs]))


NCCL = {
    "all_reduce": ((16, 8), lambda x, out: nccl.all_reduce(op=np.add, srcs=[x], dsts=[out], replica_groups=[[0, 1, 2, 3]], dtype=x.dtype)),
    "all_gather": ((64, 8), lambda x, out: nccl.all_gather(op=np.add, srcs=[x], dsts=[out], replica_groups=[[0, 1, 2, 3]], all_gather_dim=0, dtype=x.dtype)),
    "reduce_scatter": ((16, 2), lambda x, out: nccl.reduce_scatter(op=np.add, srcs=[x], dsts=[out], replica_groups=[[0, 1, 2, 3]], reduce_scatter_dim=1, dtype=x.dtype)),
    "all_to_all": ((16, 8), lambda x, out: nccl.all_to_all(np.add, [x], [out], [0, 1, 2, 3], 1, 1)),
    "collective_permute": ((16, 8), lambda x, out: nccl.collective_permute(dst=out[:, :], src=x[:, :], source_target_pairs=[(0, 1), (1, 2), (2, 3), (3, 0)])),
}


@pytest.mark.parametrize("name", NCCL)
def test_collectives_in_the_words_of_the_first_dialect(name):
    shape, call = NCCL[name]

    def kernel(x):
        out = old_nl.ndarray(shape, x.dtype, buffer=old_nl.shared_hbm)
        call(x, out)
        return out

    inputs = arrays(16, 8)
    for rank, found in enumerate(ranks(kernel, inputs, dialect="old")):
        expected = {
            "all_reduce": lambda: sum(inputs),
            "all_gather": lambda: np.concatenate(inputs),
            "reduce_scatter": lambda: sum(inputs)[:, 2 * rank : 2 * rank + 2],
            "all_to_all": lambda: np.concatenate([one[:, 2 * rank : 2 * rank + 2] for one in inputs], axis=1),
            "collective_permute": lambda: inputs[rank - 1],
        }[name]()
        assert np.allclose(found, expected, atol=1e-6)


def test_an_exchange_that_splits_one_dimension_and_joins_another():
    def kernel(x):
        nccl.all_to_all(np.add, [x], [x], [[0]], 0, 1)

    with pytest.raises(ValueError, match=": both are the same here; transpose before or after it"):
        run(kernel, np.ones((16, 8), np.float32))


def test_permutation_between_named_ranks():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        ncoll.collective_permute([x], [out], [(0, 1), (1, 0), (2, 3), (3, 2)])
        return out

    inputs = arrays(4, 8)
    for rank, out in enumerate(ranks(kernel, inputs)):
        assert np.array_equal(out, inputs[rank ^ 1])


def test_a_ring_brings_every_part_around():
    def kernel(x):
        group = ncoll.ReplicaGroup([[0, 1, 2, 3]])
        out = nl.ndarray((4, *x.shape), x.dtype, buffer=nl.shared_hbm)
        here = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
        nisa.dma_copy(here, x)
        for step in range(4):
            of = ncoll.collective_permute_implicit_current_processing_rank_id(step, group)
            nisa.dma_copy(out[int(of)], here)
            there = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
            ncoll.collective_permute_implicit([[here]], [[there]], group)
            here = there
        return out

    inputs = arrays(4, 8)
    for out in ranks(kernel, inputs):
        assert np.array_equal(out, np.stack(inputs))


def test_chunks_of_different_sizes():
    def kernel(x, table):
        out = nl.ndarray((4, 8), x.dtype, buffer=nl.shared_hbm)
        zeros = nl.zeros((4, 8), x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(out, zeros)
        ncoll.all_gather_v([x], [out], ncoll.ReplicaGroup([[0, 1, 2, 3]]), table)
        return out

    inputs = arrays(8)
    tables = []
    for rank in range(RANKS):
        table = np.zeros((3, 4), np.uint32)
        table[0, 0] = rank + 1
        tables.append(table)
    found = run_ranks(kernel, [{"x": x, "table": table} for x, table in zip(inputs, tables)])
    for result in found:
        for rank in range(RANKS):
            assert np.array_equal(result.outputs[rank, : rank + 1], inputs[rank][: rank + 1])
            assert not result.outputs[rank, rank + 1 :].any()


def test_each_core_of_a_rank_meets_the_same_core_of_the_others():
    def kernel(x):
        core = nl.program_id(0)
        out = nl.ndarray((2, 4, 8), x.dtype, buffer=nl.shared_hbm)
        mine = nl.ndarray((4, 8), x.dtype, buffer=nl.private_hbm)
        nisa.dma_copy(mine, x[core * 4 : core * 4 + 4])
        total = nl.ndarray((4, 8), x.dtype, buffer=nl.private_hbm)
        ncoll.all_reduce([mine], [total], ncoll.ReplicaGroup([[0, 1, 2, 3]]), op=nl.add)
        nisa.dma_copy(out[core], total)
        return out

    inputs = arrays(8, 8)
    for out in ranks(kernel, inputs, grid=2):
        assert np.allclose(out.reshape(8, 8), np.sum(np.stack(inputs), axis=0), atol=1e-6)


def test_a_collective_takes_longer_with_more_bytes_and_more_ranks():
    def seconds(size, count):
        kernel = collective("all_reduce", (128, size), groups=(list(range(count)),), op=nl.add)
        return run_ranks(kernel, [{"x": np.ones((128, size), np.float32)}] * count)[0].time

    assert seconds(8192, 4) > seconds(64, 4)
    assert seconds(8192, 4) > seconds(8192, 2)


def test_a_rank_that_does_not_run_is_named():
    with pytest.raises(ValueError, match="run_ranks"):
        run(collective("all_reduce", (4, 8), op=nl.add), np.ones((4, 8), np.float32), dialect="new")


def test_an_operator_that_no_collective_has():
    with pytest.raises(Refused) as caught:
        ranks(collective("all_reduce", (4, 8), op=nl.multiply), arrays(4, 8))
    assert caught.value.code == "neuron/operator"


def test_an_error_of_one_rank_is_raised_with_its_traceback():
    def kernel(x):
        if ncoll.rank_id() == 2:
            raise KeyError("rank two")
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        ncoll.all_reduce([x], [out], ncoll.ReplicaGroup([[0, 1, 2, 3]]), op=nl.add)
        return out

    with pytest.raises(KeyError, match="rank two") as caught:
        ranks(kernel, arrays(4, 8))
    assert any(frame.name == "kernel" for frame in caught.traceback)


def test_programs_of_a_grid_combine_their_tiles():
    def kernel(x):
        row = old_nl.program_id(0)
        out = old_nl.ndarray((2, 3, 128, 16), x.dtype, buffer=old_nl.shared_hbm)
        tile = old_nl.load(x[row, old_nl.program_id(1)])
        old_nl.store(out[row, old_nl.program_id(1)], old_nl.all_reduce(tile, op=np.add, program_axes=[1]))
        return out

    x = np.random.default_rng(0).standard_normal((2, 3, 128, 16)).astype(np.float32)
    found = run(kernel, x, grid=(2, 3)).outputs
    assert np.allclose(found, x.sum(axis=1, keepdims=True).repeat(3, axis=1), atol=1e-6)


def test_a_grid_of_one_program_has_nothing_to_combine():
    def kernel(x):
        out = old_nl.ndarray(x.shape, x.dtype, buffer=old_nl.shared_hbm)
        old_nl.store(out, old_nl.all_reduce(old_nl.load(x), op=np.add, program_axes=[0]))
        return out

    x = np.ones((128, 16), np.float32)
    assert np.array_equal(run(kernel, x, grid=(1,)).outputs, x)


def test_cores_that_wait_for_different_things_are_named():
    def kernel(x):
        tile = nl.load(x)
        if nl.program_id(0) == 0:
            nisa.core_barrier(x, (0, 1))
        else:
            nisa.sendrecv(tile, tile, 0, 0, 0)
        return x

    with pytest.raises(Deadlock, match="core 0 waits for core_barrier.*core 1 waits for sendrecv"):
        run(kernel, np.ones((128, 16), np.float32), grid=2, dialect="new")


def test_a_core_that_ends_early_leaves_the_other_waiting():
    def kernel(x):
        if nl.program_id(0) == 0:
            nisa.core_barrier(x, (0, 1))
        return x

    with pytest.raises(Deadlock, match="core 0 waits for core_barrier 1 at .*test_nki_ranks.py:.*; core 1 has ended"):
        run(kernel, np.ones((128, 16), np.float32), grid=2, dialect="new")


BARRIERS = {
    "a core that is not there": (lambda x, tile: nisa.core_barrier(x, (0, 2)), "core 2 is none of the launch"),
    "a barrier without its caller": (lambda x, tile: nisa.core_barrier(x, (0,)), "of cores (0,) on core 1"),
    "a receiver that is not there": (lambda x, tile: nisa.sendrecv(tile, tile, 5, 0, 0), "core 5 is none of the launch"),
    "a sender that is not there": (lambda x, tile: nisa.sendrecv(tile, tile, 1, -1, 0), "core -1 is none of the launch"),
}


@pytest.mark.parametrize("name", BARRIERS)
def test_cores_meet_cores_of_their_launch(name):
    waits, asked = BARRIERS[name]

    def kernel(x):
        waits(x, nl.load(x))
        return x

    with pytest.raises(Refused) as caught:
        run(kernel, np.ones((128, 16), np.float32), grid=2, dialect="new")
    assert caught.value.code == "neuron/launch" and asked in caught.value.asked and __file__ in caught.value.line
    if "there" in name:
        assert caught.value.allowed == "cores (0, 1)" and caught.value.instead == "count cores of the launch from 0"
    else:
        assert caught.value.allowed == "a barrier of cores of which the one that calls it is one"


def test_both_cores_fill_the_output_before_each_writes_its_half():
    def kernel(x):
        core = nl.program_id(0)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        zeros = nl.zeros((128, 16), x.dtype, buffer=nl.sbuf)
        for half in range(2):
            nisa.dma_copy(out[half * 128 : half * 128 + 128], zeros)
        nisa.dma_copy(out[core * 128 : core * 128 + 128], x[core * 128 : core * 128 + 128])
        return out

    x = np.random.default_rng(1).standard_normal((256, 16)).astype(np.float32)
    assert np.array_equal(run(kernel, x, grid=2, dialect="new").outputs, x)


def test_generations_without_a_second_core_refuse_meetings():
    def kernel(x):
        nisa.core_barrier(x, (0, 1))

    with pytest.raises(Refused) as caught:
        run(kernel, np.ones((1, 1), np.float32), dialect="new", chip="trainium1")
    assert caught.value.code == "neuron/generation"
