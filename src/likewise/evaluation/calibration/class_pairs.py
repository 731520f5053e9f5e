"""Similarities within classes and between pairs of classes, of some of their items, as flat runs that rates are counted from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from likewise.evaluation.calibration.class_bounds import Array, Indices, pairings
from likewise.evaluation.calibration.match_probability import SimilarityHistogram

Similarities = npt.NDArray[np.float32]
Similarity = Callable[[Indices, Indices], Similarities]  # of some items and some others: (some, others)

ITEMS_OF_A_CLASS = 32  # at most so many, drawn at random: more tell little more of a class
MOST_WAYS = 64  # ways to put all classes into pairs
PART = 1 << 22  # similarities that are counted at once, several times 8 bytes each
MOST_SIMILARITIES = 1 << 25  # between classes; fewer ways where classes are many and large


@dataclass(frozen=True)
class Runs:
    """Similarities of several units (classes, or pairs of classes), one unit after the other; each has at least one."""

    values: Similarities
    start: Indices  # (units,)

    @cached_property
    def counts(self) -> Indices:
        return np.diff(self.start, append=len(self.values))

    def rates(self, threshold: float) -> Array:
        """(units,) the share of each unit's similarities that reach the threshold."""
        return np.add.reduceat(self.values >= np.float32(threshold), self.start, dtype=np.int64) / self.counts

    def mean_rates(self, steps: Indices, step: float) -> Array:
        """The mean over units of `rates` at many rising multiples of a step."""
        thresholds = (steps * step).astype(np.float32)
        weight = np.zeros(len(steps) + 1)
        for units, values in self._parts():
            at = np.searchsorted(thresholds, values, side="right")  # so many thresholds are reached
            weight += np.bincount(at, weights=np.repeat(1 / self.counts[units], self.counts[units]), minlength=len(weight))
        return np.asarray(weight[::-1].cumsum()[::-1][1:] / len(self.start))

    def histogram(self, chosen: npt.NDArray[np.bool_]) -> SimilarityHistogram:
        """Of some units, all weighing the same."""
        weights = chosen / self.counts
        return SimilarityHistogram.of((values, np.repeat(weights[units], self.counts[units])) for units, values in self._parts())

    def _parts(self) -> Iterator[tuple[slice, Similarities]]:
        """Units and their similarities, about PART of these at a time."""
        ends = np.append(self.start, len(self.values))
        first = 0
        while first < len(self.start):
            last = max(first + 1, int(np.searchsorted(ends, ends[first] + PART, side="right")) - 1)
            yield slice(first, last), self.values[ends[first] : ends[last]]
            first = last


@dataclass(frozen=True)
class ClassPairs:
    """Similarities of items of one class, and of items of two."""

    num_classes: int
    within: Runs  # of classes with at least two items
    within_class: Indices  # which these are
    between: Runs  # of pairs of classes
    between_classes: Indices  # (pairs, 2)
    groups: Indices  # (ways, num_classes // 2) pairs without a class in common

    @classmethod
    def of(cls, similarity: Similarity, codes: Indices, rng: np.random.Generator) -> ClassPairs:
        """codes (items,): 0 .. classes - 1, each at least once. At least two classes, and one with two items."""
        members = np.split(np.argsort(codes, kind="stable"), np.bincount(codes).cumsum()[:-1])
        items = [_some(of_class, rng) for of_class in members]
        sizes = np.array([len(some) for some in items])
        ways = int(np.clip(MOST_SIMILARITIES / (len(items) / 2 * float(sizes.mean()) ** 2), 1, MOST_WAYS))
        drawn = np.sort(pairings(len(items), ways, rng), axis=2)
        keys, groups = np.unique(drawn[..., 0] * len(items) + drawn[..., 1], return_inverse=True)
        pairs = np.stack([keys // len(items), keys % len(items)], axis=1)
        several = np.flatnonzero(sizes > 1)
        of_one = (similarity(items[code], items[code])[np.triu_indices(sizes[code], 1)] for code in several)
        return cls(
            num_classes=len(items),
            within=_runs(of_one, sizes[several] * (sizes[several] - 1) // 2),
            within_class=several,
            between=_runs(_between(similarity, items, pairs), sizes[pairs[:, 0]] * sizes[pairs[:, 1]]),
            between_classes=pairs,
            groups=groups.reshape(drawn.shape[:2]),
        )

    def of_class(self, threshold: float) -> Array:
        """(classes,) the mean rate of each class with the others that it was paired with."""
        both = self.between_classes.ravel()
        sums = np.bincount(both, weights=np.repeat(self.between.rates(threshold), 2), minlength=self.num_classes)
        return sums / np.bincount(both, minlength=self.num_classes)

    def can_show(self, classes: npt.NDArray[np.bool_]) -> bool:
        """Whether there are similarities both within and between these classes."""
        return bool(classes[self.within_class].any() and np.logical_and.reduce(classes[self.between_classes], axis=1).any())

    def histograms(self, classes: npt.NDArray[np.bool_]) -> tuple[SimilarityHistogram, SimilarityHistogram]:
        """Of similarities within some of the classes, and between them."""
        within, between = classes[self.within_class], np.logical_and.reduce(classes[self.between_classes], axis=1)
        return self.within.histogram(within), self.between.histogram(between)


def _some(items: Indices, rng: np.random.Generator) -> Indices:
    return items if len(items) <= ITEMS_OF_A_CLASS else rng.choice(items, ITEMS_OF_A_CLASS, replace=False)


def _runs(parts: Iterator[Similarities], counts: Indices) -> Runs:
    """From similarities that come one after the other."""
    values = np.empty(counts.sum(), dtype=np.float32)
    done = 0
    for part in parts:
        values[done : done + len(part)] = part
        done += len(part)
    return Runs(values, np.cumsum(counts) - counts)


def _between(similarity: Similarity, items: list[Indices], pairs: Indices) -> Iterator[Similarities]:
    """Similarities of pairs of classes, one pair after the other: all with one first class by one product, a row an item of the others."""
    begin = np.flatnonzero(np.diff(pairs[:, 0], prepend=-1))
    for first, last in zip(begin, [*begin[1:], len(pairs)], strict=True):
        others = np.concatenate([items[code] for code in pairs[first:last, 1]])
        yield similarity(others, items[pairs[first, 0]]).ravel()
