import dataclasses
import math
import time
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import optimize, stats

from likewise.evaluation.certainty.noise import Spread, measured, moderated, of_differences, of_means
from likewise.evaluation.certainty.verdict import Verdict, chances_of_being_best, level_at, verdict


def simulated(
    rng: np.random.Generator,
    *,
    methods: int,
    seeds: int,
    classes: int = 20,
    times: int | None = None,
    by_seed: float | np.ndarray = 0.01,
    by_class: float = 0.05,
    interaction: float = 0.0,
) -> np.ndarray:
    """Scores (times, methods, seeds, classes) of equal methods; the deviations are those of single scores."""
    lead = () if times is None else (times,)
    scores = 0.5 + by_class * rng.standard_normal((*lead, methods, 1, classes))
    scores = scores + np.reshape(by_seed, (-1, 1, 1)) * rng.standard_normal((*lead, methods, seeds, 1))
    return scores + interaction * rng.standard_normal((*lead, methods, seeds, classes))


def named(scores: np.ndarray) -> dict[str, np.ndarray]:
    return {f"method {m}": table for m, table in enumerate(scores)}


def within(chance: float, times: int) -> float:
    """How far a simulated chance may lie from the true one: 3.3 standard errors, passed once in a thousand."""
    return 3.3 * math.sqrt(chance * (1 - chance) / times)


# equal to what others compute


def test_seed_noise_alone_is_welchs_test() -> None:
    rng = np.random.default_rng(0)
    classes = rng.random(12)
    a = classes + 0.30 + 0.02 * rng.standard_normal((4, 1))
    b = classes + 0.28 + 0.05 * rng.standard_normal((7, 1))
    result = verdict({"a": a, "b": b})
    test = stats.ttest_ind(b.mean(axis=1), a.mean(axis=1), equal_var=False)
    sign = 1 if result.best == "a" else -1
    interval = sorted(sign * limit for limit in test.confidence_interval(0.95))
    (other,) = result.differences
    assert result.differences[other] == pytest.approx(interval)
    assert result.p_values[other] == pytest.approx(test.pvalue)


def test_class_noise_alone_is_the_paired_test() -> None:
    rng = np.random.default_rng(0)
    classes = rng.random(10)
    difference = np.array([1, -1, 2, -2, 3, -3, 4, -4, 5, -5]) / 100 + 0.02  # not skewed
    result = verdict({"a": [classes + difference], "b": [classes]}, seedless=["a", "b"])
    test = stats.ttest_rel(classes, classes + difference)
    assert result.differences["b"] == pytest.approx(tuple(test.confidence_interval(0.95)))
    assert result.p_values["b"] == pytest.approx(test.pvalue)


def test_both_noises_equal_a_computation_by_hand() -> None:
    rng = np.random.default_rng(3)
    scores = simulated(rng, methods=2, seeds=3, classes=8, by_seed=0.1, interaction=0.02)
    first, second = sorted(scores, key=lambda table: -table.mean())
    seed_variances, interactions = [], []
    for table in (first, second):
        seed_means = [row.mean() for row in table]
        seed_variances.append(np.var(seed_means, ddof=1) / 3)
        total = 0.0
        for s in range(3):
            for c in range(8):
                total += (table[s, c] - table[s].mean() - table[:, c].mean() + table.mean()) ** 2
        interactions.append(total / (2 * 7) / (3 * 8))
    per_class = np.array([second[:, c].mean() - first[:, c].mean() for c in range(8)])
    by_class = np.var(per_class, ddof=1) / 8 - sum(interactions)
    by_seed = sum(seed_variances)
    assert 0 < sum(interactions) < min(by_seed, by_class)
    welch = by_seed**2 / (seed_variances[0] ** 2 / 2 + seed_variances[1] ** 2 / 2)
    half = math.sqrt(by_class * stats.t.ppf(0.975, 7) ** 2 + by_seed * stats.t.ppf(0.975, welch) ** 2)
    spread = of_differences(measured([first, second]), np.array(0))
    low, high = dataclasses.replace(spread, skewness=0 * spread.skewness).limits(0.05)
    assert (low[1], high[1]) == pytest.approx((per_class.mean() - half, per_class.mean() + half))


