"""Rules of transfers, launches, selections and places: each broken by a kernel, with a legal twin beside it."""

import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as old_isa
import neuronxcc.nki.language as old_nl
import nki.collectives as ncoll
import nki.isa as isa
import nki.language as nl
import numpy as np
import pytest
from tilewright.nki import Kernel, Refused, run, run_ranks

V2, V3, V4 = "trainium1", "trainium2", "trainium3"
SQUARE = np.ones((128, 128), np.float32)


def tile(*shape, dtype=nl.float32, buffer=nl.sbuf, **options):
    made = nl.ndarray(shape, dtype, buffer=buffer, **options)
    isa.memset(made, 0)
    return made


def selected(dtype=nl.float32, op=nl.maximum):
    out, on_true, pick = tile(8, 8, dtype=dtype), tile(8, 8, dtype=dtype), tile(8, 8, dtype=nl.uint8)
    isa.select_reduce(out, pick, on_true, -1.0, tile(8, 1), isa.reduce_cmd.reset_reduce, op)


def ranged(op=nl.maximum):
    low, high = tile(8, 1), tile(8, 1)
    isa.range_select(tile(8, 8), tile(8, 8), nl.greater_equal, nl.less, low, high, reduce_res=tile(8, 1), reduce_op=op)


def predicated(source=nl.sbuf, predicate=nl.sbuf):
    isa.tensor_copy_predicated(tile(8, 8), tile(8, 8, buffer=source), tile(8, 8, dtype=nl.uint8, buffer=predicate))


def summed(count=2, op=nl.add, scales=None):
    isa.dma_compute(tile(8, 8), [tile(8, 8) for _ in range(count)], op, scales=scales)


def chosen(dtype=nl.float32, predicate=nl.uint8):
    isa.tensor_copy_predicated(tile(8, 8), tile(8, 8, dtype=dtype), tile(8, 8, dtype=predicate))


def copied(mode=None, priority=None, buffer=nl.sbuf, engine=None):
    isa.dma_copy(tile(8, 8), tile(8, 8, buffer=buffer), dge_mode=mode, priority=priority, engine=engine)


def gathered(mode):
    table = nl.ndarray((64, 8), nl.float32, buffer=nl.shared_hbm)
    isa.dma_copy(table, tile(64, 8))
    isa.dma_copy(tile(8, 8), table.ap([[8, 8], [1, 8]], vector_offset=tile(8, 1, dtype=nl.int32)), dge_mode=mode)


def scaled(op, operand):
    isa.tensor_scalar(tile(8, 8), tile(8, 8), op, operand)


def found(dtype):
    isa.nc_find_index8(tile(8, 8, dtype=dtype), tile(8, 16), tile(8, 8))


#: Chip, what is refused, its code, a part of what is said, and what is legal instead.
CASES = {
    "a selection of 32-bit integers": (V2, lambda: selected(nl.int32), "neuron/dtype", "on_true of i32", lambda: selected(nl.int16)),
    "a selection that adds": (V2, lambda: selected(op=nl.add), "neuron/operator", "select_reduce with reduce_op add", lambda: selected(op=np.amax)),
    "a range that adds": (V3, lambda: ranged(nl.add), "neuron/operator", "range_select with reduce_op add", ranged),
    "two inputs of a predicated copy in PSUM": (
        V2,
        lambda: predicated(nl.psum, nl.psum),
        "neuron/memory",
        "both inputs in PSUM",
        lambda: predicated(nl.psum),
    ),
    "an addition of nothing": (V2, lambda: scaled(nl.add, None), "neuron/operator", "add without its operand", lambda: scaled(nl.abs, None)),
    "indices as floats": (V2, lambda: found(nl.float32), "neuron/dtype", "indices as f32", lambda: found(nl.uint16)),
    "a sum of 17 tensors": (V2, lambda: summed(17), "neuron/shape", "17 sources", lambda: summed(16)),
    "a maximum on the way": (V2, lambda: summed(op=nl.maximum), "neuron/operator", "dma_compute with max", summed),
    "a scaled sum on the way": (V2, lambda: summed(scales=[1.0, 2.0]), "neuron/operator", "scales [1.0, 2.0]", lambda: summed(scales=(1.0, 1.0))),
    "hardware descriptors of the first generation": (
        V2,
        lambda: copied(isa.dge_mode.hwdge),
        "neuron/generation",
        "dma_copy with dge_mode hwdge",
        lambda: copied(isa.dge_mode.swdge),
    ),
    "descriptors from nowhere": (V3, lambda: copied("zzz"), "neuron/operator", "a dge_mode called zzz", lambda: copied(isa.dge_mode.hwdge)),
    "hardware descriptors for GpSimd": (
        V3,
        lambda: copied(isa.dge_mode.hwdge, engine=isa.engine.gpsimd),
        "neuron/engine",
        "descriptors by hardware for the gpsimd engine",
        lambda: copied(isa.dge_mode.hwdge, engine=isa.engine.scalar),
    ),
    "stored descriptors of rows that a tile picks": (
        V2,
        lambda: gathered(isa.dge_mode.none),
        "neuron/operator",
        "dge_mode none of rows that a tile picks",
        lambda: gathered(isa.dge_mode.swdge),
    ),
    "hardware descriptors of rows that a tile picks": (
        V3,
        lambda: gathered(isa.dge_mode.hwdge),
        "neuron/operator",
        "dge_mode hwdge of rows that a tile picks",
        lambda: gathered(isa.dge_mode.unknown),
    ),
    "a predicate of floats": (V2, lambda: chosen(predicate=nl.float32), "neuron/dtype", "a predicate of f32", lambda: chosen(predicate=nl.uint32)),
    "a predicated copy between types": (V2, lambda: chosen(nl.bfloat16), "neuron/dtype", "from bf16 to f32", chosen),
    "a priority before there were any": (V3, lambda: copied(priority=1), "neuron/generation", "with a priority", copied),
    "a fifth class of service": (V4, lambda: copied(priority=4), "neuron/operator", "priority 4", lambda: copied(priority=3)),
    "a transfer from PSUM": (V3, lambda: copied(buffer=nl.psum), "neuron/memory", "dma_copy of a tile in PSUM", copied),
}


