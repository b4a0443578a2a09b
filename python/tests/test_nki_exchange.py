"""What needs several cores or ranks: values against NumPy, times against a kept text, and ranks that meet in time.

`BLESS=1` writes `goldens/exchange.txt`; the difference is then reviewed like code.
"""

import os
import pathlib
import subprocess
import sys

import nki.collectives as ncoll
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from tilewright.nki import Refused, run, run_ranks

GOLDEN = pathlib.Path(__file__).parent / "goldens" / "exchange.txt"
CHIPS = ("trainium1", "trainium2", "trainium3")
SHAPE = (32, 256)


def given(ranks, shape=SHAPE):
    return [np.random.default_rng(rank).standard_normal(shape).astype(np.float32) for rank in range(ranks)]


def simple(kind, shape, ranks, **options):
    """A kernel of one collective over all ranks."""

    def kernel(x):
        out = nl.ndarray(shape, x.dtype, buffer=nl.shared_hbm)
        getattr(ncoll, kind)([x], [out], ncoll.ReplicaGroup([list(range(ranks))]), **options)
        return out

    return kernel


def permute(pairs):
    def kernel(x):
        out = nl.zeros(x.shape, x.dtype, buffer=nl.sbuf)
        there = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(there, out)
        ncoll.collective_permute([x], [there], pairs)
        return there

    return kernel


def implicit(ranks):
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        ncoll.collective_permute_implicit([[x]], [[out]], ncoll.ReplicaGroup([list(range(ranks))]))
        return out

    return kernel


def implicit_reduce(ranks):
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        ncoll.collective_permute_implicit_reduce([[x]], [[x]], [[out]], ncoll.ReplicaGroup([list(range(ranks))]), nl.add)
        return out

    return kernel


def variable(kind, ranks):
    """Rank r sends r + 1 elements to each."""

    def kernel(x):
        table = nl.ndarray((3, ranks), np.uint32, buffer=nl.shared_hbm)
        rows = nl.ndarray((1, 3 * ranks), np.uint32, buffer=nl.sbuf)
        nisa.memset(rows, 0)
        nisa.memset(rows[:, 0:ranks], ncoll.rank_id() + 1)
        nisa.dma_copy(table.reshape((1, 3 * ranks)), rows)
        out = nl.ndarray((ranks, 8), x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, nl.zeros((ranks, 8), x.dtype, buffer=nl.sbuf))
        getattr(ncoll, kind)([x], [out], ncoll.ReplicaGroup([list(range(ranks))]), table)
        return out

    return kernel


def chunks(arrays):
    """What everyone has of `variable`."""
    out = np.zeros((len(arrays), 8), np.float32)
    for rank, array in enumerate(arrays):
        out[rank, : rank + 1] = array.reshape(-1)[: rank + 1]
    return [out] * len(arrays)


def swap(x):
    out = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
    core = nl.program_id(0)
    mine, other = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf), nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(mine, x)
    nisa.tensor_scalar(mine, mine, nl.add, float(core))
    nisa.sendrecv(mine, other, 1 - core, 1 - core, 0)
    nisa.dma_copy(out[core], other)
    return out


def barrier(x):
    out = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
    box = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
    core = nl.program_id(0)
    mine, other = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf), nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(mine, x)
    nisa.tensor_scalar(mine, mine, nl.add, float(core))
    nisa.dma_copy(box[core], mine)
    nisa.core_barrier(box, (0, 1))
    nisa.dma_copy(other, box[1 - core])
    nisa.dma_copy(out[core], other)
    return out


def rows_of(arrays, rank):
    part = SHAPE[0] // len(arrays)
    return slice(rank * part, rank * part + part)


