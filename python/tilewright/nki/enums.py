"""Enumerations of `nki.isa`; their numbers are those that kernels know."""

import enum


class engine(enum.Enum):
    """Engines."""

    unknown = 0
    tensor = 1
    scalar = 2
    gpsimd = 3
    dma = 4
    vector = 5
    sync = 6


class reduce_cmd(enum.Enum):
    """What happens to the running values of lanes."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4


class oob_mode(enum.Enum):
    """What happens to elements outside a tensor."""

    error = 0
    skip = 1


class dge_mode(enum.Enum):
    """Where descriptors come from."""

    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3


class dma_engine(enum.Enum):
    """Which DMA moves a tile between cores."""

    dma = 1
    gpsimd_dma = 2


class matmul_perf_mode(enum.Enum):
    """How the tensor engine feeds its rows."""

    none = "none"
    double_row = "double_row"
    double_row_gen3 = "double_row_gen3"


class nc_version(enum.IntEnum):
    """Generations of the core."""

    gen2 = 2
    gen3 = 3
    gen4 = 4


#: Engines as old kernels name them.
tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown
