"""A similarity as the probability that two items are of one class.

    odds(same | s) = prior odds  x  r(s),     r(s) = density of s within classes / density of s between classes

r is fitted as a function that never falls (isotonic regression), every class weighing the same within and every pair of classes the same
between. Its reliability is that on classes it was not fitted on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

BIN = 0.02  # width of the bins of similarity that r is fitted on
RELIABILITY_BINS = 10


@dataclass(frozen=True)
class MatchProbability:
    """log r at some similarities, linear between them and constant outside."""

    similarity: tuple[float, ...]
    log_ratio: tuple[float, ...]

    def __call__(self, similarity: npt.ArrayLike, *, prior: float = 0.5) -> Array:
        """P(same class | similarity) where a pair is of one class with the chance `prior` before anything is known of it."""
        if not 0 < prior < 1:
            raise ValueError(f"prior is {prior}: expected the chance that a pair is of one class, between 0 and 1")
        log_odds = np.interp(np.asarray(similarity, dtype=np.float64), self.similarity, self.log_ratio) + np.log(prior / (1 - prior))
        return np.asarray(1 / (1 + np.exp(-log_odds)))

    @staticmethod
    def fit(within: SimilarityHistogram, between: SimilarityHistogram, num_classes: int) -> MatchProbability:
        """From similarities within and between classes. No ratio is further from 1 than the number of classes: so much was not seen."""
        from sklearn.isotonic import IsotonicRegression  # here, as it takes a second to import

        total = within.weight + between.weight
        seen = total > 0
        share = IsotonicRegression().fit_transform(within.middle[seen], within.weight[seen] / total[seen], sample_weight=total[seen])
        level = np.flatnonzero(np.diff(share, prepend=-1.0))  # where the steps begin
        middle = np.add.reduceat(within.middle[seen] * total[seen], level) / np.add.reduceat(total[seen], level)
        least = 1 / (1 + num_classes)
        share = np.clip(share[level], least, 1 - least)
        return MatchProbability(tuple(np.round(middle, 4).tolist()), tuple(np.round(np.log(share / (1 - share)), 4).tolist()))


@dataclass(frozen=True)
class SimilarityHistogram:
    """Weights of similarities in bins of one width from -1 to 1, summing to 1."""

    weight: Array

    @staticmethod
    def of(parts: Iterable[tuple[npt.NDArray[np.float32], Array]]) -> SimilarityHistogram:
        """From similarities with their weights, part by part."""
        num_bins = round(2 / BIN)
        weight = np.zeros(num_bins)
        for similarities, weights in parts:
            at = np.clip(((similarities + 1) / BIN).astype(np.int64), 0, num_bins - 1)
            weight += np.bincount(at, weights=weights, minlength=num_bins)
        return SimilarityHistogram(weight / weight.sum())

    @property
    def middle(self) -> Array:
        return np.asarray((np.arange(len(self.weight)) + 0.5) * BIN - 1, dtype=np.float64)


@dataclass(frozen=True)
class ReliabilityBin:
    """Pairs of about one predicted probability, at a prior of one half."""

    predicted: float
    observed: float  # the share of them that are of one class
    weight: float  # the share of all pairs that is here


def reliability(folds: Sequence[tuple[MatchProbability, SimilarityHistogram, SimilarityHistogram]]) -> tuple[ReliabilityBin, ...]:
    """How often predictions come true, in bins of equal width: each fold's probability, and similarities within and between its classes."""
    expected, happened, all_pairs = np.zeros((3, RELIABILITY_BINS))
    for probability, within, between in folds:
        predicted = probability(within.middle)
        at = np.minimum((predicted * RELIABILITY_BINS).astype(np.int64), RELIABILITY_BINS - 1)
        pairs = (within.weight + between.weight) / (2 * len(folds))
        expected += np.bincount(at, weights=predicted * pairs, minlength=RELIABILITY_BINS)
        happened += np.bincount(at, weights=within.weight / (2 * len(folds)), minlength=RELIABILITY_BINS)
        all_pairs += np.bincount(at, weights=pairs, minlength=RELIABILITY_BINS)
    return tuple(
        ReliabilityBin(float(expected[i] / all_pairs[i]), float(happened[i] / all_pairs[i]), float(all_pairs[i]))
        for i in np.flatnonzero(all_pairs)
    )
