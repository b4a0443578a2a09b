"""Examples in docstrings run, every public name has one or is covered by its class, and the stub of the core names what is there."""

import ast
import doctest
import importlib
import inspect
import pathlib

import pytest

import tilewright
from tilewright import _core

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
MODULES = ("chip_search", "errors", "exploring", "machine", "models", "notation", "running", "studies", "sweeps", "tables")


@pytest.mark.parametrize("name", ["", *MODULES])
def test_examples_in_docstrings_run(name, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    module = importlib.import_module(f"tilewright.{name}".rstrip("."))
    outcome = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert outcome.failed == 0


def test_functions_have_examples():
    functions = [getattr(tilewright, name) for name in tilewright.__all__ if inspect.isfunction(getattr(tilewright, name))]
    assert functions
    for function in functions:
        assert ">>>" in function.__doc__, function.__name__


def test_the_stub_names_what_the_core_has():
    tree = ast.parse((REPOSITORY / "python/tilewright/_core.pyi").read_text())
    named = {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")}
    there = {name for name in dir(_core) if not name.startswith("__")}
    assert set(named) == there, (set(named) ^ there)
    for name in ("GenerationHandle", "MachineHandle", "ModelHandle", "RunHandle"):
        members = {node.name for node in named[name].body if isinstance(node, ast.FunctionDef)}
        assert members == {one for one in vars(getattr(_core, name)) if not one.startswith("__")}


def test_public_functions_and_methods_are_annotated():
    for name in tilewright.__all__:
        thing = getattr(tilewright, name)
        members = [thing] if inspect.isfunction(thing) else [one for key, one in vars(thing).items() if inspect.isfunction(one) and not key.startswith("_")]
        for member in members:
            hints = inspect.signature(member)
            assert hints.return_annotation is not inspect.Signature.empty, member.__qualname__
            for parameter in hints.parameters.values():
                assert parameter.name in ("self", "cls") or parameter.annotation is not inspect.Parameter.empty, member.__qualname__


def test_the_reference_page_is_what_the_docstrings_say():
    import runpy

    made = runpy.run_path(str(REPOSITORY / "python" / "reference.py"))["text"]()
    assert (REPOSITORY / "docs" / "python-reference.md").read_text() == made, "python python/reference.py > docs/python-reference.md"


def test_examples_of_the_book_run(monkeypatch):
    """Fences `python run` of the chapter on Python, one after the other in one namespace."""
    import re

    monkeypatch.chdir(REPOSITORY)
    blocks = re.findall(r"```python run\n(.*?)```", (REPOSITORY / "docs" / "python.md").read_text(), re.S)
    assert len(blocks) > 4
    names = {}
    for block in blocks:
        exec(block, names)


def test_notebooks_show_what_is_saved():
    import subprocess
    import sys

    done = subprocess.run([sys.executable, str(REPOSITORY / "notebooks" / "run.py")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
