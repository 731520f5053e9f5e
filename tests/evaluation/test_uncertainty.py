import dataclasses

import numpy as np
import pytest
import torch
from scipy import stats

from likewise.evaluation.certainty import uncertainty
from likewise.evaluation.certainty.uncertainty import class_tables, intervals_in_doubt, mean_intervals, paired_test
from likewise.evaluation.retrieval import PerQuery, per_query


def from_arrays(scores: np.ndarray, labels: np.ndarray, matched: np.ndarray | None = None) -> PerQuery:
    matched = np.ones(len(labels), dtype=bool) if matched is None else matched
    return PerQuery({"R@1": torch.from_numpy(scores)}, torch.from_numpy(matched), torch.from_numpy(labels))


def simulated(rng: np.random.Generator, num_classes: int, each: int, *, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Hits and misses whose chance differs from class to class: mean 0.7 + shift."""
    labels = np.repeat(np.arange(num_classes), each)
    chance = rng.beta(7, 3, size=num_classes) + shift
    return (rng.random(len(labels)) < chance[labels]).astype(np.float64), labels


def binomial_tolerance(chance: float, trials: int) -> float:
    return 3.5 * (chance * (1 - chance) / trials) ** 0.5


def test_symmetric_scores_have_the_usual_t_interval() -> None:
    """Class means 0.2, 0.4, 0.5, 0.6 and 0.8, two queries each: nothing is skewed, so Student's t of five values is what remains."""
    means = np.array([0.2, 0.4, 0.5, 0.6, 0.8])
    scores = (means[:, None] + np.array([-0.05, 0.05])).ravel()
    data = from_arrays(scores, np.repeat(np.arange(5), 2))
    for level in (0.5, 0.95):
        interval = mean_intervals([data], level=level)["R@1"]
        low, high = stats.t.interval(level, 4, loc=means.mean(), scale=stats.sem(means))
        assert (interval.low, interval.estimate, interval.high) == pytest.approx((low, 0.5, high))
    by_query = mean_intervals([data], unit="query")["R@1"]
    low, high = stats.t.interval(0.95, 9, loc=scores.mean(), scale=stats.sem(scores))
    assert (by_query.low, by_query.high) == pytest.approx((low, high))


def test_class_tables_weigh_to_the_mean_over_queries() -> None:
    """Classes of 3, 1 and 2 matched queries; a query without a match counts nowhere, and its class is left out."""
    scores = torch.tensor([0.1, 0.2, 0.9, 0.4, 0.0, 1.0, 0.5], dtype=torch.float64)
    labels = torch.tensor([7, 7, 7, 2, 5, 9, 9])
    matched = labels != 5
    tables, weights = class_tables([PerQuery({"MAP@R": scores}, matched, labels)])
    assert tables["MAP@R"].tolist() == [pytest.approx([0.4, 0.4, 0.75])]  # of classes 2, 7 and 9
    assert weights.tolist() == [1, 3, 2]
    assert float(tables["MAP@R"][0] @ weights / weights.sum()) == pytest.approx(float(scores[matched].mean()))


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, labels = simulated(np.random.default_rng(0), 9, 5)
    a, b = from_arrays(scores, labels), from_arrays(1 - scores, labels)
    whole = paired_test(a, b, samples=100)
    monkeypatch.setattr(uncertainty, "CHUNK_ELEMENTS", 9 * 8)
    assert paired_test(a, b, samples=100) == whole


def test_class_intervals_cover_the_truth_and_query_intervals_do_not() -> None:
    rng = np.random.default_rng(1)
    trials, inside = 600, {"class": 0, "query": 0}
    for _ in range(trials):
        data = from_arrays(*simulated(rng, 80, 20))
        for unit in ("class", "query"):
            interval = mean_intervals([data], unit=unit)["R@1"]  # type: ignore[arg-type]
            inside[unit] += interval.low <= 0.7 <= interval.high
    assert inside["class"] / trials == pytest.approx(0.95, abs=binomial_tolerance(0.95, trials))
    assert inside["query"] / trials < 0.80


@pytest.mark.parametrize(("a", "b"), [(2.0, 5.0), (9.6, 0.4)])
def test_ten_classes_are_enough(a: float, b: float) -> None:
    """Usual class scores, and scores near 1 with a class now and then that is not; percentiles of a bootstrap cover 89 and 83 % here."""
    rng = np.random.default_rng(2)
    trials, inside, labels = 1500, 0, np.repeat(np.arange(10), 20)
    for _ in range(trials):
        hits = rng.random(200) < np.repeat(rng.beta(a, b, size=10), 20)
        interval = mean_intervals([from_arrays(hits.astype(np.float64), labels)]).get("R@1")
        inside += interval is None or interval.low <= a / (a + b) <= interval.high
    assert inside / trials == pytest.approx(0.95, abs=binomial_tolerance(0.95, trials))


def test_what_intervals_cannot_say() -> None:
    scores, labels = np.array([0.1, 0.5, 0.9, 0.4]), np.array([0, 0, 1, 1])
    two = from_arrays(scores, labels)
    assert [words[:18] for words in intervals_in_doubt(two, mean_intervals([two]))] == ["2 classes are few:"]
    assert [words[:18] for words in intervals_in_doubt(two, mean_intervals([two], unit="query"), unit="query")] == ["4 queries are few:"]
    one = from_arrays(scores, np.zeros(4, dtype=np.int64))
    assert mean_intervals([one]) == {}
    assert intervals_in_doubt(one, {}) == ("one class leaves every score without an interval: how much classes differ is not known",)
    perfect = from_arrays(np.ones(24), np.repeat(np.arange(12), 2))
    assert mean_intervals([perfect]) == {}
    assert intervals_in_doubt(perfect, {}) == (
        "R@1 has no interval: every class scores the same there, which is no proof that others would",
    )
    many = from_arrays(*simulated(np.random.default_rng(0), 10, 5))
    assert intervals_in_doubt(many, mean_intervals([many])) == ()


def test_p_values_are_uniform_when_nothing_differs() -> None:
    rng = np.random.default_rng(2)
    trials = 600
    p_values = []
    for trial in range(trials):
        labels = np.repeat(np.arange(40), 10)
        # both embeddings share what makes a class hard, and each has its own luck with a class
        chance = rng.beta(7, 3, size=40)
        own = [chance + rng.normal(0, 0.1, size=40) for _ in range(2)]
        # continuous scores: sums of hits and misses tie often, which makes p-values coarse (and larger)
        scores = [from_arrays(values[labels] + rng.normal(0, 0.3, size=400), labels) for values in own]
        p_values.append(paired_test(*scores, samples=400, seed=trial)["R@1"].p_value)
    for level in (0.05, 0.25, 0.5, 0.75):
        assert np.mean(np.array(p_values) <= level) == pytest.approx(level, abs=binomial_tolerance(level, trials))


def test_a_true_difference_is_found_and_covered() -> None:
    rng = np.random.default_rng(3)
    trials, inside, found = 400, 0, 0
    for trial in range(trials):
        labels = np.repeat(np.arange(60), 10)
        chance = rng.beta(7, 3, size=60) * 0.8
        better = chance + rng.normal(0.06, 0.04, size=60)
        hits = [from_arrays((rng.random(600) < own[labels]).astype(np.float64), labels) for own in (chance, better)]
        result = paired_test(*hits, samples=400, seed=trial)["R@1"]
        inside += result.low <= 0.06 <= result.high
        found += result.p_value < 0.05
    assert inside / trials == pytest.approx(0.95, abs=binomial_tolerance(0.95, trials))
    assert found / trials > 0.5


def test_exact_p_value_of_three_classes() -> None:
    """Differences 1, 2 and 3: of the 8 signs only all plus and all minus reach 6, so p = 1/4."""
    labels = np.array([0, 1, 2])
    result = paired_test(from_arrays(np.zeros(3), labels), from_arrays(np.array([1.0, 2.0, 3.0]), labels), samples=20_000)["R@1"]
    assert result.difference == pytest.approx(2.0)
    assert result.p_value == pytest.approx(0.25, abs=binomial_tolerance(0.25, 20_000))


def test_no_difference_at_all() -> None:
    data = from_arrays(*simulated(np.random.default_rng(0), 10, 5))
    result = paired_test(data, data, samples=50)["R@1"]
    assert dataclasses.astuple(result) == (0.0, 0.0, 0.0, 1.0)


def test_on_real_scores_every_name_has_its_own_interval() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(12).repeat_interleave(8)
    centres = torch.randn(12, 6, generator=generator)[labels]
    good = per_query(centres + 0.5 * torch.randn(96, 6, generator=generator), labels)
    bad = per_query(centres + 2.0 * torch.randn(96, 6, generator=generator), labels)
    intervals = mean_intervals([good])
    assert list(intervals) == list(good.scores)
    for name, interval in intervals.items():
        assert interval.estimate == pytest.approx(float(good.scores[name].mean()))
        assert interval.low <= interval.estimate <= interval.high
    for name, result in paired_test(bad, good).items():
        assert result.difference == pytest.approx(float((good.scores[name] - bad.scores[name]).mean()))
        assert result.low > 0
        assert result.p_value < 0.01


def test_faults_are_named() -> None:
    scores, labels = simulated(np.random.default_rng(0), 10, 5)
    data = from_arrays(scores, labels)
    with pytest.raises(ValueError, match="got 'image'"):
        mean_intervals([data], unit="image")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="got 95"):
        mean_intervals([data], level=95)
    with pytest.raises(ValueError, match="got 0"):
        paired_test(data, data, samples=0)
    with pytest.raises(ValueError, match="no query has a match"):
        mean_intervals([from_arrays(scores, labels, np.zeros(50, dtype=bool))])
    with pytest.raises(ValueError, match="50 and 49 queries"):
        paired_test(data, from_arrays(scores[1:], labels[1:]))
    with pytest.raises(ValueError, match=r"1 of 50 queries differ .* query 49"):
        paired_test(data, from_arrays(scores, np.append(labels[:-1], 99)))
    with pytest.raises(ValueError, match=r"50 of 50 queries differ"):
        paired_test(data, from_arrays(scores, labels, np.zeros(50, dtype=bool)))
    with pytest.raises(ValueError, match="no score in common: R@1 and mAP"):
        paired_test(data, PerQuery({"mAP": data.scores["R@1"]}, data.matched, data.labels))
