"""The case study of the TCP paper: its tables and figures from simulated programs, beside the published values."""

from __future__ import annotations

import html
import json
from typing import Any

from . import _core, tables
from .errors import refuse
from .machine import Machine, machine_of

__all__ = ["Study", "study"]


class Study:
    """What a case study found."""

    def __init__(self, data: dict[str, Any], text: str):
        #: With the keys of `tilewright study llama2-7b --json`.
        self.data = data
        self._text = text

    def to_dataframe(self, library: str | None = None) -> Any:
        """Table II, one row for each row of it."""
        rows = self.data["table2"]["rows"] if isinstance(self.data["table2"], dict) else self.data["table2"]
        return tables.dataframe(rows, library)

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self._text)}</pre>"


def study(model: str = "llama2-7b", chip: Machine | str = "tcp", *, dtype: str = "int8", pes: int = 8, chips: int = 1, brief: bool = True) -> Study:
    """Compiles a model for the TCP, times its programs at the lengths of the paper's Table II, and sets published values beside ours where they are of the same model and chip.

    `brief=False` measures the other figures too. It takes minutes. (`tilewright study llama2-7b` prints the same.)

    >>> import tilewright
    >>> try:
    ...     tilewright.study("llama2-7b", "trainium1")
    ... except tilewright.Refused as refused:
    ...     refused.allowed
    'machines of architecture tcp'
    """
    if dtype not in ("int8", "bf16"):
        raise refuse("study/dtype", f"a study in {dtype!r}", "int8, bf16", "dtype='int8'")
    machine = machine_of(chip)
    found, text = _core.study_model(model, machine._handle, dtype == "int8", pes, chips, brief, chip == "tcp")
    return Study(json.loads(found), text)
