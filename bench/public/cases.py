"""Sets that call kernels directly: inputs of the published shapes, and references in NumPy."""

import functools
import importlib.util
import pathlib
import sys

import numpy as np

import tilewright.nki

tilewright.nki.install()

import ml_dtypes  # noqa: E402

#: (set, checkout that it needs, name, body of the checkout's folder).
CASES = []


def case(set_name, need, name):
    """Registers a case."""

    def register(body):
        CASES.append((set_name, need, name, body))
        return body

    return register


def load(path):
    """A module from its file."""
    path = pathlib.Path(path)
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rng():
    """The same numbers for each case."""
    return np.random.default_rng(0)


def close(found, wanted, rtol=1e-5, atol=1e-8):
    """True if they agree within tolerances."""
    return np.allclose(np.asarray(found, np.float64), np.asarray(wanted, np.float64), rtol=rtol, atol=atol)


_TUTORIALS = "src/nki_samples/tutorials/"

# O1: tensor addition over a grid.


@case("O1", "samples", "grid of programs, fp16")
def _(folder):
    module = load(folder / _TUTORIALS / "tensor_addition/spmd_tensor_addition_nki_kernels.py")
    a, b = (rng().random((256, 1024)).astype(np.float16) for _ in range(2))
    return close(module.nki_tensor_add(a, b), a + b, 1e-2)


@case("O1", "samples", "grid of programs, bf16 in jax arrays")
def _(folder):
    import jax.numpy as jnp

    module = load(folder / _TUTORIALS / "tensor_addition/spmd_tensor_addition_nki_kernels.py")
    a, b = (jnp.asarray(rng().random((256, 1024)), jnp.bfloat16) for _ in range(2))
    found = module.nki_tensor_add(a, b)
    return isinstance(found, type(a)) and close(found, a + b, 1e-2)


@case("O1", "samples", "grid over two cores")
def _(folder):
    module = load(folder / _TUTORIALS / "tensor_addition/spmd_multiple_nc_tensor_addition_nki_kernels.py")
    a, b = (rng().random((512, 2048)).astype(np.float16) for _ in range(2))
    return close(module.nki_tensor_add_nc2(a, b), a + b, 1e-2)


# O3: access patterns.


@case("O3", "samples", "transpose in the free dimensions")
def _(folder):
    module = load(folder / _TUTORIALS / "transpose2d/transpose2d_nki_kernels.py")
    a = np.arange(60, dtype=np.int8).reshape(5, 12)
    found = module.tensor_transpose2D_kernel_(a, shape2D=(3, 4))
    return np.array_equal(found, a.reshape(5, 3, 4).transpose(0, 2, 1).reshape(5, 12))


@case("O3", "samples", "average pooling")
def _(folder):
    module = load(folder / _TUTORIALS / "average_pool2d/average_pool2d_nki_kernels.py")
    a = np.arange(72, dtype=np.float16).reshape(2, 6, 6)
    return close(module.tensor_avgpool_kernel(a, 2), a.reshape(2, 3, 2, 3, 2).mean(axis=(2, 4)))


# O4: normalisation.


@case("O4", "samples", "RMS norm")
def _(folder):
    module = load(folder / _TUTORIALS / "rmsnorm/rmsnorm_nki_kernels.py")
    a, g = rng().random((250, 512), np.float32), rng().random(512, np.float32)
    return close(module.nki_rmsnorm_kernel(a, g), a / np.sqrt((a * a).mean(1, keepdims=True)) * g, 1e-2)


def _layernorm(version, folder):
    module = load(folder / _TUTORIALS / "layernorm/layernorm_nki_kernel.py")
    a, g, b = rng().random((300, 1024), np.float32), rng().random(1024, np.float32), rng().random(1024, np.float32)
    wanted = (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-5) * g + b
    return close(getattr(module, f"nki_layernorm_kernel_{version}")(a, 1e-5, g, b), wanted, 1e-2, 1e-3)


for _version in ("v1", "v2"):
    case("O4", "samples", f"layer norm {_version}")(functools.partial(_layernorm, _version))


# O5: the matmul tutorial.


def _matmul(name, folder):
    module = load(folder / _TUTORIALS / "matrix_multiplication/matrix_multiplication_nki_kernels.py")
    k, m, n = (128, 64, 512) if name == "basic" else (1024, 4096, 2048)
    a, b = (rng().random(shape, np.float32).astype(ml_dtypes.bfloat16) for shape in ((k, m), (k, n)))
    wanted = a.astype(np.float32).T @ b.astype(np.float32)
    return close(getattr(module, f"nki_matmul_{name}_")(a, b), wanted, 2e-2)


for _name in ("basic", "tiled", "hoist_load", "block_free_dimension", "fully_optimized"):
    case("O5", "samples", f"matmul {_name}")(functools.partial(_matmul, _name))


# O6: the Mamba tutorial.


def _mamba(version, folder):
    module = load(folder / _TUTORIALS / "fused_mamba/mamba_nki_kernels.py")
    channels, steps, states = 256, 2048, 16
    random = rng()
    delta, u = (random.random((1, channels, steps), np.float32) for _ in range(2))
    a = -random.random((channels, states), np.float32)
    b, c = (random.random((1, states, steps), np.float32) for _ in range(2))
    decay = np.exp(delta[0][:, None, :] * a[:, :, None])
    fed = (delta * u)[0][:, None, :] * b[0][None]
    state, wanted = np.zeros((channels, states), np.float32), np.zeros((channels, steps), np.float32)
    for step in range(steps):
        state = decay[:, :, step] * state + fed[:, :, step]
        wanted[:, step] = (state * c[0][:, step][None]).sum(1)
    return close(getattr(module, version)(delta, u, a, b, c)[0], wanted, 1e-3, 1e-3)


