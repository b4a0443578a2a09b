"""Kernels: decorators, launch grids, arrays in and out, and what a run leaves behind."""

import contextlib
import functools
import importlib
import inspect
import math
import os
import threading
import types

import numpy as np

from tilewright import _core
from tilewright._core import Tensor

from . import arrays, booleans, dtypes, gradients, refusals, state, team
from .result import BenchmarkResult, Result, write_trace

CHIPS = {
    "trn1": "trainium1",
    "inf2": "inferentia2",
    "gen2": "trainium1",
    "trn2": "trainium2",
    "gen3": "trainium2",
    "trn3": "trainium3",
    "gen4": "trainium3",
}

#: Programs of a launch that are still run: a limit of this project.
MOST_PROGRAMS = 1 << 20

#: The last run of any kernel.
last = None


def chip_name(name=None, dialect="old", target=None):
    """The chip to run on: as the caller or the command line says, as the kernel does (its `platform_target`), as the environment, or the dialect's default."""
    name = name or os.environ.get("TILEWRIGHT_CHIP") or target or os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE")
    if not name:
        return "trainium1" if dialect == "old" else "trainium2"
    return CHIPS.get(str(name).lower(), str(name).lower())


class _Launch:
    """One launch: arguments as tensors, and back."""

    def __init__(self, kernel, chip, grid, values=True, number=None):
        self.kernel = kernel
        self.func = kernel.func
        self.chip = chip
        self.grid = grid
        self.values = values
        #: The number that launches of ranks that run together share.
        self.number = number
        self.inputs = []
        self.like = None

    def tensor(self, session, value, name=""):
        if isinstance(value, Tensor):
            return value
        if isinstance(value, ShapeOnly):
            value = value if not session.values else _placeholder(value)
        array = value if isinstance(value, ShapeOnly) else arrays.to_numpy(value)
        if array is not None and not session.values:
            code = dtypes.F32 if array.dtype is None else dtypes.host_code(array.dtype)
            return session.placeholder(list(array.shape), code, name)
        if array is not None:
            if self.like is None:
                self.like = value
            device = dtypes.device_array(array, name)
            raw = device.reshape(-1).view(np.uint8) if device.size else np.zeros(0, np.uint8)
            tensor = session.input(raw, list(device.shape), dtypes.code(device.dtype), name)
            self.inputs.append((tensor, value, device, name))
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
            return arrays.like(value.numpy(), self.like)
        if isinstance(value, tuple):
            items = [self.output(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        if isinstance(value, list):
            return [self.output(item) for item in value]
        if isinstance(value, dict):
            return {key: self.output(item) for key, item in value.items()}
        return value

    def prepare(self, args, kwargs):
        """A new session with the arguments as its tensors: what a program runs with."""
        self.inputs, self.like = [], None
        session = self.session = _core.Session(self.chip, os.environ.get("NKI_PRECISE_FP", "1") != "0", self.number)
        session.values = self.values
        session.programs = len(_places(self.grid))
        if self.kernel.dialect == "new":
            session.check_launch(len(_places(self.grid)))
        session.compiled = self.kernel.dialect == "old" and not _as_written(self.kernel)
        names = _parameter_names(self.kernel.func)
        args = [self.tensor(session, value, names[at] if at < len(names) else "") for at, value in enumerate(args)]
        kwargs = {name: self.tensor(session, value, name) for name, value in kwargs.items()}
        self.shared = Shared()
        return self.func, self.grid, args, kwargs, session, self.shared

    def run(self, args, kwargs):
        """Runs the launch; once more with `&` for `and` if the kernel asked a mask for its truth."""
        try:
            return self.run_as_written(args, kwargs)
        except TypeError as error:
            func = booleans.exchanged(self.func) if str(error).startswith(booleans.NO_TRUTH) else None
            if func is None:
                told = refusals.of_operands(error)
                if told is None:
                    raise
                raise told from error
        except (ValueError, OverflowError) as error:
            told = refusals.of_operands(error)
            if told is None:
                raise
            raise told from error
        except AttributeError as error:
            told = refusals.of_no_tensor(error)
            if told is None:
                raise
            raise told from error
        self.func = func
        return self.run_as_written(args, kwargs)

    def run_as_written(self, args, kwargs):
        """Programs of the old dialect run one after the other unless they need one another."""
        launch = self.prepare(args, kwargs)
        together = self.kernel.dialect == "new" and len(_places(self.grid)) > 1
        try:
            if not together:
                value = _run_alone(*launch)
        except team.Together:
            together = True
            launch = self.prepare(args, kwargs)
        return self.finish(_run_together([launch])[0] if together else value)

    def finish(self, value):
        """The result of a launch that ended: outputs as arrays, arguments that were written to in place."""
        if inspect.isgenerator(value) or inspect.iscoroutine(value):
            raise TypeError(f"the kernel {self.kernel.__name__} gives a {type(value).__name__}, which nothing runs: return tensors instead of yield or async")
        result = Result(self.kernel.__name__, self.session, None)
        result.extra_findings += self.shared.findings
        _never_written(result, value)
        _where_outputs_lie(result, value, self.kernel.dialect)
        result.outputs = self.output(value)
        result.shapes = _shapes_of(value)
        self.copy_back()
        return result

    def copy_back(self):
        """Arguments that the kernel wrote to change in place."""
        for tensor, value, device, name in self.inputs:
            if tensor.as_initialised:
                continue
            found = tensor.numpy()
            if found.tobytes() == device.tobytes():
                continue
            shared = [other for kept, one, _, other in self.inputs if kept is not tensor and arrays.share_memory(one, value)]
            if shared:
                raise ValueError(f"the kernel writes to its argument {name}, which shares memory with its argument {shared[0]}, and a device has a tensor for each: pass a copy")
            arrays.write_back(value, found, name)


def _shapes_of(value):
    """Shapes and types in place of tensors."""
    if isinstance(value, Tensor):
        return ShapeOnly(value.shape, dtypes.by_code(value.code))
    if isinstance(value, (tuple, list)):
        items = [_shapes_of(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return {key: _shapes_of(item) for key, item in value.items()} if isinstance(value, dict) else value


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


def _where_outputs_lie(result, value, dialect):
    """Outputs are in HBM; since NKI 0.3 in the part that is shared."""
    if isinstance(value, (tuple, list, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            _where_outputs_lie(result, item, dialect)
    elif isinstance(value, Tensor) and (value.on_chip or (dialect == "new" and value.memory != "shared_hbm")):
        result.extra_findings.append(
            {
                "code": "neuron/output",
                # Kernels of NKI 0.2 may return private tensors.
                "severity": "error" if value.on_chip else "warning",
                "line": result.made_at(value),
                "message": f"output {_named(value)} is in {value.memory}",
                "allowed": "outputs in shared_hbm" if dialect == "new" else "outputs in HBM",
                "instead": "allocate it with buffer=nl.shared_hbm, and copy into it",
            }
        )


def _named(value):
    return f"`{value.name}`" if value.name else f"of shape {tuple(value.shape)}"


def _as_written(kernel):
    """True for a kernel that asks the compiler of its dialect to change nothing."""
    return getattr(kernel, "as_written", False) or getattr(kernel.func, "as_written", False)


def _parameter_names(func):
    try:
        return list(inspect.signature(func).parameters)
    except (TypeError, ValueError):
        return []


class Shared:
    """What every program of a launch sees: tensors, paired by the order of their allocation, and what was found."""

    def __init__(self):
        self.made = []
        self.findings = []
        self.lock = threading.Lock()


def _places(grid):
    """Every place of a launch grid."""
    return [tuple(int(at) for at in place) for place in np.ndindex(*grid)] if grid else [()]


def _start(program, grid, place, shared, session, core):
    """Makes a program of a launch the one that is to run in this thread; `_core.enter` follows when it is its turn."""
    program.grid, program.place, program.shared = grid, place, shared
    program.loops, program.reductions, program.lanes, program.placed = [], {}, {}, set()
    program.at, program.barrier, program.calls, program.chosen_psum = 0, 0, {}, set()
    program.session, program.core = session, core


def _run_alone(func, grid, args, kwargs, session, shared):
    """Runs the programs of a launch one after the other and gives the value of the first."""
    program = state.program
    saved = dict(program.__dict__)
    first = None
    try:
        for number, place in enumerate(_places(grid)):
            _start(program, grid, place, shared, session, number)
            _core.enter(session)
            session.current_program, session.current_barrier = number, 0
            value = func(*args, **kwargs)
            if number == 0:
                first = value
        return first
    finally:
        program.__dict__.clear()
        program.__dict__.update(saved)
        _core.enter(program.session)


def _run_together(launches):
    """Runs the programs of several launches, one for each rank, as a team; gives the value of each launch."""
    bodies, members = [], []
    for rank, (_func, grid, _args, _kwargs, session, _shared) in enumerate(launches):
        session.cores = len(_places(grid))
        for core, place in enumerate(_places(grid)):

            def body(turns, at, *, rank=rank, core=core, place=place, launch=launches[rank]):
                func, grid, args, kwargs, session, shared = launch
                _start(state.program, grid, place, shared, session, core)
                state.program.rank = rank
                turns.wait_turn(at)
                _core.enter(session)
                return func(*args, **kwargs)

            bodies.append(body)
            members.append((rank, core))
    values = team.run(bodies, members)
    return [values[members.index((rank, 0))] for rank in range(len(launches))]


#: What a kernel that is unpickled has besides its function.
_PICKLED = ("dialect", "grid", "platform_target", "mode")


def _unpickled(module, name, own):
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    made = found._copy(own["grid"]) if isinstance(found, Kernel) else Kernel(found)
    made.__dict__.update(own)
    return made


class Kernel:
    """A decorated kernel."""

    #: Kernels whose name begins with `test` are not tests.
    __test__ = False
    #: What torch and JAX differentiate it by (`register_gradient`).
    gradient = None

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
        other.ungridded = self.__dict__.get("ungridded", self)
        return other

    def __reduce__(self):
        """Kernels are pickled by name, as functions are, with their grid and options."""
        own = {name: value for name, value in self.__dict__.items() if name in _PICKLED or name.startswith("option_")}
        return _unpickled, (self.__module__, self.__qualname__, own)

    def with_schedule(self, pairs):
        """Order between instructions; kept, not needed: every order is derived from memory."""
        return self

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args, **kwargs):
        if state.program.session is not None:
            return self.func(*args, **kwargs)
        with refusals.as_in_the_simulator():
            return self._called(args, kwargs)

    def _called(self, args, kwargs):
        if arrays.is_traced((args, kwargs)):
            run = lambda args, kwargs, told: self.run(args, kwargs, told=told).outputs  # noqa: E731
            return gradients.call_with_jax(self, args, kwargs, run)
        tensors = gradients.torch_tensors((args, kwargs))
        done = gradients.call_with_torch(self, args, kwargs, tensors) if tensors else None
        return self.run(args, kwargs).outputs if done is None else done[0]

    def register_gradient(self, function):
        """Gives the kernel a gradient: `function(args, outputs, gradients)` returns that of each positional argument, None for those without.
        A decorator too."""
        self.__dict__.get("ungridded", self).gradient = function
        self.gradient = function
        return function

    def run(self, args, kwargs, chip=None, values=True, told=True):
        """Runs a launch and keeps what it leaves behind; without values if only the times are wanted, unless told as if it never ran."""
        name = chip_name(chip, self.dialect, self.platform_target)
        try:
            result = _Launch(self, name, self.grid, values).run(args, kwargs)
            if not told:
                return result
            _keep(result)
        except Exception as error:
            for listener in failure_listeners:
                listener(self.__name__, name, error)
            raise
        trace = getattr(self, "option_save_trace_name", None)
        if trace:
            write_trace(os.path.join(getattr(self, "option_working_directory", None) or "", trace), result.trace)
        return result

    def run_ranks(self, arguments, chip=None, instance=None):
        """Runs a launch on each of several ranks together; `arguments` has the keywords of each.

        The ranks take the cores of an instance in order: of the one that is named, of TILEWRIGHT_INSTANCE, or of the smallest
        that has as many."""
        instance = instance or os.environ.get("TILEWRIGHT_INSTANCE")
        chip = _core.instance_chip(instance) if instance and not (chip or os.environ.get("TILEWRIGHT_CHIP")) else chip
        name = chip_name(chip, self.dialect, self.platform_target)
        number = _core.next_launch()
        launches = [_Launch(self, name, self.grid, number=number) for _ in arguments]
        ready = [launch.prepare((), kwargs) for launch, kwargs in zip(launches, arguments)]
        sessions = [launch.session for launch in launches]
        instance = _core.place_ranks(sessions, instance, len(_places(self.grid)))
        values = _run_together(ready)
        _core.schedule_collectives(sessions)
        results = [_keep(launch.finish(value)) for launch, value in zip(launches, values)]
        for result in results:
            result.instance = instance
        return results


#: Called with each result.
listeners = []
#: Called with the kernel's name, the chip and the error of each call that raised one.
failure_listeners = []


def _keep(result):
    """Makes a result the last one, and tells who listens."""
    global last
    last = result
    for listener in listeners:
        listener(result)
    return result


def dialect_of(func):
    """The dialect of a function without a decorator: that of the modules its file imports; the first if it has both, or neither."""
    values = getattr(func, "__globals__", {}).values()
    modules = {value.__name__.partition(".")[0] for value in values if isinstance(value, types.ModuleType)}
    second = any(inspect.isfunction(value) and value.__module__.startswith("tilewright.nki.new") for value in values)
    return "new" if (second or "nki" in modules) and "neuronxcc" not in modules else "old"


class Dim(int):
    """A size of a launch grid that may be spread over cores: `nl.nc(2) * 4`."""

    def __mul__(self, other):
        return Dim(int(self) * int(other))

    __rmul__ = __mul__


def _grid(grid):
    if not isinstance(grid, tuple):
        grid = (grid,)
    sizes = tuple(refusals.sizes(grid, "a launch grid"))
    programs = math.prod(sizes)
    if programs > MOST_PROGRAMS:
        raise refusals.refused("neuron/launch", f"a launch of {programs} programs", f"at most {MOST_PROGRAMS}, each of which runs here", "give a program more to do, in a loop")
    # `kernel[0](...)` means one program.
    return () if sizes == (0,) else sizes


def decorator(dialect, **fixed):
    """A `jit`-like decorator of a dialect, bare or with options."""

    def decorate(func=None, **options):
        def make(func):
            # A kernel that is decorated again stays what it was; the copy has the options.
            wrapped = func._copy(func.grid) if isinstance(func, Kernel) else Kernel(func, dialect)
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
        if state.program.session is not None:
            return self.func(*args, **kwargs)
        args = [_placeholder(value) for value in args]
        kwargs = {name: _placeholder(value) for name, value in kwargs.items()}
        result = self.run(args, kwargs)
        self.benchmark_result = BenchmarkResult(result)
        # Scripts that write `timed[grid](...)` ask `timed` for the result.
        self.__dict__.get("ungridded", self).benchmark_result = self.benchmark_result
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
        for name, value in options.items():
            setattr(wrapped, "option_" + name, value)
        return wrapped

    return make if kernel is None else make(kernel)


def simulate_kernel(kernel, *args, **kwargs):
    """Runs a kernel of the old dialect."""
    kernel = kernel if isinstance(kernel, Kernel) else Kernel(kernel, "old")
    with refusals.as_in_the_simulator():
        return kernel.run(args, kwargs).outputs


class Simulated:
    """A kernel as a function of arrays: `simulate(kernel)(a, b)`, on several cores `simulate(kernel)[2](a, b)` or `simulate(kernel[2])(a, b)`."""

    def __init__(self, kernel):
        self.kernel = kernel
        functools.update_wrapper(self, kernel.func)

    def __getitem__(self, grid):
        return Simulated(self.kernel[grid])

    def __call__(self, *args, **kwargs):
        with refusals.as_in_the_simulator():
            return self.kernel.run(args, kwargs).outputs


def simulate(kernel):
    """A kernel of the new dialect, as a function of arrays."""
    return Simulated(kernel if isinstance(kernel, Kernel) else Kernel(kernel, "new"))


@contextlib.contextmanager
def nothing():
    """A context that changes nothing."""
    yield


def identity(func=None, **_options):
    """A decorator that returns what it is given, bare or called with options."""
    if callable(func):
        return func
    return lambda inner: inner
