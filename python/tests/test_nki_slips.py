"""Slips of whoever writes or calls a kernel: sizes that are none, names that nearly exist, values that are no tensors."""

import neuronxcc.nki.language as old_nl
import nki.isa as isa
import nki.language as nl
import numpy as np
import pytest
from tilewright.nki import Kernel, Refused, run

SQUARE = np.ones((128, 128), np.float32)


def tile(*shape, dtype=nl.float32):
    made = nl.ndarray(shape, dtype, buffer=nl.sbuf)
    isa.memset(made, 0)
    return made


#: What is called, its code, and what is said of it.
REFUSED = {
    "a negative size": (lambda x: nl.ndarray((-1, 4), nl.float32), "neuron/shape", "a tensor of shape (-1, 4)"),
    "half an element": (lambda x: nl.ndarray((4.5, 4), nl.float32), "neuron/shape", "a tensor with a size of 4.5"),
    "a negative partition": (lambda x: nl.ndarray((4, 4), nl.float32, address=(-32, 0)), "neuron/bounds", "a tile at partition -32"),
    "a negative byte": (lambda x: nl.ndarray((4, 4), nl.float32, address=(0, -4)), "neuron/bounds", "a tile at byte -4"),
    "a negative offset": (lambda x: x.ap([[1, 4]], offset=-1), "neuron/bounds", "an access pattern from element -1"),
    "a negative count": (lambda x: x.ap([[1, -4]]), "neuron/bounds", "an access pattern with a count of -4"),
    "half a step": (lambda x: x.ap([[1.5, 4]]), "neuron/shape", "a step of 1.5"),
    "a number of NumPy as a tile": (lambda x: isa.tensor_copy(tile(4, 4), np.float32(3)), "neuron/operand", "a float32"),
    "an array as a tile": (
        lambda x: isa.scalar_tensor_tensor(tile(4, 4), tile(4, 4), nl.add, 1.0, nl.add, np.ones((2, 2), np.float32)),
        "neuron/operand",
        "scalar_tensor_tensor: 'ndarray' object is not",
    ),
    "a list as a tile": (lambda x: nl.exp([1.0, 2.0]), "neuron/operand", "unary of [1.0, 2.0], a list"),
    "nothing as a tile": (lambda x: nl.load(None), "neuron/operand", "load of None, a NoneType"),
    "no register": (lambda x: isa.register_load(tile(1, 1), tile(1, 1)), "neuron/operand", "register_load of"),
    "no register to move to": (lambda x: isa.register_move(3, 4), "neuron/operand", "register_move of 3, a int,"),
    "a word in a register": (lambda x: isa.register_alloc("4"), "neuron/operand", "a move of '4', a str, into a register"),
    "half of one in a register": (lambda x: isa.register_alloc(1.5), "neuron/operand", "a move of a register with 1.5"),
    "negative start": (lambda x: x.slice(1, -4, 4), "neuron/bounds", "a slice from element -4"),
    "many elements squeezed": (lambda x: x.squeeze_dim(0), "neuron/shape", "dimension 0 squeezed, which has 128 elements"),
    "a dimension selected": (lambda x: x.select(5, 0), "neuron/shape", "select of dimension 5 of a tensor of shape (128, 128)"),
    "a dimension split": (lambda x: x.reshape_dim(-3, (2, -1)), "neuron/shape", "reshape_dim of dimension -3"),
    "a dimension merged": (lambda x: x.flatten_dims(0, 2), "neuron/shape", "flatten_dims of dimension 2"),
    "order of dimensions": (lambda x: x.flatten_dims(1, 0), "neuron/shape", "flatten_dims from dimension 1 to 0"),
    "sizes of a split": (lambda x: x.reshape_dim(1, (0, -1)), "neuron/shape", "reshaped to [128, 0, 0]"),
}