def test_a_mean_equals_a_computation_by_hand() -> None:
    rng = np.random.default_rng(0)
    table = rng.beta(0.5, 4, (1, 12)) + 0.05 * rng.standard_normal((4, 1)) + 0.01 * rng.standard_normal((4, 12))
    residuals = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    by_class = np.var(table.mean(axis=0), ddof=1) / 12 - (residuals**2).sum() / (3 * 11) / (4 * 12)
    by_seed = np.var(table.mean(axis=1), ddof=1) / 4
    share = by_seed / (by_class + by_seed)
    assert 0.1 < share < 0.9
    bound = math.sqrt((1 - share**2) * stats.t.ppf(0.975, 11) ** 2 + share**2 * stats.t.ppf(0.975, 3) ** 2)
    # Hall's transformation of t, to be found where it reaches the bound
    a = stats.skew(table.mean(axis=0), bias=False) / math.sqrt(12) * (1 - share) ** 1.5 / 3
    assert a > 0.05
    limits = []
    for x in (bound, -bound):
        t = optimize.brentq(lambda t, x=x: ((1 + a * t) ** 3 - 1) / (3 * a) + a / 2 - x, -50, 50)  # type: ignore[misc]
        limits.append(table.mean() - t * math.sqrt(by_class + by_seed))
    assert verdict({"a": table}).intervals["a"] == pytest.approx(limits)


def test_chances_of_two_seeds_are_cauchys() -> None:
    """Nothing but two seeds each: what is known of a mean is a Cauchy distribution, and so is what is known of the difference."""
    classes = np.random.default_rng(0).random(10)
    a, b = classes + np.array([[0.02], [0.03]]), classes + np.array([[0.0], [0.04]])
    scale = 0.005 + 0.02  # |y_1 - y_2| / 2 of each
    chance = 0.5 + math.atan((0.025 - 0.02) / scale) / math.pi
    assert verdict({"a": a, "b": b}).chance_best["a"] == pytest.approx(chance, abs=3.3 * math.sqrt(0.25 / 20_000))


def test_chances_count_interaction_once() -> None:
    rng = np.random.default_rng(0)
    scores = simulated(rng, methods=2, seeds=40, classes=200, by_seed=0.0, by_class=0.0, interaction=1.0)
    variance = of_differences(measured(list(scores)), np.array(0)).variance[1]
    scores[0] += scores[1].mean() - scores[0].mean() + math.sqrt(variance)
    assert verdict(named(scores)).chance_best["method 0"] == pytest.approx(stats.norm.cdf(1), abs=0.02)


def test_the_bound_for_many_methods_is_just_above_the_studentised_range() -> None:
    """With variances known exactly, the best of k methods is apart from the worst by the studentised range; pairs cost at most 5 % more."""
    for methods in (2, 3, 10, 35):
        noise = measured(list(simulated(np.random.default_rng(0), methods=methods, seeds=2, by_seed=0.0)))
        bound = dataclasses.replace(of_differences(noise, np.array(0)), class_freedom=np.inf).bound(0.05)
        ratio = bound / (stats.studentized_range.ppf(0.95, methods, np.inf) / math.sqrt(2))
        assert ratio.min() > 0.999
        assert ratio.max() < 1.05


def test_the_mean_is_that_over_queries() -> None:
    rng = np.random.default_rng(0)
    queries = rng.integers(1, 30, size=9)
    scores = rng.random((2, 9))
    over_queries = np.repeat(scores, queries, axis=1).mean()
    assert verdict({"a": scores}, weights=queries).means["a"] == pytest.approx(over_queries)
    assert verdict({"a": scores}).means["a"] == pytest.approx(scores.mean())


# what it promises, simulated


@pytest.mark.slow
@pytest.mark.parametrize("methods", [2, 10])
@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize("by_seed", [0.0, 0.02, 0.04, "differs"])
def test_equal_methods_are_seldom_called_behind(methods: int, seeds: int, by_seed: float | str) -> None:
    times = 800
    rng = np.random.default_rng(1)
    sizes = np.geomspace(0.002, 0.06, methods) if by_seed == "differs" else np.full(methods, float(by_seed))
    scores = simulated(rng, methods=methods, seeds=seeds, times=times, by_seed=sizes, interaction=0.01)
    noise = measured([scores[:, m] for m in range(methods)])
    _, high = of_differences(noise, noise.means.argmax(axis=-1)).limits(0.05)
    assert (high < 0).any(axis=-1).mean() <= 0.05 + within(0.05, times)
    low, high = of_means(noise).limits(0.05)
    covered = ((low <= 0.5) & (high >= 0.5)).mean()
    assert 0.93 - within(0.93, times) <= covered <= 0.97 + within(0.97, times)


