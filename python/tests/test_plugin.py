"""The pytest plugin, run by a pytest of its own."""

import pathlib
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

TESTS = """
import numpy as np
from tilewright.testing import assert_cycles, assert_no_findings, assert_time

def test_limit(readings):
    readings.check(assert_cycles("{root}/kernels/attention.tcp", at_most=14_000, chip="tcp"))

def test_too_long():
    assert_cycles("{root}/kernels/attention.tcp", at_most=13_000)

def test_race():
    assert_no_findings("{root}/tests/sim/race-dm-contexts.tcp")

def add(a, b):
    import neuronxcc.nki.language as nl
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a) + nl.load(b))
    return out

def test_nki(readings):
    ones = np.ones((128, 512), np.float32)
    readings.check(assert_time(add, at_most_us=100, chip="trainium1", args=(ones, ones)))
"""


def run(folder, *options):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tilewright.nki", *options, str(folder)]
    return subprocess.run(command, capture_output=True, text=True)


def test_limits_findings_and_kept_readings(tmp_path):
    (tmp_path / "test_it.py").write_text(TESTS.replace("{root}", str(REPOSITORY)))
    first = run(tmp_path)
    assert "2 failed, 2 passed" in first.stdout, first.stdout
    assert "13,628 cycles, +4.8% of the 13,000 that are allowed" in first.stdout
    assert "error[tcp/race-dm" in first.stdout, first.stdout
    kept = tmp_path / "snapshots" / "test_limit.json"
    assert '"cycles": 13628' in kept.read_text()
    kept.write_text(kept.read_text().replace('"cycles": 13628', '"cycles": 13000'))
    second = run(tmp_path, "-k", "limit or nki")
    assert "1 failed, 1 passed" in second.stdout and "cycles: 13,000 was kept, 13,628 now (+4.83%)" in second.stdout, second.stdout
    assert '-  "cycles": 13000' in second.stdout and '+  "cycles": 13628' in second.stdout
    assert "2 passed" in run(tmp_path, "-k", "limit or nki", "--update-readings").stdout
    assert "2 passed" in run(tmp_path, "-k", "limit or nki").stdout
    kept.write_text("{")
    assert "testing/readings" in run(tmp_path, "-k", "limit").stdout
