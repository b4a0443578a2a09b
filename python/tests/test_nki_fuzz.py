"""Random calls of every instruction: whatever shapes, types and memories they get, they answer or refuse; nothing panics.

The seed is fixed; `NKI_FUZZ_CASES` draws more.
"""

import os
import random

import ml_dtypes
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from tilewright.nki import Refused, mx, run

CASES = int(os.environ.get("NKI_FUZZ_CASES", "700"))

DTYPES = [
    nl.float32, nl.bfloat16, nl.float16, nl.float8_e4m3, nl.float8_e5m2, nl.float8_e4m3fn, nl.tfloat32, nl.int8, nl.int16, nl.int32,
    nl.uint8, nl.uint16, nl.uint32, nl.bool_, nl.float8_e4m3fn_x4, nl.float8_e5m2_x4, nl.float4_e2m1fn_x4, nl.float8_e8m0fnu,
]  # fmt: skip
MEMORIES = [nl.sbuf, nl.sbuf, nl.sbuf, nl.psum, nl.shared_hbm, nl.private_hbm]
OPS = [
    nl.add, nl.subtract, nl.multiply, nl.divide, nl.maximum, nl.minimum, nl.power, nl.mod, nl.equal, nl.less, nl.bitwise_and, nl.left_shift,
    nl.right_shift, nl.logical_and, nl.abs, nl.square, nl.rsqrt, nl.exp, nl.tanh, nl.copy, nl.invert, nl.abs_max, "nonsense",
]  # fmt: skip
SIZES = [0, 1, 1, 2, 3, 4, 5, 8, 16, 17, 32, 33, 64, 96, 127, 128, 128, 129]
WIDE = [0, 1, 2, 4, 7, 8, 16, 64, 100, 512, 513, 600]
NUMBERS = [0, 1, -1, 2, 0.5, -3.5, 1e30, -1e30, float("inf"), float("nan"), 2**31, -(2**31), 2**40, 255]
ENGINES = [None, nisa.vector_engine, nisa.scalar_engine, nisa.gpsimd_engine, nisa.tensor_engine, nisa.engine.dma]
COMMANDS = list(nisa.reduce_cmd)

#: What an instruction may answer besides a result.
ANSWERS = (Refused, ValueError, TypeError, IndexError, OverflowError, KeyError, AttributeError, NotImplementedError, RuntimeError)


def draw_shape(rng):
    return [rng.choice(SIZES)] + [rng.choice(WIDE) for _ in range(rng.choice([1, 1, 1, 2]))]


def draw_tile(rng):
    """A tile, or a view of one, written or not; mostly like the others of its call."""
    if rng.random() < 0.85:
        shape, dtype = rng.base
    else:
        shape, dtype = draw_shape(rng), rng.choice(DTYPES)
    plain = rng.random() < 0.8
    tile = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf if plain else rng.choice(MEMORIES))
    if rng.random() < 0.8 and tile.on_chip:
        nisa.memset(tile, 0 if mx.is_packed(tile.dtype) else rng.choice([0, 1, 2]))
    for _ in range(0 if plain else rng.choice([0, 1, 2])):
        axis = rng.randrange(len(tile.shape))
        choice = rng.random()
        if choice < 0.4:
            start = rng.randint(0, 4)
            tile = tile.slice(axis, start, start + rng.randint(0, 40), rng.choice([1, 1, 2, 3]))
        elif choice < 0.6:
            tile = tile.reshape([tile.shape[0], -1])
        elif choice < 0.75:
            tile = tile.broadcast(axis, rng.choice(WIDE))
        elif choice < 0.9:
            tile = tile.ap([[rng.randint(-8, 600), rng.choice(SIZES)], [rng.randint(-2, 3), rng.choice(WIDE)]], rng.randint(-4, 600))
        else:
            tile = tile.view(rng.choice(DTYPES))
    return tile