@pytest.mark.parametrize("ratio", [0.1, 1, 16, 100, 10_000])
def test_seeds_that_agree_by_chance_are_no_knowledge(ratio: float) -> None:
    """One difference of ten methods' 45, two seeds, 200 classes; seed variance `ratio` times class variance. The chance is exact given
    the variances, whose draws are averaged."""
    rng = np.random.default_rng(0)
    alpha, times = 0.05 / 45, 200_000
    by_class, by_seed = rng.chisquare(199, times) / 199, ratio * rng.chisquare(1, times)
    spread = Spread(np.zeros(times), by_class, by_seed, 199, np.ones(times), np.zeros(times))
    deviations = np.sqrt(spread.variance / (1 + ratio))

    def chance(bound: np.ndarray) -> float:
        return float(2 * stats.norm.sf(bound * deviations).mean())

    assert chance(spread.bound(alpha)) < 1.1 * alpha  # within the error of the mean
    if 16 <= ratio <= 100:
        assert chance(stats.t.isf(alpha / 2, spread.freedom)) > 40 * alpha


def test_identical_trainings_are_seldom_called_behind() -> None:
    """Methods that differ by nothing but the draw of seeds: all noise is of seeds and of seeds with classes."""
    times = 800
    scores = simulated(np.random.default_rng(2), methods=6, seeds=3, times=times, by_seed=0.01, by_class=0.0, interaction=0.05)
    noise = measured([scores[:, m] for m in range(6)])
    _, high = of_differences(noise, noise.means.argmax(axis=-1)).limits(0.05)
    assert (high < 0).any(axis=-1).mean() <= 0.05 + within(0.05, times)


@pytest.mark.parametrize("weighted", [False, True])
def test_intervals_cover_where_class_scores_are_skewed(weighted: bool) -> None:
    times, classes = 1500, 20
    rng = np.random.default_rng(4)
    weights = rng.integers(10, 41, size=classes).astype(float) if weighted else None
    scores = rng.beta(0.3, 4, (times, 1, classes)) + 0.002 * rng.standard_normal((times, 3, 1))
    low, high = of_means(measured([scores], weights)).limits(0.05)
    truth = 0.3 / 4.3
    covered = ((low <= truth) & (truth <= high)).mean()
    assert abs(covered - 0.95) <= 0.02 + within(0.95, times)  # Student's t alone covers 89 %


def test_differences_are_covered_together_whichever_is_picked() -> None:
    times, truth = 800, np.array([0.0, 0.01, 0.02, 0.02])
    scores = simulated(np.random.default_rng(5), methods=4, seeds=3, times=times, by_seed=0.02)
    noise = measured([scores[:, m] + truth[m] for m in range(4)])
    best = noise.means.argmax(axis=-1)
    low, high = of_differences(noise, best).limits(0.05)
    differences = truth - truth[best][:, None]
    assert ((low <= differences) & (differences <= high)).all(axis=-1).mean() >= 0.95 - within(0.95, times)


@pytest.mark.slow
def test_a_lead_is_found_as_often_as_is_said() -> None:
    rng = np.random.default_rng(6)
    lead = float(np.median([verdict(named(scores)).detectable(5) for scores in simulated(rng, methods=3, seeds=5, times=50, by_seed=0.02)]))
    assert 0.04 < lead < 0.1
    times = 1000
    scores = simulated(rng, methods=3, seeds=5, times=times, by_seed=0.02)
    noise = measured([scores[:, 0] + lead, scores[:, 1], scores[:, 2]])
    _, high = of_differences(noise, np.zeros(times, dtype=np.intp)).limits(0.05)
    assert abs((high[:, 1] < 0).mean() - 0.8) < 0.05 + within(0.8, times)


