"""Grid search in a comparison: every combination tried on held-out training classes, the best kept, and the count told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import optuna
import pytest

from likewise.comparison.folder import DATABASE
from likewise.methods import load_method

from .tiny import tiny_compare, tiny_protocol

MARGIN = replace(load_method("margin"), grid={"loss.margin": (0.1, 0.2), "loss.boundary": (1.0, 1.2), "sampler.num_images": (2, 4, 100)})
RAW = load_method("raw_vthm")
PROTOCOL = tiny_protocol(metrics=("R@K", "MAP@R"), batch=8)


def test_grids_are_searched_whole_and_told(tmp_path: Path) -> None:
    asked = {"methods": [MARGIN, RAW], "tune": "grid", "trials": 2, "folds": 1, "seeds": 1}
    found = tiny_compare(tmp_path / "out", protocol=PROTOCOL, **asked, report=True)
    margin, raw = (next(method for method in found.methods if method.name == name) for name in ("margin", "raw_vthm"))
    tried = [{name: value for name, value in trial.settings.items() if name != "rates.base"} for trial in margin.trials]
    combinations = [
        {"loss.margin": margin, "loss.boundary": boundary, "sampler.num_images": images}
        for margin in (0.1, 0.2)
        for boundary in (1.0, 1.2)
        for images in (2, 4)  # a hundred of a class make no batch, so that nothing is tried with them
    ]
    assert len(tried) == 2 * len(combinations)
    assert all(tried.count(combination) == 2 for combination in combinations)
    assert tried[0] == {name: margin.defaults[name] for name in combinations[0]}
    assert [trial.settings for trial in raw.trials] == [{"rates.base": 1.0}, {"rates.base": 3.0}]
    best = max((trial for trial in margin.trials if trial.score is not None), key=lambda trial: trial.score or 0.0)
    assert margin.settings == best.settings
    assert found.report is not None
    page = found.report.read_text()
    assert "rids searched: 2 to 16 sets of values, as grids differ in size, a method, each combination with the same rates for all" in page
    assert "16 sets of values for Margin and 2 sets of values for RAW + VTHM" in page
    names = optuna.get_all_study_names(f"sqlite:///{tmp_path / 'out' / DATABASE}")
    study = optuna.load_study(
        study_name=next(name for name in names if name.endswith("/margin")), storage=f"sqlite:///{tmp_path}/out/{DATABASE}"
    )
    assert {"loss.margin", "loss.boundary", "sampler.num_images", "rates.base"} == set(study.best_params)
    assert tiny_compare(tmp_path / "out", protocol=PROTOCOL, **asked).methods == found.methods


def test_another_kind_of_tuning_knows_no_grid(tmp_path: Path) -> None:
    """So that two files that differ in their grids alone are the same method to it."""
    asked = {"tune": "rate", "trials": 2, "folds": 1, "seeds": 1, "protocol": PROTOCOL}
    found = tiny_compare(tmp_path / "out", methods=[MARGIN], **asked)
    again = tiny_compare(tmp_path / "out", methods=[replace(MARGIN, grid={})], **asked)
    assert again.methods == found.methods
    with pytest.raises(ValueError, match=r"tune is 'rate' there and 'grid' here"):
        tiny_compare(tmp_path / "out", methods=[replace(MARGIN, grid={})], **{**asked, "tune": "grid"})
