"""Mistakes that are no rule of the hardware: each is told in words, as an exception of the usual type."""

import pathlib
import subprocess
import sys

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import nki.collectives as ncoll
import nki.isa as new_isa
import nki.language as new_nl
import numpy as np
import pytest
from tilewright.nki import Kernel, _core, mx, published, run, run_ranks
from tilewright.nki.kernel import ShapeOnly

SQUARE = np.ones((128, 128), np.float32)


def tile(*shape, dtype=new_nl.float32, buffer=new_nl.sbuf):
    made = new_nl.ndarray(shape, dtype, buffer=buffer)
    new_isa.memset(made, 0)
    return made


def masked(shape):
    """A store with a mask of another shape."""
    x = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.hbm)
    rows = nl.arange(shape[0])[:, None, None] if len(shape) == 3 else nl.arange(shape[0])[:, None]
    nl.store(x, nl.zeros((8, 8), nl.float32), mask=rows < 2)


#: A call inside a kernel, the exception, and its words.
FIRST = {
    "a number as an operator": (lambda x: nisa.tensor_tensor(nl.load(x), nl.load(x), op=3), TypeError, "is not an operator"),
    "a sum of two numbers": (lambda x: nl.add(1, 2), TypeError, "of two numbers inside a kernel"),
    "an axis that is not there": (lambda x: nl.sum(nl.load(x), axis=5), ValueError, "of a tile of"),
    "a sum over partitions": (
        lambda x: nl.sum(nl.load(x), axis=0),
        ValueError,
        "the partition dimension cannot be reduced on the Vector engine: use nc_matmul or tensor_partition_reduce",
    ),
    "an operator of a user": (
        lambda x: nisa.builtin_custom_op("f", [], [nl.load(x)]),
        NotImplementedError,
        "): user operators cannot be run here",
    ),
    "a type that nobody has": (
        lambda x: nl.ndarray((4, 4), dtype="float7"),
        TypeError,
        "no element type of the device is called",
    ),
    "a memory that nobody has": (lambda x: nl.ndarray((4, 4), dtype=nl.float32, buffer="cache"), ValueError, "no memory is called"),
    "a huge computed index": (
        lambda x: nl.arange(1 << 16)[:, None] * nl.arange(1 << 16)[None, :],
        ValueError,
        "an index expression of shape",
    ),
    "an index by zero": (lambda x: nl.arange(8) // 0, ZeroDivisionError, "index expression divided by zero"),
    "an index expression with an index": (lambda x: nl.arange(8)[3], TypeError, "index expressions take slices, None and ... only"),
    "an index expression with two indices": (lambda x: nl.arange(8)[:, :], ValueError, "too many indices for an index expression"),
    "part of a computed index expression": (
        lambda x: (nl.arange(8) * nl.arange(8))[0:4],
        ValueError,
        "a computed index expression cannot be sliced",
    ),
    "an arange without a step": (lambda x: nl.arange(0, 8, 0), ValueError, "arange with step 0"),
    "index expressions that do not fit": (lambda x: nl.arange(8) + nl.arange(9), ValueError, "index expressions of shapes"),
    "too many indices": (lambda x: x[0, 0, 0], IndexError, "indices for a tensor of"),
    "an index of no kind": (lambda x: x["rows"], TypeError, "a tensor cannot be indexed with"),
    "a slice backwards": (lambda x: x[::-1], IndexError, "; steps are 1 or more"),
    "a mask of another size": (lambda x: masked((5, 1)), ValueError, "for a tile of shape"),
    "a mask of more dimensions": (lambda x: masked((8, 1, 1)), ValueError, "for a tile of shape"),
    "a loop over a tensor": (lambda x: list(x), TypeError, "a tensor is not iterable: index it"),
    "many numbers as one": (lambda x: x.item(), ValueError, "a tensor of shape"),
    "the truth of half a mask": (
        lambda x: bool(nl.arange(8) < 4),
        TypeError,
        "a mask has no single truth value: join masks with & and |",
    ),
}
SECOND = {
    "half a part of the array": (
        lambda x: new_isa.nc_matmul(tile(8, 8, buffer=new_nl.psum), tile(8, 8), tile(8, 8), tile_position=(0, 0)),
        ValueError,
        "tile_position and tile_size go together",
    ),
    "an operator as a function": (
        lambda x: new_nl.prelu(tile(8, 8)),
        TypeError,
        "nl.prelu is an operator, not a function; write nisa.activate2(dst, nl.prelu, data, ..., relu_param=slope)",
    ),
    "an exchange of one core": (
        lambda x: new_isa.sendrecv(tile(8, 8), tile(8, 8), 1, 1, 0),
        RuntimeError,
        "sendrecv needs a launch on two cores: kernel[2](...)",
    ),
    "a dimension that is not there": (lambda x: x.expand_dim(9), ValueError, "of a tensor of"),
    "many integers as one": (lambda x: x.ap([[1, 4]], offset=x), ValueError, "is not one number"),
    "too small a buffer": (lambda x: x.read_into(np.zeros(3, np.uint8)), BufferError, "a buffer of"),
    "a type without a number": (lambda x: x.reinterpreted(1000), ValueError, "no element type has number"),
    "a group without this rank": (
        lambda x: ncoll.all_reduce(srcs=[x], dsts=[x], replica_group=ncoll.ReplicaGroup([[1, 2]]), op=new_nl.add),
        ValueError,
        "is in none of the groups",
    ),
    "a rank twice": (
        lambda x: ncoll.all_reduce(srcs=[x], dsts=[x], replica_group=ncoll.ReplicaGroup([[0], [1, 1]]), op=new_nl.add),
        ValueError,
        "have a rank twice: each rank is in one group, once",
    ),
    "a group of ranks that do not run": (
        lambda x: ncoll.all_reduce(srcs=[x], dsts=[x], replica_group=ncoll.ReplicaGroup([[0, 7]]), op=new_nl.add),
        ValueError,
        "ranks with tilewright.nki.run_ranks(kernel, [arguments of each rank])",
    ),
}


def fails(call, kind, words):
    with pytest.raises(kind) as caught:
        call()
    assert words in str(caught.value)


@pytest.mark.parametrize("name", FIRST)
def test_in_a_kernel_of_the_first_dialect(name):
    call, kind, words = FIRST[name]
    fails(lambda: run(lambda x: call(x) and None, SQUARE, dialect="old"), kind, words)


@pytest.mark.parametrize("name", SECOND)
def test_in_a_kernel_of_the_second_dialect(name):
    call, kind, words = SECOND[name]
    fails(lambda: run(lambda x: call(x) and None, SQUARE, chip="trainium2", dialect="new"), kind, words)


def test_outside_a_kernel():
    words = "works inside a kernel only: call the kernel, or nki.simulate_kernel(kernel, ...); what stands in no function goes into one"
    calls = {
        "ndarray": lambda: nl.ndarray((4, 4), dtype=nl.float32),
        "load": lambda: nl.load(SQUARE),
        "store": lambda: nl.store(SQUARE, SQUARE),
        "exp": lambda: nl.exp(SQUARE),
        "sum": lambda: nl.sum(SQUARE, axis=1),
        "matmul": lambda: nl.matmul(SQUARE, SQUARE),
        "add": lambda: nl.add(SQUARE, SQUARE),
        "load_transpose2d": lambda: nl.load_transpose2d(SQUARE),
        "tensor_scalar": lambda: nisa.tensor_scalar(SQUARE, np.add, 1.0),
        "this": lambda: new_isa.tensor_copy(SQUARE, SQUARE),
    }
    for name, call in calls.items():
        fails(call, RuntimeError, f"{name} {words}")


def test_rows_that_cannot_be_packed():
    fails(lambda: mx.packed(np.zeros((4, 6)), new_nl.float8_e4m3fn_x4), ValueError, "elements cannot be packed by four")


def test_chips_that_are_none():
    fails(lambda: _core.Session("abacus"), ValueError, "no chip is called")
    fails(lambda: _core.Session("tcp"), ValueError, "is no Neuron device")


def test_a_core_that_ends_without_sending():
    def kernel(x):
        if new_nl.program_id(0) == 0:
            new_isa.sendrecv(tile(8, 8), tile(8, 8), 1, 1, 0)
        return x

    fails(lambda: Kernel(kernel, "new")[2].run((SQUARE,), {}, "trainium2"), RuntimeError, "ended without sending")


def test_parts_that_are_not_equal():
    def kernel(x):
        out = new_nl.ndarray((2, 8), x.dtype, buffer=new_nl.shared_hbm)
        ncoll.reduce_scatter(srcs=[x], dsts=[out], replica_group=ncoll.ReplicaGroup([[0, 1]]), op=new_nl.add)
        return out

    arguments = [{"x": np.ones((3, 8), np.float32)} for _ in range(2)]
    fails(lambda: run_ranks(kernel, arguments, chip="trainium2"), ValueError, "equal parts")


def test_a_table_that_is_too_short():
    def kernel(x, counts):
        out = new_nl.ndarray((8, 8), x.dtype, buffer=new_nl.shared_hbm)
        ncoll.all_to_all_v(srcs=[x], dsts=[out], replica_group=ncoll.ReplicaGroup([[0, 1]]), metadata_tensor=counts)
        return out

    arguments = [{"x": np.ones((8, 8), np.float32), "counts": np.ones((1, 1), np.int32)} for _ in range(2)]
    fails(lambda: run_ranks(kernel, arguments, chip="trainium2"), ValueError, "metadata of")


def test_offsets_from_an_empty_tile():
    call = lambda: tile(16, 8).indirect(tile(16, 8, dtype=new_nl.int32)[:, 0:0])
    fails(lambda: run(lambda: call() and None, chip="trainium3", dialect="new"), ValueError, "indirect with a tile of no offsets")


def test_a_run_without_values_has_none():
    made = Kernel(lambda x: x.numpy() and None, "new")
    fails(lambda: made.run((ShapeOnly((8, 8), np.float32),), {}, "trainium2", False), BufferError, "a run without values has no outputs")


def test_a_view_of_unrounded_floats(monkeypatch):
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    made = lambda: run(lambda: tile(8, 8, dtype=new_nl.bfloat16).view(new_nl.int16) and None, chip="trainium2", dialect="new")
    fails(made, ValueError, "while NKI_PRECISE_FP is 0")


def test_types_and_operators_before_the_package_is_imported():
    code = "import importlib.util, sys; spec = importlib.util.spec_from_file_location('_core', sys.argv[1]); core = importlib.util.module_from_spec(spec); spec.loader.exec_module(core); {}"
    session = "session = core.Session('trainium1'); tile = session.alloc([4, 4], 0, 'sbuf'); {}"
    for use, words in (("tile.dtype", "element types are not registered"), ("tile + tile", "tensors have operators inside kernels only")):
        line = [sys.executable, "-c", code.format(session.format(use)), _core.__file__]
        done = subprocess.run(line, capture_output=True, text=True, timeout=120)
        assert words in done.stderr, done.stderr


#: Arguments of `published`, and what it says of them.
USAGE = {
    "no chip": ([], "which chip?"),
    "an unknown option": (["--sort"], "is unknown;"),
    "a group that is not there": (["--chip", "trainium1", "--group", "Z"], "has no such row for"),
    "a folder without kernels": (["--chip", "trainium1", "--group", "D", "--kernels", "nowhere"], "; name the folder with --kernels"),
}
ROW = {"chip": "trainium1", "group": "T", "name": "T.1", "source": "none", "published": 1.0, "unit": "us", "kind": "development"}
HOW = {"kernel": "elementwise.py::silu", "arguments": ["128x128"]}
KERNELS = pathlib.Path(__file__).parents[2] / "kernels" / "nki"


@pytest.mark.parametrize("name", USAGE)
def test_wrong_usage_of_published_rows(name, monkeypatch, capsys):
    arguments, words = USAGE[name]
    monkeypatch.chdir(KERNELS.parents[1])
    monkeypatch.setattr(sys, "argv", ["published", *arguments])
    assert published.main() == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"unit": "fortnights"}, ": no unit is called"),
        ({"how": {**HOW, "kernel": "elementwise.py::nothing"}}, "has no kernel"),
        ({"how": {**HOW, "measure": "first nc_matmul"}}, "the kernel runs no"),
    ],
)
def test_rows_that_cannot_be_compared(change, words):
    with pytest.raises(published.Usage, match=words):
        published.compare({**ROW, "how": HOW, **change}, published.Kernels(str(KERNELS)))


@pytest.mark.parametrize(("kind", "words"), [("", "lacks kind"), ('kind = "guess"', "is of no kind guess; there are calibration, development, held-out")])
def test_rows_of_no_kind(kind, words, tmp_path):
    path = tmp_path / "rows.toml"
    path.write_text(f'[[row]]\nchip = "trainium1"\ngroup = "T"\nname = "T.1"\nsource = "none"\npublished = 1.0\nunit = "us"\n{kind}\nhow = {{}}\n')
    with pytest.raises(published.Usage, match=words):
        published.read_rows(path)
