"""Statistics of a comparison: what seeds and test classes leave open, who is within noise of the best, ranks over data sets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy import stats

from likewise.comparison.plan import DECIDING_SCORE
from likewise.comparison.results import Estimate
from likewise.evaluation.retrieval import PerQuery
from likewise.evaluation.uncertainty import bootstrap, paired_test

LEVEL = 0.95


@dataclass(frozen=True)
class BesideTheBest:
    """A method beside the best: the p-value after Holm's correction, None for the best itself."""

    p_value: float | None
    within_noise: bool


@dataclass(frozen=True)
class RankTest:
    """Methods over several data sets (Demsar 2006)."""

    average_ranks: dict[str, float]  # 1 is best
    p_value: float | None  # Friedman's: are all methods alike? None for two methods, where it says nothing
    critical_difference: float  # Nemenyi, 5 %: average ranks closer than this are not told apart


def mean_over_seeds(runs: Sequence[PerQuery]) -> PerQuery:
    """Each query's scores averaged over the seeds."""
    first = runs[0]
    scores = {name: torch.stack([run.scores[name] for run in runs]).mean(dim=0) for name in first.scores}
    return PerQuery(scores, first.matched, first.labels)


def estimates(scores: Sequence[Mapping[str, float]], per_query: Sequence[PerQuery]) -> dict[str, Estimate]:
    """Mean, deviation and 95 % interval of every score, from each seed's scores and each seed's queries.

    Two things could have come out otherwise, the seed and the test classes, and they are independent. With a the half-width that the
    seeds leave, t(S - 1) s / sqrt(S) (0 for one seed), and b that of a bootstrap over classes of the scores averaged over seeds, on
    either side of the mean, the interval reaches sqrt(a^2 + b^2) to that side. Cluster scores (NMI, AMI) belong to no query: b = 0.
    """
    over_classes = bootstrap(mean_over_seeds(per_query), level=LEVEL)
    estimated = {}
    for name in scores[0]:
        values = tuple(float(run[name]) for run in scores)
        mean = math.fsum(values) / len(values)
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        by_seed = float(stats.t.ppf((1 + LEVEL) / 2, len(values) - 1)) * deviation / math.sqrt(len(values)) if deviation else 0.0
        low = high = 0.0
        if name in over_classes:
            low, high = over_classes[name].estimate - over_classes[name].low, over_classes[name].high - over_classes[name].estimate
        estimated[name] = Estimate(
            values, mean, deviation, max(0.0, mean - math.hypot(by_seed, low)), min(1.0, mean + math.hypot(by_seed, high))
        )
    return estimated


def beside_the_best(runs: Mapping[str, Sequence[PerQuery]], values: Mapping[str, Sequence[float]]) -> dict[str, BesideTheBest]:
    """Every method beside the one with the best mean of MAP@R; `values` are its MAP@R by seed.

    A difference is real if neither other test classes nor other seeds would undo it: p is the larger of a sign-flip test over classes
    (scores averaged over seeds) and of a t-test over seeds (where there are several), and Holm corrects for the number of methods. How
    much seeds matter is estimated from all methods together, as an analysis of variance does: two or three seeds of two methods alone
    could not tell a tenth of the score from the whole of it.
    """
    noise, freedom = pooled_deviation(list(values.values()))
    best = max(values, key=lambda name: math.fsum(values[name]) / len(values[name]))
    reference = mean_over_seeds(runs[best])
    p_values = {}
    for name, seeds in runs.items():
        if name != best:
            over_classes = paired_test(reference, mean_over_seeds(seeds))[DECIDING_SCORE].p_value
            p_values[name] = max(over_classes, seed_test(values[best], values[name], noise=noise, freedom=freedom))
    corrected = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    verdicts = {name: BesideTheBest(p, p >= 1 - LEVEL) for name, p in corrected.items()}
    return {name: verdicts.get(name, BesideTheBest(None, True)) for name in runs}


def pooled_deviation(values: Sequence[Sequence[float]]) -> tuple[float, int]:
    """The standard deviation over seeds that all methods share, s^2 = sum over methods of (S - 1) s_m^2 / sum of (S - 1), and that sum."""
    freedom = sum(len(seeds) - 1 for seeds in values)
    squares = math.fsum((value - math.fsum(seeds) / len(seeds)) ** 2 for seeds in values for value in seeds)
    return (math.sqrt(squares / freedom) if freedom else 0.0), freedom


def seed_test(first: Sequence[float], second: Sequence[float], *, noise: float, freedom: int) -> float:
    """Two-sided p-value of t = difference of means / (s sqrt(1/S1 + 1/S2)); 0 where no seeds differ and only the means tell."""
    difference = abs(math.fsum(first) / len(first) - math.fsum(second) / len(second))
    if not freedom or not noise:
        return float(difference == 0 and freedom > 0)
    return float(2 * stats.t.sf(difference / (noise * math.sqrt(1 / len(first) + 1 / len(second))), freedom))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: of m sorted p-values the i-th (from 0) becomes max over j <= i of min(1, (m - j) p_j)."""
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, position in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[position]))
        corrected[position] = largest
    return corrected


def rank_test(scores: Mapping[str, Sequence[float]]) -> RankTest:
    """Average ranks of methods from their scores on the same N data sets, Friedman's test, and Nemenyi's critical difference.

    CD = q sqrt(k (k + 1) / (6 N)), with q the 95 % point of the studentised range of k methods over sqrt(2).
    """
    names = list(scores)
    table = np.array([scores[name] for name in names])  # (methods, data sets)
    num_methods, num_sets = table.shape
    if num_methods < 2 or num_sets < 2:
        raise ValueError(f"{num_methods} methods on {num_sets} data sets: ranks need at least 2 of both")
    ranks = stats.rankdata(-table, axis=0)
    p_value = None
    if num_methods > 2:
        p_value = 1.0 if (table == table[:1]).all() else float(stats.friedmanchisquare(*table).pvalue)
    quantile = float(stats.studentized_range.ppf(LEVEL, num_methods, np.inf)) / math.sqrt(2)
    difference = quantile * math.sqrt(num_methods * (num_methods + 1) / (6 * num_sets))
    return RankTest(dict(zip(names, ranks.mean(axis=1).tolist(), strict=True)), p_value, difference)
