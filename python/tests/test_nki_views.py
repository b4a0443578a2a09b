"""Views of views against NumPy: slices, index expressions, other orders and shapes, one after the other; and what reaches beyond a dimension.

The seeds are fixed; `NKI_VIEW_CASES` draws more.
"""

import os
import random

import neuronxcc.nki.language as old_nl
import nki.isa as isa
import nki.language as nl
import numpy as np
import pytest
from tilewright.nki import Refused, run

CASES = int(os.environ.get("NKI_VIEW_CASES", "600"))
ROWS = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)


def drawn_slices(rng, shape):
    """A key of slices and numbers; the first dimension is kept."""
    key = []
    for axis in range(rng.randint(1, len(shape))):
        size, choice = shape[axis], rng.random()
        if choice < 0.2:
            key.append(slice(None))
        elif choice < 0.8 or axis == 0:
            start = rng.randrange(size)
            stop, back = rng.randint(start + 1, size), rng.random() < 0.2
            key.append(slice(start - size if back else start, stop, rng.choice([1, 1, 1, 2, 3])))
        else:
            key.append(rng.randint(-size, size - 1))
    return tuple(key), tuple(key)


def drawn_indices(rng, shape):
    """The same of index expressions, as the kernel and as NumPy write them."""
    ours, theirs = [], []
    for axis, size in enumerate(shape):
        start, step = rng.randrange(size), rng.choice([1, 1, 2, 3, -1])
        most = start + 1 if step < 0 else (size - start + step - 1) // step
        count = rng.randint(1, most)
        place = tuple(slice(None) if at == axis else None for at in range(len(shape)))
        index, expected = old_nl.arange(count)[place] * step + start, (np.arange(count) * step + start)[place]
        choice = rng.random()
        if choice < 0.15:
            index, expected = index // 2, expected // 2
        elif choice < 0.3:
            index, expected = (index * 3) % size, (expected * 3) % size
        ours.append(index)
        theirs.append(expected)
    return tuple(ours), tuple(theirs)