@pytest.mark.parametrize("name", CASES)
def test_refused_beside_its_legal_twin(name):
    chip, call, code, said, legal = CASES[name]
    with pytest.raises(Refused) as caught:
        run(lambda: call() and None, chip=chip, dialect="new")
    error = caught.value
    assert (error.code, said in error.asked) == (code, True), error
    assert error.allowed and error.instead and __file__ in error.line
    assert str(error).startswith(f"error[{code}] {error.line}\n  asked:   {error.asked}\n  allowed: ")
    run(lambda: legal() and None, chip=chip, dialect="new")


def test_who_makes_descriptors_changes_the_time():
    def kernel(x, mode, engine):
        for row in range(16):
            piece = nl.ndarray((128, 128), nl.float32)
            isa.dma_copy(piece, x, dge_mode=mode, engine=engine)

    def timed(mode, engine=isa.engine.unknown):
        result = run(kernel, SQUARE, mode, engine, chip=V3, dialect="new")
        makers = {engine for opcode, engine, *_ in result.instructions if opcode == "dma_descriptors"}
        return result.time, makers

    stored, software = timed(isa.dge_mode.none), timed(isa.dge_mode.swdge)
    sync, scalar = timed(isa.dge_mode.hwdge), timed(isa.dge_mode.hwdge, isa.engine.scalar)
    assert timed(isa.dge_mode.unknown) == stored
    assert [makers for _, makers in (stored, software, sync, scalar)] == [set(), {"gpsimd"}, {"sync"}, {"scalar"}]
    # Stored descriptors are the quickest; those of Scalar cost next to nothing; 16 of Sync take 600 ns each.
    assert stored[0] < scalar[0] < sync[0] and stored[0] < software[0]
    assert sync[0] >= 16 * 0.6e-6


def test_the_engine_of_an_exchange_changes_the_time():
    def swap(engine):
        mine, theirs = tile(128, 128), tile(128, 128)
        other = 1 - nl.program_id(0)
        isa.sendrecv(mine, theirs, other, other, 0, engine)
        return None

    by = {engine: Kernel(lambda e=engine: swap(e), "new")[2].run((), {}, chip=V3) for engine in isa.dma_engine}
    moved = {name: [engine for opcode, engine, *_ in result.instructions if opcode in ("sendrecv", "dma_copy")] for name, result in by.items()}
    assert moved == {isa.dma_engine.dma: ["dma"] * 2, isa.dma_engine.gpsimd_dma: ["gpsimd"] * 2}
    assert by[isa.dma_engine.gpsimd_dma].time < by[isa.dma_engine.dma].time


def test_modes_by_number_in_the_first_dialect():
    def kernel(x, mode):
        out = old_nl.ndarray(x.shape, x.dtype, buffer=old_nl.shared_hbm)
        old_isa.dma_copy(dst=out, src=x, dge_mode=mode)
        return out

    for mode in (0, 3, old_isa.dge_mode.swdge):
        run(kernel, SQUARE, mode, chip=V2)
    with pytest.raises(Refused, match="dma_copy with dge_mode hwdge on trainium1"):
        run(kernel, SQUARE, 2, chip=V2)


