"""No rule without a kernel that breaks it: a new one fails here until a test is refused by it.

A rule of the hardware is where a `Refusal` is made, and refusals carry its file and line (`conftest` notes them). This test runs after
all others and asks for every such line of the sources; codes of findings are asked for by name, messages of other errors by their words.
"""

import ast
import pathlib
import re

import pytest
from conftest import NOTES, broken_by_all

ROOT = pathlib.Path(__file__).parents[2]
SOURCES = ("crates/neuron/isa/src", "crates/neuron/exec/src", "crates/python/src")
#: Rules of programs that were read from a text; tests/neuron has programs that break them.
PROGRAM_RULES = "crates/neuron/isa/src/verify.rs"
FRONT_END = ROOT / "python" / "tilewright" / "nki"


def refused_for_callers():
    """The one refusal that stands for a rule of whoever calls it: `Chip::needs`."""
    text = (ROOT / "crates/neuron/isa/src/chip.rs").read_text()
    return f"crates/neuron/isa/src/chip.rs:{text[: text.index('Refusal::new(')].count(chr(10)) + 1}"


def rust_files():
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.rs")):
            # What follows is Rust's own tests.
            yield path.relative_to(ROOT).as_posix(), path.read_text().split("#[cfg(test)]")[0]


def rules():
    """`file:line` of each rule."""
    for name, text in rust_files():
        if name == PROGRAM_RULES:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if re.search(r"\bRefusal::new\(|\.needs\(", line) and f"{name}:{number}" != refused_for_callers():
                yield f"{name}:{number}"


def texts_of_tests():
    folders = (ROOT / "python" / "tests", ROOT / "tests", ROOT / "crates" / "filetest")
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".cli", ".neuron", ".txt", ".rs", ".json")]
    own = pathlib.Path(__file__)
    return "\n".join(path.read_text(errors="replace") for path in files if path != own)


def test_every_rule_has_a_refused_kernel(request):
    asked = {path.name for path in pathlib.Path(__file__).parent.glob("test_nki_*.py")}
    if not NOTES and (asked - {item.path.name for item in request.session.items} or request.config.option.keyword):
        pytest.skip("only after all tests of kernels")
    wanted = set(rules())
    assert len(wanted) > 80
    missing = "\n".join(sorted(wanted - broken_by_all()))
    assert not missing, f"no test is refused by:\n{missing}"


def test_every_code_is_explained_and_tested():
    codes = {code for _, text in rust_files() for code in re.findall(r'"(neuron/[a-z-]+)"', text)}
    codes |= {code for path in FRONT_END.rglob("*.py") for code in re.findall(r'"(neuron/[a-z-]+)"', path.read_text())}
    explained, tested = (ROOT / "docs" / "diagnostics.md").read_text(), texts_of_tests()
    assert len(codes) > 15
    assert not sorted(code for code in codes if f"`{code}`" not in explained), "docs/diagnostics.md lacks these"
    assert not sorted(code for code in codes if code not in tested), "no test names these"


#: Words that no kernel and no call brings about.
NEVER_SEEN = {
    ": store the output as another type": "versions of torch that have every type of NumPy",
    "element type without object": "every type has one",
    "the machine file of": "those that come with the package load: tests/machines",
    "no finding is called": "the front end names its own findings, each of which a test meets",
    "too many elements": "NumPy has no array of so many",
    "the array is not contiguous": "the package lays arrays in order before the core reads them",
    "--bands:": "a program that was recorded is one that `sim` takes",
    "another program failed": "ends the other programs of a team; what is told is why the first failed",
}


def longest(parts):
    return max((part.strip() for part in parts), key=len, default="")


def python_messages():
    """The longest constant part of what is raised with words."""
    for path in sorted(FRONT_END.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)):
                continue
            strings = [each.value for each in ast.walk(node.exc) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            if len(longest(strings)) >= 8:
                yield f"{path.relative_to(ROOT).as_posix()}:{node.lineno}", longest(strings)


def rust_messages():
    for name, text in rust_files():
        for found in re.finditer(r'\bPy(Type|Value|Index|Buffer|Runtime|ZeroDivision)Error::new_err\((?:format!\(\s*)?"((?:[^"\\]|\\.)*)"', text):
            number = text[: found.start()].count("\n") + 1
            yield f"{name}:{number}", longest(re.split(r"\{[^}]*\}", found[2].replace('\\"', '"')))


def test_every_message_is_tested():
    tested = texts_of_tests().replace('\\"', '"')
    messages = {**dict(python_messages()), **dict(rust_messages())}
    assert len(messages) > 50
    assert not NEVER_SEEN.keys() - set(messages.values()), "nobody says these any more"
    # Patterns escape what has a meaning in them.
    spoken = lambda words: words in tested or re.escape(words).replace(r"\ ", " ") in tested or words in NEVER_SEEN
    assert not sorted(f"{place}: {words}" for place, words in messages.items() if not spoken(words)), "no test expects these words"
