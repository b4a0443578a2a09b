"""A run as a picture: one row for each engine of each core, for notebooks."""

import html as _html
import math

COLOURS = {"tensor": "#4878a8", "vector": "#6a9f58", "scalar": "#e49444", "gpsimd": "#a87c9f", "dma": "#85b6b2", "sync": "#967662"}

#: Pixels of the time axis, of a row, of the names before it and of the figures behind it.
WIDTH, ROW, LEFT, RIGHT = 800, 18, 110, 50


def lanes(result):
    """Intervals of each engine of each core, neighbours closer than a pixel joined: start, end, first opcode, how many, busy time."""
    step = result.time * 1e9 / WIDTH
    found = {}
    for opcode, engine, core, start, end, _done in result.spans:
        found.setdefault((core, engine), []).append((start, end, opcode))
    for kind, start, end in result.spills:
        found.setdefault((0, "dma"), []).append((start, end, kind))
    joined = {}
    for lane, intervals in sorted(found.items(), key=lambda item: (item[0][0], list(COLOURS).index(item[0][1]))):
        kept = []
        for start, end, opcode in sorted(intervals):
            if kept and start - kept[-1][1] < step:
                last = kept[-1]
                last[4] += max(0, end - max(start, last[1]))
                last[1] = max(last[1], end)
                last[3] += 1
            else:
                kept.append([start, end, opcode, 1, end - start])
        joined[lane] = kept
    return joined


def ticks(total):
    """Round times, four to ten of them, from nothing to at most the total."""
    step = 10.0 ** math.floor(math.log10(total))
    step *= next(part for part in (0.1, 0.2, 0.5, 1.0) if total / (step * part) <= 10)
    return [at * step for at in range(int(total / step * (1 + 1e-9)) + 1)]


def unit(total):
    """Nanoseconds of the unit that a time of so many is told in, and its name."""
    return next((size, name) for size, name in ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")) if total >= size or size == 1.0)


def svg(result):
    """The timeline as SVG: a lane for each engine with the part of the time that it is busy, and a time axis."""
    rows, total = lanes(result), result.time * 1e9
    size, name = unit(total)
    bottom = ROW * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + RIGHT}" height="{bottom + 20}" font-family="sans-serif" font-size="11">',
        # Notebooks may be dark; the picture brings its own paper.
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for at in range(0, len(rows), 2):
        parts.append(f'<rect x="{LEFT}" y="{at * ROW}" width="{WIDTH}" height="{ROW}" fill="#f2f2f2"/>')
    for time in ticks(total):
        x = LEFT + time / total * WIDTH
        parts.append(f'<line x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{bottom + 4}" stroke="#cccccc"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle" fill="#333333">{time / size:g}</text>')
    # At the edge: the last figure of the axis may stand where the axis ends.
    parts.append(f'<text x="{LEFT + WIDTH + RIGHT - 4}" y="{bottom + 16}" text-anchor="end" fill="#333333">{name}</text>')
    for at, ((core, engine), intervals) in enumerate(rows.items()):
        parts += _lane(result, at * ROW, core, engine, intervals, total)
    return "".join(parts) + "</svg>"


def _lane(result, top, core, engine, intervals, total):
    """One engine of one core."""
    name = f"core {core} {engine}" if result.timing["cores"] > 1 else engine
    yield f'<text x="{LEFT - 6}" y="{top + 13}" text-anchor="end" fill="#000000">{_html.escape(name)}</text>'
    busy = 0
    for start, end, opcode, count, worked in intervals:
        busy += worked
        x, width = LEFT + start / total * WIDTH, max(1.0, (end - start) / total * WIDTH)
        title = f"{opcode}{f' and {count - 1} more' if count > 1 else ''}, {start / 1e3:.2f} to {end / 1e3:.2f} us"
        yield (
            f'<rect x="{x:.2f}" y="{top + 2}" width="{width:.2f}" height="{ROW - 4}" fill="{COLOURS[engine]}">'
            f"<title>{_html.escape(title)}</title></rect>"
        )
    yield f'<text x="{LEFT + WIDTH + 6}" y="{top + 13}" fill="#333333">{busy / total:.0%}</text>'


def html(result):
    """The summary under the timeline."""
    if not result.time:
        return _text(result)
    return f"<div>{svg(result)}{_text(result)}</div>"


def _text(result):
    """The summary, whose long lines go on below."""
    return f'<pre style="white-space: pre-wrap">{_html.escape(result.summary())}</pre>'
