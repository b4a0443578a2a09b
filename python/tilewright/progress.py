"""Progress of long work: in notebooks and terminals a bar that goes away, elsewhere nothing."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import Any, Callable, Iterator

__all__ = ["reporter"]

#: Seconds before a bar appears, so that quick work shows none.
PATIENCE = 0.5
#: Letters of a bar.
WIDTH = 30


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    found = shell.get_ipython() if shell is not None else None
    return found is not None and hasattr(found, "kernel")


class _Bar:
    """A bar that is drawn over and over in one place."""

    def __init__(self, what: str):
        self.what, self.since, self.shown = what, time.monotonic(), False
        self.place: Any = None

    def __call__(self, part: float) -> None:
        if not self.shown and time.monotonic() - self.since < PATIENCE:
            return
        done = round(WIDTH * min(max(part, 0.0), 1.0))
        text = f"{self.what} [{'#' * done}{'.' * (WIDTH - done)}] {part:4.0%}"
        if not self.shown and _in_notebook():
            from IPython.display import display

            self.place = display({"text/plain": text}, raw=True, display_id=True)
        elif self.place is not None:
            self.place.update({"text/plain": text}, raw=True)
        else:
            sys.stderr.write(f"\r{text}")
            sys.stderr.flush()
        self.shown = True

    def close(self) -> None:
        """Takes it away."""
        if self.shown and self.place is not None:
            self.place.update({"text/plain": ""}, raw=True)
        elif self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@contextmanager
def reporter(progress: bool | Callable[[float], None] | None, what: str) -> Iterator[Callable[[float], None] | None]:
    """What the core calls with the part that is done: a given function, a bar where somebody looks, or nothing."""
    if callable(progress):
        yield progress
        return
    looked_at = _in_notebook() or sys.stderr.isatty()
    if progress is False or (progress is None and not looked_at):
        yield None
        return
    bar = _Bar(what)
    try:
        yield bar
    finally:
        bar.close()
