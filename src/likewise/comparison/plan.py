"""Plan: what a comparison will do, decided before it starts, in pieces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args

from likewise.comparison.baselines import competes, is_baseline
from likewise.comparison.sweeping.sweeps import Sweeps, method_at, point_in_words, points_of, protocol_at, reduced, why_absent
from likewise.comparison.tuning import num_parts
from likewise.configuration import as_table, from_table
from likewise.evaluation.metrics import CLUSTERING_METRICS
from likewise.methods import RATE, Head, HeadKind, Method
from likewise.protocols import Protocol, Tune
from likewise.wording import count_of, listed

CANNOT_TUNE = "nothing was tuned, as no training classes can be held out for it"  # how the note on that begins
DECIDING_SCORE = "MAP@R"  # what sets of values are chosen by, and methods ranked

Kind = Literal["trial", "final", "score", "items"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LOOKS: tuple[Kind, ...] = ("score", "items")  # those that see test classes

# Of a score beside a training, about, for the time left. k-means is most of it: 0.45 of a training under quick, measured.
RETRIEVAL_COST, CLUSTERING_COST, LITTLE = 0.1, 0.3, 0.05

LATER = ("levels",)  # fields of plans that came later


@dataclass(frozen=True)
class Piece:
    """A pure function of the plan, the data and these fields: whoever runs it, where and when, finds the same.

    trial: one fold of one set of values.  final: one seed with the chosen values on all training classes; the network is kept.
    score: that network on the test classes.  items: what the report shows of the test classes.
    """

    kind: Kind
    data: str  # name of the data set
    point: str = ""  # of a sweep: "dim=64"; empty: method and protocol as they are
    method: str = ""
    number: int = 0  # of the set of values (trial) or the seed (final, score)
    fold: int = 0

    @property
    def key(self) -> str:
        """Names the piece in the store. Data set and method may hold any character, so they stand last and first to be split off."""
        return "|".join((self.kind, str(self.number), str(self.fold), self.point, self.method, self.data))

    @staticmethod
    def from_key(key: str) -> Piece:
        kind, number, fold, point, method, data = key.split("|", 5)
        return Piece(kind, data, point, method, int(number), int(fold))  # type: ignore[arg-type]

    @property
    def in_words(self) -> str:
        """For the guard's record and for messages."""
        where = " ".join(part for part in (self.data, self.point) if part)
        if self.kind == "items":
            return f"{where}: pictures for the report"
        number = f"set {self.number}, fold {self.fold}" if self.kind == "trial" else f"seed {self.number}"
        return f"{where}: {self.method}, {number}"


@dataclass(frozen=True)
class Claim:
    """A piece that a process has taken on, and how it ended."""

    piece: Piece
    owner: str
    beat: int  # counts the owner's signs of life
    claimed: float  # time
    finished: float | None  # time; None: under way
    score: float | None
    failure: str | None
    seconds: float | None = None  # that all steps of the training would take at its pace; of trials, where the plan asks for it


@dataclass(frozen=True)
class Source:
    """A data set of the plan, and its split."""

    name: str
    spec: str  # as it was given
    split: dict[str, Any]  # Split.to_json()


@dataclass(frozen=True)
class Extension:
    """What was added to a comparison after it had begun: seeds, or methods."""

    time: str  # ISO date and time
    command: str
    seeds: int  # since then
    methods: tuple[str, ...]  # that were added
    looked: int  # pieces for which the test classes had been opened before

    @property
    def in_words(self) -> str:
        added = f"{listed(self.methods)} added" if self.methods else ""
        return ", ".join(filter(None, (added, f"{count_of(self.seeds, 'seed', 'seeds')} a method")))


