"""Statistics of a comparison against published and hand-made figures."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from likewise.comparison.statistics import estimates, judged, rank_test
from likewise.evaluation.certainty.verdict import verdict
from likewise.evaluation.retrieval import PerQuery

from .test_results import result

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


def test_two_data_sets_cannot_tell_ten_methods_apart() -> None:
    """Even if one is first on both and another last: the critical difference is 9.58, and ranks are at most 9 apart."""
    found = rank_test({str(i): [i / 10, i / 10] for i in range(10)})
    assert found.critical_difference == pytest.approx(9.58, abs=0.01)
    assert not found.can_tell
    assert rank_test(DEMSAR).can_tell


def test_one_seed_leaves_the_interval_of_the_classes_and_says_so() -> None:
    found = estimates([{"MAP@R": 0.525}], [queries([0.1, 0.5, 0.6, 0.9])])["MAP@R"]
    by_hand = verdict({"a": [[0.1, 0.5, 0.6, 0.9]]})
    assert found.deviation is None
    assert found.lacking == "seeds"
    assert found.low is not None
    assert found.high is not None
    assert (found.low, found.high) == pytest.approx((max(0.0, by_hand.intervals["a"][0]), min(1.0, by_hand.intervals["a"][1])))


def test_equal_classes_leave_the_interval_of_the_seeds() -> None:
    values = (0.4, 0.5, 0.6)
    found = estimates([{"MAP@R": value} for value in values], [queries([value] * 5) for value in values])["MAP@R"]
    low, high = stats.t.interval(0.95, 2, loc=0.5, scale=0.1 / math.sqrt(3))
    assert (found.mean, found.deviation) == pytest.approx((0.5, 0.1))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.lacking == ""


def test_cluster_scores_have_the_seeds_alone() -> None:
    found = estimates([{"NMI": 0.49}, {"NMI": 0.51}], [queries([0.5, 0.7])] * 2)["NMI"]
    low, high = stats.t.interval(0.95, 1, loc=0.5, scale=0.01)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.lacking == "classes"


@pytest.mark.parametrize("values", [[0.4], [0.4, 0.4]])
def test_no_interval_is_without_width(values: list[float]) -> None:
    """One seed, or seeds that agree: nothing is known of the noise of a cluster score, and classes that agree say nothing of theirs."""
    found = estimates([{"NMI": value, "MAP@R": 1.0} for value in values], [queries([1.0] * 6)] * len(values))
    assert [(estimate.low, estimate.high) for estimate in found.values()] == [(None, None)] * 2
    assert found["NMI"].lacking == ("seeds and classes" if len(values) == 1 else "classes")


def test_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """Class means of 0.5 with deviation 0.1, seeds of 0.02: the truth, 0.5, is in nine of ten intervals or more."""
    random = np.random.default_rng(0)
    inside = 0
    for _ in range(100):
        classes = random.normal(0.5, 0.1, 40)
        runs = [queries((classes + shift).tolist()) for shift in random.normal(0, 0.02, 3)]
        scores = [{"MAP@R": float(run.scores["MAP@R"].mean())} for run in runs]
        found = estimates(scores, runs)["MAP@R"]
        assert found.low is not None
        assert found.high is not None
        inside += found.low <= 0.5 <= found.high
    assert 90 <= inside <= 100


def drawn_runs(
    leads: dict[str, float], *, seeds: int = 3, sizes: tuple[int, ...] = (4,), classes: int = 30, seed: int = 5
) -> dict[str, list[PerQuery]]:
    """Methods whose classes do alike but for a lead, seeds that differ by 0.003, and classes of several sizes."""
    random = np.random.default_rng(seed)
    of_class = random.uniform(0.3, 0.7, classes)
    counts = np.resize(sizes, classes)
    labels = torch.from_numpy(np.repeat(np.arange(classes), counts))
    runs: dict[str, list[PerQuery]] = {}
    for name, lead in leads.items():
        runs[name] = []
        for _ in range(seeds):
            scores = np.repeat(of_class + lead + random.normal(0, 0.003), counts) + random.uniform(-0.05, 0.05, len(labels))
            runs[name].append(PerQuery({"MAP@R": torch.from_numpy(scores)}, torch.ones(len(labels), dtype=torch.bool), labels))
    return runs


def test_the_verdict_is_that_of_likewise_verdict_by_hand() -> None:
    """Classes of 2 and 9 queries: the mean over queries is what methods are judged by. The untrained network is not among them."""
    runs = drawn_runs({"best": 0.0, "near": -0.001, "worse": -0.1, "untrained": 0.2}, sizes=(2, 9))
    methods = [result(name, 0.5, apart="no training" if name == "untrained" else "") for name in runs]
    found, judgement = judged(methods, runs)
    by_hand = verdict(
        {
            name: [[float(run.scores["MAP@R"][run.labels == label].mean()) for label in range(30)] for run in runs[name]]
            for name in ("best", "near", "worse")
        },
        weights=[2, 9] * 15,
    )
    assert judgement is not None
    assert judgement.differences == {name: pytest.approx(limits) for name, limits in by_hand.differences.items()}
    assert judgement.means["best"] == pytest.approx(np.mean([run.scores["MAP@R"].mean() for run in runs["best"]]))
    by_name = {method.name: method for method in found}
    assert [by_name[name].standing for name in runs] == ["leads", "within noise", "behind", ""]
    assert by_name["best"].p_value is by_name["best"].difference is None
    for name in ("near", "worse"):
        assert by_name[name].difference == pytest.approx(by_hand.differences[name])
        assert by_name[name].p_value == pytest.approx(by_hand.p_values[name])
        assert by_name[name].chance_best == pytest.approx(by_hand.chance_best[name])
    assert by_name["untrained"].difference is None


def test_one_seed_calls_nothing_behind() -> None:
    runs = drawn_runs({"best": 0.0, "worse": -0.2}, seeds=1)
    found, judgement = judged([result(name, 0.5) for name in runs], runs)
    assert judgement is not None
    assert judgement.undecided is not None
    assert "One seed cannot tell methods apart" in judgement.undecided
    assert [(method.standing, method.p_value, method.chance_best) for method in found] == [
        ("leads", None, None),
        ("within noise", None, None),
    ]


def test_what_does_not_matter_is_equal_for_all_purposes() -> None:
    """Also a method that is behind, but by less than matters; and what is so wide open that it may matter is within noise."""
    runs = drawn_runs({"best": 0.0, "near": -0.006, "worse": -0.1}, seeds=5)
    methods = [result(name, 0.5) for name in runs]
    assert [method.standing for method in judged(methods, runs, indifferent=0.03)[0]] == ["best", "equal for all purposes", "behind"]
    assert [method.standing for method in judged(methods, runs, indifferent=0.2)[0]] == ["best", *["equal for all purposes"] * 2]
    assert [method.standing for method in judged(methods, runs, indifferent=1e-4)[0]] == ["leads", "within noise", "behind"]


def test_a_later_look_tells_less() -> None:
    runs = drawn_runs({"best": 0.0, "other": -0.03})
    methods = [result(name, 0.5) for name in runs]
    assert judged(methods, runs)[0][1].standing == "behind"
    assert judged(methods, runs, look=32)[0][1].standing == "within noise"


def test_a_training_that_came_to_nothing_is_not_judged() -> None:
    runs = drawn_runs({"best": 0.0, "nothing": math.nan})
    found, judgement = judged([result(name, 0.5) for name in runs], runs)
    assert judgement is not None
    assert list(judgement.means) == ["best"]
    assert [method.standing for method in found] == ["best", ""]
