"""Kernels of both dialects against NumPy, with the instructions that they should take."""

import collections
from functools import partial

import ml_dtypes
import neuronxcc.nki.language as nl
import numpy as np
import pytest
from kernels import new_dialect, old_dialect
from tilewright.nki import Refused, run, simulate_kernel


def values(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def softmax(x):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def opcodes(result):
    return collections.Counter(opcode for opcode, *_ in result.instructions)


def test_addition_over_a_grid():
    a, b = values(256, 512, dtype=np.float16), values(256, 512, seed=1, dtype=np.float16)
    result = run(old_dialect.add_grid, a, b, grid=(2, 2))
    assert np.array_equal(result.outputs, a + b)
    assert opcodes(result) == {"dma_copy": 12, "tensor_tensor": 4}
    assert result.hbm_bytes == (2 * a.nbytes, a.nbytes)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_tiled_matmul(dtype):
    a, b = values(256, 128, dtype=dtype), values(256, 1024, seed=1, dtype=dtype)
    result = run(old_dialect.matmul_tiled, a, b)
    expected = a.astype(np.float64).T @ b.astype(np.float64)
    assert np.allclose(result.outputs.astype(np.float64), expected, rtol=2e-2 if dtype != np.float32 else 1e-5, atol=1e-4 if dtype == np.float32 else 0.2)
    # A product goes straight to PSUM and adds there: no copy, no addition of its own.
    assert opcodes(result) == {"dma_copy": 10, "nc_matmul": 4, "tensor_copy": 2}


def test_masked_softmax_of_rows():
    x = values(200, 300)
    result = run(old_dialect.softmax_rows, x)
    assert np.allclose(result.outputs, softmax(x), atol=1e-6)
    assert not result.findings


def test_rms_norm():
    x, weight = values(200, 256), values(256, seed=1)
    expected = x / np.sqrt((x * x).mean(axis=1, keepdims=True)) * weight
    assert np.allclose(run(old_dialect.rms_norm, x, weight).outputs, expected, atol=1e-5)


def test_layer_norm_with_statistics():
    x = values(256, 1024)
    expected = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    assert np.allclose(run(old_dialect.layer_norm, x).outputs, expected, atol=1e-5)


def test_transpose_of_free_dimensions():
    x = np.arange(7 * 12, dtype=np.int8).reshape(7, 12)
    expected = x.reshape(7, 3, 4).transpose(0, 2, 1).reshape(7, 12)
    assert np.array_equal(run(old_dialect.transpose_free, x, (3, 4)).outputs, expected)


def test_average_pool_by_strided_windows():
    x = values(16, 8, 12)
    expected = x.reshape(16, 4, 2, 6, 2).mean(axis=(2, 4))
    assert np.allclose(run(old_dialect.average_pool, x, 2).outputs, expected, atol=1e-6)


def test_attention():
    q, k, v = values(64, 512), values(64, 512, seed=1), values(512, 64, seed=2)
    expected = softmax(q.T @ k) @ v
    result = run(old_dialect.attention, q, k, v)
    assert np.allclose(result.outputs, expected, atol=1e-4)
    assert {"tensor", "vector", "scalar", "dma"} <= {engine for _, engine, *_ in result.instructions}


def test_loop_reduce():
    x = values(128, 256)
    result = run(old_dialect.running_sums, x)
    assert np.allclose(result.outputs, x.sum(axis=1, keepdims=True), atol=1e-4)


def test_scan():
    decay, x = np.full((128, 64), 0.5, np.float32), values(128, 64)
    expected = np.zeros_like(x)
    running = np.zeros(128, np.float32)
    for at in range(64):
        running = decay[:, at] * running + x[:, at]
        expected[:, at] = running
    assert np.allclose(run(old_dialect.scan, decay, x).outputs, expected, atol=1e-6)


def test_rows_picked_by_an_index_tile():
    table, indices = values(300, 40), np.array([5, 0, 299, 7], np.int32)
    assert np.array_equal(run(old_dialect.gather_rows, table, indices).outputs, table[indices])
    with pytest.raises(IndexError, match="index 12000 is out of bounds for axis 0 with size 12000") as caught:
        run(old_dialect.gather_rows, table, np.array([300], np.int32))
    assert isinstance(caught.value, Refused) and caught.value.code == "neuron/bounds"
    assert old_dialect.__file__ in caught.value.line and "oob_mode.skip" in caught.value.instead


@pytest.mark.parametrize("call", [old_dialect.gather_rows, partial(simulate_kernel, old_dialect.gather_rows)])
def test_a_called_kernel_raises_the_index_error_of_the_simulator(call):
    """The vendor's tests ask for this very type and these very words; the refusal goes with it as a note."""
    with pytest.raises(IndexError) as caught:
        call(values(300, 40), np.array([300], np.int32))
    assert type(caught.value) is IndexError
    assert str(caught.value) == "index 12000 is out of bounds for axis 0 with size 12000"
    (note,) = caught.value.__notes__
    assert "error[neuron/bounds]" in note and old_dialect.__file__ in note and "oob_mode.skip" in note
    assert caught.value.code == "neuron/bounds" and old_dialect.__file__ in caught.value.line
    assert old_dialect.__file__ in {str(entry.path) for entry in caught.traceback}


def test_an_index_error_of_the_kernel_itself_stays_as_it_is():
    with pytest.raises(IndexError, match="list index out of range") as caught:
        simulate_kernel(lambda x: [][0], values(8, 8))
    assert not hasattr(caught.value, "__notes__")


def test_addition_new():
    a, b = values(256, 100), values(256, 100, seed=1)
    assert np.array_equal(run(new_dialect.add, a, b).outputs, a + b)


def test_matmul_new_adds_after_the_first_write():
    a, b = values(256, 128), values(256, 512, seed=1)
    assert np.allclose(run(new_dialect.matmul, a, b).outputs, a.T @ b, atol=1e-4)


def test_softmax_new():
    x = values(128, 300)
    assert np.allclose(run(new_dialect.softmax, x).outputs, softmax(x), atol=1e-6)


def test_transpose_new():
    x = values(100, 60)
    assert np.array_equal(run(new_dialect.transpose, x).outputs, x.T)


def test_causal_mask_new():
    x = values(128, 128)
    assert np.array_equal(run(new_dialect.causal, x).outputs, np.tril(x))


def test_access_pattern_new():
    x = values(64, 100)
    assert np.array_equal(run(new_dialect.even_columns, x).outputs, x[:, ::2])


def test_two_cores_exchange_tiles():
    x = values(128, 32)
    result = run(new_dialect.exchange, x, grid=2)
    assert np.array_equal(result.outputs, np.concatenate([x[64:], x[:64]]))


def test_the_same_run_gives_the_same_bits_and_time():
    q, k, v = values(64, 512), values(64, 512, seed=1), values(512, 64, seed=2)
    first, second = (run(old_dialect.attention, q, k, v, chip="trainium2") for _ in range(2))
    assert first.outputs.tobytes() == second.outputs.tobytes()
    assert first.time == second.time and first.time > 0


def test_leading_dimensions_picked_one_after_the_other():
    """What is left of the numbers of tiles still numbers tiles."""

    def kernel(x):
        out = nl.ndarray((2, 3, 128, 1), x.dtype, buffer=nl.shared_hbm)
        sums = nl.ndarray((2, 3, nl.par_dim(128), 1), x.dtype)
        for i in nl.affine_range(2):
            row = sums[i]
            for j in nl.affine_range(3):
                row[j, :, 0] = nl.sum(nl.load(x[i, j]), axis=1)
                assert row[j, :, 0].shape == (128, 1)
        for i in nl.affine_range(2):
            for j in nl.affine_range(3):
                nl.store(out[i, j], sums[i, j])
        return out

    x = np.random.default_rng(5).integers(-8, 8, (2, 3, 128, 16)).astype(np.float32)
    assert np.array_equal(run(kernel, x).outputs, x.sum(axis=3, keepdims=True))
