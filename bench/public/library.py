"""Kernels of nki-library whose times are recorded with its tests: a launch from the words of a row of bench/published_library.toml.

Arrays are shapes: times do not depend on values. Nothing of the library is part of this repository; it is imported from a checkout.
"""

import importlib
import re
import sys

import ml_dtypes
import numpy as np

from tilewright.nki.kernel import Kernel, ShapeOnly

BF16, F32, F16, F8 = ml_dtypes.bfloat16, np.float32, np.float16, ml_dtypes.float8_e4m3
_TYPES = {"FP32": F32, "BF16": BF16, "FP16": F16}
#: Values that kernels read where shapes would do: none of them changes a recorded time.
_ROW_SCALE_BYTES = 4


def words(text):
    """Numbers by their name, and flags: `b 2, Skv 2048, tp_out` is {"b": 2, "Skv": 2048} and {"tp_out"}."""
    numbers, flags = {}, set()
    for part in (part.strip() for part in text.split(",")):
        found = re.fullmatch(r"(.*?) ([\d.]+)", part)
        if found and not part.startswith("weights"):
            value = float(found[2])
            numbers[found[1]] = int(value) if value.is_integer() else value
        else:
            flags.add(part)
    return numbers, flags


def _of(folder, module):
    source = str(folder / "src")
    if source not in sys.path:
        sys.path.insert(0, source)
    return importlib.import_module(f"nkilib_src.nkilib.core.{module}")


def _shape(*sizes, dtype=BF16):
    return ShapeOnly(sizes, dtype)


def _attention(folder, group, text):
    numbers, flags = words(text)
    kernel = _of(folder, "attention.attention_cte").attention_cte
    dtype = next((_TYPES[flag] for flag in flags if flag in _TYPES), BF16)
    batch, depth = numbers["b"], numbers["d"]
    batch_kv, queries, keys = numbers.get("b_kv", batch), numbers["Sq"], numbers["Skv"]
    tp_q, tp_k = "tp_q" in flags, "tp_k" in flags

    def key_shape(length):
        return _shape(batch_kv, length, depth, dtype=dtype) if tp_k else _shape(batch_kv, depth, length, dtype=dtype)

    prior, ranked = numbers.get("prior"), "degree" in numbers
    arguments = {
        "q": _shape(batch, queries, depth, dtype=dtype) if tp_q else _shape(batch, depth, queries, dtype=dtype),
        "k": key_shape(keys),
        "v": _shape(batch_kv, keys, depth, dtype=dtype),
        "scale": 1.0,
        # Ranks of a context hold a part of the queries of a causal sequence.
        "causal_mask": "causal" in flags or ranked,
        "k_prior": None if prior is None else key_shape(prior),
        "v_prior": None if prior is None else _shape(batch_kv, prior, depth, dtype=dtype),
        "prior_used_len": None if prior is None else np.full((1,), numbers["prior used"], np.int32),
        "sink": _shape(batch, 1, dtype=F32) if "sink" in flags else None,
        "sliding_window": numbers.get("window", 0),
        "tp_q": tp_q,
        "tp_k": tp_k,
        "tp_out": "tp_out" in flags,
        "cp_offset": np.full((1, 1), numbers["rank"] * queries, np.int32) if ranked else None,
        "global_cp_deg": numbers.get("degree"),
        "cache_softmax": "cached softmax" in flags,
    }
    # Lists without a number of cores are of one (G1) or of two, the default of the frameworks.
    return kernel, arguments, numbers.get("LNC", 1 if group == "G1" else 2)


