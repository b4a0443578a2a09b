"""Supplies the vendor's modules: `neuronxcc.nki`, `nki` and what lies below them."""

import dis
import importlib
import importlib.abc
import importlib.machinery
import sys
import types

_OURS = "tilewright.nki."

#: Module names of kernels, and the modules of this package that stand for them. None: an empty one.
MODULES = {
    "neuronxcc": None,
    "neuronxcc.nki": "old",
    "neuronxcc.nki.language": "old.language",
    "neuronxcc.nki.language.constants": "old.constants",
    "neuronxcc.nki.isa": "old.isa",
    "neuronxcc.nki.isa.constants": "old.isa_constants",
    "neuronxcc.nki.isa.neuron_isa": "old.isa",
    "neuronxcc.nki.compiler": "old.compiler",
    "neuronxcc.nki.typing": "typing",
    "neuronxcc.nki.kernels": "old.kernels",
    "neuronxcc.nki.kernels.attention": "old.kernels.attention",
    "neuronxcc.nki.kernels.vision": "old.kernels.vision",
    "neuronxcc.nki.nccl": "old.nccl",
    "neuronxcc.nki.nccl.collectives": "old.nccl",
    "neuronxcc.starfish": None,
    "neuronxcc.starfish.support": None,
    "neuronxcc.starfish.support.util": "comparison",
    "nki": "new",
    "nki.language": "new.language",
    "nki.language.constants": "old.constants",
    "nki.isa": "new.isa",
    "nki.isa.constants": "new.isa_constants",
    "nki.compiler": "old.compiler",
    "nki.typing": "typing",
    "nki.collectives": "new.collectives",
    "nki.dtype": "dtypes",
    "nki.tensor": "new.tensor",
    "neuron_dtypes": "neuron_dtypes",
}


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules above: before anything else does if it stands first, those that nobody else has if it stands last."""

    def find_spec(self, name, path=None, target=None):
        if name not in MODULES:
            return None
        parent = sys.modules.get(name.rpartition(".")[0])
        if sys.meta_path[0] is not self and parent is not None and parent.__spec__.loader is not self:
            # Nothing of ours inside a package of others.
            return None
        below = any(other.startswith(name + ".") for other in MODULES)
        return importlib.machinery.ModuleSpec(name, self, is_package=below)

    def create_module(self, spec):
        target = MODULES[spec.name]
        if target is None:
            return types.ModuleType(spec.name)
        ours = importlib.import_module(_OURS + target)
        # A module of its own, so that names of submodules do not mix.
        made = types.ModuleType(spec.name, ours.__doc__)
        made.__dict__.update({name: value for name, value in vars(ours).items() if not name.startswith("__")})
        return made

    def exec_module(self, module):
        name = module.__name__
        for other in MODULES:
            parent, _, child = other.rpartition(".")
            if parent == name:
                setattr(module, child, importlib.import_module(other))
        if MODULES[name] is not None:
            module.__getattr__ = _missing(name)


def _dialect(module):
    return "the first dialect (NKI 0.1)" if module.startswith("neuronxcc") else "the second dialect (NKI 0.2 to 0.6)"


def _counterpart(module):
    """The same module of the other dialect."""
    return module.removeprefix("neuronxcc.") if module.startswith("neuronxcc.") else "neuronxcc." + module


def _imports(frame):
    """True if the frame asks for a name of a module with `from module import name`."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == dis.opmap["IMPORT_FROM"]


def _missing(module):
    """What a name that does not exist is answered with: the name, the dialect, and what comes nearest."""

    def missing(name):
        if name.startswith("__"):
            raise AttributeError(name)
        import difflib

        text = f"{module}.{name} does not exist in {_dialect(module)} as it runs here"
        other = _counterpart(module)
        if other in MODULES and hasattr(importlib.import_module(_OURS + MODULES[other]), name):
            text += f"; {other}.{name} does"
        known = [one for one in vars(sys.modules[module]) if not one.startswith("_")]
        near = difflib.get_close_matches(name, known, 1, 0.0)
        if near:
            text += f"; the nearest is {module}.{near[0]}"
        if _imports(sys._getframe(1)):
            # What an AttributeError says is lost in `from module import name`.
            raise ImportError(text, name=module)
        raise AttributeError(text, name=name, obj=sys.modules[module])

    return missing


_finder = _Finder()


def offer():
    """Supplies the modules if no other package has them."""
    if _finder not in sys.meta_path:
        sys.meta_path.append(_finder)


def install():
    """Puts the modules in place, before those of other packages; modules that were imported before stay."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    sys.meta_path.insert(0, _finder)


def remove():
    """Takes them away again."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for name in MODULES:
        sys.modules.pop(name, None)
