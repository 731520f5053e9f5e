"""Claims are judged as the truth has it: against simulated seeds and classes, and against the formulas as loops."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from likewise.evaluation.certainty.planned import planned_by_seed, planned_differences, planned_mean
from likewise.reproductions.paper_claims import (
    KINDS,
    Above,
    Alike,
    Best,
    Between,
    Faster,
    Ordered,
    PaperClaim,
    Reordered,
    Saturates,
    Separates,
    Weighs,
)
from likewise.reproductions.verdicts.claim_judging import Ground, judge

Array = npt.NDArray[np.float64]
SEEDS, CLASSES, TIMES = 3, 40, 200
MOST_ERRORS = int(stats.binom.ppf(0.999, TIMES, 0.05))  # of TIMES, where one of twenty is allowed


def drawn(means: Mapping[str, float], rng: np.random.Generator, *, seeds: int = SEEDS, classes: int = CLASSES) -> dict[str, Array]:
    """Tables (seeds, classes) with these true means: classes that are hard for all, classes that suit one, seeds, and the rest."""
    hard = rng.normal(0, 0.1, classes)
    return {
        name: np.clip(
            mean + hard + rng.normal(0, 0.02, classes) + rng.normal(0, 0.003, (seeds, 1)) + rng.normal(0, 0.01, (seeds, classes)),
            0,
            1,
        )
        for name, mean in means.items()
    }


def ground_of(tables: Mapping[str, Array], **more: Any) -> Ground:
    return Ground("R@1", tables, {name: table.mean(axis=1).tolist() for name, table in tables.items()}, {}, **more)


X = {"8": 8.0, "64": 64.0, "512": 512.0, "1024": 1024.0}
# Claim, means of which it is clearly true, means at its very edge (where it is false, or just true), means of which it is clearly false.
CASES: dict[str, tuple[PaperClaim, dict[str, float], dict[str, float], dict[str, float]]] = {
    "above": (
        Above(says="", better="a", worse=("b", "c"), by=1.0),
        {"a": 0.60, "b": 0.55, "c": 0.54},
        {"a": 0.56, "b": 0.55, "c": 0.55},
        {"a": 0.55, "b": 0.60, "c": 0.50},
    ),
    "best": (
        Best(says="", best="a"),
        {"a": 0.60, "b": 0.55, "c": 0.54, "d": 0.50},
        {"a": 0.55, "b": 0.55, "c": 0.55, "d": 0.55},
        {"a": 0.55, "b": 0.60, "c": 0.50, "d": 0.50},
    ),
    "alike": (
        Alike(says="", within=4.0),
        {"a": 0.55, "b": 0.555, "c": 0.55},
        {"a": 0.55, "b": 0.59, "c": 0.57},
        {"a": 0.50, "b": 0.62, "c": 0.55},
    ),
    "order": (
        Ordered(says="", rows=("a", "b", "c")),
        {"a": 0.62, "b": 0.57, "c": 0.52},
        {"a": 0.55, "b": 0.55, "c": 0.55},
        {"a": 0.55, "b": 0.60, "c": 0.50},
    ),
    "reordered": (
        Reordered(says="", rows=("a", "b", "c")),
        {"a": 0.55, "b": 0.60, "c": 0.50},
        {"a": 0.55, "b": 0.55, "c": 0.55},
        {"a": 0.62, "b": 0.57, "c": 0.52},
    ),
    "between": (
        Between(says="", rows=("b",), low="c", high="a"),
        {"a": 0.62, "b": 0.57, "c": 0.52},
        {"a": 0.55, "b": 0.55, "c": 0.55},
        {"a": 0.62, "b": 0.50, "c": 0.55},
    ),
    "saturates": (
        Saturates(says="", beyond=64, within=4.0),
        {"8": 0.40, "64": 0.55, "512": 0.555, "1024": 0.55},
        {"8": 0.40, "64": 0.55, "512": 0.59, "1024": 0.59},
        {"8": 0.40, "64": 0.50, "512": 0.60, "1024": 0.65},
    ),
    "separates": (Separates(says="", figures={"a": 55}), {"a": 0.65}, {"a": 0.55}, {"a": 0.45}),
}


def rates(claim: PaperClaim, means: Mapping[str, float], *, seed: int, seeds: int = SEEDS) -> Counter[str]:
    rng = np.random.default_rng(seed)
    return Counter(judge(claim, ground_of(drawn(means, rng, seeds=seeds), x=X))[0] for _ in range(TIMES))


@pytest.mark.parametrize("kind", CASES)
def test_verdicts_are_true_as_often_as_they_say(kind: str) -> None:
    claim, true, edge, false = CASES[kind]
    assert isinstance(claim, KINDS[kind])
    of_true, of_edge, of_false = (rates(claim, means, seed=number) for number, means in enumerate((true, edge, false)))
    assert of_true["contradicted"] <= MOST_ERRORS
    assert of_true["confirmed"] >= 0.8 * TIMES
    assert of_edge["contradicted"] <= MOST_ERRORS
    assert of_edge["confirmed"] <= MOST_ERRORS
    assert of_false["confirmed"] <= MOST_ERRORS
    assert of_false["contradicted"] >= 0.8 * TIMES


def test_the_cases_are_of_every_kind_that_seeds_judge() -> None:
    assert set(KINDS) == {*CASES, "faster", "weight", "radii", "computed"}
    assert KINDS["faster"] is Faster
    assert KINDS["weight"] is Weighs


def test_times_are_judged_as_often_as_they_say() -> None:
    claim = Faster(says="", faster="a", slower=("b", "c"), by=1.5)
    verdicts = {}
    for case, (b, c) in {"true": (20.0, 30.0), "edge": (15.0, 15.0), "false": (10.0, 30.0)}.items():
        rng = np.random.default_rng(3)
        counts: Counter[str] = Counter()
        for _ in range(TIMES):
            seconds = {name: rng.lognormal(math.log(mean), 0.03, 4).tolist() for name, mean in {"a": 10.0, "b": b, "c": c}.items()}
            ground = Ground("R@1", {}, {name: [0.5] * 4 for name in seconds}, seconds)
            counts[judge(claim, ground)[0]] += 1
        verdicts[case] = counts
    assert verdicts["true"]["confirmed"] >= 0.8 * TIMES
    assert max(verdicts["edge"]["confirmed"], verdicts["edge"]["contradicted"]) <= MOST_ERRORS
    assert verdicts["false"]["contradicted"] >= 0.8 * TIMES


def test_more_seeds_after_a_look_do_not_add_errors() -> None:
    """Equal rows, judged with 2, 3 and 4 seeds: any of these looks errs in at most one of ten, the first and all later ones 5 % each."""
    claim = CASES["best"][0]
    wrong = 0
    rng = np.random.default_rng(5)
    for _ in range(TIMES):
        tables = drawn(dict.fromkeys("abcd", 0.55), rng, seeds=4)
        looks = [{name: table[:seeds] for name, table in tables.items()} for seeds in (2, 3, 4)]
        wrong += any(judge(claim, ground_of(look, look=number))[0] == "contradicted" for number, look in enumerate(looks, start=1))
    assert wrong <= int(stats.binom.ppf(0.999, TIMES, 0.1))


def loop_interval(a: Array, b: Array, weights: Array, *, alpha: float) -> tuple[float, float]:
    """The difference of two methods by the formulas of `noise`, entry by entry: A + B - E, Welch, the two quantiles joined; no skewness."""
    num_classes = a.shape[1]
    w = weights * num_classes / weights.sum()

    def by_seed(table: Array) -> list[float]:
        return [sum(w[c] * table[s, c] for c in range(num_classes)) / num_classes for s in range(len(table))]

    means = [sum(by_seed(table)) / len(table) for table in (a, b)]
    difference = means[0] - means[1]
    squares = sum(w[c] ** 2 for c in range(num_classes))
    expected = sum(w[c] ** 2 * (1 - 2 * w[c] / num_classes + squares / num_classes**2) for c in range(num_classes))
    scale = squares / expected
    class_freedom = squares**2 / sum(w[c] ** 4 for c in range(num_classes)) - 1
    over_classes = 0.0
    for c in range(num_classes):
        at_class = sum(a[s, c] for s in range(len(a))) / len(a) - sum(b[s, c] for s in range(len(b))) / len(b)
        over_classes += scale * (w[c] * (at_class - difference) / num_classes) ** 2
    own, interaction = [], []
    for table, mean in zip((a, b), means, strict=True):
        seeds = len(table)
        of_seeds = by_seed(table)
        own.append(sum((value - mean) ** 2 for value in of_seeds) / (seeds - 1) / seeds)
        total = 0.0
        for s in range(seeds):
            for c in range(num_classes):
                of_class = sum(table[t, c] for t in range(seeds)) / seeds
                total += (w[c] * (table[s, c] - of_seeds[s] - of_class + mean)) ** 2
        interaction.append(scale * total / (num_classes**2 * seeds * (seeds - 1)))
    class_part = max(over_classes - min(sum(interaction), sum(own)), 0.0)
    variance = class_part + sum(own)
    share = sum(own) / variance
    freedom = sum(own) ** 2 / (own[0] ** 2 / (len(a) - 1) + own[1] ** 2 / (len(b) - 1))
    q_class, q_seed = stats.t.ppf(1 - alpha / 2, class_freedom), stats.t.ppf(1 - alpha / 2, freedom)
    reach = math.sqrt((1 - share) * q_class**2 + share * q_seed**2) * math.sqrt(variance)
    return difference - reach, difference + reach


def test_intervals_are_those_of_a_loop() -> None:
    rng = np.random.default_rng(0)
    for num_pairs in (1, 3):
        tables = drawn({"a": 0.6, "b": 0.5}, rng, seeds=3, classes=12)
        tables["b"] = tables["b"][:2]
        weights = rng.integers(3, 60, 12).astype(float)
        pairs = [("a", "b"), *[("b", "a")] * (num_pairs - 1)]
        found = planned_differences(tables, pairs, weights=weights)["a", "b"]
        low, high = loop_interval(tables["a"], tables["b"], weights, alpha=0.05 / num_pairs)
        assert found.value == pytest.approx((low + high) / 2, abs=1e-12)
        # Skewed classes widen limits on one side and never narrow them.
        assert found.low <= low + 1e-12
        assert found.high >= high - 1e-12
        assert min(low - found.low, found.high - high) == pytest.approx(0, abs=1e-12)


def test_by_seed_is_welch() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(3, 1, 5), rng.normal(2, 2, 4)
    found = planned_by_seed({"a": a.tolist(), "b": b.tolist()}, [("a", "b")])["a", "b"]
    expected = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_the_mean_of_one_is_the_estimates_interval() -> None:
    from likewise.evaluation.certainty.noise import measured, of_means

    table = drawn({"a": 0.5}, np.random.default_rng(2))["a"]
    found = planned_mean(table)
    low, high = of_means(measured([table])).limits(0.05)
    assert (found.low, found.high) == (float(low[0]), float(high[0]))


def certain(**means: float) -> dict[str, Array]:
    """Tables with so little noise that nothing is open."""
    rng = np.random.default_rng(9)
    return {name: mean + rng.normal(0, 1e-4, (3, 20)) for name, mean in means.items()}


JUDGED: list[tuple[PaperClaim, dict[str, Array], dict[str, Any], str, str]] = [
    (Above(says="", better="a", worse=("b",)), certain(a=0.6, b=0.5), {}, "confirmed", "a less b +10.0 (+"),
    (Above(says="", better="a", worse=("b",), by=12), certain(a=0.6, b=0.5), {}, "contradicted", "3 seeds, 20 test classes"),
    (
        Above(says="", better="a", worse=("b", "c")),
        certain(a=0.6, b=0.5),
        {"missing": {"c": "it diverged"}},
        "open",
        "without c (it diverged)",
    ),
    (Above(says="", better="a", worse=("b", "c")), certain(a=0.4, b=0.5), {"missing": {"c": "it diverged"}}, "contradicted", "without c"),
    (Best(says="", best="a"), certain(a=0.6, b=0.5), {"missing": {"c": "it diverged"}}, "confirmed", "without c (it diverged)"),
    (Best(says="", best="a"), certain(a=0.6, b=0.5), {"waiting": {"c": "no time"}}, "open", "without c (no time)"),
    (Best(says="", best="c"), certain(a=0.6, b=0.5), {"waiting": {"c": "needs cub"}}, "not run", "without c (needs cub)"),
    (Best(says="", best="a"), certain(a=0.5, b=0.6), {"titles": {"b": "alpha = 1"}}, "contradicted", "a less alpha = 1 -10.0"),
    (Alike(says="", within=1), certain(a=0.5, b=0.504, c=0.502), {}, "confirmed", "b less c"),
    (Alike(says="", within=1), certain(a=0.5, b=0.504, c=0.52), {}, "contradicted", "b less c -1.6"),
    (Ordered(says=""), certain(a=0.6, b=0.5, c=0.4), {"published": {"b": 3.0, "a": 5.0, "c": 1.0}}, "confirmed", "Kendall's tau 1.00"),
    (Ordered(says=""), certain(a=0.6, b=0.5, c=0.4), {"published": {"b": 3.0, "a": 1.0, "c": 5.0}}, "contradicted", "tau -1.00"),
    (
        Ordered(says=""),
        certain(a=0.6, b=0.5, c=0.4, d=0.3),
        {"published": {"a": 4.0, "c": 3.0, "b": 2.0, "d": 1.0}},
        "contradicted",
        "c less b -10.0",
    ),
    (
        Ordered(says=""),
        certain(a=0.6, b=0.5, c=0.4, d=0.3, e=0.2),
        {"published": {"a": 5.0, "c": 3.0, "b": 2.0, "d": 1.0, "e": 0.0}},
        "contradicted",
        "of 10 differences 9 are as claimed beyond noise, 1 are not (c less b -10.0",
    ),
    (Above(says="", better=("a", "b"), worse=("c",)), certain(a=0.6, b=0.5, c=0.4), {}, "confirmed", "b less c +10.0"),
    (Above(says="", better=("a", "b"), worse=("c",)), certain(a=0.6, b=0.3, c=0.4), {}, "contradicted", "b less c -10.0"),
    (Reordered(says="", rows=("a", "b")), certain(a=0.5, b=0.6), {}, "confirmed", "a less b -10.0"),
    (Reordered(says="", rows=("a", "b")), certain(a=0.6, b=0.5), {}, "contradicted", "a less b +10.0"),
    (Reordered(says="", rows=("a", "b", "c")), certain(a=0.6, b=0.5), {"waiting": {"c": "no time"}}, "open", "without c (no time)"),
    (Between(says="", rows=("b",), low="c", high="a"), certain(a=0.6, b=0.5, c=0.4), {}, "confirmed", "b less c +10.0"),
    (Between(says="", rows=("b",), low="c", high="a"), certain(a=0.6, b=0.7, c=0.4), {}, "contradicted", "a less b -10.0"),
    (
        Saturates(says="", beyond=64),
        dict(zip(("8", "64", "512"), certain(a=0.4, b=0.6, c=0.6).values(), strict=True)),
        {"x": X},
        "confirmed",
        "64 less 8 +20.0",
    ),
    (
        Saturates(says="", beyond=64),
        dict(zip(("8", "64", "512"), certain(a=0.6, b=0.4, c=0.4).values(), strict=True)),
        {"x": X},
        "contradicted",
        "64 less 8 -20.0",
    ),
    (Separates(says="", figures={"a": 95}), certain(a=0.97), {}, "confirmed", "R@1: a 97.0 (97.0 to 97.0), asked for above 95"),
    (Separates(says="", figures={"a": 95}), certain(b=0.97), {"missing": {"a": "it failed"}}, "not run", "without a (it failed)"),
]


@pytest.mark.parametrize(("claim", "tables", "more", "verdict", "words"), JUDGED)
def test_what_is_certain_is_judged(claim: PaperClaim, tables: dict[str, Array], more: dict[str, Any], verdict: str, words: str) -> None:
    found, evidence = judge(claim, ground_of(tables, **more))
    assert found == verdict, evidence
    assert words in evidence


@pytest.mark.parametrize("change", [lambda table: table[:1], lambda table: table[:, :2]])
def test_one_seed_or_two_classes_leave_all_open(change: Callable[[Array], Array]) -> None:
    tables = {name: change(table) for name, table in certain(a=0.9, b=0.1).items()}
    for claim in (Best(says="", best="a"), Best(says="", best="b"), Alike(says=""), Separates(says="", figures={"a": 50})):
        assert judge(claim, ground_of(tables))[0] == "open"


def test_scores_without_classes_are_judged_by_seeds() -> None:
    ground = Ground("NMI", {}, {"a": (0.61, 0.62, 0.61), "b": (0.50, 0.51, 0.50)}, {})
    verdict, evidence = judge(Best(says="", best="a"), ground)
    assert verdict == "confirmed"
    assert "noise of seeds alone" in evidence


def test_a_later_look_is_said() -> None:
    _, evidence = judge(Best(says="", best="a"), ground_of(certain(a=0.6, b=0.5), look=2))
    assert "97.5 % intervals that hold at once, as it is judged for the second time" in evidence