#: Name, kernel of so many ranks, their number, cores of each, and what each rank has.
CASES = [
    ("sendrecv", lambda n: swap, 1, 2, lambda xs: [np.stack([xs[0] + 1, xs[0]])]),
    ("core_barrier", lambda n: barrier, 1, 2, lambda xs: [np.stack([xs[0] + 1, xs[0]])]),
    ("collective_permute to a neighbour", lambda n: permute([(0, 1)]), 8, 1, lambda xs: [xs[0] if at == 1 else 0 * xs[0] for at in range(8)]),
    ("collective_permute of pairs", lambda n: permute([(at, at ^ 1) for at in range(8)]), 8, 1, lambda xs: [xs[at ^ 1] for at in range(8)]),
    ("collective_permute far away", lambda n: permute([(0, 20)]), 32, 1, lambda xs: [xs[0] if at == 20 else 0 * xs[0] for at in range(32)]),
    ("collective_permute_implicit", implicit, 4, 1, lambda xs: [xs[at - 1] for at in range(4)]),
    ("collective_permute_implicit_reduce", implicit_reduce, 4, 1, lambda xs: [2 * xs[at - 1] for at in range(4)]),
    ("all_gather_v", lambda n: variable("all_gather_v", n), 4, 1, chunks),
    ("all_to_all_v", lambda n: variable("all_to_all_v", n), 4, 1, chunks),
]
for _count in (2, 8, 32):
    CASES += [
        ("all_reduce", lambda n: simple("all_reduce", SHAPE, n, op=nl.add), _count, 1, lambda xs: [np.sum(xs, axis=0)] * len(xs)),
        ("all_gather", lambda n: simple("all_gather", (32 * n, 256), n, collective_dim=0), _count, 1, lambda xs: [np.concatenate(xs)] * len(xs)),
        ("reduce_scatter", lambda n: simple("reduce_scatter", (32 // n, 256), n, collective_dim=0, op=nl.add), _count, 1, lambda xs: [np.sum(xs, axis=0)[rows_of(xs, at)] for at in range(len(xs))]),
        ("all_to_all", lambda n: simple("all_to_all", SHAPE, n, collective_dim=0), _count, 1, lambda xs: [np.concatenate([x[rows_of(xs, at)] for x in xs]) for at in range(len(xs))]),
    ]


def execute(case, chip):
    name, kernel, ranks, cores, _ = case
    return run_ranks(kernel(ranks), [{"x": x} for x in given(ranks)], chip=chip, grid=None if cores == 1 else cores)


@pytest.mark.parametrize("case", CASES, ids=[f"{case[0]}, {case[2]} ranks" for case in CASES])
def test_values(case):
    wanted = case[4](given(case[2]))
    for result, one in zip(execute(case, "trainium2"), wanted, strict=True):
        assert np.allclose(result.outputs, one, atol=1e-5)


def test_costs():
    lines = []
    for case in CASES:
        lines.append(f"{case[0]}, {case[2]} ranks of {case[3]} cores")
        for chip in CHIPS:
            try:
                results = execute(case, chip)
            except Refused as refused:
                lines.append(f"  {chip} {refused.code}")
                continue
            for rank in sorted({0, len(results) - 1}):
                for opcode, engine, core, start, end, done in results[rank].spans:
                    place = f"{chip} {results[rank].instance} rank {rank} core {core}"
                    lines.append(f"  {place} {opcode} on {engine}: {start:.3f} to {end:.3f} ns, result at {done:.3f} ns")
    text = "\n".join(lines) + "\n"
    if os.environ.get("BLESS", "0") not in ("", "0"):
        GOLDEN.write_text(text)
    assert GOLDEN.read_text() == text, f"to accept: BLESS=1 pytest {pathlib.Path(__file__).name}"


def test_a_collective_begins_when_the_last_rank_comes_and_ends_for_all():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile, here = nl.load(x), nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
        for _ in range(50 if ncoll.rank_id() == 0 else 1):
            nisa.activation(tile, nl.exp, tile)
        nisa.dma_copy(here, tile)
        ncoll.all_reduce([here], [out], ncoll.ReplicaGroup([[0, 1]]), op=nl.add)
        return out

    late, early = run_ranks(kernel, [{"x": np.zeros((128, 64), np.float32)}] * 2, chip="trainium2")
    of = [[span for span in result.spans if span[0] == "all_reduce"][0] for result in (late, early)]
    assert of[0][3:] == of[1][3:] and late.time == early.time
    busy = sum(span[4] - span[3] for span in late.spans if span[0] == "activation")
    assert of[0][3] >= busy > 1000
    assert early.idle["dma"]["stalled on other ranks"] > 0 and "stalled on other ranks" not in late.idle["dma"]


def times(instance, ranks, columns=64):
    kernel = simple("all_reduce", (128, columns), ranks, op=nl.add)
    results = run_ranks(kernel, [{"x": np.ones((128, columns), np.float32)}] * ranks, instance=instance)
    assert {result.instance for result in results} == {instance}
    return results[0].time


def test_more_devices_take_longer():
    found = [times("trn1.32xlarge", ranks) for ranks in (2, 4, 16, 32)]
    assert found == sorted(found) and len(set(found)) == 4


def test_the_instance_says_the_chip_and_the_smallest_is_taken():
    kernel = simple("all_reduce", SHAPE, 2, op=nl.add)
    arguments = [{"x": x} for x in given(2)]
    ring = run_ranks(kernel, arguments, instance="inf2.48xlarge")
    assert (ring[0].chip, ring[0].instance) == ("inferentia2", "inf2.48xlarge")
    assert run_ranks(kernel, arguments, chip="trainium1")[0].instance == "trn1.2xlarge"


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({"instance": "trn1.2xlarge"}, "3 ranks of 1 cores on trn1.2xlarge"),
        ({"instance": "trn1.9xlarge", "chip": "trainium1"}, "an instance called trn1.9xlarge"),
        ({"instance": "trn1.2xlarge", "chip": "trainium2"}, "trn1.2xlarge, which has trainium1 devices, with trainium2"),
    ],
)
def test_what_no_instance_has_is_refused(options, asked):
    kernel = simple("all_reduce", SHAPE, 3, op=nl.add)
    with pytest.raises(Refused) as caught:
        run_ranks(kernel, [{"x": x} for x in given(3)], **options)
    assert caught.value.code == "neuron/instance" and caught.value.asked == asked
    assert caught.value.allowed and caught.value.instead


SCRIPT = """
import nki.collectives as ncoll
import nki.language as nl
import numpy as np
import tilewright.nki

def total(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ncoll.all_reduce([x], [out], ncoll.ReplicaGroup([[0, 1]]), op=nl.add)
    return out

tilewright.nki.run_ranks(total, [{"x": np.ones((4, 8), np.float32)}] * 2)
"""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--instance", "inf2.48xlarge"], 0, "total on inferentia2: "),
        (["--instance", "trn1.32xlarge", "--chip", "trainium2"], 1, "which has trainium1 devices, with trainium2"),
        (["--instance"], 2, "--instance needs a value"),
        (["--instance", "trn9.xlarge"], 2, ": no such instance; machines/instances.toml lists them, as trn1.32xlarge"),
    ],
)
def test_the_command_takes_an_instance(tmp_path, arguments, code, said):
    (tmp_path / "ranks.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "tilewright.nki", "ranks.py", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == code and said in done.stdout + done.stderr, done


def test_the_critical_path_goes_on_behind_a_meeting_of_two_cores():
    def kernel(x):
        me, half = nl.program_id(0), x.shape[1] // 2
        mine, other = (nl.ndarray((128, half), x.dtype, buffer=nl.sbuf) for _ in range(2))
        nisa.dma_copy(mine, x[:, nl.ds(me * half, half)])
        for _ in range(1 + 20 * me):
            nisa.activation(mine, nl.tanh, mine)
        nisa.sendrecv(mine, other, 1 - me, 1 - me, 0)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out[:, nl.ds(me * half, half)], other)
        return out

    result = run(kernel, np.ones((128, 2048), np.float32), chip="trainium2", grid=2, dialect="new")
    path = result.critical_path
    assert sum(share["time_s"] for share in path) == pytest.approx(result.time, rel=0.1)
    assert path[0]["engine"] == "scalar" and path[0]["instructions"] >= 20
    assert result.timing["cores"] == 2 and result.engines["scalar"]["busy_s"] > 0.4 * result.time
    share = result.engines["scalar"]["busy_s"] / result.time / 2
    assert f" {share:.1%}" in next(line for line in result.summary().splitlines() if line.startswith("  scalar"))


def test_cores_given_to_the_kernel_or_to_its_simulation():
    import nki
    import nki.isa as isa
    import nki.language as language

    @nki.jit
    def kernel(x):
        out = language.ndarray((2, 128, 8), x.dtype, buffer=language.shared_hbm)
        core = language.program_id(0)
        tile = language.ndarray((128, 8), x.dtype)
        isa.dma_copy(tile, x)
        isa.tensor_scalar(tile, tile, language.add, float(core))
        isa.dma_copy(out[core], tile)
        return out

    x = np.ones((128, 8), np.float32)
    first, second = nki.simulate(kernel)[2](x), nki.simulate(kernel[2])(x)
    assert np.array_equal(first, second) and first[1, 0, 0] == 2
    assert nki.simulate(kernel).__name__ == "kernel"