def test_launches_of_the_second_dialect():
    made = Kernel(lambda x: x, "new")
    with pytest.raises(Refused) as caught:
        made[3].run((SQUARE,), {}, V3)
    assert caught.value.code == "neuron/launch" and "3 cores" in caught.value.asked
    with pytest.raises(Refused) as caught:
        made[2].run((SQUARE,), {}, V2)
    assert caught.value.code == "neuron/generation"
    for grid, chip in ((1, V2), (1, V3), (2, V3), (2, V4)):
        made[grid].run((SQUARE,), {}, chip)
    Kernel(lambda x: x, "old")[3].run((SQUARE,), {}, V2)


@pytest.mark.parametrize(("columns", "engine", "legal"), [(256, "gpsimd_dma", True), (512, "gpsimd_dma", False), (512, "dma", True)])
def test_exchanges_of_the_gpsimd_dma(columns, engine, legal):
    def kernel(x):
        other = 1 - nl.program_id(0)
        isa.sendrecv(tile(128, columns), tile(128, columns), other, other, 0, isa.dma_engine[engine])
        return x

    call = lambda: Kernel(kernel, "new")[2].run((SQUARE,), {}, V3)
    if legal:
        call()
    else:
        with pytest.raises(Refused, match="sendrecv on gpsimd_dma of 512 elements"):
            call()


@pytest.mark.parametrize("memory", ["shared_hbm", "sbuf"])
def test_parts_for_all_ranks_are_in_hbm(memory):
    def kernel(x):
        src, out = tile(4, 8, buffer=nl.sbuf), nl.ndarray((4, 8), x.dtype, buffer=getattr(nl, memory))
        ncoll.all_to_all(srcs=[src if memory == "sbuf" else x], dsts=[out], replica_group=ncoll.ReplicaGroup([[0, 1]]), collective_dim=1)
        return x

    call = lambda: run_ranks(kernel, [{"x": np.ones((4, 8), np.float32)} for _ in range(2)], chip=V3)
    if memory == "shared_hbm":
        call()
    else:
        with pytest.raises(Refused, match="all_to_all with tensors in SBUF"):
            call()


def placed(shape, address, buffer=nl.sbuf):
    def kernel(x):
        made = nl.ndarray(shape, nl.float32, buffer=buffer, name="here", address=address)
        isa.memset(made, 0)
        return x

    return kernel


KIB = 1024
#: Chip, shape, address, memory, and what is said; None if there is such a place.
PLACES = {
    "beyond SBUF": (V2, (128, 4), (0, 200 * KIB), nl.sbuf, "bytes 204800 to 204816 of each sbuf partition"),
    "the last bytes of SBUF": (V2, (128, 4), (0, 176 * KIB - 16), nl.sbuf, None),
    "far beyond SBUF": (V3, (128, 4), (0, 2**30), nl.sbuf, "bytes 1073741824 to"),
    "beyond the partitions": (V3, (4, 4), (200, 0), nl.sbuf, "partitions 200 to 204 of sbuf"),
    "half beyond the partitions": (V3, (128, 4), (64, 0), nl.sbuf, "partitions 64 to 192 of sbuf"),
    "the last partitions": (V3, (64, 4), (64, 0), nl.sbuf, None),
    "beyond PSUM": (V3, (128, 4), (0, 20 * KIB), nl.psum, "bytes 20480 to 20496 of each psum partition"),
    "the last bytes of PSUM": (V3, (128, 4), (0, 16 * KIB - 16), nl.psum, None),
}


@pytest.mark.parametrize("name", PLACES)
def test_places_outside_a_memory(name):
    chip, shape, address, memory, said = PLACES[name]
    found = [one for one in run(placed(shape, address, memory), SQUARE, chip=chip, dialect="new").findings if one["code"] == "neuron/address"]
    if said is None:
        assert not found
        return
    (finding,) = found
    assert finding["severity"] == "error" and said in finding["message"] and "`here`" in finding["message"], finding
    assert __file__ in finding["line"] and finding["allowed"] and finding["instead"]


@pytest.mark.parametrize(("byte", "crosses"), [(2040, True), (0, False), (1792, False), (2048, False)])
def test_products_across_banks(byte, crosses):
    def kernel(x):
        left = tile(128, 64)
        made = nl.ndarray((64, 64), nl.float32, buffer=nl.psum, name="product", address=(0, byte))
        isa.nc_matmul(made, left, left)
        return x

    findings = run(kernel, SQUARE, chip=V3, dialect="new").findings
    assert [one["code"] for one in findings] == ["neuron/address"] * crosses
    assert not crosses or "nc_matmul writes `product` at bytes 2040 to 2296" in findings[0]["message"]


