"""ComparisonResults: what a finished comparison knows, the methods in order, and all that its report is made from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from likewise.comparison.baselines import BASELINES, UNTRAINED
from likewise.comparison.plan import Extension
from likewise.comparison.sweeping.sweeps import Settings, point_in_words
from likewise.comparison.sweeping.swept_methods import LeftOut, SweptMethod
from likewise.comparison.tuning import TrialState
from likewise.data.ledger import CountedLook
from likewise.evaluation.certainty.verdict import Verdict
from likewise.formats.numpy_files import read_npy
from likewise.methods import RATE, Level, Method
from likewise.protocols import Tune

SCORES = ("MAP@R", "R@1", "RP", "mAP", "NMI", "AMI")  # before any other; the first that every method has decides the order

# Where a method stands; empty where nothing is to be said, as of methods apart. "best": and no other could be; "leads": others could.
# "equal for all purposes": the whole interval of its difference to the best lies within what the user called indifferent.
Standing = Literal["", "best", "leads", "equal for all purposes", "within noise", "behind"]
LEADING: tuple[Standing, ...] = ("best", "leads")

Vectors = dict[str, npt.NDArray[np.float32]]  # by method: (test items, dim)


@dataclass(frozen=True)
class Curve:
    """One training: the loss, and the scores on held-out training classes where there were any."""

    seed: int
    steps: tuple[int, ...]
    losses: tuple[float, ...]  # mean since the step before
    validation_steps: tuple[int, ...] = ()
    validation: tuple[float, ...] = ()  # MAP@R


@dataclass(frozen=True)
class Trial:
    """One set of values that tuning tried."""

    number: int
    settings: dict[str, Any]  # dotted name in the method file -> value
    score: float | None  # mean MAP@R over the folds; None if pruned or failed
    state: TrialState
    first: float | None = None  # MAP@R on the first fold, which every set ran; None if it failed there


@dataclass(frozen=True)
class Estimate:
    """A score over seeds: mean, standard deviation, and the 95 % interval that seeds and test classes together leave.

    There is no interval (None) where no noise is seen, which is no proof that there is none.
    """

    values: tuple[float, ...]  # one a seed, in [0, 1]
    mean: float
    deviation: float | None  # over seeds; None for one seed
    low: float | None
    high: float | None
    lacking: str = ""  # which noise the interval does not hold because it cannot be known: "seeds", "classes", "seeds and classes"


@dataclass(frozen=True)
class MethodResult:
    """One method on one data set at one point of a sweep."""

    name: str
    title: str
    dataset: str
    apart: str  # why it is not under equal conditions ("1,536 dimensions"); empty if it is
    dim: int
    settings: dict[str, Any]  # what was tuned, to which value; empty without tuning
    defaults: dict[str, Any]  # the same names as the method file has them
    scores: dict[str, Estimate]  # by score: "R@1", "R@2", ..., "RP", "MAP@R", "mAP", "NMI", "AMI"
    seconds: tuple[float, ...]  # of training, one a seed
    memory_bytes: int  # peak
    curves: tuple[Curve, ...]
    standing: Standing = ""
    p_value: float | None = None  # of the difference to the best (Verdict.p_values); None for the best itself
    within_noise: bool = False  # of the best: not told from it, or the best itself
    difference: tuple[float, float] | None = None  # the interval of its mean less the best's; all such hold at once
    chance_best: float | None = None
    trials: tuple[Trial, ...] = ()
    published: dict[str, float] = field(default_factory=dict)  # the paper's own figures, where the protocol is that paper's
    sweep: Settings = field(default_factory=dict)  # {"dim": 64}; empty outside sweeps
    adapted: str = ""  # what it does otherwise to fit the batch: "2 images a class instead of 4"
    embeddings: Path | None = None  # .npy float16 (test items, dim) of the first seed
    seedless: bool = False  # no seed changes it, so that there is one
    planes: tuple[Path, ...] = ()  # of 2 dimensions, one a seed: .npy float32 (test items, 2), not brought to length 1
    levels: tuple[Level, ...] = ()  # of a training with several, where it is scored with these alone; empty: as it embeds

    @property
    def is_trained(self) -> bool:
        """Whether it is a method, and no baseline."""
        return self.name not in BASELINES

    @property
    def mean_seconds(self) -> float:
        """Of a training; NaN where nothing was trained."""
        return sum(self.seconds) / len(self.seconds) if self.seconds else math.nan


@dataclass(frozen=True, eq=False)
class TestItems:
    """What the report shows of the test part of one data set."""

    __test__ = False  # no test class, for all its name

    labels: npt.NDArray[np.int64]
    class_names: tuple[str, ...]
    names: tuple[str, ...]  # of the items: relative paths or "item 17"
    thumbnails: npt.NDArray[np.uint8] | None  # (items, side, side, 3); None for vectors
    query: npt.NDArray[np.int64] | None = None  # In-Shop style: positions of queries and gallery among these items
    gallery: npt.NDArray[np.int64] | None = None

    @property
    def num_queries(self) -> int:
        return len(self.labels if self.query is None else self.query)


@dataclass(frozen=True, eq=False)
class ComparisonResults:
    title: str
    command: str
    created: str  # ISO date and time
    protocol: dict[str, Any]
    equal: dict[str, str]  # "backbone" -> "convnet, random weights, the same for every method"
    num_seeds: int
    num_trials: int  # that were drawn for each method; 0: no tuning
    num_folds: int  # 1: half of the training classes were held out, once; 0: no tuning
    methods: tuple[MethodResult, ...]
    items: dict[str, TestItems]  # by data set
    guard_record: tuple[dict[str, Any], ...]  # every opening of the test classes
    versions: dict[str, str]
    record_fault: str = ""  # what was done to that record, if it is not as it was written
    looks: dict[str, CountedLook] = field(default_factory=dict)  # data set -> which look at its test classes this is
    num_looks: int = 1  # of this comparison alone: one more for each time that something was added after a look
    extensions: tuple[Extension, ...] = ()  # what was added, and when
    tune: Tune = "rate"  # what was tuned, where anything was
    can_be_tuned: bool = True  # False: the training classes are too few for it
    notes: tuple[str, ...] = ()  # what the user should know: skipped images, singleton classes
    verdicts: dict[tuple[str, str], Verdict] = field(default_factory=dict)  # by data set and point of a sweep, "" outside of sweeps
    level_verdicts: dict[tuple[str, str, str], Verdict] = field(default_factory=dict)  # the same, and the method whose levels it is on
    swept: tuple[SweptMethod, ...] = ()  # each method over each sweep
    left_out: tuple[LeftOut, ...] = ()  # what was meant to be in a table, or at a point, and could not
    indifferent: float | None = None  # a difference in score that does not matter to the user
    average_ranks: dict[str, float] = field(default_factory=dict)  # over several data sets
    critical_difference: float | None = None  # Nemenyi, at 5 %
    time_spent: dict[str, float] = field(default_factory=dict)  # seconds by kind of work, all jobs together
    elapsed: float = 0.0  # seconds by the clock, those in which nobody worked on it left out
    jobs: int = 1  # pieces at once
    folder: Path | None = None  # where the comparison lives
    report: Path | None = None  # report.html there
    best: dict[str, Path] = field(default_factory=dict)  # data set -> the best method's first seed, for likewise.Embedder.load
    used: tuple[Method, ...] = ()  # the methods as they were before tuning

    def with_time(self, kind: str, seconds: float) -> ComparisonResults:
        """After something that one process did, while the other jobs waited."""
        waiting = self.time_spent.get("waiting", 0.0) + (self.jobs - 1) * seconds
        return replace(self, time_spent=self.time_spent | {kind: seconds, "waiting": waiting}, elapsed=self.elapsed + seconds)

    @property
    def names_winner(self) -> bool:
        """Whether any method may be called best: values that were never tuned tell as much about themselves as about their methods."""
        return self.num_trials > 0

    @property
    def rates_tried(self) -> tuple[float, ...]:
        """The learning rates that tuning tried, as multiples of the protocol's, rising."""
        return tuple(sorted({trial.settings[RATE] for method in self.methods for trial in method.trials if RATE in trial.settings}))

    @property
    def datasets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(method.dataset for method in self.methods))

    @property
    def boards(self) -> tuple[Board, ...]:
        """One a data set."""
        return tuple(map(self.board, self.datasets))

    def board(self, dataset: str) -> Board:
        """The methods outside sweeps; where all belong to sweeps, those at the largest value of the first thing swept."""
        methods = [method for method in self.methods if method.dataset == dataset]
        point: Settings = {}
        if all(method.sweep for method in methods):
            first = [method.sweep for method in methods if method.sweep.keys() == methods[0].sweep.keys()]
            point = max(first, key=lambda sweep: list(sweep.values()))
        chosen = [method for method in methods if method.sweep == point]
        names = list(dict.fromkeys(name for method in chosen for name in method.scores))
        leading = next((name for name in SCORES if all(name in method.scores for method in chosen)), names[0])
        columns = [leading, *(name for name in SCORES if name in names), *names]
        order = sorted(chosen, key=lambda method: (method.standing not in LEADING, -_rank_value(method.scores.get(leading)), method.name))
        return Board(
            dataset,
            leading,
            tuple(dict.fromkeys(columns)),
            tuple(method for method in order if not method.apart),
            tuple(method for method in order if method.apart),
            point,
            self.names_winner,
            self.verdicts.get((dataset, point_in_words(point))),
            self.indifferent,
            self.can_be_tuned,
        )