def test_a_small_lead_is_found_beside_noisy_methods() -> None:
    """The noise of the others is not laid on two quiet methods."""
    deviations = np.array([0.003, 0.003, 0.016, 0.016, 0.016, 0.016])
    scores = simulated(np.random.default_rng(7), methods=6, seeds=10, classes=200, times=200, by_seed=deviations, by_class=0.015)
    truth = np.array([0.01, 0, -0.04, -0.04, -0.04, -0.04])
    noise = measured([scores[:, m] + truth[m] for m in range(6)])
    _, high = of_differences(noise, noise.means.argmax(axis=-1)).limits(0.05)
    assert (high[:, 1] < 0).mean() > 0.95 - within(0.95, 200)


@pytest.mark.slow
def test_chances_of_being_best_come_true() -> None:
    """Where true means are spread far more widely than the noise, the chances are right on average."""
    rng = np.random.default_rng(8)
    said, came_true, times = 0.0, 0, 150
    for scores in simulated(rng, methods=4, seeds=6, times=times, by_seed=0.03):
        truth = 0.05 * rng.standard_normal(4)
        chances = chances_of_being_best(measured(list(scores + truth[:, None, None])))
        assert chances.sum() == pytest.approx(1)
        said += chances.max()
        came_true += int(chances.argmax() == truth.argmax())
    assert 0.5 < came_true / times < 0.95
    assert abs(said - came_true) / times < 0.05 + within(0.75, times)


def test_moderation_leaves_two_seeds_and_unlike_noise_alone() -> None:
    rng = np.random.default_rng(9)
    alike = rng.chisquare(2, 10) / 2
    variance, freedom = moderated(alike, np.full(10, 2.0))
    assert (freedom > 2.5).all()
    assert (freedom <= 4).all()
    assert np.ptp(np.log(variance)) < np.ptp(np.log(alike))
    unlike = alike * np.geomspace(1, 900, 10)
    variance, freedom = moderated(unlike, np.full(10, 2.0))
    assert (freedom < 2.5).all()
    for few in (alike, np.ones(10)):
        variance, freedom = moderated(few, np.full(10, 1.0))
        assert variance.tolist() == few.tolist()
        assert freedom.tolist() == [1.0] * 10


# properties


def assert_same(result: Verdict, other: Verdict, *, scale: float = 1.0, shift: float = 0.0) -> None:
    assert (result.best, result.within_noise, result.behind, result.equivalent) == (
        other.best,
        other.within_noise,
        other.behind,
        other.equivalent,
    )
    assert list(result.means) == list(other.means)
    for name, value in result.means.items():
        assert other.means[name] == pytest.approx(scale * value + shift)
        assert other.intervals[name] == pytest.approx([scale * limit + shift for limit in result.intervals[name]])
    for name, limits in result.differences.items():
        assert other.differences[name] == pytest.approx([scale * limit for limit in limits])
    assert other.pairs.keys() == result.pairs.keys()
    for pair, limits in result.pairs.items():
        assert other.pairs[pair] == pytest.approx([scale * limit for limit in limits])
    assert other.p_values == pytest.approx(result.p_values, rel=1e-6)
    assert other.chance_best == pytest.approx(result.chance_best, abs=0.002)


CHANGES: dict[str, Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]] = {
    "methods in another order": lambda scores: dict(reversed(scores.items())),
    "classes in another order": lambda scores: {name: table[:, ::-1] for name, table in scores.items()},
    "seeds in another order": lambda scores: {name: table[::-1] for name, table in scores.items()},
}


@pytest.mark.parametrize("change", CHANGES)
def test_order_does_not_matter(change: str) -> None:
    scores = named(simulated(np.random.default_rng(0), methods=5, seeds=4) + np.array([0, 0, 0.03, 0.1, 0.1])[:, None, None])
    assert_same(verdict(scores), verdict(CHANGES[change](scores)))


def test_a_constant_and_a_factor_do_not_matter() -> None:
    scores = simulated(np.random.default_rng(0), methods=5, seeds=4) + np.array([0, 0, 0.03, 0.1, 0.1])[:, None, None]
    plain = verdict(named(scores), indifferent=0.02)
    assert plain.behind
    assert_same(plain, verdict(named(scores + 3), indifferent=0.02), shift=3.0)
    assert_same(plain, verdict(named(scores * 7), indifferent=0.14), scale=7.0)


