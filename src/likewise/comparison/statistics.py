"""Statistics of a comparison: what seeds and test classes leave open, who is within noise of the best, ranks over data sets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from likewise.comparison.level_scores import level_name, queries_of
from likewise.comparison.plan import DECIDING_SCORE
from likewise.comparison.results import Estimate, MethodResult, Standing
from likewise.evaluation.certainty.uncertainty import class_tables, mean_intervals
from likewise.evaluation.certainty.verdict import Verdict, verdict
from likewise.evaluation.retrieval import PerQuery
from likewise.wording import listed

LEVEL = 0.95


@dataclass(frozen=True)
class RankTest:
    """Methods over several data sets (Demsar 2006)."""

    average_ranks: dict[str, float]  # 1 is best
    p_value: float | None  # Friedman's: are all methods alike? None for two methods, where it says nothing
    critical_difference: float  # Nemenyi, 5 %: average ranks closer than this are not told apart

    @property
    def can_tell(self) -> bool:
        """Whether any two ranks could differ by as much as the critical difference: first and last everywhere are k - 1 apart."""
        return self.critical_difference <= len(self.average_ranks) - 1


def estimates(scores: Sequence[Mapping[str, float]], per_query: Sequence[PerQuery], *, seedless: bool = False) -> dict[str, Estimate]:
    """Mean, deviation and 95 % interval of every score, from each seed's scores and each seed's queries.

    Two things could have come out otherwise, the seed and the test classes: their variances are summed (evaluation.uncertainty). Cluster
    scores (NMI, AMI) belong to no query: theirs is t(S - 1) s / sqrt(S) over seeds. Where no noise is seen there is no interval.
    seedless: no seed changes anything, so that one lacks none.
    """
    intervals = mean_intervals(per_query, level=LEVEL)
    num_classes = len(class_tables(per_query)[1])
    estimated = {}
    for name in scores[0]:
        values = tuple(float(run[name]) for run in scores)
        mean = math.fsum(values) / len(values)
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
        is_of_queries = name in per_query[0].scores
        lacking = ["seeds"] * (deviation is None and not seedless) + ["classes"] * (num_classes == 1 or not is_of_queries)
        low = high = None
        if name in intervals:
            low, high = intervals[name].low, intervals[name].high
        elif deviation and not is_of_queries:
            reach = float(stats.t.ppf((1 + LEVEL) / 2, len(values) - 1)) * deviation / math.sqrt(len(values))
            low, high = max(0.0, mean - reach), min(1.0, mean + reach)
        estimated[name] = Estimate(values, mean, deviation, low, high, lacking=" and ".join(lacking))
    return estimated


def level_results(
    whole: MethodResult, facts: Sequence[Sequence[Mapping[str, Any]]], stored: Sequence[PerQuery]
) -> tuple[list[MethodResult], dict[str, list[PerQuery]]]:
    """The combinations of levels of one training as results of their own, and the queries of each, from what its seeds' score pieces hold.

    They are always apart: what they differ in is not how they were trained.
    """
    results, queries = [], {}
    for of_seeds in zip(*facts, strict=True):  # one combination
        levels, width = tuple(of_seeds[0]["levels"]), of_seeds[0]["width"]
        name = level_name(whole.name, levels)
        queries[name] = [queries_of(seed, levels) for seed in stored]
        result = replace(
            whole,
            name=name,
            title=f"{'+'.join(levels)} of {whole.title}",
            apart=f"{listed(levels)} alone, {width:,} dimensions",
            dim=width,
            settings={},
            scores=estimates([seed["scores"] for seed in of_seeds], queries[name]),
            curves=(),
            trials=(),
            published={},
            embeddings=None,
            planes=(),
            levels=levels,
        )
        results.append(result)
    return results, queries


def verdict_among(runs: Mapping[str, Sequence[PerQuery]], *, look: int = 1, indifferent: float | None = None) -> Verdict | None:
    """The verdict by MAP@R among what one method came to: combinations of levels of a training, or points of a sweep.

    From the queries of each, one entry a seed; of those that came to something, None where these are no two. Seeds are taken to be drawn
    for each anew, as between methods. That these share them can only make true differences smaller in noise: what is called behind here is
    behind.
    """
    tables = {name: class_tables(queries) for name, queries in runs.items()}
    sound = {name: by_score[DECIDING_SCORE] for name, (by_score, _) in tables.items() if np.isfinite(by_score[DECIDING_SCORE]).all()}
    if len(sound) < 2:
        return None
    weights = tables[next(iter(sound))][1]
    return verdict(sound, level=LEVEL, look=look, indifferent=indifferent, weights=weights)


def judged(
    results: Sequence[MethodResult], runs: Mapping[str, Sequence[PerQuery]], *, look: int = 1, indifferent: float | None = None
) -> tuple[list[MethodResult], Verdict | None]:
    """The methods with what the verdict by MAP@R says of each, and the verdict: among those under equal conditions that came to something.

    `runs` are the queries of each method, one entry a seed; `look` says the how many-th look at the test classes this is.
    """
    tables = {result.name: class_tables(runs[result.name]) for result in results if not result.apart}
    sound = {name: by_score[DECIDING_SCORE] for name, (by_score, _) in tables.items() if np.isfinite(by_score[DECIDING_SCORE]).all()}
    if not sound:
        return list(results), None
    weights = tables[next(iter(sound))][1]
    found = verdict(
        sound,
        level=LEVEL,
        look=look,
        indifferent=indifferent,
        weights=weights,
        seedless=[result.name for result in results if result.seedless and result.name in sound],
    )
    return [_beside_the_best(result, found) if result.name in sound else result for result in results], found


def _beside_the_best(result: MethodResult, found: Verdict) -> MethodResult:
    name = result.name
    standing: Standing = "within noise"
    if name == found.best:
        standing = "leads" if set(found.within_noise) - set(found.equivalent) else "best"
    elif name in found.equivalent:
        standing = "equal for all purposes"
    elif name in found.behind:
        standing = "behind"
    return replace(
        result,
        standing=standing,
        p_value=None if name == found.best else found.p_values.get(name),
        within_noise=name not in found.behind,
        difference=found.differences.get(name),
        chance_best=found.chance_best.get(name),
    )


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
