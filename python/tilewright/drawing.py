"""Small pictures of runs as SVG, for notebooks: they need no script and survive in a saved one."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .running import Timeline

__all__ = ["bars", "lanes"]

#: Pixels of the time axis, of a row, of the names before it and of the figures behind it.
WIDTH, ROW, LEFT, RIGHT = 760, 18, 150, 56
#: Colours that people with any kind of sight tell apart (Okabe and Ito).
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999")


def lanes(timeline: Timeline) -> str:
    """A lane for each track that did something; each pixel is as dark as the track was busy in it."""
    total = int(timeline.end.max()) if len(timeline) else 0
    if not total:
        return ""
    busy_tracks = sorted(set(timeline.track.tolist()))
    height = ROW * len(busy_tracks) + 22
    parts = [_paper(height)]
    for row, track in enumerate(busy_tracks):
        mine = timeline.track == track
        cover = _cover(timeline.start[mine], timeline.end[mine], total)
        top, colour = row * ROW, COLOURS[row % len(COLOURS)]
        parts.append(f'<text x="{LEFT - 6}" y="{top + 13}" text-anchor="end" fill="#000000">{html.escape(timeline.tracks[track][-22:])}</text>')
        parts += _runs(cover, top, colour)
        parts.append(f'<text x="{LEFT + WIDTH + 6}" y="{top + 13}" fill="#333333">{cover.mean():.0%}</text>')
    unit, name = next((size, name) for size, name in ((1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")) if total / timeline.ticks_per_s >= size or name == "ns")
    parts.append(f'<text x="{LEFT}" y="{height - 6}" fill="#333333">0</text>')
    parts.append(f'<text x="{LEFT + WIDTH}" y="{height - 6}" text-anchor="end" fill="#333333">{total / timeline.ticks_per_s / unit:,.2f} {name}</text>')
    return "".join(parts) + "</svg>"


def _paper(height: int) -> str:
    # Notebooks may be dark; the picture brings its own paper.
    size = f'width="{LEFT + WIDTH + RIGHT}" height="{height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="#ffffff"/>'


def _cover(start: np.ndarray, end: np.ndarray, total: int) -> np.ndarray:
    """Part of each pixel's time that is covered, overlaps once."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    begin = np.maximum(start, np.concatenate(([0], end[:-1])))
    keep = end > begin
    begin, end = begin[keep], end[keep]
    # Covered ticks before each edge of a pixel, by the lengths before it.
    edges = np.linspace(0, total, WIDTH + 1)
    lengths = np.concatenate(([0], np.cumsum(end - begin)))
    at = np.searchsorted(begin, edges, side="right")
    before = lengths[np.maximum(at - 1, 0)] + np.where(at > 0, np.clip(edges - begin[np.maximum(at - 1, 0)], 0, (end - begin)[np.maximum(at - 1, 0)]), 0) if len(begin) else np.zeros(WIDTH + 1)
    return np.diff(before) / (total / WIDTH)


def _runs(cover: np.ndarray, top: int, colour: str) -> list[str]:
    """Neighbouring pixels of the same darkness as one rectangle."""
    levels = np.ceil(np.clip(cover, 0, 1) * 8).astype(int)
    edges = np.flatnonzero(np.diff(levels, prepend=-1, append=-1))
    found = []
    for left, right in zip(edges[:-1], edges[1:]):
        if levels[left]:
            shape = f'x="{LEFT + left}" y="{top + 2}" width="{right - left}" height="{ROW - 4}"'
            found.append(f'<rect {shape} fill="{colour}" fill-opacity="{levels[left] / 8:g}"/>')
    return found


def bars(rows: list[tuple[str, float]], unit: str) -> str:
    """Named amounts, longest bar as wide as the picture."""
    if not rows:
        return ""
    most = max(amount for _, amount in rows)
    parts = [_paper(ROW * len(rows) + 4)]
    for at, (name, amount) in enumerate(rows):
        top = at * ROW
        parts.append(f'<text x="{LEFT - 6}" y="{top + 13}" text-anchor="end" fill="#000000">{html.escape(name[-24:])}</text>')
        parts.append(f'<rect x="{LEFT}" y="{top + 3}" width="{max(1.0, (WIDTH - 90) * amount / most):.1f}" height="{ROW - 6}" fill="{COLOURS[0]}"/>')
        parts.append(f'<text x="{LEFT + 6 + (WIDTH - 90) * amount / most:.1f}" y="{top + 13}" fill="#333333">{amount:.3g} {html.escape(unit)}</text>')
    return "".join(parts) + "</svg>"
