"""Language models: compiled for the TCP, and generating text on the simulated chip."""

from __future__ import annotations

import html
import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Callable

from . import _core, tables
from .errors import refuse, refuse_type
from .machine import Machine, machine_of
from .running import Program, Trace

__all__ = ["CompiledModel", "Generation", "compile", "generate"]


@dataclass(frozen=True)
class _Options:
    """What the core takes."""

    dtype: str
    cache: str
    pes: int
    chips: int
    context: int
    effort: int
    goal: str


class Generation:
    """What a prompt became, and what it took on the simulated chip."""

    def __init__(self, handle: Any):
        self._handle = handle

    @cached_property
    def data(self) -> dict[str, Any]:
        """With the keys of `tilewright run --json`."""
        return json.loads(self._handle.json())

    @property
    def text(self) -> str:
        """The prompt and what came behind it."""
        return self.data["text"]

    @property
    def tokens(self) -> list[int]:
        """Tokens behind the prompt."""
        return self.data["tokens"]

    @property
    def ms_per_token(self) -> float | None:
        """Milliseconds of a generated token."""
        return self.data["ms_per_token"]

    @property
    def tokens_per_s(self) -> float | None:
        """Generated tokens in a second of the simulated chip."""
        return self.data["tokens_per_s"]

    @property
    def prefill_ms(self) -> float:
        """Milliseconds of the prompt."""
        return self.data["prefill_ms"]

    @property
    def energy_mj_per_token(self) -> float | None:
        """Millijoules of a generated token."""
        return self.data["energy_mj_per_token"]

    @property
    def utilisation(self) -> dict[str, float]:
        """Part of the time that contexts and DMA engines are busy, and of what multipliers and HBM could do."""
        return self.data["utilisation"]

    @property
    def trace(self) -> Trace:
        """A Perfetto trace of the last run."""
        return Trace(self._handle)

    def save_page(self, path: str | os.PathLike[str]) -> Path:
        """Writes the page that shows the runs of the prompt and of the last token, with the model's graph, and gives its path."""
        Path(path).write_text(self._handle.page(), encoding="utf-8")
        return Path(path)

    def to_dataframe(self, library: str | None = None) -> Any:
        """Where the time of a token went, one row for each kind of command."""
        return tables.dataframe(self.data["breakdown"], library)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        each = f", {self.ms_per_token:.4f} ms each" if self.ms_per_token else ""
        return f"Generation({self.text!r}: {len(self.tokens)} tokens{each}, {self.prefill_ms:.4f} ms for the prompt)"

    def _repr_html_(self) -> str:
        rows = [(one["kind"], one["unit"], one["commands"], one["cycles"], f"{one['share']:.1%}") for one in self.data["breakdown"]]
        return f"<blockquote>{html.escape(self.text)}</blockquote><pre>{html.escape(repr(self))}</pre>" + tables.html_table(("where it went", "unit", "commands", "cycles", "of the time"), rows)


class CompiledModel:
    """A model as programs of the TCP. It holds a simulated device from the first prompt on: `close()` it, or use `with`."""

    def __init__(self, handle: Any):
        self._handle = handle

    @cached_property
    def data(self) -> dict[str, Any]:
        """What was decided: types, PEs, context, evaluations, kernels as text."""
        return json.loads(self._handle.json())

    @cached_property
    def programs(self) -> dict[str, Program]:
        """Its programs by name: `clear`, `prefill` and `decode`."""
        return {name: Program(text, name=name) for name, text in self._handle.programs()}

    @cached_property
    def costs(self) -> dict[str, dict[str, float]]:
        """What a token takes, behind the longest context (`decode`) and of the longest prompt (`prefill`): `ms_per_token`, `energy_mj_per_token` and `milliwatts`. Needs no weights.

        >>> import tilewright
        >>> sorted(tilewright.compile("fables", context=64).costs)
        ['decode', 'prefill']
        """
        costs = self._handle.costs()
        if costs is None:
            raise refuse("model/untimed", "the programs do not come to their end", "a model that runs", "compile(...) with other options")
        return json.loads(costs)

    def generate(self, prompt: str, *, max_tokens: int = 64, on_text: Callable[[str], Any] | None = None) -> Generation:
        """Generates behind a prompt, from an empty context; `on_text` hears the text so far. Ctrl-C ends it."""
        if not isinstance(prompt, str):
            raise refuse_type("the prompt", prompt, "a text", "model.generate('Once there was a')")
        if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 0:
            raise refuse_type("max_tokens", max_tokens, "a whole number of at least 0", "max_tokens=64")
        return Generation(self._handle.generate(prompt, max_tokens, on_text))

    def close(self) -> None:
        """Gives the device up; prompts are refused from now on."""
        self._handle.close()

    def __enter__(self) -> CompiledModel:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        data = self.data
        return f"CompiledModel({data['model']!r} in {data['dtype']} on {data['pes']} PE of {data['chip']}, context {data['context']})"


def compile(
    model: str | os.PathLike[str],
    chip: Machine | str = "tcp",
    *,
    dtype: str = "bf16",
    cache: str = "bf16",
    pes: int = 1,
    chips: int = 1,
    context: int = 256,
    effort: int = 0,
    goal: str = "time",
) -> CompiledModel:
    """Compiles a model: a llama2.c checkpoint, a GGUF or ONNX file, a folder of Hugging Face, a built-in configuration, or `fables`, which comes with the package.

    >>> import tilewright
    >>> with tilewright.compile("fables", context=64) as model:
    ...     told = model.generate("A wise owl", max_tokens=3)
    >>> len(told.tokens), told.text.startswith("A wise owl")
    (3, True)
    """
    if not isinstance(model, (str, os.PathLike)):
        raise refuse_type("the model", model, "a path, or the name of a configuration", "compile('fables')")
    options = _Options(dtype, cache, pes, chips, context, effort, goal)
    return CompiledModel(_core.ModelHandle.compile(os.fspath(model), machine_of(chip)._handle, options))


def generate(model: str | os.PathLike[str] | CompiledModel, prompt: str, *, max_tokens: int = 64, **options: Any) -> Generation:
    """Compiles a model unless it is compiled, and generates; options are those of `compile`.

    >>> import tilewright
    >>> tilewright.generate("fables", "The fox", max_tokens=2, context=64).data["stop"]
    'max_tokens'
    """
    if isinstance(model, CompiledModel):
        return model.generate(prompt, max_tokens=max_tokens)
    with compile(model, **options) as made:
        return made.generate(prompt, max_tokens=max_tokens)
