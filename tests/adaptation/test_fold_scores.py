"""Scores of folds: those of likewise.evaluate class by class, kept as they are found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import likewise
from likewise.adaptation.fold_scores import FoldScore, FoldScores, scores_by_class
from likewise.adaptation.rungs import Rung, Setting


def test_weighed_by_queries_they_are_the_score_of_evaluate() -> None:
    rng = np.random.default_rng(0)
    labels = np.array([7, 7, 7, 3, 3, 9, 5, 5, 5, 5])  # 9 has nothing to find
    vectors = torch.from_numpy(rng.normal(size=(10, 3)).astype(np.float32))
    means, queries = scores_by_class(vectors, labels)
    assert queries == {3: 2, 5: 4, 7: 3}
    expected = likewise.evaluate(vectors, labels, metrics=("MAP@R",))["MAP@R"]
    assert sum(means[label] * queries[label] for label in means) / 9 == pytest.approx(expected)


def score(repeat: int, fold: int, means: dict[int, float], *, rate: float = 1.0) -> FoldScore:
    return FoldScore("head", Setting(rate), repeat, fold, means, {label: label + 1 for label in means}, seconds=2.0)


def test_what_was_found_is_there_again_and_what_a_kill_cut_short_is_not(tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    kept = FoldScores(path)
    for repeat in range(2):
        kept.add(score(repeat, 0, {4: 0.1 + repeat, 1: 0.2}))
        kept.add(score(repeat, 1, {2: 0.3}))
    kept.add(score(0, 0, {4: 0.9}, rate=3.0))
    with path.open("ab") as file:
        file.write(b'{"rung": "head", "setting": {"rate": 3.0, "sh')
    again = FoldScores(path)
    assert again.get("head", Setting(), 1, 1) == score(1, 1, {2: 0.3})
    assert again.get("head", Setting(3.0), 0, 0) is not None
    assert again.get("head", Setting(3.0), 0, 1) is None
    assert again.seconds("head") == 10
    table, queries = again.table(Rung("head", "a head"), repeats=2, folds=2)
    assert table.tolist() == [[0.2, 0.3, 0.1], [0.2, 0.3, 1.1]]  # classes 1, 2, 4
    assert queries.tolist() == [2, 3, 5]
    again.add(score(0, 1, {2: 0.5}, rate=3.0))
    assert FoldScores(path).get("head", Setting(3.0), 0, 1) == score(0, 1, {2: 0.5}, rate=3.0)


def test_a_fold_has_the_way_that_is_best_on_the_others(tmp_path: Path) -> None:
    """Its own classes have no say: here each fold likes another way best."""
    kept = FoldScores(tmp_path / "scores.jsonl")
    of_folds = [{1.0: 0.9, 3.0: 0.1}, {1.0: 0.2, 3.0: 0.8}, {1.0: 0.3, 3.0: 0.4}]
    for fold, ways in enumerate(of_folds):
        for rate, mean in ways.items():
            kept.add(FoldScore("head", Setting(rate), 0, fold, {fold: mean}, {fold: 10}, seconds=0.0))
    rung = Rung("head", "a head", rates=(1.0, 3.0))
    table, _ = kept.table(rung, repeats=1, folds=3)
    assert table.tolist() == [[0.1, 0.2, 0.3]]  # folds 1 and 2 like 3, folds 0 and 2 like 1, folds 0 and 1 like 1
    assert kept.best_way(rung, [(0, 0), (0, 1), (0, 2)]) == Setting(1.0)
