"""The search for a chip: the same seed gives the same chips, none above the budget is compiled for, and the best is the best of them."""

import json
import pathlib

import pytest

import tilewright
from tilewright import Refused, chip_search

MODEL = str(pathlib.Path(__file__).resolve().parents[2] / "models" / "fables")
PUBLISHED = {"pes": 8, "pe.slices": 64, "dm.capacity_bytes": 524288, "ce.lanes": 8}


def test_the_published_chip_has_its_published_area_and_more_of_anything_is_larger():
    assert chip_search.area_mm2(PUBLISHED) == pytest.approx(chip_search.AREA["die_mm2"].value)
    for name in chip_search.CHOICES:
        areas = [chip_search.area_mm2({**PUBLISHED, name: value}) for value in chip_search.CHOICES[name]]
        assert areas == sorted(areas) and areas[0] < areas[-1], name
    assert all(figure.source.startswith(("TCP paper", "literature:", "assumption:")) for figure in chip_search.AREA.values())


def test_a_search_keeps_to_its_budget_goes_on_and_repeats_itself(tmp_path):
    pytest.importorskip("optuna")
    options = {"budget_mm2": 400.0, "generations": 2, "size": 4, "dtype": "bf16", "context": 64, "engine": "serial"}
    found = chip_search.search(MODEL, out=tmp_path, **options)
    compiled = [chip for chip in found.chips if chip.energy_mj_per_token is not None]
    assert compiled and len(compiled) < len(found.chips)
    for chip in found.chips:
        assert chip.area_mm2 == chip_search.area_mm2(chip.figures)
        assert (chip.energy_mj_per_token is None) == bool(chip.why)
        assert chip.energy_mj_per_token is None or chip.area_mm2 <= 400.0
    assert found.best.energy_mj_per_token == min(chip.energy_mj_per_token for chip in compiled)
    assert {chip.generation for chip in found.chips} == {1, 2}
    log = (tmp_path / "answers.jsonl").read_text().splitlines()
    points = [json.loads(line)["point"] for line in log]
    assert all(point["goal"] == "energy" and point["pes"] in chip_search.CHOICES["pes"] for point in points)
    assert chip_search.search(MODEL, out=tmp_path, **options) == found
    assert (tmp_path / "answers.jsonl").read_text().splitlines() == log, "nothing is asked twice"
    assert "best" in str(found)


def test_what_cannot_be_searched_is_refused(monkeypatch):
    pytest.importorskip("optuna")
    with pytest.raises(Refused) as refused:
        chip_search.search(MODEL, budget_mm2=100.0, generations=0)
    assert refused.value.code == "search/count"
    with pytest.raises(Refused) as refused:
        _ = chip_search.search(MODEL, budget_mm2=1.0, generations=1, size=2, engine="serial").best
    assert refused.value.code == "search/none"
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(Refused) as refused:
        chip_search.search(MODEL, budget_mm2=100.0)
    assert refused.value.code == "search/optuna"


def test_a_sweep_takes_several_spaces():
    one = {"einsum": "mk,kn->mn", "dims": {"m": [16, 32], "k": 64, "n": 64}}
    other = {"einsum": "mk,kn->mn", "dims": {"m": 48, "k": 64, "n": 64}}
    found = tilewright.sweep([one, other], engine="serial")
    assert [row["m"] for row in found.rows] == [16, 32, 48]
    with pytest.raises(Refused) as refused:
        tilewright.sweep([one, 3], engine="serial")
    assert refused.value.code == "python/type"