def draw(rng, name):
    """A value for a parameter: mostly of the kind it wants, now and then of another."""
    if rng.random() < 0.03:
        return rng.choice([None, "text", [], rng.choice(NUMBERS), draw_tile(rng)])
    if name in ("op", "op0", "op1", "reduce_op", "cmp_op", "comp_op0", "comp_op1", "dst_rmw_op"):
        return rng.choice(OPS)
    if name.startswith(("operand", "imm", "bound", "scale", "bias", "value", "initial", "on_false", "prob", "max_value", "min", "max", "reduce_init")):
        return rng.choice(NUMBERS) if rng.random() < 0.7 else draw_tile(rng)
    if name == "engine":
        return rng.choice(ENGINES)
    if name == "reduce_cmd":
        return rng.choice(COMMANDS)
    if name == "axis":
        return rng.choice([0, 1, 2, -1, (1, 2), (1,)])
    if name == "pattern":
        return [[rng.randint(-3, 5), rng.choice(WIDE)] for _ in range(rng.choice([1, 1, 2]))]
    if name == "shuffle_mask":
        return [rng.choice([*range(32), 255, 40]) for _ in range(rng.choice([32, 32, 31]))]
    if name in ("srcs",):
        return [draw_tile(rng) for _ in range(rng.randint(0, 3))]
    if name in ("tile_position", "tile_size"):
        return rng.choice([(), (0, 0), (32, 32), (64, 64), (128, 128), (-1, 3)])
    if name in ("offset", "channel_multiplier", "n", "num_elem_per_idx", "num_valid_indices", "index_offset", "padding_val", "range_start"):
        return rng.choice([0, 1, 8, 60, -5, 2**20])
    if name.startswith(("reverse", "is_", "negate", "keepdims", "accumulate", "unique", "reduce_res_negate")):
        return rng.random() < 0.5
    if name == "axes":
        return rng.choice([None, (1, 0), (2, 1, 0), (0, 0), (5,)])
    if name in ("scales",):
        return None
    return draw_tile(rng)


SKIPPED = {"register_alloc", "register_load", "register_move", "register_store", "core_barrier", "sendrecv", "get_nc_version", "get_nc_sub_version"}
INSTRUCTIONS = sorted(
    name
    for name, value in vars(nisa).items()
    if callable(value) and not isinstance(value, type) and not name.startswith("_") and name not in SKIPPED and hasattr(value, "__code__")
)


@pytest.mark.parametrize("chip", ["trainium1", "trainium2", "trainium3"])
def test_no_call_panics(chip):
    rng = random.Random(f"nki {chip}")
    done = refused = 0

    def kernel():
        nonlocal done, refused
        for _ in range(CASES):
            function = getattr(nisa, rng.choice(INSTRUCTIONS))
            rng.base = draw_shape(rng), rng.choice(DTYPES[:3] if rng.random() < 0.7 else DTYPES)
            code = function.__code__
            names = [name for name in code.co_varnames[: code.co_argcount] if name not in ("name", "priority", "dge_mode", "oob_mode", "perf_mode")]
            required = len(names) - len(function.__defaults__ or ())
            try:
                given = {name: draw(rng, name) for at, name in enumerate(names) if at <= required or rng.random() < 0.5}
                function(**given)
                done += 1
            except ANSWERS as error:
                assert "panic" not in f"{type(error).__name__} {error}".lower(), (function.__name__, error)
                if isinstance(error, Refused):
                    assert __file__ in error.line and error.allowed and error.instead
                refused += 1

    result = run(kernel, dialect="new", chip=chip)
    assert done > CASES // 20 and refused > CASES // 20
    assert result.time > 0 and isinstance(result.findings, list)


@pytest.mark.parametrize("value", [np.zeros(0, np.float32), np.zeros((0, 5), np.int8), np.float32(3), np.zeros((2, 3), np.complex64), np.array(["text"]), np.array([None])])
def test_arrays_that_no_kernel_wants(value):
    def kernel(x):
        return nl.load(x)

    try:
        run(kernel, value, dialect="new")
    except ANSWERS:
        pass


def test_a_type_that_no_device_has_is_named():
    with pytest.raises(TypeError, match="complex64"):
        run(lambda x: x, np.zeros((2, 3), np.complex64), dialect="new")


def test_an_exception_keeps_its_traceback():
    class Own(Exception):
        pass

    def inner():
        raise Own("here")

    def kernel(x):
        nl.load(x)
        inner()

    with pytest.raises(Own, match="here") as caught:
        run(kernel, np.ones((4, 4), ml_dtypes.bfloat16), dialect="new")
    assert [frame.name for frame in caught.traceback][-2:] == ["kernel", "inner"]
    assert run(lambda x: nl.load(x), np.ones((4, 4), np.float32), dialect="new").outputs.sum() == 16, "the next run is not disturbed"
