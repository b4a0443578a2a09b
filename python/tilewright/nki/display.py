"""A run as a picture: one row for each engine of each core, for notebooks."""

import html as _html

COLOURS = {"tensor": "#4878a8", "vector": "#6a9f58", "scalar": "#e49444", "gpsimd": "#a87c9f", "dma": "#85b6b2", "sync": "#967662"}

#: Pixels of the time axis, of a row, and of the names before it.
WIDTH, ROW, LEFT = 800, 18, 110


def lanes(result):
    """Busy intervals of each engine of each core, neighbours closer than a pixel joined."""
    step = result.time * 1e9 / WIDTH
    found = {}
    for opcode, engine, core, start, end, _done in result.spans:
        found.setdefault((core, engine), []).append((start, end, opcode))
    joined = {}
    for lane, intervals in sorted(found.items(), key=lambda item: (item[0][0], list(COLOURS).index(item[0][1]))):
        kept = []
        for start, end, opcode in sorted(intervals):
            if kept and start - kept[-1][1] < step:
                kept[-1][1] = max(kept[-1][1], end)
                kept[-1][3] += 1
            else:
                kept.append([start, end, opcode, 1])
        joined[lane] = kept
    return joined


def svg(result):
    """The timeline as SVG."""
    rows, total = lanes(result), result.time * 1e9
    height = ROW * len(rows) + 24
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 10}" height="{height}" font-family="sans-serif" font-size="11">']
    for at, ((core, engine), intervals) in enumerate(rows.items()):
        top = at * ROW + 2
        name = f"core {core} {engine}" if result.timing["cores"] > 1 else engine
        parts.append(f'<text x="4" y="{top + 12}">{_html.escape(name)}</text>')
        for start, end, opcode, count in intervals:
            x, width = LEFT + start / total * WIDTH, max(0.5, (end - start) / total * WIDTH)
            title = f"{opcode}{f' and {count - 1} more' if count > 1 else ''}, {start / 1e3:.2f} to {end / 1e3:.2f} us"
            parts.append(
                f'<rect x="{x:.2f}" y="{top}" width="{width:.2f}" height="{ROW - 4}" fill="{COLOURS[engine]}">'
                f"<title>{_html.escape(title)}</title></rect>"
            )
    base = ROW * len(rows) + 16
    parts.append(f'<text x="{LEFT}" y="{base}">0</text>')
    parts.append(f'<text x="{LEFT + WIDTH}" y="{base}" text-anchor="end">{total / 1e3:.2f} us</text></svg>')
    return "".join(parts)


def html(result):
    """The summary under the timeline."""
    if not result.time:
        return f"<pre>{_html.escape(result.summary())}</pre>"
    return f"<div>{svg(result)}<pre>{_html.escape(result.summary())}</pre></div>"
