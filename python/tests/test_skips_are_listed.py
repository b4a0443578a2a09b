"""Tests that skip are listed where the summary of `./test` finds them, also if several processes run them."""

import os
import pathlib
import subprocess
import sys

import pytest

TESTS = '''
import pytest

class TestOfALibrary:
    @pytest.fixture(autouse=True)
    def installed(self):
        pytest.importorskip("a_library_that_nobody_has", reason="the library is not installed")

    def test_one(self): pass

    def test_two(self): pass

@pytest.mark.skip(reason="two lines\\nof a reason")
def test_marked(): pass

@pytest.mark.xfail(reason="known")
def test_known(): assert False

def test_runs(): pass
'''


@pytest.mark.parametrize("processes", [[], ["-n", "1"]])
def test_a_skipped_test_is_listed_once_with_its_reason(processes, tmp_path):
    notes = tmp_path / "target" / "skipped.txt"
    (tmp_path / "test_library.py").write_text(TESTS)
    (tmp_path / "test_whole.py").write_text("import pytest\npytest.importorskip('another_that_nobody_has')\n")
    paths = os.pathsep.join([str(pathlib.Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = dict(os.environ, PYTHONPATH=paths, TILEWRIGHT_SKIPPED=str(notes))
    plugins = ["-p", "no:cacheprovider", "-p", "skips"]
    line = [sys.executable, "-m", "pytest", "-q", *plugins, *processes, str(tmp_path)]
    done = subprocess.run(line, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    *library, whole = sorted(notes.read_text().splitlines())
    assert library == [
        "test_library.py: the library is not installed",
        "test_library.py: the library is not installed",
        "test_library.py: two lines of a reason",
    ]
    assert whole.startswith("test_whole.py: could not import 'another_that_nobody_has'")
