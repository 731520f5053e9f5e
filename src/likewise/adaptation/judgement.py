"""Judgement: whether a rung gains over the best one so far, beyond noise.

What is judged is the gain itself, class by class and repeat by repeat, on the same folds: g = (rung's MAP@R) - (best so far's). Another
draw of folds and seeds, and other classes, could have given other gains; likewise.verdict weighs both against no gain at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from likewise.adaptation.fold_scores import Table
from likewise.evaluation.certainty.verdict import verdict

LEVEL = 0.95
_GAIN, _NONE = "gain", "no gain"


@dataclass(frozen=True)
class Judgement:
    """What a rung gains."""

    gain: float  # of MAP@R, the mean over queries
    low: float  # of its 95 % interval
    high: float
    counts: bool  # the gain is beyond noise
    can_tell: bool  # False: too few classes or repeats to tell anything


def judged_gain(base: Table, candidate: Table, queries: Table) -> Judgement:
    """Of tables (repeats, classes) on the same folds; `queries` (classes,) are how many each class has."""
    gains = candidate - base
    found = verdict({_GAIN: gains, _NONE: np.zeros((1, base.shape[1]))}, level=LEVEL, weights=queries, seedless=(_NONE,))
    low, high = found.differences[_GAIN] if found.best == _NONE else [-limit for limit in reversed(found.differences[_NONE])]
    return Judgement(found.means[_GAIN], low, high, counts=_NONE in found.behind, can_tell=bool(found.p_values))


def score_interval(table: Table, queries: Table) -> tuple[float, float, float]:
    """The mean over queries and its 95 % interval over classes and repeats, not beyond 0 and 1."""
    found = verdict({"score": table}, level=LEVEL, weights=queries)
    low, high = found.intervals["score"]
    return found.means["score"], max(low, 0.0), min(high, 1.0)