@dataclass(frozen=True)
class Plan:
    """Everything that decides the results. Two processes with the same plan may work on one comparison.

    A plan only ever grows, by seeds and by methods: see `extended`. Pieces that were done stay as they were.
    """

    data: tuple[Source, ...]
    methods: tuple[Method, ...]  # the baselines last
    protocol: Protocol
    trials: int
    folds: int  # that a set of values runs; 1: half of the training classes are held out, once
    seeds: int
    tune: Tune = "rate"
    sweeps: Sweeps = field(default_factory=dict)
    levels: bool = False  # combinations of a network's levels are scored too
    weights: str = ""  # digest of the file
    device: Literal["cpu", "cuda"] = "cpu"
    sets: dict[str, tuple[dict[str, Any], ...]] = field(default_factory=dict)  # method -> the sets of values that tuning tries
    notes: tuple[str, ...] = ()  # what had to be decided otherwise than was asked for; CANNOT_TUNE among it
    extensions: tuple[Extension, ...] = ()

    def as_table(self) -> dict[str, Any]:
        """As the store holds it; `from_table` makes it again.

        What plans did not have at first is left out where there is nothing of it: what names a plan by its content, as the record of looks
        does, names one of old as it did then.
        """
        table: dict[str, Any] = as_table(self)
        return {
            name: [plain_table(method) for method in self.methods] if name == "methods" else value
            for name, value in table.items()
            if value or name not in LATER
        }

    @staticmethod
    def from_table(table: Mapping[str, Any]) -> Plan:
        return from_table(Plan, table, where="the stored plan")

    @cached_property
    def added(self) -> frozenset[str]:
        """The methods that came later. They try the rates that the others did, and change nothing about those."""
        return frozenset(name for extension in self.extensions for name in extension.methods)

    @property
    def num_looks(self) -> int:
        """How often the test classes are looked at by the time all is scored: once, and again for what was added after a look."""
        return 1 + len({extension.looked for extension in self.extensions if extension.looked})

    def extended(self, asked: Plan, *, time: str, command: str, looked: int) -> Plan:
        """This plan with the seeds and methods that the one asked for has beyond it; itself if there are none."""
        new = tuple(method for method in asked.compared if method.name not in self.by_name)
        if not new and asked.seeds <= self.seeds:
            return self
        methods, baselines = self.compared, self.methods[len(self.compared) :]
        seeds = max(self.seeds, asked.seeds)
        extension = Extension(time, command, seeds, tuple(method.name for method in new), looked)
        sets = {method.name: self._with_rates(asked.sets[method.name]) for method in new if self.trials and asked.trials == self.trials}
        return replace(
            self, methods=(*methods, *new, *baselines), seeds=seeds, sets=self.sets | sets, extensions=(*self.extensions, extension)
        )

    def _with_rates(self, sets: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        """The sets of values of a method that is added, with the rates that the others tried; a grid has the same anyway."""
        if self.tune == "grid":
            return sets
        return tuple(own | {RATE: rate} for own, rate in zip(sets, self.rates, strict=True))

    @cached_property
    def compared(self) -> tuple[Method, ...]:
        """The methods that are trained: all but the baselines, which come last."""
        return tuple(method for method in self.methods if not is_baseline(method))

    def seeds_of(self, method: Method) -> int:
        """How often a method is trained: once where no seed changes anything."""
        return 1 if competes(method) else self.seeds

    @cached_property
    def by_name(self) -> dict[str, Method]:
        return {method.name: method for method in self.methods}

    @cached_property
    def sources(self) -> dict[str, Source]:
        return {source.name: source for source in self.data}

    @cached_property
    def points(self) -> tuple[str, ...]:
        """Methods and protocol as they are, and every point of the sweeps; what a sweep does not name stays as it is."""
        varied = (point_in_words(settings) for sweep, values in self.sweeps.items() for settings in points_of(sweep, values))
        return tuple(dict.fromkeys(("", *varied)))

    @cached_property
    def absences(self) -> dict[tuple[str, str], str]:
        """Why a method takes no part at a point, by both."""
        why = {(method.name, point): why_absent(method, point) for point in self.points for method in self.methods}
        return {place: reason for place, reason in why.items() if reason}

    @cached_property
    def places(self) -> dict[tuple[str, str], str]:
        """Where a method is trained for a point, by both: where it has some of the settings anyway, at the others alone, or at ""."""
        tuned = {name: tuple(sets[0]) for name, sets in self.sets.items()}
        return {
            (method.name, point): reduced(point, method, self.protocol, tuned=tuned.get(method.name, ()))
            for point in self.points
            for method in self.methods
            if (method.name, point) not in self.absences
        }

    @cached_property
    def trainings(self) -> tuple[tuple[str, str], ...]:
        """What is trained: points with names of methods, each once."""
        return tuple(dict.fromkeys((point, name) for (name, _), point in self.places.items()))

    def at_point(self, point: str) -> Protocol:
        """The protocol at a point of a sweep."""
        return protocol_at(self.protocol, point)

    def cost(self, piece: Piece) -> float:
        """What a piece costs beside a training of one network, about: for the time left."""
        if piece.kind == "score":
            times = 2 ** len(self.by_name[piece.method].head.levels) - 1 if self.levels else 1
            return times * (RETRIEVAL_COST + CLUSTERING_COST * any(name in CLUSTERING_METRICS for name in self.protocol.metrics))
        if piece.kind == "items" or is_baseline(self.by_name[piece.method]):
            return LITTLE
        if self.protocol.equal == "time":
            return 1.0 if piece.kind == "final" else 1 - 1 / num_parts(self.folds)
        there = self.at_point(piece.point)
        seen = there.steps * there.batch / (self.protocol.steps * self.protocol.batch)
        members = method_at(self.by_name[piece.method], piece.point).ensemble.members
        return seen * members * (1 - 1 / num_parts(self.folds) if piece.kind == "trial" else 1.0)

    @property
    def measures_time(self) -> bool:
        """Whether trials decide how long the final trainings are."""
        return self.protocol.equal == "time" and not self.protocol.seconds

    @cached_property
    def rates(self) -> tuple[float, ...]:
        """The learning rates that every method tries, as multiples of the protocol's; empty without tuning."""
        return tuple(dict.fromkeys(values[RATE] for values in next(iter(self.sets.values()), ())))


def plain_table(method: Method | None) -> dict[str, Any] | None:
    """A method as plans hold it; without a grid where it has none, as methods were before there were grids."""
    table: dict[str, Any] | None = as_table(method)
    return table if table is None or table["grid"] else {name: value for name, value in table.items() if name != "grid"}


OTHER_HEADS: dict[HeadKind, str] = {
    "layer_norm": "layer norm in its head",
    "mlp": "MLP head",
    "rll": "the ranked list authors' head",
    "none": "no head",
}


def why_apart(method: Method, protocol: Protocol, width: int) -> str:
    """Why a method is not under equal conditions; empty if it is.

    Equal is the network that embeds in the end: one backbone, its last level, one linear layer, the protocol's dimension, real numbers.
    How it came about (loss, mining, batches, a memory of earlier ones) is what is compared.
    """
    if is_baseline(method):
        return "" if competes(method) else "no training"
    reasons = []
    if method.ensemble.members > 1:
        reasons.append(f"{method.ensemble.members} models")
    if len(method.head.levels) > 1:
        reasons.append(f"{len(method.head.levels)} levels")
    if method.head.learners:
        reasons.append(f"{method.head.learners} attention masks")
    if method.head.kind != Head.kind:
        reasons.append(OTHER_HEADS[method.head.kind])
    if method.head.binary:
        reasons.append(f"{width:,} bits")
    elif width != protocol.dim and (protocol.head_start == "random" or method.head.dim is not None):  # as many as its features allow
        reasons.append(f"{width:,} dimensions")
    return ", ".join(reasons)