@dataclass(frozen=True)
class Board:
    """The methods of one data set in order, the best first."""

    dataset: str
    leading: str  # the score that decides the order
    scores: tuple[str, ...]  # all scores, the leading one first
    equal: tuple[MethodResult, ...]  # under equal conditions, best first
    apart: tuple[MethodResult, ...]  # the others, best first
    point: Settings  # of a sweep, where there is nothing but a sweep
    names_winner: bool = True  # see ComparisonResults
    verdict: Verdict | None = None  # by MAP@R, on the methods under equal conditions
    indifferent: float | None = None  # see ComparisonResults
    can_be_tuned: bool = True  # see ComparisonResults

    @property
    def best(self) -> MethodResult | None:
        return self.equal[0] if self.equal else None

    @property
    def winner(self) -> MethodResult | None:
        """What to put to work: the best, trained or not, though it ran under conditions of its own; never a network of random weights.

        Nor some levels of a network: that these do better than all of it was seen on the test classes.
        """
        return next((method for method in self.methods if (method.is_trained or not method.apart) and not method.levels), None)

    @property
    def untrained(self) -> MethodResult | None:
        """What there is without training."""
        return next((method for method in self.methods if method.name == UNTRAINED), None)

    @property
    def methods(self) -> tuple[MethodResult, ...]:
        return self.equal + self.apart

    def standing(self, method: MethodResult) -> Standing:
        """Beside the best; empty where nothing is to be said."""
        return method.standing if self.names_winner and not method.apart else ""


def read_vectors(methods: Sequence[MethodResult], items: TestItems) -> Vectors:
    """The test embeddings of the methods that kept them, checked against the items they belong to."""
    vectors: Vectors = {}
    for method in methods:
        if method.embeddings is None:
            continue
        array = read_npy(method.embeddings)
        if array.ndim != 2 or len(array) != len(items.labels):
            raise ValueError(
                f"{method.embeddings} holds an array of shape {array.shape}, but {method.dataset} has {len(items.labels):,} test items: "
                "expected one row an item; was the data set changed after the comparison?"
            )
        if not np.isfinite(array).all():
            continue  # a training that came to nothing has no neighbours to show
        vectors[method.name] = array.astype(np.float32)
    return vectors


def _rank_value(estimate: Estimate | None) -> float:
    """What a score counts for in the order: a training that came to nothing is behind all others."""
    return -1.0 if estimate is None or math.isnan(estimate.mean) else estimate.mean
