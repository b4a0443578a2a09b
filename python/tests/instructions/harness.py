"""Single instructions: what they give, against a formula in NumPy, and what they cost, against a kept text.

A case is a function of tiles that executes the instruction, the shapes of its inputs, and a formula over float32 arrays. It is
run in several modes: element type, memory, and whether elements of a row lie one after the other.
"""

import dataclasses

import ml_dtypes
import nki.language as nl
import numpy as np
import tilewright.nki
from tilewright.nki import state

CHIPS = ("trainium1", "trainium2", "trainium3")

F32, BF16, F16 = np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)
FP8 = np.dtype(ml_dtypes.float8_e4m3)
I32, U32, U16, U8 = (np.dtype(kind) for kind in (np.int32, np.uint32, np.uint16, np.uint8))


@dataclasses.dataclass(frozen=True)
class Mode:
    """How inputs lie."""

    dtype: np.dtype = F32
    memory: str = "sbuf"
    strided: bool = False

    def __str__(self):
        return " ".join([self.dtype.name, self.memory] + ["strided"] * self.strided)


#: The modes of data paths of the Vector and Scalar engines.
PATHS = (Mode(), Mode(BF16), Mode(BF16, strided=True), Mode(BF16, "psum"), Mode(memory="psum"))
PLAIN = (Mode(),)
WIDTHS = (Mode(), Mode(BF16))


@dataclasses.dataclass
class Case:
    """An instruction."""

    family: str
    name: str
    body: object
    inputs: dict
    outputs: dict
    formula: object
    modes: tuple = PLAIN
    #: The first generation that has it.
    since: int = 2
    #: Types of inputs that differ from the mode's.
    dtypes: dict = dataclasses.field(default_factory=dict)
    #: Types of outputs that differ from the mode's.
    out_dtypes: dict = dataclasses.field(default_factory=dict)
    #: Memories of outputs that are not SBUF.
    out_memories: dict = dataclasses.field(default_factory=dict)
    #: Inputs that stay in HBM, and outputs that are written there.
    in_hbm: tuple = ()
    #: Inputs that stay in SBUF in every mode.
    in_sbuf: tuple = ()
    #: Values of inputs that are not random.
    values: dict = dataclasses.field(default_factory=dict)
    tolerance: float = 1e-6
    grid: object = None

    def array(self, name, mode):
        """The input, of the type it has."""
        dtype = np.dtype(self.dtypes.get(name, mode.dtype))
        if name in self.values:
            return np.asarray(self.values[name]).astype(dtype)
        seed = sum(map(ord, name + self.name))
        generator = np.random.default_rng(seed)
        shape = self.inputs[name]
        if dtype.kind in "iu":
            return generator.integers(0, 100, shape).astype(dtype)
        return generator.standard_normal(shape).astype(np.float32).astype(dtype)


CASES = []


def case(family, name, inputs, outputs, formula, **options):
    """Registers the instruction that the decorated function executes."""

    def register(body):
        CASES.append(Case(family, name, body, inputs, outputs, formula, **options))
        return body

    return register


class Tiles:
    """The tiles of a case, by name."""


def _on_chip(array, name, case, mode):
    """An input as an instruction sees it."""
    memory = "sbuf" if name in case.in_sbuf or array.dtype.kind in "iu" else mode.memory
    shape = list(array.shape)
    if mode.strided and len(shape) == 2 and shape[1] > 1:
        tile = nl.ndarray((shape[0], shape[1] * 2), dtype=array.dtype, buffer=nl.sbuf)[:, 0 : shape[1] * 2 : 2]
    else:
        tile = nl.ndarray(shape, dtype=array.dtype, buffer=getattr(nl, memory))
    return tile


def execute(case, mode, chip):
    """The outputs of a case by name, and what its instructions cost."""
    costs = []
    arrays = {name: case.array(name, mode) for name in case.inputs}

    def kernel(**given):
        session = state.running()
        tiles = Tiles()
        for name, tensor in given.items():
            if name in case.in_hbm:
                setattr(tiles, name, tensor)
                continue
            tile = _on_chip(arrays[name], name, case, mode)
            session.dma_copy(tile, tensor)
            setattr(tiles, name, tile)
        for name, shape in case.outputs.items():
            dtype = case.out_dtypes.get(name, mode.dtype)
            memory = case.out_memories.get(name, "sbuf")
            setattr(tiles, name, nl.ndarray(shape, dtype=dtype, buffer=getattr(nl, memory)))
        from_here = session.count
        case.body(tiles)
        costs.extend(session.costs(from_here))
        return tuple(getattr(tiles, name) for name in case.outputs)

    kernel = tilewright.nki.Kernel(kernel, "new")
    result = (kernel if case.grid is None else kernel[case.grid]).run((), arrays, chip)
    return dict(zip(case.outputs, result.outputs)), costs, result


def expected(case, mode):
    """What the formula says, in float64 or integers."""
    arrays = {name: case.array(name, mode) for name in case.inputs}
    wide = {
        name: array.astype(np.int64) if array.dtype.kind in "iu" else array.astype(np.float32)
        for name, array in arrays.items()
        if array.dtype.fields is None
    }
    given = {name: wide.get(name, arrays[name]) for name in arrays}
    found = case.formula(*given.values())
    return found if isinstance(found, dict) else {next(iter(case.outputs)): found}


#: Relative size of half a unit in the last place.
ROUNDING = {F32: 0.0, BF16: 2.0**-8, F16: 2.0**-11, FP8: 2.0**-4}


def close(found, wanted, tolerance):
    """True if they agree within rounding to the type of what was found."""
    if found.dtype.kind in "iu" or found.dtype.fields is not None:
        return np.array_equal(np.asarray(found).view(np.asarray(wanted).dtype) if found.dtype.fields else found, wanted)
    slack = tolerance + ROUNDING.get(found.dtype, 0.0)
    found, wanted = found.astype(np.float64), np.asarray(wanted, np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(found - wanted) <= slack * (1.0 + np.abs(wanted))
    return bool(np.all(near | (found == wanted) | (np.isnan(found) & np.isnan(wanted))))
