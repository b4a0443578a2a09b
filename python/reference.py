"""Writes the reference of the Python package from its docstrings: `python python/reference.py > docs/python-reference.md`."""

import inspect
import re
import sys

import tilewright


def lines_of(thing, name, depth):
    """A heading with the signature, and the docstring; of a class its own public members too."""
    is_class = inspect.isclass(thing)
    signature = "" if is_class and issubclass(thing, Exception) else str(inspect.signature(thing))
    words = plain(signature)
    yield f"{'#' * depth} `{name}{words if not is_class or signature else ''}`"
    yield ""
    yield from block(inspect.getdoc(thing) or "")
    yield ""
    if not is_class:
        return
    for key, member in vars(thing).items():
        if key.startswith("_"):
            continue
        inner = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if inspect.isfunction(inner):
            words = plain(str(inspect.signature(inner))).replace("(self, ", "(").replace("(self)", "()").replace("(cls, ", "(")
            yield f"- `.{key}{words}`: {summary(inner)}"
        elif hasattr(member, "func") or isinstance(member, property):
            yield f"- `.{key}`: {summary(getattr(member, 'func', None) or member.fget)}"
    yield ""


def plain(signature):
    """A signature whose annotations are no longer texts; defaults stay as they are written."""
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", signature)


def summary(thing):
    """The first paragraph of a docstring, in one line."""
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def block(text):
    """A docstring as Markdown: examples are fenced."""
    fenced = False
    for line in text.splitlines():
        example = line.startswith((">>> ", "... ")) or (fenced and line.strip() != "")
        if example != fenced:
            yield "```" if fenced else "```text"
            fenced = example
        yield line
    if fenced:
        yield "```"


def page():
    """The whole page."""
    yield "# Reference of the Python package"
    yield ""
    yield "Made from the docstrings by `python/reference.py`; their examples are run by `./test`."
    yield "[Python and notebooks](python.md) is the introduction."
    yield ""
    for name in sorted(tilewright.__all__, key=lambda name: (name[0].isupper(), name)):
        yield from lines_of(getattr(tilewright, name), f"tilewright.{name}", 2)


def text():
    """The page as one text, without blank lines at its end."""
    return "\n".join(page()).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
