"""Differences that were planned: pairs of methods named before anything was seen, such as those of a paper's claim.

`verdict` picks the best by the data, so that any two methods could have met; here only the pairs that are named count. Their intervals hold
all at once with the chance `level`, each at 1 - (1 - level) / pairs (Bonferroni), by the same noise of seeds and classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from likewise.checks import known_name
from likewise.evaluation.certainty.noise import measured, of_differences, of_means, t_quantile
from likewise.evaluation.certainty.verdict import FEWEST_CLASSES, checked_tables, level_at

Pair = tuple[str, str]


@dataclass(frozen=True)
class PlannedInterval:
    """A difference (or a mean) and where it lies. `is_known`: both kinds of noise could be seen, so that something may follow from it."""

    value: float
    low: float
    high: float
    is_known: bool


def planned_differences(
    scores: Mapping[str, Any], pairs: Sequence[Pair], *, level: float = 0.95, look: int = 1, weights: Any = None
) -> dict[Pair, PlannedInterval]:
    """The first's mean less the second's of every pair, from scores (seeds, test classes) of each method, as `verdict` takes them.

    look: the how many-th time that these pairs are judged as seeds were added; later looks are judged at a higher level (level_at).
    """
    tables, class_weights = checked_tables(scores, weights)
    for name in {name for pair in pairs for name in pair}:
        known_name("method", name, tables)
    names = list(tables)
    noise = measured([tables[name] for name in names], class_weights)
    alpha = 1 - level_at(look, level)
    num_classes = noise.pulls.shape[-1]
    is_known = {name: num_classes >= FEWEST_CLASSES and len(table) > 1 for name, table in tables.items()}
    bounded = all(table.min() >= 0 and table.max() <= 1 for table in tables.values())
    furthest = 1.0 if bounded else np.inf
    found: dict[Pair, PlannedInterval] = {}
    for second in dict.fromkeys(second for _, second in pairs):
        spread = of_differences(noise, np.array(names.index(second)))
        lows, highs = replace(spread, class_comparisons=len(pairs), seed_comparisons=float(len(pairs))).limits(alpha)
        for first in [first for first, other in pairs if other == second]:
            place = names.index(first)
            low, high = max(float(lows[place]), -furthest), min(float(highs[place]), furthest)
            found[first, second] = PlannedInterval(float(spread.value[place]), low, high, is_known[first] and is_known[second])
    return {pair: found[pair] for pair in pairs}


def planned_mean(scores: Any, *, level: float = 0.95, look: int = 1, weights: Any = None) -> PlannedInterval:
    """The mean of one method by itself."""
    tables, class_weights = checked_tables({"mean": scores}, weights)
    noise = measured(list(tables.values()), class_weights)
    low, high = (float(limit[0]) for limit in of_means(noise).limits(1 - level_at(look, level)))
    num_seeds, num_classes = tables["mean"].shape
    return PlannedInterval(float(noise.means[0]), low, high, num_classes >= FEWEST_CLASSES and num_seeds > 1)


def planned_by_seed(
    values: Mapping[str, Sequence[float]], pairs: Sequence[Pair], *, level: float = 0.95, look: int = 1
) -> dict[Pair, PlannedInterval]:
    """The same of what belongs to a seed and to no class, such as NMI or the seconds of a training: Welch's t over seeds."""
    arrays = {name: np.asarray(entries, dtype=np.float64) for name, entries in values.items()}
    alpha = (1 - level_at(look, level)) / len(pairs)
    found = {}
    for first, second in pairs:
        both = [arrays[known_name("method", name, arrays)] for name in (first, second)]
        difference = float(both[0].mean() - both[1].mean())
        if min(map(len, both)) < 2:
            found[first, second] = PlannedInterval(difference, -np.inf, np.inf, False)
            continue
        own = np.array([entries.var(ddof=1) / len(entries) for entries in both])
        weighed = float((own**2 / [len(entries) - 1 for entries in both]).sum())
        reach = float(t_quantile(alpha, own.sum() ** 2 / weighed) * np.sqrt(own.sum())) if weighed > 0 else 0.0
        found[first, second] = PlannedInterval(difference, difference - reach, difference + reach, True)
    return found