#: What is told to do instead, by what is wrong.
INSTEAD = {
    "an array": "check its arguments in this line",
    "half of one": "round the number first",
    "half": "round with // or int() where it is computed",
    "negative size": "check what the sizes are computed from",
    "negative": "check what it is computed from",
    "no register": "make one with nisa.register_alloc() and hand it over as dst",
    "a word in": "compute the number first",
    "squeezed": "take one of its elements with an index",
    "a dimension": "count from 0, or from the last with -1",
    "order": "swap the two",
    "sizes of": "check the sizes",
    "tile": "pass arrays as arguments of the kernel",
}


#: What is allowed, where it is said of nothing else.
ALLOWED = {
    "order of dimensions": "a first dimension that is not behind the last",
    "a word in a register": "whole numbers, other registers and tiles of one element",
    "half of one in a register": "whole numbers and other registers: a register holds an integer",
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_code_and_a_line(name):
    call, code, said = REFUSED[name]
    with pytest.raises(Refused) as caught:
        run(lambda x: call(x) and None, SQUARE, chip="trainium2", dialect="new")
    error = caught.value
    assert (error.code, said in error.asked) == (code, True), error
    assert next(words for kind, words in INSTEAD.items() if kind in name) in error.instead
    assert ALLOWED.get(name, "") in error.allowed
    assert error.allowed and __file__ in error.line and str(error).startswith(f"error[{code}] {error.line}\n")


@pytest.mark.parametrize("key", [(..., ...), (0, ..., 0, ...), (..., 0, ...)])
def test_an_index_with_several_ellipses(key):
    with pytest.raises(IndexError, match=r"more than one \.\.\."):
        run(lambda x: x[key] and None, SQUARE, chip="trainium2", dialect="new")


def test_whole_numbers_of_other_types():
    def kernel(x):
        tile(np.int64(4), 4.0)
        x.ap([[np.int32(1), nl.ds(0, 4).stop]], offset=np.int64(2))
        return x

    run(kernel, SQUARE, chip="trainium2", dialect="new")


def test_launch_grids_are_whole():
    made = Kernel(lambda x: x, "old")
    for grid, said in ((2.5, "a launch grid with a size of 2.5"), ((2, -1), r"a launch grid of shape \(2, -1\)")):
        with pytest.raises(Refused, match=said):
            made[grid]
    assert made[np.int64(2)].grid == (2,)


def test_an_attribute_error_of_the_kernel_is_its_own():
    def kernel(x):
        return [1, 2].shape

    with pytest.raises(AttributeError, match="'list' object has no attribute 'shape'"):
        run(kernel, SQUARE)


@pytest.mark.parametrize("dtype", [np.float64, np.dtype(np.int64), "uint64"])
def test_tiles_of_64_bits(dtype):
    with pytest.raises(TypeError, match="devices have no 64-bit types such as"):
        run(lambda: nl.ndarray((4, 4), dtype) and None, dialect="new")


def test_keywords_that_are_nearly_parameters():
    def kernel(x):
        return old_nl.add(old_nl.load(x), 1.0, dytpe=old_nl.bfloat16)

    with pytest.raises(TypeError, match=r"add\(\) has no parameter 'dytpe': is 'dtype' meant\?"):
        run(kernel, SQUARE)
    # The first dialect takes further keywords.
    run(lambda x: old_nl.add(old_nl.load(x), 1.0, lowering="fast") and None, SQUARE)


def test_names_that_a_module_does_not_have():
    with pytest.raises(ImportError, match=r"nki\.isa\.nosuch does not exist in the second dialect .*; the nearest is nki\.isa\."):
        from nki.isa import nosuch  # noqa: F401
    with pytest.raises(ImportError, match=r"neuronxcc\.nki\.isa\.topk does not exist in the first dialect .*; nki\.isa\.topk does"):
        from neuronxcc.nki.isa import topk  # noqa: F401
    assert not hasattr(isa, "nosuch")


class OnlyConverts:
    """An array that has no more than its conversion."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


def test_an_object_that_only_converts_is_an_array():
    assert np.array_equal(run(lambda x: x, OnlyConverts(SQUARE)).outputs, SQUARE)


def test_parameters_have_the_names_of_the_second_dialect():
    def kernel(x):
        made = tile(4, 1)
        assert nl.copy(x=made, dtype=nl.bfloat16).dtype == nl.bfloat16
        assert nl.broadcast_to(x=made, shape=(4, 8), dtype=nl.bfloat16).dtype == nl.bfloat16
        assert tuple(nl.broadcast_to(x=made, shape=(4, 8)).shape) == (4, 8)
        assert tuple(nl.expand_dims(x=made, axis=1).shape) == (4, 1, 1)
        for loop in (nl.affine_range, nl.sequential_range, nl.static_range, nl.dynamic_range):
            assert list(loop(start=2, stop=5)) == [2, 3, 4] and list(loop(start=3)) == [0, 1, 2]
            assert list(loop(0, stop=6, step=2)) == [0, 2, 4] and list(loop(4, step=2)) == [0, 2]
        assert tuple(nl.shared_constant(constant=np.ones((4, 4), np.float32)).shape) == (4, 4)
        assert nl.rand(shape=(4, 4), dtype=nl.float32, buffer=nl.psum).memory == "psum"
        nl.device_print(print_prefix="here", tensor=made)
        return x

    run(kernel, SQUARE, chip="trainium2", dialect="new")


def test_parameters_have_the_names_of_the_first_dialect():
    def kernel(x):
        made = old_nl.load(x)
        assert old_nl.zeros_like(a=made).dtype == made.dtype and tuple(old_nl.empty_like(a=made).shape) == (128, 128)
        assert old_nl.shared_constant(constant=np.ones((4, 4)), dtype=old_nl.bfloat16).dtype == old_nl.bfloat16
        return x

    run(kernel, SQUARE)


def test_operators_of_numpy_leave_tensors_to_the_device():
    def kernel(x):
        out = old_nl.ndarray(x.shape, x.dtype, buffer=old_nl.shared_hbm)
        old_nl.store(out, np.float32(3) * old_nl.load(x))
        return out

    result = run(kernel, SQUARE)
    assert np.array_equal(result.outputs, 3 * SQUARE) and "tensor_scalar" in [one[0] for one in result.instructions]


@pytest.mark.parametrize(
    ("call", "asked", "instead"),
    [
        (np.exp, "np.exp of a tensor", "write nl.exp"),
        (np.absolute, "np.absolute of a tensor", "write nl.abs"),
        (np.sum, "np.add.reduce of a tensor", "write nl.sum"),
        (lambda tile: np.maximum(tile, tile), "np.maximum of a tensor", "write nl.maximum"),
        (lambda tile: np.add(tile, 1.0), "np.add of a tensor", "write nl.add"),
    ],
)
def test_functions_of_numpy_are_refused_by_name(call, asked, instead):
    with pytest.raises(Refused) as caught:
        run(lambda x: call(old_nl.load(x)), SQUARE)
    assert caught.value.code == "neuron/operand" and asked in caught.value.asked and caught.value.instead == instead
    assert caught.value.allowed == "functions of nki.language and instructions of nki.isa: NumPy computes on the host"
    assert __file__ in caught.value.line


@pytest.mark.parametrize("operator", ["add", "sub", "mul", "truediv", "lt", "le", "gt", "ge"])
def test_numbers_of_numpy_may_stand_on_the_left(operator):
    function = getattr(__import__("operator"), operator)

    def kernel(x, left):
        out = old_nl.ndarray(x.shape, np.float32, buffer=old_nl.shared_hbm)
        old_nl.store(out, function(left, old_nl.load(x)))
        return out

    values = np.arange(128 * 128, dtype=np.float32).reshape(128, 128) + 1
    for left in (np.float32(3), np.int64(3)):
        assert np.allclose(run(kernel, values, left).outputs, function(np.float32(left), values))


def test_tensors_of_another_launch_are_refused():
    kept = []

    def keeps(x):
        kept.append(old_nl.load(x))
        kept.append(x)
        return x

    run(keeps, SQUARE)
    tile, tensor = kept
    uses = {
        "as an operand": lambda x: old_nl.add(old_nl.load(x), tile),
        "by an operator": lambda x: tile + 1.0,
        "as what is written": lambda x: tile.__setitem__((slice(None), slice(None)), old_nl.load(x)),
        "as a tensor in HBM": lambda x: old_nl.load(tensor),
        "to store to": lambda x: old_nl.store(tensor, old_nl.load(x)),
        "as an index": lambda x: x[tile],
    }
    for name, use in uses.items():
        with pytest.raises(Refused) as caught:
            run(lambda x: use(x) and None, SQUARE)
        assert caught.value.code == "neuron/launch" and "another launch" in caught.value.asked, name
        assert __file__ in caught.value.line and "pass the array" in caught.value.instead
    # As an argument it is another launch's all the same; its values may be read outside.
    with pytest.raises(Refused, match="neuron/launch"):
        run(lambda x: old_nl.load(x) and None, tensor)
    assert np.array_equal(tile.numpy(), SQUARE)


def test_a_kernel_that_yields_gives_nothing():
    def kernel(x):
        yield x

    with pytest.raises(TypeError, match="gives a generator, which nothing runs: return tensors instead of yield or async"):
        run(kernel, SQUARE)


def test_sizes_of_tiles_outside_a_kernel(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CHIP", "trainium1")
    assert nl.tile_size.total_available_sbuf_size == 176 * 1024 and nl.tile_size.sbuf_fmax == 44 * 1024


#: Comparisons of tiles that the kernel's own code asks for their truth.
ASKED = {
    "a branch": lambda t: 1 if t > 0 else 2,
    "a branch on one element": lambda t: 1 if t[0:1, 0:1] == 0 else 2,
    "two joined with a word": lambda t: (t > 0) and (t < 1),
    "a loop": lambda t: next(iter(()), 3) if not (t <= 0) else 4,
    "a search": lambda t: t in [tile(8, 8)],
    "a function": lambda t: 1 if nl.greater(t, 0) else 2,
}


@pytest.mark.parametrize("name", ASKED)
def test_a_comparison_of_tiles_has_no_truth(name):
    with pytest.raises(TypeError, match="a comparison of tiles has no truth value for the kernel's own code: choose with nl.where"):
        run(lambda x: ASKED[name](tile(8, 8)) and None, SQUARE, chip="trainium2", dialect="new")


def test_a_tensor_is_something():
    def kernel(x, bias=None):
        return x if x and not bias else None

    assert run(kernel, SQUARE, dialect="new").outputs.shape == (128, 128)


def test_an_operator_where_a_tile_is_needed_is_told_by_name():
    with pytest.raises(Refused) as caught:
        run(lambda x: isa.tensor_tensor(tile(8, 8), tile(8, 8), nl.add, tile(8, 8)), SQUARE, chip="trainium2", dialect="new")
    assert (caught.value.code, caught.value.asked) == ("neuron/operand", "tensor_tensor of add, a function")


def test_shapes_that_do_not_fit_are_told_whole():
    with pytest.raises(Refused) as caught:
        run(lambda x: isa.dma_copy(tile(128, 32), x), SQUARE, chip="trainium2", dialect="new")
    error = caught.value
    assert (error.code, error.asked) == ("neuron/shape", "a tensor of shape [128, 128] where one of [128, 32] is needed")
    assert "a dimension of size 1 may be repeated" in error.allowed


def test_indices_without_axes_say_what_to_write():
    with pytest.raises(ValueError, match=r"shapes \[128\] and \[64\] do not fit: give each its axis with \[:, None\] or \[None, :\]"):
        run(lambda x: old_nl.load(x[old_nl.arange(128), old_nl.arange(64)]), SQUARE)
