"""Machines: chips by name or from a file, their figures with sources, and the same with figures changed."""

from __future__ import annotations

import html
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _core, tables
from .errors import refuse, refuse_type

__all__ = ["Figure", "Machine", "machine_of"]


@dataclass(frozen=True)
class Figure:
    """One figure of a machine, with where it comes from."""

    name: str
    value: Any
    unit: str
    source: str
    assumed: bool
    stated_by: str
    doc: str


class Machine:
    """A chip: its figures, what follows from them, and what they rest on.

    >>> from tilewright import Machine
    >>> tcp = Machine("tcp")
    >>> tcp["dm.capacity_bytes"]
    524288
    >>> larger = tcp.vary({"dm.capacity_bytes": 1 << 20})
    >>> larger["dm.capacity_bytes"]
    1048576
    >>> tcp.figure("dm.capacity_bytes").unit
    'B'
    """

    def __init__(self, name: str | os.PathLike[str]):
        """A machine by name, or from a file that ends in `.toml`."""
        if isinstance(name, os.PathLike) or (isinstance(name, str) and (name.endswith(".toml") or "/" in name)):
            path = Path(name)
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise refuse("machine/unreadable", f"cannot read `{path}`: {error}", "a machine file", "Machine('tcp')") from error
            self._handle = _core.MachineHandle.from_text(str(path), text)
        elif isinstance(name, str):
            self._handle = _core.MachineHandle.named(name)
        else:
            raise refuse_type("the name of a machine", name, "a name or a path", "Machine('tcp')")
        self._data: dict[str, Any] | None = None

    @classmethod
    def _of(cls, handle: Any) -> Machine:
        machine = cls.__new__(cls)
        machine._handle, machine._data = handle, None
        return machine

    @classmethod
    def from_text(cls, text: str, name: str = "machine.toml") -> Machine:
        """A machine from the text of a machine file, which may name one of ours as its base.

        >>> from tilewright import Machine
        >>> try:
        ...     Machine.from_text("base = 'tcp'\\n[dm]\\ncapacity_bytes = -1")
        ... except Exception as error:
        ...     error.place.split(":")[0]
        'machine.toml'
        """
        return cls._of(_core.MachineHandle.from_text(name, text))

    @staticmethod
    def names() -> list[str]:
        """Machines that come with the package.

        >>> from tilewright import Machine
        >>> {"tcp", "trainium1"} <= set(Machine.names())
        True
        """
        return _core.machine_names()

    def vary(self, changes: dict[str, Any] | None = None, **by_section: dict[str, Any]) -> Machine:
        """The same machine with figures changed, as `{"section.key": value}` or as sections.

        >>> from tilewright import Machine
        >>> Machine("tcp").vary(hbm={"efficiency": 0.9})["hbm.efficiency"]
        0.9
        """
        settings = {**(changes or {})}
        for section, keys in by_section.items():
            if not isinstance(keys, dict):
                raise refuse_type(f"the section `{section}`", keys, "a dictionary of figures", f"vary({section}={{'key': 1}})")
            settings.update({f"{section}.{key}": value for key, value in keys.items()})
        texts = [f"{key}={_toml(value)}" for key, value in settings.items()]
        return Machine._of(self._handle.varied(texts))

    @property
    def data(self) -> dict[str, Any]:
        """Everything about it, with the keys of `tilewright machine show --json`."""
        if self._data is None:
            self._data = json.loads(self._handle.json())
        return self._data

    @property
    def name(self) -> str:
        """Its name."""
        return self._handle.name

    @property
    def architecture(self) -> str:
        """`tcp` or `neuron`."""
        return self.data["architecture"]

    @property
    def figures(self) -> list[Figure]:
        """All figures."""
        return [_figure(one) for one in self.data["figures"]]

    def figure(self, name: str) -> Figure:
        """One figure by `section.key`."""
        for one in self.data["figures"]:
            if f"{one['section']}.{one['key']}" == name:
                return _figure(one)
        some = ", ".join(f"{one['section']}.{one['key']}" for one in self.data["figures"][:6])
        raise refuse("machine/figure", f"`{self.name}` has no figure `{name}`", f"{some} and more: `.figures`", "dm.capacity_bytes")

    def __getitem__(self, name: str) -> Any:
        return self.figure(name).value

    @property
    def assumptions(self) -> list[str]:
        """Figures that nobody published."""
        return self.data["assumptions"]

    def to_dataframe(self, library: str | None = None) -> Any:
        """Figures as a table of pandas, polars or Arrow."""
        return tables.dataframe([vars(one) for one in self.figures], library)

    def __str__(self) -> str:
        return self._handle.text()

    def __repr__(self) -> str:
        return f"Machine({self.name!r}): {self.architecture}, {len(self.data['figures'])} figures, {len(self.assumptions)} of them assumed"

    def _repr_html_(self) -> str:
        rows = [(one.name, one.value, one.unit, "assumed" if one.assumed else "", one.source) for one in self.figures]
        head = f"<b>{html.escape(self.name)}</b> {html.escape(self.data['description'])}"
        return f"<details><summary>{head}</summary>{tables.html_table(('figure', 'value', 'unit', '', 'source'), rows)}</details>"


def _figure(one: dict[str, Any]) -> Figure:
    source = one["source"]
    kind = source.get("kind", "") if isinstance(source, dict) else str(source)
    words = " ".join(str(value) for value in source.values()) if isinstance(source, dict) else str(source)
    return Figure(f"{one['section']}.{one['key']}", one["value"], one["unit"], words, kind == "assumption" or kind == "assumed", one["stated_by"], one["doc"])


def _toml(value: Any) -> str:
    """A value as machine files write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(one) for one in value) + "]"
    if isinstance(value, str):
        return value
    if hasattr(value, "item"):
        value = value.item()
    if not isinstance(value, (int, float)):
        raise refuse_type("a figure", value, "a number, a boolean, a text or a list of them", "vary({'dm.capacity_bytes': 1048576})")
    return repr(value)


def machine_of(chip: Machine | str | os.PathLike[str]) -> Machine:
    """A machine, or one by name."""
    return chip if isinstance(chip, Machine) else Machine(chip)
