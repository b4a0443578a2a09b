"""Sweeps: every engine gives the same answers, nothing is asked twice, and what ends a worker is recorded."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

import tilewright
from tilewright import Refused, sweeps

SPACE = {"einsum": "mk,kn->mn", "dims": {"m": [16, 32], "k": 64, "n": 64}, "goal": ["time", "energy"], "set": {"overhead_cycles": [100, 264]}}


def test_engines_agree_and_finished_points_are_not_asked_again(tmp_path):
    serial = tilewright.sweep(SPACE, engine="serial", out=tmp_path)
    assert len(serial) == 8 and serial.fresh == 8
    again = tilewright.sweep(SPACE, engine="local", workers=2, out=tmp_path)
    assert again.fresh == 0 and again.rows == serial.rows
    local = tilewright.sweep(SPACE, engine="local", workers=2)
    assert local.rows == serial.rows
    assert serial.best("cycles")["set.overhead_cycles"] == 100


def test_a_line_that_was_cut_off_is_asked_again(tmp_path):
    tilewright.sweep(SPACE, engine="serial", out=tmp_path)
    log = tmp_path / "answers.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:5]) + lines[5][:40])
    again = tilewright.sweep(SPACE, engine="serial", out=tmp_path)
    assert again.fresh == 3 and len(log.read_bytes().splitlines()) == 8
    log.write_bytes(b"{}\n")
    with pytest.raises(Refused) as refused:
        tilewright.sweep(SPACE, engine="serial", out=tmp_path)
    assert refused.value.code == "sweep/log"


def test_what_ends_its_worker_is_poison_and_the_rest_is_answered(monkeypatch, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import os, tilewright.sweeps as s\nold = s.answer\n"
        "def answer(point):\n    if point['dims']['m'] == 48: os.kill(os.getpid(), 9)\n    return old(point)\n"
        "s.answer = answer\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    space = {"einsum": "mk,kn->mn", "dims": {"m": [16, 32, 48, 64], "k": 64, "n": 64}}
    found = tilewright.sweep(space, engine="local", workers=2, out=tmp_path / "out")
    assert [("poison" in one) for one in found.answers] == [False, False, True, False]
    assert tilewright.sweep(space, engine="serial", out=tmp_path / "out").fresh == 0


def test_a_driver_that_is_killed_goes_on_where_it_was(tmp_path):
    space = {"einsum": "mk,kn->mn", "dims": {"m": [64 * n for n in range(1, 13)], "k": 512, "n": 512}}
    script = f"import tilewright\ntilewright.sweep({space!r}, engine='serial', out={str(tmp_path)!r})"
    process = subprocess.Popen([sys.executable, "-c", script])
    log = tmp_path / "answers.jsonl"
    while not log.exists() or log.read_bytes().count(b"\n") < 2:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = log.read_bytes().count(b"\n")
    found = tilewright.sweep(space, engine="serial", out=tmp_path)
    assert found.fresh == len(space["dims"]["m"]) - before and log.read_bytes().count(b"\n") == len(space["dims"]["m"])


@pytest.mark.parametrize(
    ("space", "code"),
    [
        ({}, "sweep/what"),
        ({"einsum": "mk,kn->mn", "model": "x"}, "sweep/what"),
        ({"einsum": "mk,kn->mn", "size": 3}, "sweep/key"),
        ({"einsum": "mk,kn->mn", "chip": ["tcp", "tpc"]}, "machine/unknown"),
        ({"einsum": ["mk,kn->mn", "mk,kn>mn"]}, "notation/syntax"),
        ({"einsum": "mk,kn->mn", "goal": "speed"}, "explore/goal"),
        ({"einsum": "mk,kn->mn", "dims": 3}, "python/type"),
        ({"einsum": "mk,kn->mn", "chip": []}, "sweep/empty"),
        ({"einsum": "mk,kn->mn", "pes": 0}, "sweep/count"),
        ({"einsum": "mk,kn->mn", "set": {"dm.nothing": 3}}, None),
        ({"model": "models/fables", "chip": "trainium1"}, "compile/machine"),
        (3, "python/type"),
        ({"model": ["models/fables", "models/fabels"]}, "model/unreadable"),
        ({"model": "models/fables", "dtype": ["bf16", "int7"]}, "compile/dtype"),
        ({"model": "models/fables", "context": [64, 10**6]}, "compile/context"),
        ({"model": "models/fables", "pes": [1, 3]}, "compile/count"),
        ({"model": "models/fables", "dims": {"m": 3}}, "sweep/key"),
        ({"model": 3}, "python/type"),
        ({"einsum": "mk,kn->mn", "goal": "time@fast"}, "explore/goal"),
    ],
)
def test_spaces_are_checked_before_the_first_point_runs(space, code, tmp_path):
    with pytest.raises(Refused) as refused:
        tilewright.sweep(space, engine="serial", out=tmp_path)
    assert code is None or refused.value.code == code, refused.value.code
    assert not (tmp_path / "answers.jsonl").exists()


def test_points_in_which_nothing_is_legal_are_answers_too():
    found = tilewright.sweep({"einsum": "mk,kn->mn", "dims": {"m": 16, "k": 64, "n": 64}, "goal": ["time@0.001", "time"]}, engine="serial")
    assert found.answers[0]["refused"] == "explore/nothing-legal" and found.answers[1]["cycles"] > 0


def test_models_are_swept_without_weights():
    found = tilewright.sweep({"model": "models/fables", "context": 64, "set": {"overhead_cycles": [100, 264]}}, engine="serial")
    fast, slow = found.answers
    assert fast["ms_per_token"] < slow["ms_per_token"]


def test_answers_are_of_what_a_model_holds_and_not_of_its_name(tmp_path, monkeypatch):
    import shutil

    model, out = tmp_path / "model", tmp_path / "out"
    shutil.copytree("models/fables", model)
    space = {"model": str(model), "context": 64}
    first = tilewright.sweep(space, engine="serial", out=out)
    assert tilewright.sweep(space, engine="serial", out=out).fresh == 0
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "rms_norm_eps": 1e-3}))
    monkeypatch.setattr(sweeps, "_models", {})
    again = tilewright.sweep(space, engine="serial", out=out)
    assert again.fresh == 1 and again.answers == first.answers


def test_the_verb_prints_rows_and_writes_files(tmp_path):
    file = tmp_path / "space.toml"
    file.write_text('[space]\neinsum = "mk,kn->mn"\ndims = { m = [16, 32], k = 64, n = 64 }\n')
    command = [sys.executable, "-m", "tilewright.command", "sweep", str(file), "--engine", "serial", "--json", "--save", str(tmp_path / "rows.csv")]
    printed = subprocess.run(command, capture_output=True, text=True)
    assert printed.returncode == 0, printed.stderr
    assert [row["m"] for row in json.loads(printed.stdout)["sweep"]] == [16, 32]
    assert (tmp_path / "rows.csv").read_text().count("\n") == 3
    file.write_text("[space\n")
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 2 and "sweep/file" in refused.stderr


def test_parquet_holds_the_rows(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    found = tilewright.sweep({"einsum": "mk,kn->mn", "dims": {"m": [16, 32], "k": 64, "n": 64}}, engine="serial")
    assert parquet.read_table(found.save(tmp_path / "rows.parquet")).column("m").to_pylist() == [16, 32]


def test_batches_grow_to_what_they_should_take_and_leave_all_workers_some():
    assert sweeps._size(None, 100, 2) == 1
    assert sweeps._size(0.5, 1000, 2) == 10 and sweeps._size(60.0, 1000, 2) == 1
    assert sweeps._size(0.5, 10**6, 1000) == 60
    assert sweeps._size(0.001, 10_000, 2) == sweeps.MOST_POINTS and sweeps._size(0.001, 8, 2) == 2


@pytest.mark.skipif(not os.environ.get("TILEWRIGHT_DEEP"), reason="starts a Ray cluster: deep run")
def test_ray_gives_the_same_rows(tmp_path):
    pytest.importorskip("ray")
    serial = tilewright.sweep(SPACE, engine="serial")
    assert tilewright.sweep(SPACE, engine="ray", workers=2, out=tmp_path).rows == serial.rows


def test_examples_of_the_repository_are_spaces():
    files = sorted((pathlib.Path(__file__).resolve().parents[2] / "docs" / "examples").glob("*.sweep.toml"))
    assert files
    for file in files:
        points = sweeps.points_of(sweeps.read_file(file))
        sweeps.check_point(points[0])
