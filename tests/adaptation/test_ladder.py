"""The ladder climbs where something pays, stays where nothing does, keeps to its time, and goes on where it was stopped."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.adaptation import ladder as ladder_module
from likewise.adaptation.adapt import NUM_FOLDS, REPEATS, drawn_folds
from likewise.adaptation.card import rows, what_the_columns_are
from likewise.adaptation.fitting import Fitter
from likewise.adaptation.fold_scores import FoldScores
from likewise.adaptation.ladder import Climb, Ladder
from likewise.adaptation.rungs import RATES, RUNGS
from likewise.adaptation.time_needed import TimeNeeded
from likewise.data.dataset import Dataset
from likewise.data.splits import all_train

from .small import conditions, vectors

ALL_DAY = 1e6


def climb(dataset: Dataset, folder: Path, *, seconds: float = ALL_DAY) -> Ladder:
    parts = all_train(dataset)
    fitter = Fitter(dataset, conditions(folder), device="cpu", maps_folder=folder / "maps")
    scores = FoldScores(folder / "scores.jsonl")
    return Climb(fitter, drawn_folds(dataset, parts), scores, until=time.monotonic() + seconds, on_progress=None).ladder()


def outcomes(ladder: Ladder) -> dict[str, str]:
    return {step.rung: step.outcome for step in ladder.steps}


def test_climbs_to_what_pays(tmp_path: Path) -> None:
    ladder = climb(vectors("stretched"), tmp_path)
    steps = {step.rung: step for step in ladder.steps}
    assert list(steps) == ["features", "pca", "within", "head"]  # nothing made these vectors that could be fine-tuned
    assert ladder.chosen == "within"
    assert steps["within"].outcome == "counts"
    assert steps["within"].score is not None
    assert steps["features"].score is not None
    assert ladder.gain is not None
    assert ladder.gain.gain == pytest.approx(steps["within"].score - steps["features"].score)
    assert 0 < ladder.gain.low < ladder.gain.gain < ladder.gain.high


@pytest.mark.parametrize("seed", range(3))
def test_stays_where_nothing_pays(tmp_path: Path, seed: int) -> None:
    ladder = climb(vectors("noise", seed=seed), tmp_path)
    assert ladder.chosen == "features"
    assert ladder.gain is None
    assert "counts" not in outcomes(ladder).values()


def test_what_would_take_too_long_is_not_tried_and_closed_forms_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder_module, "time_needed", lambda fitter, rung: TimeNeeded(once=10.0, a_fit=100.0))
    ladder = climb(vectors("stretched"), tmp_path, seconds=500)
    head = ladder.steps[-1]
    assert head.outcome == "no time"
    assert head.seconds == 10 + 100 * (1 + REPEATS * NUM_FOLDS * len(RATES))
    assert ladder.chosen == "within"


def test_the_figures_of_a_row_are_of_the_same_draws(tmp_path: Path) -> None:
    """Also of a rung that is given up after one of them: what it is compared with is then of that one too."""
    ladder = climb(vectors("stretched"), tmp_path)
    steps = {step.rung: step for step in ladder.steps}
    head, within = steps["head"], steps["within"]
    assert (head.repeats, head.over, within.repeats) == (1, "within", REPEATS)
    table, queries = FoldScores(tmp_path / "scores.jsonl").table(RUNGS["within"], repeats=REPEATS, folds=NUM_FOLDS)
    by_draw = table @ queries / queries.sum()
    assert head.before == pytest.approx(by_draw[0])
    assert within.score == pytest.approx(by_draw.mean())
    assert abs(by_draw[0] - by_draw.mean()) > 1e-4  # else this could not fail
    for step in ladder.steps[1:]:
        assert step.score is not None
        assert step.before is not None
        assert step.gain == pytest.approx(step.score - step.before)
    shown = dict(zip(steps, rows(ladder.steps), strict=True))
    assert shown["head"][1:4] == (f"{100 * head.score:.1f}", f"{100 * by_draw[0]:.1f}", f"{100 * head.gain:+.1f}")  # type: ignore[operator]
    assert shown["head"][-1].endswith("given up after 1 of 3 draws")
    assert "given up" not in shown["within"][-1]
    assert "means of 3 draws of folds; before: the best rung above it, on the same folds" in what_the_columns_are(ladder.steps)


class Stop(Exception):
    pass


def test_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = vectors("stretched")
    whole = climb(data, _made(tmp_path / "whole"))
    fits: list[str] = []
    fits_of = Fitter.fits

    def counted(self: Fitter, rung: Any, *args: Any, **named: Any) -> Any:
        fits.append(rung.name)
        if len(fits) == 12:
            raise Stop
        return fits_of(self, rung, *args, **named)

    monkeypatch.setattr(Fitter, "fits", counted)
    folder = _made(tmp_path / "stopped")
    with pytest.raises(Stop):
        climb(data, folder)
    first = len(fits) - 1
    resumed = climb(data, folder)
    assert len(fits) - 1 - first == 3 * REPEATS * NUM_FOLDS + len(RATES) * NUM_FOLDS - first  # the head is given up after a repeat
    for step, again in zip(whole.steps, resumed.steps, strict=True):
        assert replace(step, seconds=0) == replace(again, seconds=0)
    assert climb(data, folder).chosen == whole.chosen
    assert len(fits) - 1 == 3 * REPEATS * NUM_FOLDS + len(RATES) * NUM_FOLDS  # nothing again


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_every_class_is_held_out_once_a_repeat_and_never_fitted_on() -> None:
    data = vectors("noise")
    for folds in drawn_folds(data, all_train(data)):
        held_out = np.concatenate([np.unique(data.labels[fold.validation]) for fold in folds])
        assert sorted(held_out.tolist()) == list(range(data.num_classes))
        assert all(not set(data.labels[fold.train]) & set(data.labels[fold.validation]) for fold in folds)


def test_a_rung_that_is_impossible_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fits_of = Fitter.fits

    def fits(self: Fitter, rung: Any, *args: Any, **named: Any) -> Any:
        if rung.name == "pca":
            raise ValueError("all vectors point the same way")
        return fits_of(self, rung, *args, **named)

    monkeypatch.setattr(Fitter, "fits", fits)
    ladder = climb(vectors("stretched"), tmp_path)
    pca = ladder.steps[1]
    assert (pca.outcome, pca.reason, pca.score) == ("impossible", "all vectors point the same way", None)
    assert ladder.chosen == "within"


def test_data_without_pairs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no query has a match"):
        climb(vectors("noise", items=1), tmp_path)