def changed(rng, view, array, on_chip, indices):
    """One more view of both."""
    choice = rng.random()
    if choice < 0.6:
        draw = drawn_indices if indices and rng.random() < 0.4 else drawn_slices
        ours, theirs = draw(rng, list(array.shape))
        view, array = view[ours], array[theirs]
        # Tiles keep their partitions and a free dimension.
        return view, array.reshape(view.shape)
    if choice < 0.75:
        free = list(range(1, array.ndim))
        rng.shuffle(free)
        order = [0, *free] if on_chip else rng.sample(range(array.ndim), array.ndim)
        return view.permute(tuple(order)), array.transpose(order)
    if choice < 0.9:
        shape = [array.shape[0], array.size // array.shape[0]] if on_chip else [array.size // array.shape[-1], array.shape[-1]]
        return view.reshape(shape), array.reshape(shape)
    axis = rng.randint(1, array.ndim)
    return view.expand_dims(axis), np.expand_dims(array, axis)


def one_case(seed):
    """True if a kernel gave what NumPy gives; False if it was refused."""
    rng = random.Random(seed)
    old, on_chip = rng.random() < 0.6, rng.random() < 0.5
    shape = [rng.choice([4, 6, 8, 16, 32])] + [rng.choice([2, 3, 4, 6, 8, 12]) for _ in range(rng.randint(1, 3))]
    array, expected = np.arange(np.prod(shape), dtype=np.float32).reshape(shape), []

    def kernel(x):
        view, wanted = old_nl.load(x) if on_chip else x, array
        for _ in range(rng.randint(1, 3)):
            view, wanted = changed(rng, view, wanted, on_chip, old)
        expected.append(wanted)
        out = nl.ndarray(wanted.shape, nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray(wanted.shape, nl.float32, buffer=nl.sbuf)
        (isa.tensor_copy if on_chip else isa.dma_copy)(tile, view)
        isa.dma_copy(out, tile)
        return out

    try:
        result = run(kernel, array, dialect="new", chip="trainium2")
    except Refused:
        return False
    assert np.array_equal(result.outputs, expected[0]), f"seed {seed}"
    return True


def test_views_of_views_are_those_of_numpy():
    done = [one_case(seed) for seed in range(CASES)]
    assert sum(done) > 0.8 * CASES


def copied(view):
    out = nl.ndarray(view.shape, view.dtype, buffer=nl.shared_hbm)
    isa.dma_copy(out, view)
    return out


def test_elements_that_are_listed_can_be_indexed_again():
    def kernel(x):
        rows, columns = old_nl.arange(128)[:, None], old_nl.arange(64)[None, :]
        return copied(x[rows // 2, columns][64:128, 3:40:2])

    assert np.array_equal(run(kernel, ROWS, chip="trainium2").outputs, ROWS[np.arange(128) // 2][64:128, 3:40:2])


#: Views that reach beyond the columns, and what is said of them.
BEYOND = {
    "a slice": (lambda x: x[0:64, 32:96], "elements 32 to 95 of dimension 1, which has 64"),
    "a slice with steps": (lambda x: x[0:64, 0:70:3], "elements 0 to 69 of dimension 1, which has 64"),
    "a number": (lambda x: x[128], "element 128 of dimension 0, which has 128"),
    "a number before the first": (lambda x: x[-129], "element -1 of dimension 0, which has 128"),
    "rows before the first": (lambda x: x[-200:10], "elements -72 to 9 of dimension 0, which has 128"),
    "an index expression": (lambda x: x[0:64, old_nl.arange(64) + 1], "elements 1 to 64 of dimension 1, which has 64"),
    "a slice of it": (lambda x: x[0:64, 32:96][0:64, 0:64], "elements 32 to 95 of dimension 1, which has 64"),
    "another order": (lambda x: x[0:64, 32:96].permute(1, 0), "elements 32 to 95 of dimension 1, which has 64"),
    "another shape": (lambda x: x[0:64, 32:96].reshape((64, 8, 8)), "elements 32 to 95 of dimension 1, which has 64"),
    "more dimensions": (lambda x: x[0:64, 32:96].expand_dims(1), "elements 32 to 95 of dimension 1, which has 64"),
    "another type": (lambda x: x[0:64, 32:96].view(nl.int32), "elements 32 to 95 of dimension 1, which has 64"),
}


@pytest.mark.parametrize("name", BEYOND)
def test_what_reaches_beyond_a_dimension(name):
    view, said = BEYOND[name]
    with pytest.raises(Refused) as caught:
        run(lambda x: copied(view(x)), ROWS, chip="trainium2", dialect="new")
    error = caught.value
    assert (error.code, error.asked) == ("neuron/bounds", said)
    assert error.allowed in ("elements 0 to 63", "elements 0 to 127")
    assert "end it at" in error.instead and "mask=" in error.instead and __file__ in error.line


def test_the_part_of_such_a_view_that_lies_inside():
    def kernel(x):
        return copied(x[0:64, 32:96][:, 0:32])

    assert np.array_equal(run(kernel, ROWS, chip="trainium2", dialect="new").outputs, ROWS[:64, 32:])


def test_a_mask_leaves_out_what_a_view_of_a_view_has_beyond():
    def kernel(x):
        out = old_nl.zeros((64, 64), old_nl.float32, buffer=old_nl.shared_hbm)
        rows, columns = old_nl.arange(64)[:, None], old_nl.arange(64)[None, :]
        part = old_nl.load(x[0:64, 32:96][rows, columns], mask=columns < 32)
        old_nl.store(out[rows, columns], part, mask=columns < 32)
        return out

    expected = np.zeros((64, 64), np.float32)
    expected[:, :32] = ROWS[:64, 32:]
    assert np.array_equal(run(kernel, ROWS).outputs, expected)


@pytest.mark.parametrize("key", [True, np.True_, (False, slice(None)), (slice(0, True),)])
def test_a_truth_value_is_no_place(key):
    with pytest.raises((Refused, TypeError)) as caught:
        run(lambda x: old_nl.load(x[key]), ROWS)
    assert "a tensor indexed with" in str(caught.value) or "cannot be indexed with" in str(caught.value)


def test_a_truth_value_says_what_to_write():
    with pytest.raises(Refused) as caught:
        run(lambda x: old_nl.load(x[True]), ROWS)
    error = caught.value
    assert (error.code, error.asked) == ("neuron/operand", "a tensor indexed with True")
    assert "numbers, slices" in error.allowed and "mask=" in error.instead


def test_one_partition_dimension():
    with pytest.raises(Refused) as caught:
        run(lambda x: old_nl.ndarray((2, old_nl.par_dim(128), old_nl.par_dim(32)), old_nl.float32), ROWS)
    error = caught.value
    assert (error.code, error.allowed) == ("neuron/shape", "one partition dimension")
    assert error.asked == "a tensor of shape (2, 128, 32) with nl.par_dim 2 times" and error.instead == "mark the dimension whose steps lie on partitions, and no other"


def test_the_tensor_behind_a_view():
    def kernel(x, part):
        tile = nl.ndarray(x.shape, x.dtype)
        assert x.base_tensor.shape == x.shape and tile.base_tensor is tile
        isa.dma_copy(dst=tile, src=(x[:, 0:8] if part else x).base_tensor)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        isa.dma_copy(dst=out, src=tile)
        return out

    assert np.array_equal(run(kernel, ROWS, False, dialect="new").outputs, ROWS)
    with pytest.raises(Refused, match="(?s)base_tensor of a view of 1024 of 8192 elements.*keep the tensor that the view was made of"):
        run(kernel, ROWS, True, dialect="new")
