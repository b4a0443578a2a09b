"""Rows as data frames of whichever library is there, and as HTML that survives in a saved notebook."""

from __future__ import annotations

import html
import importlib
import sys
from typing import Any, Iterable, Sequence

from .errors import refuse

__all__ = ["columns", "dataframe", "html_table"]

_LIBRARIES = ("pandas", "polars", "pyarrow")


def dataframe(rows: Sequence[dict[str, Any]] | dict[str, Any], library: str | None = None) -> Any:
    """Rows, or columns by name, as a frame: of `library` (`pandas`, `polars` or `pyarrow`), else of one that is imported, else of the first installed."""
    data = rows if isinstance(rows, dict) else columns(rows)
    if library is not None and library not in _LIBRARIES:
        raise refuse("tables/library", f"`{library}` makes no frames here", ", ".join(_LIBRARIES), "to_dataframe('pandas')")
    order = (library,) if library else tuple(sorted(_LIBRARIES, key=lambda name: name not in sys.modules))
    for name in order:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        if name == "pyarrow":
            return module.table(data)
        return module.DataFrame(data)
    wanted = library or "pandas"
    raise refuse("tables/missing", f"{' or '.join(order)} is not installed", ", ".join(_LIBRARIES), f"pip install {wanted}")


def columns(rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """Rows as columns, in the order in which names first appear.

    >>> columns([{"a": 1}, {"a": 2, "b": 3}])
    {'a': [1, 2], 'b': [None, 3]}
    """
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def html_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table without scripts or styles of its own; everything in it is text.

    >>> html_table(("a",), [("<b>",)])
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    def cells(tag: str, row: Sequence[Any]) -> str:
        return "".join(f"<{tag}>{html.escape(_text(cell))}</{tag}>" for cell in row)

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{cells('th', head)}</tr></thead><tbody>{body}</tbody></table>"


def _text(cell: Any) -> str:
    if isinstance(cell, bool) or not isinstance(cell, (int, float)):
        return "" if cell is None else str(cell)
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:,.4g}"