def _mlp(folder, group, text):
    numbers, flags = words(text)
    common = _of(folder, "utils.common_types")
    quantization = {"H3": "ROW", "I5": "ROW", "I6": "ROW", "I7": "STATIC", "I8": "STATIC"}.get(group, "NONE")
    batch, length, hidden, inner = numbers["batch"], numbers["seq"], numbers["H"], numbers["I"]
    quantised, prefill = quantization != "NONE", group.startswith("H")
    weights = F8 if quantised else BF16
    norm = next(name for name in ("layer_norm", "rms_norm_skip_gamma", "rms_norm", "no_norm") if name in flags)
    row = quantization == "ROW"

    def bias(name, size):
        return _shape(1, size) if name in flags else None

    def scale(size):
        return _shape(128, size if row else 1, dtype=F32) if quantised else None

    arguments = {
        # Rows that come quantised carry their scale.
        "hidden_tensor": _shape(batch, length, hidden + _ROW_SCALE_BYTES * row, dtype=F8) if quantised and prefill else _shape(batch, length, hidden),
        "gate_proj_weights_tensor": _shape(hidden, inner, dtype=weights),
        "up_proj_weights_tensor": _shape(hidden, inner, dtype=weights),
        "down_proj_weights_tensor": _shape(inner, hidden, dtype=weights),
        "normalization_weights_tensor": _shape(1, hidden) if norm in ("layer_norm", "rms_norm") else None,
        "gate_proj_bias_tensor": bias("gate bias", inner),
        "up_proj_bias_tensor": bias("up bias", inner),
        "down_proj_bias_tensor": bias("down bias", hidden),
        "normalization_bias_tensor": bias("norm bias", hidden),
        "fused_add_tensor": _shape(batch, length, hidden) if "add" in flags else None,
        "store_fused_add_result": "store" in flags,
        "activation_fn": next((value for value in common.ActFnType if value.name in flags), common.ActFnType.SiLU),
        "normalization_type": getattr(common.NormType, norm.upper()),
        "quantization_type": getattr(common.QuantizationType, quantization),
        "gate_w_scale": scale(inner),
        "up_w_scale": scale(inner),
        "down_w_scale": scale(hidden),
        "gate_up_in_scale": _shape(128, 1, dtype=F32) if quantization == "STATIC" else None,
        "down_in_scale": _shape(128, 1, dtype=F32) if quantization == "STATIC" else None,
        "skip_gate_proj": "nogate" in flags,
    }
    if not prefill:
        arguments |= {
            "use_tkg_gate_up_proj_column_tiling": "gu-col" in flags,
            "use_tkg_down_proj_column_tiling": "dn-col" in flags,
            "use_tkg_down_proj_optimized_layout": "dn-opt" in flags,
        }
    import nki.language as nl

    arguments["output_dtype"] = nl.bfloat16
    return _of(folder, "mlp.mlp").mlp, arguments, numbers["LNC"]


def _rms_quant(folder, group, text):
    numbers, flags = words(text)
    common, module = _of(folder, "utils.common_types"), _of(folder, "rmsnorm.rmsnorm_quant")
    norm = common.NormType.NO_NORM if "quant only" in flags else common.NormType.RMS_NORM
    settings = module.RmsNormQuantKernelArgs(quantization_type=common.QuantizationType.ROW, lower_bound=numbers.get("clip", 0.0), norm_type=norm, eps=1e-6)
    arguments = {"hidden": _shape(1, numbers["seq"], 16384), "ln_w": _shape(1, 16384), "kargs": settings, "input_dequant_scale": None}
    return module.rmsnorm_quant_kernel, arguments, 2


def _qkv(folder, group, text):
    numbers, flags = words(text)
    common, module = _of(folder, "utils.common_types"), _of(folder, "qkv.qkv")
    batch, length, hidden, width, depth = (numbers[name] for name in ("batch", "seq", "H", "QKV", "d"))
    norm = next(name for name in ("layer_norm", "rms_norm", "no_norm") if name in flags)
    static, add = "static quant" in flags, "add" in flags
    rows = _shape(batch, length, hidden)
    arguments = {
        "input": rows,
        "fused_qkv_weights": _shape(hidden, width, dtype=F8 if static else BF16),
        "output_layout": common.QKVOutputLayout.BSD,
        "bias": _shape(1, width) if "bias" in flags else None,
        "quantization_type": common.QuantizationType.STATIC if static else common.QuantizationType.NONE,
        "qkv_w_scale": _shape(128, 3, dtype=F32) if static else None,
        "qkv_in_scale": _shape(128, 1, dtype=F32) if static else None,
        "fused_residual_add": add,
        "mlp_prev": rows if add else None,
        "attention_prev": rows if add else None,
        "fused_norm_type": getattr(common.NormType, norm.upper()),
        "gamma_norm_weights": None if norm == "no_norm" else _shape(1, hidden),
        "d_head": depth,
        # One head of keys and one of values.
        "num_q_heads": width // depth - 2,
        "num_kv_heads": 1,
    }
    return module.qkv, arguments, numbers["LNC"]


def launch(folder, group, text):
    """(kernel, keyword arguments) of a row."""
    make = {"G": _attention, "H": _mlp, "I": _mlp, "J": _qkv, "K": _rms_quant}[group[0]]
    kernel, arguments, cores = make(folder, group, text)
    kernel = kernel if isinstance(kernel, Kernel) else Kernel(kernel, "new")
    return kernel[cores] if cores > 1 else kernel, arguments
