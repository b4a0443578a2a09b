"""Limits of types and tiles, as `nki.language` names them."""

import numpy as np

from tilewright import _core

from . import dtypes, kernel, state


class _Fp32:
    """Limits of FP32."""

    min = float(np.finfo(np.float32).min)
    max = float(np.finfo(np.float32).max)


class _Bf16:
    """Limits of BF16."""

    min = float("-inf")


fp32 = _Fp32()
bfp16 = _Bf16()


def finfo(dtype):
    """Limits of a float type."""
    import ml_dtypes

    return ml_dtypes.finfo(np.dtype(dtype))


class _TileSize:
    """Sizes of tiles."""

    pmax = 128
    psum_fmax = 512
    psum_bank_fmax = 512
    psum_num_banks = 8
    gemm_stationary_fmax = 128
    gemm_moving_fmax = 512
    bn_stats_fmax = 512
    psum_min_align = 4
    sbuf_min_align = 1

    @property
    def total_available_sbuf_size(self):
        """Bytes of an SBUF partition that kernels may use; outside a kernel those of the chip that one would run on."""
        session = state.program.session or _core.Session(kernel.chip_name())
        return session.sbuf_usable_bytes

    sbuf_size_bytes = sbuf_fmax_bytes = total_available_sbuf_size

    @property
    def sbuf_fmax(self):
        """FP32 elements of an SBUF partition."""
        return self.total_available_sbuf_size // 4


tile_size = _TileSize()


def sizeinbytes(dtype):
    """Bytes of an element."""
    return dtypes.by_code(dtypes.code(dtype)).itemsize
