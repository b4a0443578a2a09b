"""Kernels: decorators, launch grids, arrays in and out, and what a run leaves behind."""

import contextlib
import functools
import inspect
import os
import threading

import numpy as np

from tilewright import _core
from tilewright._core import Tensor

from . import dtypes, state
from .result import BenchmarkResult, Result

CHIPS = {
    "trn1": "trainium1",
    "inf2": "inferentia2",
    "gen2": "trainium1",
    "trn2": "trainium2",
    "gen3": "trainium2",
    "trn3": "trainium3",
    "gen4": "trainium3",
}

#: The last run of any kernel.
last = None


def chip_name(name=None, dialect="old"):
    """The chip to run on: as named, as the environment says, or the dialect's default."""
    name = name or os.environ.get("TILEWRIGHT_CHIP") or os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE")
    if not name:
        return "trainium1" if dialect == "old" else "trainium2"
    return CHIPS.get(str(name).lower(), str(name).lower())


def _array_in(value):
    """A NumPy array for anything that is an array; None for other arguments."""
    if isinstance(value, np.ndarray):
        return value
    kind = type(value).__module__.split(".")[0]
    if kind == "torch" and hasattr(value, "detach"):
        return _torch_array(value)
    if kind in ("jax", "jaxlib") and hasattr(value, "__array__"):
        return np.asarray(value)
    return None


def _torch_array(value):
    import torch

    value = value.detach().cpu().contiguous()
    views = {torch.bfloat16: (torch.int16, dtypes.bfloat16)}
    for name, dtype in (("float8_e4m3fn", dtypes.float8_e4m3fn), ("float8_e5m2", dtypes.float8_e5m2)):
        if hasattr(torch, name):
            views[getattr(torch, name)] = (torch.uint8, dtype)
    if value.dtype in views:
        carrier, dtype = views[value.dtype]
        return value.view(carrier).numpy().view(dtype)
    return value.numpy()


def _array_out(array, like):
    """The array in the kind of the caller's own."""
    kind = type(like).__module__.split(".")[0] if like is not None else ""
    if kind == "torch":
        import torch

        if array.dtype == dtypes.bfloat16:
            return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
        if array.dtype.name in ("uint16", "uint32"):
            array = array.astype(np.int32)
        return torch.from_numpy(array.copy())
    if kind in ("jax", "jaxlib"):
        import jax.numpy as jnp

        return jnp.asarray(array)
    return array