for _version in ("mamba_v1", "mamba_v2", "mamba_v3"):
    case("O6", "samples", _version)(functools.partial(_mamba, _version))


# O7: the attention tutorial.


def softmax_attention(scores, v):
    """Rows of softmax(scores) times v."""
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True) @ v


def _attention(version, folder):
    module = load(folder / _TUTORIALS / "attention_fwd_performance/attention_kernels.py")
    length = 128 if version in ("v1", "v2") else 4096
    random = rng()
    q, k, v = (((random.random((128, length)) - 0.5) * 2).astype(np.float32) for _ in range(3))
    wanted = softmax_attention(q.T.astype(np.float64) @ k, v.T)
    return close(getattr(module, f"attn_fwd_{version}")(q, k, v), wanted, atol=1e-2)


for _version in ("v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v8a", "v9", "v10", "v11"):
    case("O7", "samples", f"attention {_version}")(functools.partial(_attention, _version))


@case("O7", "samples", "self-attention with small heads")
def _(folder):
    module = load(folder / _TUTORIALS / "sd_attention/sd_attention_nki_kernels.py")
    random = rng()
    q, k, v = (random.random((4096, 64), np.float32) for _ in range(3))
    wanted = softmax_attention(q.astype(np.float64) @ k.T * 0.125, v)
    return close(module.fused_self_attn_for_SD_small_head_size(q, k, v), wanted, atol=1e-2)


# O8: the course's vector additions.


@case("O8", "course", "naive, tiled and streamed: values")
def _(folder):
    module = load(folder / "part1/kernels.py")
    random = rng()
    good = True
    for name, size in (("naive", 128), ("tiled", 25600), ("stream", 25600), ("direct_allocation", 256000)):
        a, b = (random.random(size, np.float32) for _ in range(2))
        kernel = getattr(module, f"vector_add_{name}", None)
        good &= kernel is not None and close(np.reshape(kernel(a, b), -1), a + b)
    return good


@case("O8", "course", "times rank: a row at a time, then tiles of two columns")
def _(folder):
    module = load(folder / "part1/kernels.py")
    a, b = (rng().random(25600, np.float32) for _ in range(2))
    times = [tilewright.nki.run(getattr(module, f"vector_add_{name}"), a, b).time for name in ("tiled", "stream")]
    return times[0] > 5 * times[1]


@case("O8", "course", "overlapping direct allocation is found")
def _(folder):
    module = load(folder / "part1/kernels.py")
    a, b = (rng().random(256000, np.float32) for _ in range(2))
    bad = getattr(module, "vector_add_direct_allocation_bad")
    result = tilewright.nki.run(bad, a, b)
    return any(finding["code"] == "neuron/address-overlap" for finding in result.findings)


# O9: NKIBench.


def _nkibench(path, folder):
    reference = load(next((folder / "NKIBench/reference").glob(path.stem.rsplit("_", 1)[0] + "_numpy_*.py")))
    kernel = load(folder / "NKIBench/kernels" / path.name).kernel
    np.random.seed(42)
    inputs = reference.get_inputs()
    wanted = reference.forward(*inputs)
    result = tilewright.nki.run(kernel, *reference.transform_to_nki_inputs(inputs), chip="trainium1")
    found = reference.transform_nki_outputs(result.outputs, wanted)
    pairs = zip(found, wanted if isinstance(wanted, tuple) else (wanted,))
    return all(np.linalg.norm(np.asarray(f, np.float64) - w) < 2e-5 * np.linalg.norm(w) for f, w in pairs)


for _kernel in (
    "silu_M4096_N7168_0",
    "adamw_M10944_N2048_0",
    "rmsnorm_matmul_M4096_N2048_K1024_0",
    "matmul_add_rmsnorm_M4096_N2048_K2048_0",
    "bmm_B16_M4096_K64_N4096_0",
    "matmul_M4096_N12288_K5120_0",
    "lora_M4096_N12288_K5120_R128_0",
):
    case("O9", "accelopt", _kernel)(functools.partial(_nkibench, pathlib.Path(_kernel + ".py")))


# O11: flash attention.


def _flash(heads, kv_heads, window, folder):
    source = str(folder / "src")
    if source not in sys.path:
        sys.path.insert(0, source)
    from nki_samples.reference.attention import FlashConfig, flash_fwd

    length, depth = 4096, 128
    random = rng()
    shapes = ((1, heads, depth, length), (1, kv_heads, depth, length), (1, kv_heads, length, depth))
    q, k, v = (((random.random(shape) - 0.5) * 2).astype(np.float32) for shape in shapes)
    config = FlashConfig(seq_tile_size=2048, training=True)
    options = {"use_causal_mask": True, "mixed_precision": False, "sliding_window": window, "config": config}
    found = flash_fwd[1, kv_heads](q, k, v, None, **options)[0]
    rows, columns = np.arange(length)[:, None], np.arange(length)[None]
    keep = rows >= columns
    if window > 0:
        keep &= columns > rows - window
    good = True
    for head in range(heads):
        of = head // (heads // kv_heads)
        scores = np.where(keep, q[0, head].T @ k[0, of] * depth**-0.5, -1e30)
        good &= close(found[0, head], softmax_attention(scores, v[0, of]), atol=1e-2)
    return good


for _label, _heads, _kv_heads, _window in (("causal", 1, 1, -1), ("causal, window 1024", 1, 1, 1024), ("six heads, three pairs", 6, 3, -1)):
    case("O11", "samples", f"flash attention, {_label}")(functools.partial(_flash, _heads, _kv_heads, _window))
