"""What a similarity means: thresholds with a bound on their error for classes never seen, and probabilities.

Everything comes from vectors of classes that the embedding was not trained on. The rate of false accepts is that of two classes drawn at
random and one item of each; classes are taken to be drawn as those to come will be.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.argument_types import checked_arguments
from likewise.configuration import from_table
from likewise.evaluation.calibration.class_bounds import Array, Indices, is_bounded, least_units, least_where
from likewise.evaluation.calibration.class_pairs import ClassPairs, Runs
from likewise.evaluation.calibration.match_probability import MatchProbability, ReliabilityBin, reliability
from likewise.evaluation.certainty.noise import measured, of_means
from likewise.evaluation.certainty.uncertainty import FEW, Interval
from likewise.evaluation.labels import Labels, class_codes
from likewise.evaluation.nearest import nearest
from likewise.evaluation.similarity import Embeddings, as_embeddings
from likewise.wording import count_of

STEP = 0.001  # thresholds are multiples of this
LOWEST, HIGHEST = -1000, 999  # so many steps; beyond, two items are as good as equal
LADDER = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
ROC_POINTS = 200
FORMAT = 1

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Threshold:
    """From which similarity on something is accepted, and how often that is wrong and right."""

    value: float
    rate: float  # of false accepts: what was asked for
    is_promised: bool  # the rate holds for classes to come, with the calibration's confidence; else it is an estimate
    observed: float  # rate of false accepts with the classes at hand
    kept: Interval  # the share of what should be accepted that is, with an interval over classes


@dataclass(frozen=True)
class RocPoint:
    threshold: float
    false_accepts: float
    kept: float


@dataclass(frozen=True)
class Calibration:
    """Made by `calibrate`."""

    num_items: int
    num_classes: int
    confidence: float
    same: Threshold  # two items are of one class
    promises: tuple[Threshold, ...]  # what can be promised of "same" at other rates
    known: Threshold | None  # an item is of a class that the gallery holds: its similarity to the nearest there; None with too few to try
    num_known_items: int  # of the gallery it was tried with: a larger one finds more that is alike
    num_unknown_classes: int
    probability: MatchProbability
    reliability: tuple[ReliabilityBin, ...]  # at a prior of one half, on classes that the probability was not fitted on
    roc: tuple[RocPoint, ...]
    version: int = FORMAT

    @property
    def words(self) -> tuple[str, ...]:
        """What is promised and what is not, in sentences."""
        same, known = self.same, self.known
        sentences = [
            f"from a similarity of {same.value:.3f} on, two items pass for one class: {_percent(same.kept.estimate)} of the pairs of one "
            f"class do, and of pairs of different classes {self._how_often(same, 2, self.num_classes)}"
        ]
        if not same.is_promised and self.promises:
            least = self.promises[0]
            sentences.append(f"what {self.num_classes:,} classes can promise: at most {_percent(least.rate)} from {least.value:.3f} on")
        if known is not None:
            sentences.append(
                f"from {known.value:.3f} on with its nearest in a gallery of {self.num_known_items:,}, an item passes for known: "
                f"{_percent(known.kept.estimate)} of those whose class is there do, and of all others "
                f"{self._how_often(known, 1, self.num_unknown_classes)}"
            )
        if self.num_classes < FEW:
            sentences.append(f"{count_of(self.num_classes, 'class', 'classes')} are few, even for estimates: take at least {FEW}")
        return tuple(sentences)

    def _how_often(self, threshold: Threshold, classes_of_a_unit: int, num_classes: int) -> str:
        if threshold.is_promised:
            return f"at most {_percent(threshold.rate)}, for classes never seen and with {_percent(self.confidence)} confidence"
        takes = classes_of_a_unit * least_units(threshold.rate, self.confidence)
        lacking = f"a promise takes {takes:,} classes and there are {num_classes:,}"
        if num_classes >= takes:
            lacking = "there is no promise, as too many items of different classes are as good as equal"
        return f"{_percent(threshold.observed)} here and probably at most {_percent(threshold.rate)} elsewhere ({lacking})"

    def as_table(self) -> dict[str, Any]:
        """Numbers, strings, lists and dicts, as JSON has them."""
        return asdict(self)

    @staticmethod
    def from_stored(table: Any) -> Calibration:
        """What `as_table` gave; a ValueError says what is wrong with anything else."""
        if not isinstance(table, dict) or table.get("version") != FORMAT:
            raise ValueError(f"the calibration is not of version {FORMAT}, which this version of likewise reads: calibrate again")
        return from_table(Calibration, table, where="the calibration")

    def to_json(self) -> str:
        return json.dumps(self.as_table(), indent=1, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> Calibration:
        try:
            stored = json.loads(text)
        except (ValueError, RecursionError) as fault:
            raise ValueError(f"the calibration is not JSON ({fault}): calibrate again") from fault
        return Calibration.from_stored(stored)


@checked_arguments
def calibrate(
    embeddings: Embeddings,
    labels: Labels,
    *,
    false_accepts: float = 0.01,
    confidence: float = 0.95,
    gallery: Embeddings | None = None,
    gallery_labels: Labels | None = None,
    seed: int = 0,
) -> Calibration:
    """Thresholds on cosine similarity and probabilities, from vectors of classes that the embedding was not trained on.

    `same`: the least threshold such that two items of two classes never seen reach it in at most `false_accepts` of cases, with this
    confidence, whatever the classes are like (see `class_bounds`). Where there are too few classes to promise that, it is the least at
    which the upper limit of an interval over classes keeps the rate (`is_promised` is False); `words` says how many classes it takes.

    `known`: the same for an item and its nearest in a gallery of other classes. Without a gallery, half of the classes, drawn by the seed,
    are the gallery, and the others are the unknown.
    """
    check_shares(false_accepts, confidence)
    if (gallery is None) != (gallery_labels is None):
        raise ValueError("gallery without gallery_labels, or these without it: expected both or neither")
    codes, gallery_codes = (found.cpu().numpy() for found in class_codes(labels, gallery_labels))
    unit = _unit_vectors(embeddings, codes, "embeddings")
    if gallery is not None and np.isin(codes, gallery_codes).any():
        raise ValueError("the gallery holds classes that are to be calibrated with: expected others, so that these are unknown to it")
    codes = np.unique(codes, return_inverse=True)[1]
    num_classes = int(codes.max(initial=-1)) + 1
    if num_classes < 2:
        raise ValueError(f"{count_of(num_classes, 'class', 'classes')} to calibrate with: expected at least 2, and {FEW} to be of use")
    if np.bincount(codes).max() < 2:
        raise ValueError("every item is the only one of its class: expected classes with at least two items, to see how alike these are")
    rng = np.random.default_rng(seed)
    pairs = ClassPairs.of(lambda some, others: unit[some] @ unit[others].T, codes, rng)
    ask = Asked.of_pairs(pairs, confidence)
    if gallery is None:
        is_known = rng.permutation(num_classes)[codes] < num_classes // 2
        held, held_codes, strangers, stranger_codes = unit[is_known], codes[is_known], unit[~is_known], codes[~is_known]
    else:
        held, held_codes, strangers, stranger_codes = _unit_vectors(gallery, gallery_codes, "gallery"), gallery_codes, unit, codes
    everyone = np.ones(num_classes, dtype=bool)
    return Calibration(
        num_items=len(unit),
        num_classes=num_classes,
        confidence=confidence,
        same=ask.threshold(false_accepts),
        promises=tuple(promise for rate in LADDER if (promise := ask.promise(rate)) is not None),
        known=_known(held, held_codes, strangers, stranger_codes, confidence, false_accepts),
        num_known_items=len(held),
        num_unknown_classes=len(np.unique(stranger_codes)),
        probability=MatchProbability.fit(*pairs.histograms(everyone), num_classes),
        reliability=_reliability(pairs, rng),
        roc=_roc(pairs),
    )


def check_shares(false_accepts: float, confidence: float) -> None:
    for name, value, usual in (("false_accepts", false_accepts, 0.01), ("confidence", confidence, 0.95)):
        if not 0 < value < 1:
            raise ValueError(f"{name} is {value}: expected a share between 0 and 1, such as {usual}")


@dataclass(frozen=True)
class Asked:
    """A threshold is sought: what is accepted at any, wrongly and rightly."""

    false_accepts: Callable[[float], Array]  # (units,) rates
    by_class: Callable[[float], Array]  # (classes,) values whose mean is that of the rates, and whose spread is its noise
    groups: Indices  # see log_evidence
    kept: Callable[[float], Array]  # (classes,) rates
    confidence: float

    @classmethod
    def of_pairs(cls, pairs: ClassPairs, confidence: float) -> Asked:
        """Are two items of one class?

        The mean rate over pairs is a U-statistic, whose noise is that of the mean of 2 F_c - mean over classes c, F_c the mean rate of the
        class with all others: each class is in two of a pair's places.
        """

        def by_class(threshold: float) -> Array:
            of_class = pairs.of_class(threshold)
            return np.asarray(2 * of_class - of_class.mean())

        return cls(pairs.between.rates, by_class, pairs.groups, pairs.within.rates, confidence)

    def threshold(self, rate: float) -> Threshold:
        """What can be promised, else what is likely."""
        promise = self.promise(rate)
        return self.likely(rate) if promise is None else promise

    def likely(self, rate: float) -> Threshold:
        """Where the upper limit of an interval over classes keeps the rate: near enough for classes of one kind, blind to rare ones."""
        tails = 2 * (1 - self.confidence)  # only the upper limit counts
        value = least_where(lambda threshold: _limits(self.by_class(threshold), tails)[1] <= rate, LOWEST, HIGHEST, STEP)
        return self._at(HIGHEST * STEP if value is None else value, rate, is_promised=False)

    def promise(self, rate: float) -> Threshold | None:
        if self.groups.shape[1] < least_units(rate, self.confidence):
            return None

        def holds(threshold: float) -> bool:
            return is_bounded(self.false_accepts(threshold), self.groups, rate, self.confidence)

        value = least_where(holds, LOWEST, HIGHEST, STEP)
        return None if value is None else self._at(value, rate, is_promised=True)

    def _at(self, value: float, rate: float, *, is_promised: bool) -> Threshold:
        kept = self.kept(value)
        low, high = _limits(kept, 0.05)
        interval = Interval(low, float(kept.mean()), high)
        return Threshold(round(value, 3), rate, is_promised, float(self.false_accepts(value).mean()), interval)


def _known(
    held: Vectors, held_codes: Indices, strangers: Vectors, stranger_codes: Indices, confidence: float, rate: float
) -> Threshold | None:
    """Is it in the gallery? By the similarity to the nearest there, which for a gallery item is the nearest other one."""
    several = np.bincount(held_codes, minlength=1)[held_codes] > 1  # the only one of its class is not held without itself
    if not several.any():
        return None
    of_strangers = _runs(nearest(strangers, held, 1)[1][:, 0].numpy(), stranger_codes)
    of_held = _runs(nearest(held, held, 1, exclude_self=True)[1][:, 0].numpy()[several], held_codes[several])
    each = np.arange(len(of_strangers.start))[None]
    return Asked(of_strangers.rates, of_strangers.rates, each, of_held.rates, confidence).threshold(rate)


def _runs(values: Vectors, codes: Indices) -> Runs:
    order = np.argsort(codes, kind="stable")
    return Runs(values[order], np.flatnonzero(np.diff(codes[order], prepend=-1)))


def _limits(values: Array, alpha: float) -> tuple[float, float]:
    """The interval of the mean of a value a class, within [0, 1]."""
    if len(values) < 2:
        return 0.0, 1.0
    low, high = of_means(measured([values[None]])).limits(alpha)
    return max(0.0, float(low[0])), min(1.0, float(high[0]))


def _reliability(pairs: ClassPairs, rng: np.random.Generator) -> tuple[ReliabilityBin, ...]:
    """Fitted on half of the classes and tried on the other, both ways; nothing with fewer than two classes to a half."""
    half = rng.permutation(pairs.num_classes) < pairs.num_classes // 2
    folds = []
    for fitted, tried in ((half, ~half), (~half, half)):
        if not all(pairs.can_show(classes) for classes in (fitted, tried)):
            return ()
        probability = MatchProbability.fit(*pairs.histograms(fitted), int(fitted.sum()))
        folds.append((probability, *pairs.histograms(tried)))
    return reliability(folds)


def _roc(pairs: ClassPairs) -> tuple[RocPoint, ...]:
    """From the threshold that accepts all to the one that accepts nothing."""
    everything = (pairs.between.values.min(), pairs.within.values.min())
    low, high = (round(float(value) / STEP) for value in (min(everything), max(pairs.between.values.max(), pairs.within.values.max())))
    steps = np.unique(np.linspace(low - 1, high + 1, ROC_POINTS).round().astype(int))
    false_accepts, kept = (runs.mean_rates(steps, STEP).tolist() for runs in (pairs.between, pairs.within))
    points = zip((steps * STEP).round(3).tolist(), false_accepts, kept, strict=True)
    return tuple(RocPoint(*point) for point in points)


def _unit_vectors(embeddings: Embeddings, codes: Indices, name: str) -> Vectors:
    vectors = as_embeddings(embeddings, name).float().cpu()
    if len(codes) != len(vectors):
        raise ValueError(f"{len(codes)} labels for {len(vectors)} {name}: expected one label an item")
    return np.asarray(vectors / vectors.norm(dim=1, keepdim=True).clamp(min=1e-12), dtype=np.float32)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
