"""A rung counts where its gain is beyond noise; of equal rungs few do."""

from __future__ import annotations

import numpy as np
import pytest

from likewise.adaptation.fold_scores import Table
from likewise.adaptation.judgement import judged_gain, score_interval

QUERIES = np.full(20, 30.0)


def scores(rng: np.random.Generator, *, repeats: int = 3, classes: int = 20) -> Table:
    """Of a rung: each class's own score, a repeat's, and what is left."""
    return 0.4 + rng.normal(0, 0.03, (1, classes)) + rng.normal(0, 0.01, (repeats, 1)) + rng.normal(0, 0.01, (repeats, classes))


def test_of_equal_rungs_few_count() -> None:
    """At most 2.5 % one-sidedly: 12 of 200 are three deviations above."""
    rng = np.random.default_rng(0)
    assert sum(judged_gain(scores(rng), scores(rng), QUERIES).counts for _ in range(200)) <= 12


def test_a_gain_is_found() -> None:
    rng = np.random.default_rng(1)
    base = scores(rng)
    found = judged_gain(base, base + 0.05 + rng.normal(0, 0.005, base.shape), QUERIES)
    assert found.counts
    assert 0.03 < found.low < 0.05 < found.high
    assert found.gain == pytest.approx(0.05, abs=0.005)


def test_a_loss_does_not_count_and_its_interval_is_below_nothing() -> None:
    base = scores(np.random.default_rng(2))
    found = judged_gain(base, base - 0.05 + np.random.default_rng(3).normal(0, 0.005, base.shape), QUERIES)
    assert not found.counts
    assert found.can_tell
    assert found.low < -0.05 < found.high < 0


@pytest.mark.parametrize(("repeats", "classes"), [(1, 20), (3, 2)])
def test_too_little_tells_nothing(repeats: int, classes: int) -> None:
    base = scores(np.random.default_rng(4), repeats=repeats, classes=classes)
    found = judged_gain(base, base + 0.2, QUERIES[:classes])
    assert not found.counts
    assert not found.can_tell


def test_means_are_over_queries() -> None:
    base = np.zeros((2, 2))
    found = judged_gain(base, np.array([[0.1, 0.4], [0.1, 0.4]]), np.array([30.0, 10.0]))
    assert found.gain == pytest.approx((30 * 0.1 + 10 * 0.4) / 40)


def test_an_interval_stays_among_scores() -> None:
    mean, low, high = score_interval(np.array([[0.0, 1.0, 0.9], [0.0, 0.9, 1.0]]), np.ones(3))
    assert 0 <= low < mean < high <= 1
