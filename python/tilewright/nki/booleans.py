"""`and` and `or` between masks: a kernel that joins masks with words instead of `&` and `|` is run with them exchanged.

Python asks the first operand of `and` for its truth, and a mask has no single one. The compiler of the vendor reads the
source, where the words can stand for masks too; so is done here, for a kernel that was found to need it.
"""

import ast
import functools
import inspect
import textwrap

from tilewright._core import Mask

#: How a mask says that it has no truth value.
NO_TRUTH = "a mask has no single truth value"


def join(word, *parts):
    """The operands of `and` or `or`, each computed when it is needed; masks are joined."""
    value = parts[0]()
    for part in parts[1:]:
        if isinstance(value, Mask):
            other = part()
            value = value & other if word == "and" else value | other
        elif bool(value) == (word == "and"):
            value = part()
        else:
            return value
    return value


class _Words(ast.NodeTransformer):
    """Turns operators that are words into calls."""

    found = 0

    def visit_BoolOp(self, node):
        self.generic_visit(node)
        self.found += 1
        word = ast.Constant("and" if isinstance(node.op, ast.And) else "or")
        empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        parts = [ast.Lambda(args=empty, body=value) for value in node.values]
        return ast.copy_location(ast.Call(ast.Name("_join_", ast.Load()), [word, *parts], []), node)


def exchanged(func):
    """The function with its words exchanged; None if it has none, or its source is not to be had."""
    try:
        lines, first = inspect.getsourcelines(func)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return None
    words = _Words()
    inner = words.visit(tree.body[0])
    if not words.found or not isinstance(inner, ast.FunctionDef):
        return None
    inner.decorator_list = []
    # What the function sees of functions around it becomes parameters of a function around it.
    names = ["_join_", *func.__code__.co_freevars]
    outer = ast.parse(f"def _make_({', '.join(names)}):\n    return {inner.name}").body[0]
    outer.body.insert(0, inner)
    module = ast.fix_missing_locations(ast.Module([outer], []))
    ast.increment_lineno(module, first - 1)
    made = {}
    exec(compile(module, inspect.getsourcefile(func), "exec"), func.__globals__, made)  # noqa: S102  the kernel itself
    cells = [cell.cell_contents for cell in func.__closure__ or ()]
    return functools.wraps(func)(made["_make_"](join, *cells))
