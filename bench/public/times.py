"""Public kernels whose times were published: which kernel of which checkout stands for which row of bench/published.toml.

Each entry is a function of the checkout's folder that gives (kernel, arguments, keywords, grid). Arrays are shapes: times do not depend on values.
"""

import pathlib
import sys

import ml_dtypes
import numpy as np

import tilewright.nki
from cases import load
from tilewright.nki.kernel import ShapeOnly

F32, F16, BF16 = np.float32, np.float16, ml_dtypes.bfloat16

_TUTORIALS = "src/nki_samples/tutorials/"

#: (chip, row, checkout that it needs, what makes the launch, kernel of which it is a variant).
ROWS = []


def row(chip, name, need, make, kernel):
    """Registers a row."""
    ROWS.append((chip, name, need, make, kernel))


def shape(*sizes, dtype=F32):
    """A tensor of which only shape and type are known."""
    return ShapeOnly(sizes, dtype)


def reference(folder, module, name):
    """A kernel of the samples' reference package."""
    source = str(folder / "src")
    if source not in sys.path:
        sys.path.insert(0, source)
    package = __import__(f"nki_samples.reference.{module}", fromlist=[name])
    return getattr(package, name)


# A and B: the matmul tutorial.


def _matmul(name, dtype):
    def make(folder):
        module = load(folder / _TUTORIALS / "matrix_multiplication/matrix_multiplication_nki_kernels.py")
        kernel = getattr(module, f"nki_matmul_{name}_")[()]
        # The profiles on Trn2 are of the second dialect.
        kernel.as_written = dtype is F32
        return kernel, (shape(8192, 4096, dtype=dtype), shape(8192, 8192, dtype=dtype)), {}, None

    return make


for _row, _name in (("A.1", "tiled"), ("A.2", "hoist_load"), ("A.4", "fully_optimized")):
    row("trainium1", _row, "samples", _matmul(_name, BF16), "matmul tutorial")
for _row, _name in (("B.2", "hoist_load"), ("B.3", "block_free_dimension"), ("B.4", "fully_optimized")):
    row("trainium2", _row, "samples", _matmul(_name, F32), "matmul tutorial")


# C: the Mamba tutorial.


def _mamba(version, channels, length):
    def make(folder):
        module = load(folder / _TUTORIALS / "fused_mamba/mamba_nki_kernels.py")
        large, small = shape(1, channels, length), shape(1, 16, length)
        return getattr(module, f"mamba_{version}"), (large, large, shape(channels, 16), small, small), {}, None

    return make


row("trainium1", "C.2", "samples", _mamba("v1", 256, 512), "mamba")
row("trainium1", "C.3", "samples", _mamba("v1", 4096, 512), "mamba")
row("trainium1", "C.4", "samples", _mamba("v2", 4096, 512), "mamba")
for _row, _length in (("C.7", 512), ("C.8", 1024), ("C.10", 3072), ("C.11", 4096), ("C.13", 6144), ("C.14", 7168)):
    for _version in ("v2", "v3"):
        row("trainium1", f"{_row} {_version}", "samples", _mamba(_version, 4096, _length), "mamba")


# D: layer norm.


def _layernorm(folder):
    module = load(folder / _TUTORIALS / "layernorm/layernorm_nki_kernel.py")
    return module.nki_layernorm_kernel_v1, (shape(4096, 8192), 1e-5, shape(8192), shape(8192)), {}, None


row("trainium1", "D.1", "samples", _layernorm, "layer norm")


# F: kernels of the samples.


def _small_head(module, name, dtype):
    def make(folder):
        q, k = shape(1, 128, 4096, dtype=dtype), shape(1, 4096, 128, dtype=dtype)
        second = shape(1, 128, 4096, dtype=dtype) if module == "allocated_attention" else k
        return reference(folder, module, name), (q, second, k), {}, 1

    return make


_FUSED = "fused_self_attn_for_SD_small_head_size"
for _row, _module, _name, _dtype in (
    ("F.1", "attention", _FUSED, F32),
    ("F.2", "attention", _FUSED, BF16),
    ("F.4", "allocated_attention", "allocated_" + _FUSED, F32),
    ("F.5", "allocated_attention", "allocated_" + _FUSED, BF16),
):
    row("trainium1", _row, "samples", _small_head(_module, _name, _dtype), "attention of small heads")


def _flash(heads, kv_heads, length, depth, keys=None):
    keys = keys or length

    def make(folder):
        config = reference(folder, "attention", "FlashConfig")(seq_tile_size=2048, training=True)
        q = shape(1, heads, depth, length, dtype=BF16)
        k, v = shape(1, kv_heads, depth, keys, dtype=BF16), shape(1, kv_heads, keys, depth, dtype=BF16)
        options = {"use_causal_mask": True, "mixed_precision": True, "config": config}
        return reference(folder, "attention", "flash_fwd"), (q, k, v, shape(1, dtype=np.int32)), options, (1, kv_heads)

    return make


