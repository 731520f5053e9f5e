"""What tuning tries, stops and chooses."""

from __future__ import annotations

import inspect
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import optuna
import pytest

from likewise.addresses import Address
from likewise.comparison.tuning import (
    Study,
    check_trials,
    draw_sets,
    edge_of,
    expected_best,
    matters,
    next_rate,
    record_studies,
    search_space,
    survivors,
    trial_score,
    trial_state,
    winner,
)
from likewise.configuration import Choice, Uniform, with_settings
from likewise.losses import LOSSES
from likewise.methods import METHODS, Method, at, load_method
from likewise.protocols import Tune


@pytest.mark.parametrize("pretrained", [False, True])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_sets_that_it_takes(name: str, pretrained: bool) -> None:
    method = load_method(name)
    sets = draw_sets(method, trials=4, tune="all", pretrained=pretrained)
    space = search_space(method)
    rates = {"rates.base", "rates.head"} if pretrained else {"rates.base"}  # from scratch the head has no rate of its own
    assert sets[0] == {setting: at(method, setting) for setting in (*space, *rates)} | {"rates.base": 1.0}
    for values in sets:
        assert values.keys() == space.keys() | rates
        with_settings(method, values)
    for values in sets[1:]:
        for setting, kind in space.items():
            drawn = values[setting]
            assert drawn in kind.choices if isinstance(kind, Choice) else kind.low <= drawn <= kind.high


@pytest.mark.parametrize("name", METHODS)
def test_a_grid_is_every_combination_with_every_rate(name: str) -> None:
    """By nested loops over the values of the file; its own combination first. A method without a grid tries the rates alone."""
    method = load_method(name).for_protocol("paper-unbiased-cub")
    sets = draw_sets(method, trials=2, tune="grid", pretrained=True)
    assert sets[0] == {"rates.base": 1.0} | {setting: at(method, setting) for setting in method.grid}
    expected = [{"rates.base": rate} for rate in (1.0, 3.0)]
    for setting, values in method.grid.items():
        expected = [{**found, setting: value} for found in expected for value in values]
    assert len(sets) == len(expected)
    assert all(values in sets for values in expected)
    for values in sets:
        with_settings(method, values).make_loss(num_classes=3)
    assert draw_sets(method, trials=1, tune="grid", pretrained=True) == sets[::2]


def test_a_grid_has_what_matters_and_the_files_own_values() -> None:
    method = replace(load_method("proxy_nca"), grid={"norm": (1.0, 2.0), "loss.scale": (1.0, 2.0)})  # its length is not fixed
    found = draw_sets(method, trials=1, tune="grid", pretrained=False)
    assert found == tuple({"rates.base": 1.0, "loss.scale": scale} for scale in (9.0, 1.0, 2.0))
    endless = replace(method, grid={"loss.scale": tuple(map(float, range(1, 100))), "rates.proxies": tuple(map(float, range(1, 100)))})
    with pytest.raises(ValueError, match=r"proxy_nca: its grid makes 9,900 sets of values: expected at most 4096"):
        draw_sets(endless, trials=1, tune="grid", pretrained=False)
    check_trials(1, "grid")
    with pytest.raises(ValueError, match="trials=8: with grids, rates are tuned over at most 7 values"):
        check_trials(8, "grid")


@pytest.mark.parametrize("tune", ["rate", "all"])
@pytest.mark.parametrize("trials", [2, 4, 7])
def test_every_method_tries_the_same_rates(tune: Tune, trials: int) -> None:
    """Whatever the method and its own values: those of the rates are not its own to choose."""
    tried = {
        tuple(
            values["rates.base"] for values in draw_sets(load_method(name).for_protocol("quick"), trials=trials, tune=tune, pretrained=True)
        )
        for name in METHODS
    }
    assert len(tried) == 1
    rates = tried.pop()
    assert rates[0] == 1.0
    assert len(set(rates)) == trials
    assert sum(rate > 1 for rate in rates) - sum(rate < 1 for rate in rates) in (0, 1)
    if tune == "all":
        heads = [{draw_sets(load_method(name), trials=trials, tune=tune, pretrained=True)[1]["rates.head"]} for name in METHODS]
        assert heads == heads[:1] * len(METHODS)


def test_the_rate_alone() -> None:
    assert [values["rates.base"] for values in draw_sets(load_method("margin"), trials=5, tune="rate", pretrained=True)] == [
        1,
        3,
        0.3,
        10,
        0.1,
    ]
    assert draw_sets(load_method("margin"), trials=3, tune="rate", pretrained=True)[1] == {"rates.base": 3.0}


