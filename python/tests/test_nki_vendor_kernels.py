"""`neuronxcc.nki.kernels`: our kernels of the documented interfaces, against NumPy."""

import numpy as np
import pytest
from neuronxcc.nki.kernels.attention import FlashConfig, flash_attn_bwd, flash_fwd, fused_self_attn_for_SD_small_head_size
from neuronxcc.nki.kernels.vision import resize_nearest_fixed_dma_kernel, select_and_scatter_kernel
from tilewright.nki import run

SEED = np.zeros(1, np.int32)


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def weights(q, k, scale, causal, window, bias=0.0):
    """Softmax of the scores, and the logarithm of each sum of powers."""
    scores = np.einsum("hdq,hdk->hqk", q, k) * scale + bias
    at, key = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]
    hidden = (key > at) if causal else np.zeros((q.shape[2], k.shape[2]), bool)
    hidden = hidden | (key <= at - window) if window > 0 else hidden
    scores = np.where(hidden, -np.inf, scores)
    largest = scores.max(-1, keepdims=True)
    powers = np.exp(scores - largest)
    total = powers.sum(-1, keepdims=True)
    return powers / total, (largest + np.log(total))[..., 0]


@pytest.mark.parametrize(("heads", "key_heads", "causal", "window", "bias"), [(1, 1, False, -1, False), (2, 1, True, -1, False), (1, 1, True, 100, False), (1, 1, False, -1, True)])
def test_flash_attention(heads, key_heads, causal, window, bias):
    q, k, v = drawn(1, heads, 32, 256), drawn(1, key_heads, 32, 640, seed=1), drawn(1, key_heads, 640, 32, seed=2)
    added = drawn(1, heads, 256, 640, seed=3) if bias else None
    options = {"use_causal_mask": causal, "sliding_window": window, "mixed_precision": False, "logit_bias": added}
    result = run(flash_fwd, q, k, v, SEED, grid=(1, key_heads), chip="trainium2", **options)
    out, logs = result.outputs
    groups = heads // key_heads
    probs, sums = weights(q[0], np.repeat(k[0], groups, 0), 32**-0.5, causal, window, 0.0 if added is None else added[0])
    assert np.allclose(out[0], probs @ np.repeat(v[0], groups, 0), atol=2e-4)
    assert np.allclose(logs[0].transpose(0, 2, 1).reshape(heads, 256), sums, atol=2e-4)
    assert not [one for one in result.findings if one["severity"] == "error"]


def test_flash_attention_without_training_and_with_turned_values():
    q, k, v = drawn(1, 1, 16, 128), drawn(1, 1, 16, 128, seed=1), drawn(1, 1, 16, 128, seed=2)
    found = run(flash_fwd, q, k, v, SEED, grid=(1, 1), use_causal_mask=False, config=FlashConfig(training=False, should_transpose_v=True)).outputs
    probs, _ = weights(q[0], k[0], 0.25, False, -1)
    assert np.allclose(found[0], probs @ v[0].transpose(0, 2, 1), atol=0.05), "products in bfloat16"
    with pytest.raises(ValueError, match="this kernel has none"):
        run(flash_fwd, q, k, v, SEED, grid=(1, 1), dropout_p=0.1)


@pytest.mark.parametrize(("causal", "window"), [(False, -1), (True, -1), (True, 100)])
def test_gradients_of_flash_attention(causal, window):
    q, k, v, dy = (drawn(1, 1, 32, 256, seed=seed) for seed in range(4))
    scale = 32**-0.5
    probs, sums = weights(q[0], k[0], scale, causal, window)
    out = np.einsum("hqk,hdk->hdq", probs, v[0])[None]
    logs = sums.reshape(1, 1, 2, 128).transpose(0, 1, 3, 2).astype(np.float32)
    found = run(flash_attn_bwd, q, k, v, out.astype(np.float32), dy, np.ascontiguousarray(logs), SEED, grid=(1, 1), use_causal_mask=causal, sliding_window=window, mixed_precision=True, chip="trainium2").outputs
    d_probs = np.einsum("hdq,hdk->hqk", dy[0], v[0])
    d_scores = probs * (d_probs - (d_probs * probs).sum(-1, keepdims=True)) * scale
    expected = np.einsum("hqk,hdk->hdq", d_scores, k[0]), np.einsum("hqk,hdq->hdk", d_scores, q[0]), np.einsum("hqk,hdq->hdk", probs, dy[0])
    for one, wanted in zip(found, expected):
        assert np.allclose(one[0], wanted, atol=2e-3)


def test_attention_of_small_heads():
    q, k, v = drawn(2, 64, 256), drawn(2, 256, 64, seed=1), drawn(2, 256, 64, seed=2)
    found = run(fused_self_attn_for_SD_small_head_size, q, k, v, grid=(2,), mixed_precision=False).outputs
    probs, _ = weights(q, k.transpose(0, 2, 1), 0.125, False, -1)
    assert np.allclose(found, probs @ v, atol=2e-4)


def test_a_picture_in_another_size():
    x = drawn(2, 6, 5, 8)
    found = run(resize_nearest_fixed_dma_kernel, x, (2, 11, 9, 8)).outputs
    rows, columns = np.arange(11) * 6 // 11, np.arange(9) * 5 // 9
    assert np.array_equal(found, x[:, rows][:, :, columns])
    with pytest.raises(ValueError, match=": batch and channels stay"):
        run(resize_nearest_fixed_dma_kernel, x, (2, 11, 9, 4))


def test_the_gradient_of_the_largest_of_windows():
    x, gradient = drawn(1, 4, 8, 8), drawn(1, 4, 4, 4, seed=1)
    x[0, 0, 2:5, 2:5] = 1.0  # the first of equal ones
    expected = np.zeros((1, 4, 10, 10), np.float32)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    for channel, row, column in np.ndindex(4, 4, 4):
        window = padded[0, channel, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3]
        at = np.unravel_index(np.argmax(window), (3, 3))
        expected[0, channel, 2 * row + at[0], 2 * column + at[1]] += gradient[0, channel, row, column]
    found = run(select_and_scatter_kernel, x, gradient).outputs
    assert np.allclose(found, expected[:, :, 1:9, 1:9], atol=1e-6)