class _Launch:
    """One launch: arguments as tensors, and back."""

    def __init__(self, kernel, chip, grid, values=True):
        self.kernel = kernel
        self.chip = chip
        self.grid = grid
        self.values = values
        self.inputs = []
        self.like = None

    def tensor(self, session, value, name=""):
        if isinstance(value, Tensor):
            return value
        if isinstance(value, ShapeOnly):
            value = value if not session.values else _placeholder(value)
        array = value if isinstance(value, ShapeOnly) else _array_in(value)
        if array is not None and not session.values:
            code = dtypes.F32 if array.dtype is None else dtypes.code(array.dtype)
            return session.placeholder(list(array.shape), code, name)
        if array is not None:
            if self.like is None:
                self.like = value
            device = dtypes.device_array(array)
            raw = device.reshape(-1).view(np.uint8) if device.size else np.zeros(0, np.uint8)
            tensor = session.input(raw, list(device.shape), dtypes.code(device.dtype), name)
            self.inputs.append((tensor, value, array, device))
            return tensor
        if isinstance(value, tuple) and type(value) is tuple:
            return tuple(self.tensor(session, item, name) for item in value)
        if type(value) is list:
            return [self.tensor(session, item, name) for item in value]
        if type(value) is dict:
            return {key: self.tensor(session, item, str(key)) for key, item in value.items()}
        return value

    def output(self, value):
        if not self.values:
            return None
        if isinstance(value, Tensor):
            return _array_out(value.numpy(), self.like)
        if isinstance(value, tuple):
            items = [self.output(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        if isinstance(value, list):
            return [self.output(item) for item in value]
        if isinstance(value, dict):
            return {key: self.output(item) for key, item in value.items()}
        return value

    def run(self, args, kwargs):
        session = _core.Session(self.chip)
        session.values = self.values
        names = _parameter_names(self.kernel.func)
        args = [self.tensor(session, value, names[at] if at < len(names) else "") for at, value in enumerate(args)]
        kwargs = {name: self.tensor(session, value, name) for name, value in kwargs.items()}
        outer, state.session = state.session, session
        try:
            value = _run_grid(self.kernel.func, self.grid, args, kwargs, session, self.kernel.dialect)
        finally:
            state.session = outer
        result = Result(self.kernel.__name__, session, None)
        _never_written(result, value)
        result.outputs = self.output(value)
        self.copy_back()
        return result

    def copy_back(self):
        """Arguments that the kernel wrote to change in place."""
        for tensor, value, array, device in self.inputs:
            found = tensor.numpy()
            if found.tobytes() == device.tobytes():
                continue
            if isinstance(value, np.ndarray) and array.flags.writeable:
                array[...] = found.astype(array.dtype)
            elif type(value).__module__.split(".")[0] == "torch":
                value.copy_(_array_out(found, value).to(value.dtype))


def _never_written(result, value):
    """Outputs with bytes that nobody wrote are named, never passed over."""
    if isinstance(value, (tuple, list)):
        for item in value:
            _never_written(result, item)
    elif isinstance(value, dict):
        for item in value.values():
            _never_written(result, item)
    elif isinstance(value, Tensor) and not value.all_written:
        result.extra_findings.append(
            {
                "code": "neuron/never-written",
                "severity": "error",
                "line": result.made_at(value),
                "message": f"output {_named(value)}: {value.unwritten_bytes} bytes were never written",
                "allowed": "outputs that are written whole",
                "instead": "store every element, or return a smaller tensor",
            }
        )


def _named(value):
    return f"`{value.name}`" if value.name else f"of shape {tuple(value.shape)}"


def _parameter_names(func):
    try:
        return list(inspect.signature(func).parameters)
    except (TypeError, ValueError):
        return []


class Shared:
    """Tensors that every program of a launch sees, paired by the order of their allocation."""

    def __init__(self):
        self.made = []
        self.lock = threading.Lock()


def _run_grid(func, grid, args, kwargs, session, dialect):
    """Runs every program of a launch and gives the value of the first."""
    program = state.program
    saved = (program.grid, program.place, program.loops, program.reductions, program.shared, program.at)
    places = list(np.ndindex(*grid)) if grid else [()]
    shared = Shared()
    first = None
    try:
        if dialect == "new" and grid and len(places) > 1:
            return _run_cores(func, grid, places, args, kwargs, session, shared)
        for number, place in enumerate(places):
            program.grid, program.place = grid, tuple(int(at) for at in place)
            program.loops, program.reductions = [], {}
            program.shared, program.at, program.lanes, program.placed = shared, 0, {}, set()
            session.current_program = number
            value = func(*args, **kwargs)
            if number == 0:
                first = value
        return first
    finally:
        program.grid, program.place, program.loops, program.reductions, program.shared, program.at = saved


class Cores:
    """Two cores that take turns: one runs until it waits for the other or ends."""

    def __init__(self, count):
        self.count = count
        self.turn = 0
        self.condition = threading.Condition()
        self.done = [False] * count
        self.mail = {}
        self.failed = None

    def wait_turn(self, core):
        with self.condition:
            self.condition.wait_for(lambda: self.turn == core or self.failed is not None)
            if self.failed is not None and self.turn != core:
                raise RuntimeError("another core failed")

    def pass_on(self, core):
        """Lets the next core run, and comes back when it is this one's turn."""
        with self.condition:
            self._next(core)
            self.condition.notify_all()
        self.wait_turn(core)
        state.session.current_program = core
        state.session.current_meeting = state.program.meeting

    def _next(self, core):
        for step in range(1, self.count + 1):
            candidate = (core + step) % self.count
            if not self.done[candidate]:
                self.turn = candidate
                return

    def finish(self, core, error=None):
        with self.condition:
            self.done[core] = True
            if error is not None:
                self.failed = error
            self._next(core)
            self.condition.notify_all()


def _run_cores(func, grid, places, args, kwargs, session, shared):
    cores = Cores(len(places))
    session.cores = len(places)
    values = [None] * len(places)
    errors = [None] * len(places)

    def run(core, place):
        program = state.program
        program.grid, program.place = grid, tuple(int(at) for at in place)
        program.loops, program.reductions, program.shared, program.at = [], {}, shared, 0
        program.barrier, program.core, program.lanes = cores, core, {}
        program.meeting, program.placed = 0, set()
        error = None
        try:
            cores.wait_turn(core)
            session.current_program, session.current_meeting = core, 0
            values[core] = func(*args, **kwargs)
        except BaseException as caught:  # handed to the caller below
            error = errors[core] = caught
        finally:
            cores.finish(core, error)

    threads = [threading.Thread(target=run, args=(core, place)) for core, place in enumerate(places)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        if error is not None and error is cores.failed:
            raise error
    for error in errors:
        if error is not None:
            raise error
    return values[0]


class Kernel:
    """A decorated kernel."""

    def __init__(self, func, dialect="old", grid=(), platform_target=None, mode="auto"):
        self.func = func.func if isinstance(func, Kernel) else func
        self.dialect = dialect
        self.grid = grid
        self.platform_target = platform_target
        self.mode = mode
        functools.update_wrapper(self, self.func)

    def __getitem__(self, grid):
        return type(self)._copy(self, _grid(grid))

    def _copy(self, grid):
        other = Kernel.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.grid = grid
        return other

    def with_schedule(self, pairs):
        """Order between instructions; kept, not needed: every order is derived from memory."""
        return self

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args, **kwargs):
        if state.session is not None:
            return self.func(*args, **kwargs)
        return self.run(args, kwargs).outputs

    def run(self, args, kwargs, chip=None, values=True):
        """Runs a launch and keeps what it leaves behind; without values if only the times are wanted."""
        global last
        name = chip_name(chip or self.platform_target, self.dialect)
        result = _Launch(self, name, self.grid, values).run(args, kwargs)
        last = result
        for listener in listeners:
            listener(result)
        return result


#: Called with each result.
listeners = []


class Dim(int):
    """A size of a launch grid that may be spread over cores: `nl.nc(2) * 4`."""

    def __mul__(self, other):
        return Dim(int(self) * int(other))

    __rmul__ = __mul__


def _grid(grid):
    if not isinstance(grid, tuple):
        grid = (grid,)
    sizes = tuple(int(size) for size in grid)
    # `kernel[0](...)` means one program.
    return () if sizes == (0,) else sizes


def decorator(dialect, **fixed):
    """A `jit`-like decorator of a dialect, bare or with options."""

    def decorate(func=None, **options):
        def make(func):
            wrapped = func if isinstance(func, Kernel) else Kernel(func, dialect)
            target = options.get("platform_target")
            if target:
                wrapped.platform_target = target
            for name, value in {**fixed, **options}.items():
                setattr(wrapped, "option_" + name, value)
            return wrapped

        return make if func is None else make(func)

    return decorate


class Benchmark(Kernel):
    """A kernel that is timed when it is called."""

    benchmark_result = None

    def __call__(self, *args, **kwargs):
        if state.session is not None:
            return self.func(*args, **kwargs)
        args = [_placeholder(value) for value in args]
        kwargs = {name: _placeholder(value) for name, value in kwargs.items()}
        result = self.run(args, kwargs)
        self.benchmark_result = BenchmarkResult(result)
        return None


class ShapeOnly:
    """A tensor argument of which only shape and type are known."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype = tuple(int(size) for size in shape), dtype


def _placeholder(value):
    if isinstance(value, ShapeOnly):
        return np.zeros(value.shape, dtypes.float32 if value.dtype is None else np.dtype(value.dtype))
    return value


def benchmark(kernel=None, **options):
    """Times a kernel instead of returning its outputs."""

    def make(kernel):
        base = kernel if isinstance(kernel, Kernel) else Kernel(kernel, "old")
        wrapped = Benchmark.__new__(Benchmark)
        wrapped.__dict__.update(base.__dict__)
        return wrapped

    return make if kernel is None else make(kernel)


def simulate_kernel(kernel, *args, **kwargs):
    """Runs a kernel of the old dialect."""
    kernel = kernel if isinstance(kernel, Kernel) else Kernel(kernel, "old")
    return kernel.run(args, kwargs).outputs


def simulate(kernel):
    """A kernel of the new dialect, as a function of arrays."""
    kernel = kernel if isinstance(kernel, Kernel) else Kernel(kernel, "new")

    def call(*args, **kwargs):
        return kernel.run(args, kwargs).outputs

    return call


@contextlib.contextmanager
def nothing():
    """A context that changes nothing."""
    yield


def identity(func=None, **_options):
    """A decorator that returns what it is given, bare or called with options."""
    if callable(func):
        return func
    return lambda inner: inner