def test_equal_weights_are_none() -> None:
    scores = named(simulated(np.random.default_rng(0), methods=3, seeds=3))
    assert_same(verdict(scores), verdict(scores, weights=np.full(20, 12)))


def test_what_it_takes() -> None:
    scores = simulated(np.random.default_rng(0), methods=2, seeds=3)
    arrays = verdict({"a": scores[0], "b": scores[1]})
    assert_same(arrays, verdict({"a": torch.from_numpy(scores[0]), "b": scores[1].tolist()}))
    more = verdict({"a": scores[0], "b": scores[1][:2]})
    assert more.num_seeds == {"a": 3, "b": 2}
    assert more.num_classes == 20


def test_the_parts_agree() -> None:
    rng = np.random.default_rng(10)
    scores = simulated(rng, methods=6, seeds=5) + np.array([0, 0.01, 0.05, 0.2, 0.22, 0.23])[:, None, None]
    result = verdict(named(scores), level=0.9)
    names = list(result.means)
    assert result.best == names[0]
    assert sorted((*result.within_noise, *result.behind)) == sorted(names[1:])
    assert result.behind
    assert result.within_noise
    assert result.undecided is None
    assert list(result.pairs) == [(first, second) for i, first in enumerate(names) for second in names[i + 1 :]]
    for name, (low, high) in result.differences.items():
        assert low < result.means[name] - result.means[result.best] < high
        assert (high < 0) == (name in result.behind) == (result.p_values[name] < 0.1)
        assert result.pairs[result.best, name] == pytest.approx((-high, -low))
    narrow = verdict(named(scores), level=1 - result.p_values[result.behind[0]] * 1.001)
    assert result.behind[0] in narrow.behind
    wide = verdict(named(scores), level=1 - result.p_values[result.behind[0]] * 0.999)
    assert result.behind[0] not in wide.behind
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.best = "another"  # type: ignore[misc]


def test_equal_for_all_purposes_is_not_cannot_tell() -> None:
    rng = np.random.default_rng(11)
    quiet = simulated(rng, methods=2, seeds=10, classes=100, by_seed=0.002, by_class=0.005)
    assert verdict(named(quiet), indifferent=0.01).equivalent == verdict(named(quiet)).within_noise
    assert verdict(named(quiet)).equivalent == ()
    noisy = simulated(rng, methods=2, seeds=3, by_seed=0.05)
    result = verdict(named(noisy), indifferent=0.01)
    assert (len(result.within_noise), result.equivalent) == (1, ())


def test_more_seeds_tell_more() -> None:
    result = verdict(named(simulated(np.random.default_rng(0), methods=10, seeds=3, by_seed=0.03)))
    detectable = [result.detectable(seeds) for seeds in (1, 2, 3, 5, 10, 30, 100)]
    assert detectable[0] == math.inf
    assert detectable == sorted(detectable, reverse=True)
    by_seed = verdict(named(simulated(np.random.default_rng(0), methods=3, seeds=10, by_seed=0.03, by_class=0.0)))
    assert by_seed.detectable(100) / by_seed.detectable(25) == pytest.approx(0.5, rel=0.05)
    needed = result.seeds_to_tell(detectable[4])
    assert needed == 10
    assert result.seeds_to_tell(1e-6) is None
    assert result.seeds_to_tell(10.0) == 2
    with pytest.raises(ValueError, match="whole number"):
        result.detectable(0)
    with pytest.raises(ValueError, match="above 0"):
        result.seeds_to_tell(0.0)


# what cannot be told


def test_one_seed_tells_nothing() -> None:
    scores = simulated(np.random.default_rng(0), methods=3, seeds=1, by_class=0.01) + np.array([0, 0.1, 0.3])[:, None, None]
    result = verdict(named(scores), indifferent=1.0)
    assert result.best == "method 2"
    assert result.within_noise == ("method 1", "method 0")
    assert (result.behind, result.equivalent, result.chance_best, result.p_values) == ((), (), {}, {})
    assert set(result.lacking.values()) == {"seeds"}
    assert result.undecided == (
        "One seed cannot tell methods apart: what another seed would have given is not known, and the intervals hold only the noise of the "
        "20 test classes. Run at least 3 seeds of every method, better 5."
    )
    low, high = result.intervals["method 2"]
    assert low < result.means["method 2"] < high
    assert math.isnan(result.detectable(3))