@pytest.mark.parametrize(
    ("trials", "tune", "said"),
    [
        (1, "rate", "a single set of values is no choice"),
        (1, "all", "0 for no tuning, or at least 2"),
        (8, "rate", "at most 7 values; --tune all"),
        (5000, "all", "expected at most 4096"),
    ],
)
def test_numbers_of_trials_that_tell_nothing(trials: int, tune: Tune, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_trials(trials, tune)
    for fine, kind in ((0, "rate"), (2, "rate"), (7, "rate"), (8, "all")):
        check_trials(fine, kind)  # type: ignore[arg-type]


def test_draws_are_the_same_every_time_and_a_larger_budget_only_adds() -> None:
    method = load_method("raw_vthm")

    def draw(trials: int) -> tuple[dict[str, object], ...]:
        return draw_sets(method, trials=trials, tune="all", pretrained=False)

    assert draw(6) == draw(6)
    assert draw(6)[:3] == draw(3)
    assert draw(0) == ()
    assert len({values["loss.alpha"] for values in draw(6)}) == 6
    assert len({values["rates.base"] for values in draw(6)}) == 6


def test_own_values_outside_the_space_are_tried_first_all_the_same() -> None:
    method = replace(load_method("raw_vthm"), search={"loss.alpha": Uniform(100.0, 200.0), "mining.margin": Choice((0.3, 0.4))})
    first, second = draw_sets(method, trials=2, tune="all", pretrained=False)
    assert first == {"rates.base": 1.0, "loss.alpha": at(method, "loss.alpha"), "mining.margin": at(method, "mining.margin")}
    assert 100 <= second["loss.alpha"] <= 200


@pytest.mark.parametrize(
    ("name", "changes", "dead"),
    [
        ("raw", {}, ["norm", "memory_warm_up", "rates.proxies", "rates.loss"]),
        ("margin", {"norm": 2.0}, ["normalize", "memory_warm_up", "rates.proxies"]),
        ("proxy_nca", {"memory": 64}, ["norm", "rates.loss"]),
        ("n_pairs", {}, ["normalize", "memory_warm_up", "rates.proxies", "rates.loss", "loss.norm_penalty"]),
        ("soft_triple", {"loss.num_centers": 1}, ["norm", "memory_warm_up", "rates.loss", "loss.gamma", "loss.regularization"]),
    ],
)
def test_what_cannot_matter_is_not_drawn(name: str, changes: dict[str, object], dead: list[str]) -> None:
    method = with_settings(load_method(name), changes)
    asked = ("norm", "normalize", "memory_warm_up", "rates.proxies", "rates.loss", "loss.gamma", "loss.regularization", "loss.norm_penalty")
    own = [
        setting for setting in asked if "." not in setting or setting.startswith("rates") or setting.split(".")[1] in loss_settings(method)
    ]
    assert [setting for setting in own if not matters(method, setting)] == dead
    searched = replace(method, search={setting: Uniform(0.1, 0.2) for setting in own})
    assert set(search_space(searched)) == set(own) - set(dead)


def loss_settings(method: Method) -> set[str]:
    return set(inspect.signature(LOSSES[method.loss.name]).parameters)


def test_where_the_best_rate_lies() -> None:
    assert edge_of((1.0, 3.0, 0.3), (0.1, 0.2, 0.05)) == "highest"
    assert edge_of((1.0, 3.0, 0.3), (0.1, 0.05, 0.2)) == "lowest"
    assert edge_of((1.0, 3.0, 0.3), (0.2, 0.1, 0.05)) == ""
    assert edge_of((1.0, 3.0, 0.3), (0.2, 0.2, 0.2)) == ""  # the first of equals
    assert edge_of((1.0, 3.0, 0.3), (0.1, None, 0.05)) == ""  # the highest failed: that is an answer
    assert edge_of((1.0, 3.0, 0.3), (None, float("nan"), None)) == ""


@pytest.mark.parametrize(
    ("rates", "above", "below"),
    [((0.3, 1, 3), 10, 0.1), ((0.3, 1, 3, 10), 30, 0.1), ((0.03, 30), 100, 0.01), ((0.32, 5.6), 10, 0.1), ((0.13, 8.7), 30, 0.03)],
)
def test_the_next_rate_is_a_round_one_well_beyond(rates: tuple[float, ...], above: float, below: float) -> None:
    assert next_rate(rates, above=True) == above
    assert next_rate(rates, above=False) == below


def test_the_expected_best_is_the_mean_over_all_orders() -> None:
    scores = [0.3, 0.1, 0.7, 0.7, 0.2]
    for k, expected in enumerate(expected_best(scores), start=1):
        assert expected == pytest.approx(np.mean([max(chosen) for chosen in combinations(scores, k)]))
    assert expected_best(scores)[-1] == 0.7
    assert expected_best([]) == []


def test_the_worse_half_stops() -> None:
    assert survivors({0: 0.1, 1: 0.4, 2: 0.2, 3: 0.3}) == [1, 3]
    assert survivors({0: 0.1, 1: 0.4, 2: 0.2}) == [1, 2]
    assert survivors({0: 0.1, 1: 0.2, 5: 0.4}) == [1, 5]
    assert survivors(dict.fromkeys(range(4), 0.5)) == [0, 1]
    assert survivors({0: None, 1: 0.1, 2: float("nan"), 3: 0.2}) == [3]
    assert survivors({0: None}) == []


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
    record_studies(Address(url), [Study("study", method, 2, draw_sets(method, trials=2, tune="all", pretrained=False), [[0.2], [None]])])
    study = optuna.load_study(study_name="study", storage=url)
    assert [trial.state.name for trial in study.trials] == ["PRUNED", "FAIL"]
    study._storage._backend.engine.dispose()  # type: ignore[attr-defined]


def test_optuna_reads_the_studies(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    method = load_method("raw_vthm")
    sets = draw_sets(method, trials=4, tune="all", pretrained=True)
    sets = (*sets[:3], sets[3] | {"rates.base": 30.0})  # beyond where rates are drawn
    study = Study("comparison/glyphs/raw_vthm", method, 2, sets, [[0.2, 0.4], [0.5, 0.5], [0.1], [None]])
    record_studies(Address(url), [study])
    record_studies(Address(url), [study])  # a second time, as after a kill
    held = optuna.load_study(study_name=study.name, storage=url)
    assert [trial.state.name for trial in held.trials] == ["COMPLETE", "COMPLETE", "PRUNED", "FAIL"]
    assert held.best_trial.number == 1
    assert held.best_value == pytest.approx(0.5)
    assert [trial.user_attrs["settings"] for trial in held.trials] == list(sets)
    assert [trial.params["rates.base"] for trial in held.trials] == [values["rates.base"] for values in sets]
    held._storage._backend.engine.dispose()  # type: ignore[attr-defined]
