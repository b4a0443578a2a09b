"""`nki.isa.constants`."""

from ..enums import dge_mode, dma_engine, engine, matmul_perf_mode, oob_mode, reduce_cmd  # noqa: F401