def test_a_method_of_one_seed_beside_others() -> None:
    scores = named(simulated(np.random.default_rng(0), methods=3, seeds=5) + np.array([0.5, 0.2, 0.0])[:, None, None])
    result = verdict(scores | {"method 2": scores["method 2"][:1]})
    assert (result.behind, result.within_noise, result.undecided) == (("method 1",), ("method 2",), None)
    assert result.lacking == {"method 2": "seeds"}
    result = verdict(scores | {"method 0": scores["method 0"][:1]})
    assert result.behind == ()
    assert result.undecided is not None
    assert result.undecided.startswith("One seed of method 0, which leads, cannot tell")


def test_what_no_seed_changes_needs_one_row() -> None:
    scores = named(simulated(np.random.default_rng(0), methods=3, seeds=5) + np.array([0.5, 0.2, 0.0])[:, None, None])
    result = verdict(scores | {"method 2": scores["method 2"][:1]}, seedless=["method 2"])
    assert result.behind == ("method 1", "method 2")
    assert result.lacking == {}
    with pytest.raises(ValueError, match="rows of scores differ"):
        verdict(scores, seedless=["method 2"])
    with pytest.raises(ValueError, match="did you mean 'method 1'"):
        verdict(scores, seedless=["methd 1"])


@pytest.mark.parametrize(("classes", "words"), [(1, "1 test class cannot tell"), (2, "2 test classes cannot tell")])
def test_too_few_classes(classes: int, words: str) -> None:
    rng = np.random.default_rng(0)
    scores = simulated(rng, methods=2, seeds=4, classes=classes, by_class=0.0, by_seed=0.001) + np.array([0, 0.3])[:, None, None]
    result = verdict(named(scores))
    assert result.behind == ()
    assert result.undecided is not None
    assert words in result.undecided
    assert set(result.lacking.values()) == ({"classes"} if classes == 1 else set())
    by_seeds = stats.t.interval(0.95, 3, scores[1].mean(), stats.sem(scores[1].mean(axis=1)))
    if classes == 1:
        assert result.intervals["method 1"] == pytest.approx(by_seeds)


def test_no_difference_of_scores_is_beyond_one() -> None:
    """However wide the intervals of few classes are; of other numbers nothing is known and they stay as they are."""
    scores = np.random.default_rng(0).uniform(0, 1, (4, 3, 3))
    found, scaled = verdict(named(scores)), verdict(named(100 * scores))
    assert max(abs(limit) for limits in scaled.differences.values() for limit in limits) > 100
    for of_scores, of_numbers in ((found.differences, scaled.differences), (found.pairs, scaled.pairs)):
        assert list(of_scores) == list(of_numbers)
        for (low, high), (lowest, highest) in zip(of_scores.values(), of_numbers.values(), strict=True):
            assert (low, high) == pytest.approx((max(lowest / 100, -1), min(highest / 100, 1)))


def test_two_seeds_say_how_many_it_takes() -> None:
    scores = simulated(np.random.default_rng(1), methods=10, seeds=2, by_seed=0.01) + np.linspace(0.02, 0, 10)[:, None, None]
    result = verdict(named(scores))
    assert result.undecided is not None
    assert result.undecided.startswith("2 seeds a method say too little of how much seeds differ: among 10 methods only a lead of ")
    again = result.next_look  # the seeds that are added are judged at the level of another look
    by_seeds = [f"one of {100 * again.detectable(seeds):.1f} points" for seeds in (5, 10)]
    assert f"is told from noise; with 5 seeds {by_seeds[0]} would be, with 10 {by_seeds[1]}." in result.undecided
    percentages = verdict(named(100 * scores)).undecided
    assert percentages is not None
    assert "points" not in percentages


def test_later_looks_share_one_chance_of_error() -> None:
    chances = [1 - level_at(look) for look in range(1, 2000)]
    assert chances[:4] == pytest.approx([0.05, 0.05 / 2, 0.05 / 6, 0.05 / 12])
    assert sum(chances[1:]) == pytest.approx(0.05, rel=1e-3)
    assert sum(chances[1:]) < 0.05
    scores = named(simulated(np.random.default_rng(1), methods=3, seeds=3, by_seed=0.01))
    second = verdict(scores, look=2)
    assert second == dataclasses.replace(verdict(scores, level=0.975), look=2)
    assert (verdict(scores).next_look.level, second.next_look.level) == pytest.approx((0.975, 1 - 0.05 / 6))
    assert second.next_look.detectable(5) > second.detectable(5)
    for look in (0, 1.5, True):
        with pytest.raises(ValueError, match=f"look (must be a whole number from 1 on, got|is) {look}"):
            verdict(scores, look=look)  # type: ignore[arg-type]