@pytest.mark.parametrize(("column", "crosses"), [(256, True), (0, False), (512, False), (448, False), (449, True)])
def test_products_across_banks_of_a_tile_that_is_left_to_be_placed(column, crosses):
    def kernel(x):
        left, right = tile(128, 64), tile(128, 64 if column > 400 else 512)
        made = nl.ndarray((64, 1024), nl.float32, buffer=nl.psum, name="wide")
        isa.nc_matmul(made[:, column : column + right.shape[1]], left, right)
        return x

    findings = run(kernel, SQUARE, chip=V3, dialect="new").findings
    assert [one["code"] for one in findings] == ["neuron/address"] * crosses
    if crosses:
        (finding,) = findings
        assert f"nc_matmul writes `wide` at bytes {column * 4} to" in finding["message"] and "of each partition of its tile" in finding["message"]
        assert "banks of 2048 bytes" in finding["allowed"] and "where a bank begins" in finding["instead"] and __file__ in finding["line"]


def test_a_base_outside_a_memory_in_the_first_dialect():
    def kernel(x):
        out = old_nl.ndarray(x.shape, x.dtype, buffer=old_nl.shared_hbm)
        made = old_nl.ndarray((old_nl.par_dim(128), 128), old_nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=300 * KIB))
        made[...] = old_nl.load(x)
        old_nl.store(out, made)
        return out

    assert [one["code"] for one in run(kernel, SQUARE).findings] == ["neuron/address"]


@pytest.mark.parametrize(
    ("dialect", "memory", "severity"),
    [("new", "shared_hbm", None), ("new", "hbm", "warning"), ("new", "sbuf", "error"), ("old", "hbm", None), ("old", "sbuf", "error")],
)
def test_where_outputs_lie(dialect, memory, severity):
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=getattr(nl, memory), name="out")
        isa.dma_copy(out, x)
        return {"first": (out,)}

    findings = run(kernel, SQUARE, chip=V3, dialect=dialect).findings
    assert [(one["code"], one["severity"]) for one in findings] == ([("neuron/output", severity)] if severity else [])


@pytest.mark.parametrize(("chip", "found"), [(V2, ["neuron/accumulate"]), (V3, ["neuron/accumulate"]), (V4, [])])
def test_products_added_to_what_another_engine_wrote(chip, found):
    def kernel(x, first):
        left, total = tile(128, 64), nl.ndarray((64, 64), nl.float32, buffer=nl.psum)
        if first:
            isa.nc_matmul(total, left, left, accumulate=False)
        else:
            isa.memset(total, 0)
        isa.nc_matmul(total, left, left, accumulate=True)
        isa.nc_matmul(total, left, left, accumulate=True)
        return x

    codes = lambda first: [one["code"] for one in run(kernel, SQUARE, first, chip=chip, dialect="new").findings]
    assert codes(False) == found and codes(True) == []


def test_sums_that_begin_with_zeros_in_the_first_dialect():
    def kernel(x):
        out = old_nl.ndarray(x.shape, x.dtype, buffer=old_nl.shared_hbm)
        total = old_nl.zeros((old_nl.par_dim(128), 128), old_nl.float32, buffer=old_nl.psum)
        for _ in old_nl.affine_range(3):
            total += old_nl.matmul(old_nl.load(x), old_nl.load(x), transpose_x=True)
        old_nl.store(out, old_nl.copy(total))
        return out

    assert run(kernel, SQUARE).findings == []


@pytest.mark.parametrize("spelling", ["tile first", "index first", "slice"])
def test_a_copy_from_a_place_of_a_tile_is_one_instruction(spelling):
    def kernel(x, at):
        out = old_nl.ndarray((128, 32), x.dtype, buffer=old_nl.shared_hbm)
        rows, columns = old_nl.arange(128)[:, None], old_nl.arange(32)[None, :]
        data, place = old_nl.load(x), old_nl.load(at)
        where = {"tile first": lambda: place[0, 0] + columns, "index first": lambda: columns + place[0, 0]}
        view = data[:, old_nl.ds(place, 32)] if spelling == "slice" else data[rows, where[spelling]()]
        old_nl.store(out, old_isa.tensor_copy_dynamic_src(view))
        return out

    values = np.arange(128 * 128, dtype=np.float32).reshape(128, 128)
    result = run(kernel, values, np.array([[17]], np.int32), chip=V2)
    assert np.array_equal(result.outputs, values[:, 17:49])
    assert [opcode for opcode, engine, *_ in result.instructions if engine != "dma"] == ["tensor_copy_dynamic_src"]
    with pytest.raises(IndexError, match="out of bounds"):
        run(kernel, values, np.array([[100]], np.int32), chip=V2)
