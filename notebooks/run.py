"""Runs notebooks cell by cell and compares what they show with what is saved; `BLESS=1` saves what they show now.

    python notebooks/run.py                 all of them
    python notebooks/run.py notebooks/X.ipynb

No Jupyter is needed: a cell is a piece of Python, and what its last line is worth is shown as Jupyter would (`repr`, `_repr_html_`, `_repr_svg_`).
"""

import ast
import contextlib
import difflib
import io
import json
import linecache
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent


def shown(value):
    """What a notebook shows of a value."""
    if value is None:
        return []
    data = {"text/plain": repr(value).splitlines(keepends=True)}
    for mime, method in (("text/html", "_repr_html_"), ("image/svg+xml", "_repr_svg_")):
        text = getattr(value, method, lambda: None)()
        if text:
            data[mime] = text.splitlines(keepends=True)
    return [{"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"}]


def run_cell(source, number, names):
    """Runs a cell; its outputs."""
    place = f"cell {number}"
    # Kernels are told by their lines, and a traceback shows them.
    linecache.cache[place] = (len(source), None, source.splitlines(keepends=True), place)
    tree = ast.parse(source, place)
    last = ast.Expression(tree.body.pop().value) if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, place, "exec"), names)
        value = eval(compile(last, place, "eval"), names) if last is not None else None
    text = printed.getvalue()
    streams = [{"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}] if text else []
    return streams + shown(value)


def run(path, bless):
    """Runs a notebook; lines of difference to what is saved."""
    book = json.loads(path.read_text(encoding="utf-8"))
    names, wrong = {"__name__": "__main__"}, []
    for number, cell in enumerate(book["cells"], 1):
        if cell["cell_type"] != "code":
            continue
        outputs = run_cell("".join(cell["source"]), number, names)
        if outputs != cell["outputs"]:
            old, new = (json.dumps(one, indent=1).splitlines() for one in (cell["outputs"], outputs))
            wrong += difflib.unified_diff(old, new, f"{path.name} cell {number} as saved", "now", lineterm="", n=1)
        cell["outputs"] = outputs
    if bless:
        path.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return []
    return wrong


def main(arguments):
    """Runs the notebooks that are named, or all."""
    bless, failed = os.environ.get("BLESS", "0") not in ("", "0"), False
    os.chdir(HERE.parent)
    for path in [pathlib.Path(one) for one in arguments] or sorted(HERE.glob("*.ipynb")):
        wrong = run(path, bless)
        print(f"{path.name}: {'as saved' if not wrong else 'differs'}")
        print("\n".join(wrong[:60]))
        failed |= bool(wrong)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
