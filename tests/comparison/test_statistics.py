"""Statistics of a comparison against published and hand-made figures."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from likewise.comparison.statistics import beside_the_best, estimates, holm, mean_over_seeds, pooled_deviation, rank_test, seed_test
from likewise.evaluation.retrieval import PerQuery
from likewise.evaluation.uncertainty import bootstrap

# Demsar (2006), "Statistical comparisons of classifiers over multiple data sets", table 6: AUC on 14 data sets.
DEMSAR = {
    "C4.5": [0.763, 0.599, 0.954, 0.628, 0.882, 0.936, 0.661, 0.583, 0.775, 1.0, 0.940, 0.619, 0.972, 0.957],
    "C4.5+m": [0.768, 0.591, 0.971, 0.661, 0.888, 0.931, 0.668, 0.583, 0.838, 1.0, 0.962, 0.666, 0.981, 0.978],
    "C4.5+cf": [0.771, 0.590, 0.968, 0.654, 0.886, 0.916, 0.609, 0.563, 0.866, 1.0, 0.965, 0.614, 0.975, 0.946],
    "C4.5+m+cf": [0.798, 0.569, 0.967, 0.657, 0.898, 0.931, 0.685, 0.625, 0.875, 1.0, 0.962, 0.669, 0.973, 0.970],
}


def queries(per_class: list[float], *, size: int = 4, spread: float = 0.0, seed: int = 0) -> PerQuery:
    """Scores of classes, each with `size` queries that differ a little."""
    noise = np.random.default_rng(seed).uniform(-spread, spread, size * len(per_class))
    scores = torch.from_numpy(np.repeat(per_class, size) + noise)
    labels = torch.arange(len(per_class)).repeat_interleave(size)
    return PerQuery({"MAP@R": scores}, torch.ones(len(scores), dtype=torch.bool), labels)


def test_holm_equals_known_values() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


def test_holm_equals_its_definition() -> None:
    """Rejected at a level just above the corrected p-value, kept just below, by the step-down procedure itself."""
    p_values = np.random.default_rng(3).uniform(0, 0.2, 8).tolist()
    for position, corrected in enumerate(holm(p_values)):
        for level, expected in ((corrected * 1.0001, True), (corrected * 0.9999, False)):
            rejected = set()
            for rank, at in enumerate(np.argsort(p_values)):
                if p_values[at] > level / (len(p_values) - rank):
                    break
                rejected.add(int(at))
            assert (position in rejected) == expected


def test_ranks_equal_the_published_ones() -> None:
    found = rank_test(DEMSAR)
    assert {name: round(rank, 3) for name, rank in found.average_ranks.items()} == {
        "C4.5": 3.143,
        "C4.5+m": 2.0,
        "C4.5+cf": 2.893,
        "C4.5+m+cf": 1.964,
    }
    assert found.critical_difference == pytest.approx(2.569 * math.sqrt(4 * 5 / (6 * 14)), abs=5e-4)
    assert found.p_value == pytest.approx(stats.friedmanchisquare(*DEMSAR.values()).pvalue)


def test_ranks_need_two_of_both() -> None:
    with pytest.raises(ValueError, match="1 methods on 2 data sets"):
        rank_test({"a": [0.1, 0.2]})


def test_equal_methods_are_alike_everywhere() -> None:
    found = rank_test({name: [0.5, 0.5] for name in "abc"})
    assert found.p_value == 1.0
    assert set(found.average_ranks.values()) == {2.0}


def test_one_seed_leaves_the_interval_of_the_classes() -> None:
    run = queries([0.1, 0.5, 0.6, 0.9])
    found = estimates([{"MAP@R": 0.525}], [run])["MAP@R"]
    classes = bootstrap(run)["MAP@R"]
    assert found.deviation == 0
    assert (found.low, found.high) == pytest.approx((classes.low, classes.high))


def test_equal_classes_leave_the_interval_of_the_seeds() -> None:
    values = (0.4, 0.5, 0.6)
    found = estimates([{"MAP@R": value} for value in values], [queries([value] * 5) for value in values])["MAP@R"]
    low, high = stats.t.interval(0.95, 2, loc=0.5, scale=0.1 / math.sqrt(3))
    assert (found.mean, found.deviation) == pytest.approx((0.5, 0.1))
    assert (found.low, found.high) == pytest.approx((low, high))


def test_cluster_scores_have_the_seeds_alone() -> None:
    found = estimates([{"NMI": 0.4}, {"NMI": 0.6}], [queries([0.5, 0.7])] * 2)["NMI"]
    low, high = stats.t.interval(0.95, 1, loc=0.5, scale=0.1)
    assert (found.low, found.high) == pytest.approx((max(low, 0), min(high, 1)))


def test_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """Class means of 0.5 with deviation 0.1, seeds of 0.02: the truth, 0.5, is in nine of ten intervals or more."""
    random = np.random.default_rng(0)
    inside = 0
    for _ in range(100):
        classes = random.normal(0.5, 0.1, 40)
        runs = [queries((classes + shift).tolist()) for shift in random.normal(0, 0.02, 3)]
        scores = [{"MAP@R": float(run.scores["MAP@R"].mean())} for run in runs]
        found = estimates(scores, runs)["MAP@R"]
        inside += found.low <= 0.5 <= found.high
    assert 90 <= inside <= 100


def verdicts(runs: dict[str, list[PerQuery]]) -> dict[str, tuple[float | None, bool]]:
    values = {name: [float(run.scores["MAP@R"].mean()) for run in found] for name, found in runs.items()}
    return {name: (verdict.p_value, verdict.within_noise) for name, verdict in beside_the_best(runs, values).items()}


def test_a_clear_difference_is_real_and_a_small_one_is_noise() -> None:
    classes = np.random.default_rng(1).uniform(0.3, 0.7, 30)
    runs = {
        "best": [queries((classes + shift).tolist(), spread=0.05, seed=1) for shift in (0, 0.001, 0.002)],
        "near": [queries((classes - 0.001 + shift).tolist(), spread=0.05, seed=2) for shift in (0, 0.001, 0.002)],
        "worse": [queries((classes - 0.1 + shift).tolist(), spread=0.05, seed=3) for shift in (0, 0.001, 0.002)],
    }
    found = verdicts(runs)
    assert found["best"] == (None, True)
    assert found["near"][1]
    assert not found["worse"][1]
    assert found["worse"][0] is not None
    assert found["worse"][0] < 0.01


def test_restless_seeds_are_noise_whatever_the_classes_say() -> None:
    """Every class is better by 0.03, but seeds differ by more than that."""
    classes = np.linspace(0.4, 0.6, 30)
    runs = {
        "best": [queries((classes + shift).tolist()) for shift in (0.03, 0.13, -0.07)],
        "other": [queries((classes + shift).tolist()) for shift in (0.0, 0.1, -0.1)],
    }
    assert verdicts(runs)["other"][1]
    assert not verdicts({name: [mean_over_seeds(found)] for name, found in runs.items()})["other"][1]


def test_seed_test() -> None:
    assert seed_test([0.5], [0.4], noise=0.0, freedom=0) == 0.0  # one seed says nothing
    assert seed_test([0.5, 0.5], [0.5, 0.5], noise=0.0, freedom=2) == 1.0
    assert seed_test([0.5, 0.5], [0.4, 0.4], noise=0.0, freedom=2) == 0.0
    two = [0.5, 0.6], [0.4, 0.1]
    noise, freedom = pooled_deviation(two)
    assert freedom == 2
    assert seed_test(*two, noise=noise, freedom=freedom) == pytest.approx(stats.ttest_ind(*two, equal_var=True).pvalue)
    three = [[0.5, 0.52, 0.49], [0.4, 0.41, 0.43], [0.1, 0.12, 0.13]]
    within = sum(np.var(own) * 3 for own in three) / 6  # the residual mean square of a one-way analysis of variance
    assert pooled_deviation(three) == (pytest.approx(within**0.5), 6)
