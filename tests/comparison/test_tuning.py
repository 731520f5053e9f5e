"""What tuning tries, stops and chooses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import optuna
import pytest

from likewise.comparison.tuning import (
    LEARNING_RATE,
    Study,
    draw_sets,
    record_studies,
    search_space,
    survivors,
    trial_score,
    trial_state,
    winner,
)
from likewise.configuration import Choice, Uniform, with_settings
from likewise.methods import METHODS, at, load_method


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_sets_that_it_takes(name: str) -> None:
    method = load_method(name)
    sets = draw_sets(method, trials=4)
    space = search_space(method)
    assert "rates.base" in space
    assert sets[0] == {setting: at(method, setting) for setting in space}
    for values in sets:
        assert values.keys() == space.keys()
        with_settings(method, values)
    for values in sets[1:]:
        for setting, kind in space.items():
            held = values[setting]
            assert held in kind.choices if isinstance(kind, Choice) else kind.low <= held <= kind.high


def test_draws_are_the_same_every_time_and_a_larger_budget_only_adds() -> None:
    method = load_method("raw_vthm")
    assert draw_sets(method, trials=6) == draw_sets(method, trials=6)
    assert draw_sets(method, trials=6)[:3] == draw_sets(method, trials=3)
    assert draw_sets(method, trials=0) == ()
    assert len({values["loss.alpha"] for values in draw_sets(method, trials=6)}) == 6


def test_own_values_outside_the_space_are_tried_first_all_the_same() -> None:
    method = replace(load_method("raw_vthm"), search={"loss.alpha": Uniform(100.0, 200.0), "mining.margin": Choice((0.3, 0.4))})
    first, second = draw_sets(method, trials=2)
    assert first == {"rates.base": 1.0, "loss.alpha": at(method, "loss.alpha"), "mining.margin": at(method, "mining.margin")}
    assert 100 <= second["loss.alpha"] <= 200
    assert LEARNING_RATE.low <= second["rates.base"] <= LEARNING_RATE.high


def test_the_worse_half_stops() -> None:
    assert survivors([0.1, 0.4, 0.2, 0.3]) == [1, 3]
    assert survivors([0.1, 0.4, 0.2]) == [1, 2]
    assert survivors([0.5, 0.5, 0.5, 0.5]) == [0, 1]
    assert survivors([None, 0.1, float("nan"), 0.2]) == [3]
    assert survivors([None]) == []


def test_the_best_mean_wins_and_the_first_of_equals() -> None:
    assert winner({1: [0.3, 0.5], 3: [0.6, 0.1]}, num_folds=2) == 1
    assert winner({1: [0.3, 0.5], 3: [0.5, 0.3]}, num_folds=2) == 1
    assert winner({1: [0.9, None], 3: [0.1, 0.1]}, num_folds=2) == 3
    assert winner({1: [0.9], 3: [0.1, 0.1]}, num_folds=2) == 3
    assert winner({1: [None, None]}, num_folds=2) is None
    assert winner({}, num_folds=2) is None


@pytest.mark.parametrize(
    ("folds", "state"),
    [
        ([0.2, 0.4], "complete"),
        ([0.2], "pruned"),
        ([None], "failed"),
        ([0.2, None], "failed"),
        ([float("nan")], "failed"),  # none of several sets like it ran every fold
    ],
)
def test_what_became_of_a_set_of_values(folds: list[float | None], state: str) -> None:
    assert trial_state(folds, num_folds=2) == state
    assert trial_score(folds, num_folds=2) == (pytest.approx(0.3) if state == "complete" else None)


def test_where_no_set_ran_every_fold_none_is_complete(tmp_path: Path) -> None:
    """In optuna's study as in the results."""
    url, method = f"sqlite:///{tmp_path / 'store.sqlite'}", load_method("raw_vthm")
    record_studies(url, [Study("study", method, 2, draw_sets(method, trials=2), [[0.2], [None]])])
    study = optuna.load_study(study_name="study", storage=url)
    assert [trial.state.name for trial in study.trials] == ["PRUNED", "FAIL"]
    study._storage._backend.engine.dispose()  # type: ignore[attr-defined]


def test_optuna_reads_the_studies(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    method = load_method("raw_vthm")
    sets = draw_sets(method, trials=4)
    study = Study("comparison/glyphs/raw_vthm", method, 2, sets, [[0.2, 0.4], [0.5, 0.5], [0.1], [None]])
    record_studies(url, [study])
    record_studies(url, [study])  # a second time, as after a kill
    held = optuna.load_study(study_name=study.name, storage=url)
    assert [trial.state.name for trial in held.trials] == ["COMPLETE", "COMPLETE", "PRUNED", "FAIL"]
    assert held.best_trial.number == 1
    assert held.best_value == pytest.approx(0.5)
    assert [trial.user_attrs["settings"] for trial in held.trials] == list(sets)
    held._storage._backend.engine.dispose()  # type: ignore[attr-defined]