def test_few_classes_say_so() -> None:
    result = verdict(named(simulated(np.random.default_rng(1), methods=10, seeds=10, classes=4, by_seed=0.0001)))
    assert result.undecided is not None
    assert result.undecided.startswith("4 test classes say too little of how much classes differ: among 10 methods")


def test_ties_and_constant_scores() -> None:
    constant = np.full((3, 10), 0.1)
    result = verdict({"b": constant, "a": constant})
    assert (result.best, result.within_noise, result.behind) == ("a", ("b",), ())
    assert result.p_values == {"b": 1.0}
    assert result.chance_best == pytest.approx({"a": 0.5, "b": 0.5}, abs=0.02)
    assert result.differences["b"] == pytest.approx((0, 0), abs=1e-12)
    above = verdict({"a": constant, "b": constant + 0.1})
    assert (above.best, above.behind) == ("b", ("a",))
    table = np.random.default_rng(0).random((3, 10))
    assert verdict({"a": table, "b": table[:, ::-1][:, ::-1]}).behind == ()
    # the same scores, summed in another order
    rounded = verdict({"a": np.full((2, 4), 0.1 + 0.2), "b": np.full((2, 4), 0.3)})
    assert 0 < rounded.means["a"] - rounded.means["b"] < 1e-15
    assert (rounded.behind, rounded.p_values) == ((), {"b": 1.0})


def test_one_method_alone() -> None:
    result = verdict({"a": np.random.default_rng(0).random((3, 10))})
    assert (result.best, result.within_noise, result.behind, result.differences) == ("a", (), (), {})
    assert (result.undecided, result.chance_best) == (None, {"a": 1.0})
    assert math.isnan(result.detectable(5))


def test_thirty_five_methods_take_no_time() -> None:
    scores = named(simulated(np.random.default_rng(0), methods=35, seeds=3, classes=200))
    begun = time.process_time()
    result = verdict(scores)
    assert len(result.pairs) == 35 * 34 / 2
    assert time.process_time() - begun < 2


TABLE = [[0.1, 0.2, 0.3], [0.2, 0.3, 0.4]]


@pytest.mark.parametrize(
    ("scores", "options", "words"),
    [
        ({}, {}, "at least one method"),
        ([TABLE], {}, "scores is .*: expected a dict"),
        ({"a": [0.1, 0.2]}, {}, r"scores of 'a' must be a table \(seeds, test classes\) of numbers, got \[0.1, 0.2\]"),
        ({"a": [[0.1, 0.2], [0.3]]}, {}, r"got \[\[0.1, 0.2\], \[0.3\]\]"),
        ({"a": np.zeros((3, 4, 5))}, {}, r"got an array \(3, 4, 5\)"),
        ({"a": "high"}, {}, "got 'high'"),
        ({"a": np.zeros((0, 4))}, {}, "must be a table"),
        ({"a": TABLE, "b": [[0.1, math.nan, 0.2]]}, {}, "scores of 'b' hold nan in 1 of 3 places, the first at seed 0, class 1"),
        ({"a": [[0.1, math.inf]]}, {}, "hold inf"),
        ({"a": TABLE, "b": [[0.1, 0.2]]}, {}, r"different numbers of test classes \(a 3, b 2\)"),
        ({"a": TABLE}, {"level": 95}, "level must lie between 0 and 1, got 95"),
        ({"a": TABLE}, {"indifferent": -0.1}, "indifferent must be above 0, got -0.1"),
        ({"a": TABLE}, {"weights": [1, 2]}, "weights must be 3 numbers above 0"),
        ({"a": TABLE}, {"weights": [1, 0, 2]}, r"one a test class .* got \[1, 0, 2\]"),
    ],
)
def test_what_it_does_not_take(scores: object, options: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        verdict(scores, **options)  # type: ignore[arg-type]