row("trainium1", "F.7", "samples", _flash(6, 3, 32768, 96), "flash attention")
row("trainium1", "F.9", "samples", _flash(3, 3, 32768, 96, keys=16384), "flash attention")
row("trainium1", "F.9 long keys", "samples", _flash(3, 3, 16384, 96, keys=32768), "flash attention")
row("trainium1", "F.10", "samples", _flash(1, 1, 16384, 96), "flash attention")


def _flash_backward(folder):
    large = [shape(1, 4, 128, 32768, dtype=BF16) for _ in range(5)]
    rest = (shape(1, 4, 128, 256), shape(1, dtype=np.int32))
    options = {"use_causal_mask": True, "mixed_precision": True}
    return reference(folder, "attention", "flash_attn_bwd"), (*large, *rest), options, (1, 4)


row("trainium1", "F.12", "samples", _flash_backward, "flash attention, backward")


def _norm_qkv(length, hidden, dtype, results=512):
    def make(folder):
        kernel = reference(folder, "allocated_fused_linear", "allocated_fused_rms_norm_qkv")
        return kernel, (shape(1, length, hidden, dtype=dtype), shape(hidden, results, dtype=dtype)), {}, None

    return make


row("trainium1", "F.13", "samples", _norm_qkv(128, 512, F16), "RMS norm and QKV")
row("trainium1", "F.15", "samples", _norm_qkv(128, 1024, BF16), "RMS norm and QKV")
row("trainium1", "norm_qkv 512", "samples", _norm_qkv(512, 1024, BF16, results=384), "RMS norm and QKV")
row("trainium1", "F.16", "samples", _norm_qkv(1024, 8192, BF16), "RMS norm and QKV")


def _resize(folder):
    return reference(folder, "vision", "resize_nearest_fixed_dma_kernel"), (shape(10, 30, 20, 1280), (10, 59, 38, 1280)), {}, None


def _scatter(folder):
    return reference(folder, "vision", "select_and_scatter_kernel"), (shape(8, 64, 112, 112), shape(8, 64, 56, 56)), {}, None


row("trainium1", "F.17", "samples", _resize, "resize")
row("trainium1", "F.19", "samples", _scatter, "select and scatter")


def _pool(images, channels, size, out, dtype=F32):
    def make(folder):
        return reference(folder, "vision", "adaptive_avg_pool2d_kernel"), (shape(images, channels, size, size, dtype=dtype), (out, out)), {}, None

    return make


row("trainium1", "F.20", "samples", _pool(1, 64, 56, 7), "average pooling")
row("trainium1", "F.21", "samples", _pool(2, 128, 28, 7), "average pooling")
row("trainium1", "F.23", "samples", _pool(4, 64, 56, 7), "average pooling")
row("trainium1", "F.25", "samples", _pool(1, 512, 7, 1), "average pooling")
row("trainium1", "F.26", "samples", _pool(8, 64, 32, 4, F16), "average pooling")
row("trainium1", "F.27", "samples", _pool(2, 2048, 32, 3), "average pooling")


def _double_row(folder):
    lhs, rhs = shape(512, 16384, dtype=BF16), shape(8192, 2048, dtype=ml_dtypes.float8_e4m3)
    return reference(folder, "double_row_matmul", "quantized_double_row_matmul"), (lhs, rhs, shape(128, 1024), 2, 2, 16), {}, None


row("trainium2", "F.29", "samples", _double_row, "double-row matmul")


# O: NKIBench.


def _nkibench(stem):
    def make(folder):
        found = load(next((folder / "NKIBench/reference").glob(stem + "_numpy_*.py")))
        np.random.seed(42)
        inputs = found.transform_to_nki_inputs(found.get_inputs())
        kernel = load(folder / "NKIBench/kernels" / f"{stem}_0.py").kernel
        return kernel, [ShapeOnly(one.shape, one.dtype) if isinstance(one, np.ndarray) else one for one in inputs], {}, None

    return make


for _name, _stem, _chips in (
    ("silu", "silu_M4096_N7168", 2),
    ("adamw", "adamw_M10944_N2048", 2),
    ("rmsnorm_matmul", "rmsnorm_matmul_M4096_N2048_K1024", 2),
    ("matmul_add_rmsnorm", "matmul_add_rmsnorm_M4096_N2048_K2048", 2),
    ("matmul", "matmul_M4096_N12288_K5120", 2),
    ("bmm", "bmm_B16_M4096_K64_N4096", 1),
    ("lora", "lora_M4096_N12288_K5120_R128", 1),
):
    for _chip in ("trainium2", "trainium1")[:_chips]:
        row(_chip, _name, "accelopt", _nkibench(_stem), _name)


def timed(chip, make, folder):
    """The result of a launch without values."""
    kernel, args, options, grid = make(pathlib.Path(folder))
    return tilewright.nki.run(kernel, *args, chip=chip, grid=grid, values=False, **options)
