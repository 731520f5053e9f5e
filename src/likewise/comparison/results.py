"""ComparisonResults: what a finished comparison knows, and all that its report is made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from likewise.methods import Method


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
    state: Literal["complete", "pruned", "failed"]


@dataclass(frozen=True)
class Estimate:
    """A score over seeds: mean, standard deviation, and the 95 % interval that seeds and test classes together leave."""

    values: tuple[float, ...]  # one a seed, in [0, 1]
    mean: float
    deviation: float  # over seeds; 0 for one seed
    low: float
    high: float


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
    p_value: float | None  # paired with the best method over test classes, after Holm; None for the best itself
    within_noise: bool  # of the best
    seconds: tuple[float, ...]  # of training, one a seed
    memory_bytes: int  # peak
    curves: tuple[Curve, ...]
    trials: tuple[Trial, ...] = ()
    published: dict[str, float] = field(default_factory=dict)  # the paper's own figures, where the protocol is that paper's
    sweep: dict[str, int] = field(default_factory=dict)  # {"dim": 64}; empty outside sweeps
    embeddings: Path | None = None  # .npy float16 (test items, dim) of the first seed


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


@dataclass(frozen=True, eq=False)
class ComparisonResults:
    title: str
    command: str
    created: str  # ISO date and time
    protocol: dict[str, Any]
    equal: dict[str, str]  # "backbone" -> "convnet, random weights, the same for every method"
    num_seeds: int
    num_trials: int  # of tuning, the same for every method; 0: none
    num_folds: int
    methods: tuple[MethodResult, ...]
    items: dict[str, TestItems]  # by data set
    guard_record: tuple[dict[str, Any], ...]  # every opening of the test classes
    versions: dict[str, str]
    notes: tuple[str, ...] = ()  # what the user should know: skipped images, singleton classes
    average_ranks: dict[str, float] = field(default_factory=dict)  # over several data sets
    critical_difference: float | None = None  # Nemenyi, at 5 %
    time_spent: dict[str, float] = field(default_factory=dict)  # seconds by kind of work, all jobs together
    jobs: int = 1  # pieces at once
    folder: Path | None = None  # where the comparison lives
    report: Path | None = None  # report.html there
    best: dict[str, Path] = field(default_factory=dict)  # data set -> the best method's first seed, for likewise.Embedder.load
    used: tuple[Method, ...] = ()  # the methods as they were before tuning
