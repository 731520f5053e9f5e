"""Plan: what a comparison will do, decided before it starts, in pieces; and which pieces are due given those that are done."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median
from typing import Any, Literal, TypeAlias, get_args

from likewise.comparison.tuning import INSIDE, edge_of, next_rate, num_parts, survivors, winner
from likewise.configuration import Named, as_table, from_table, with_settings
from likewise.methods import RATE, Head, HeadKind, Method
from likewise.protocols import Protocol, Tune
from likewise.wording import count_of, listed

SWEEPABLE = ("dim", "batch")
DECIDING_SCORE = "MAP@R"  # what sets of values are chosen by, and methods ranked
UNTRAINED = "untrained"  # the network as it was initialised: every comparison's lowest line

NO_METHOD = Method(
    name=UNTRAINED,
    title="Untrained network",
    paper="",
    summary="the network as it is initialised: what the images alone give",
    loss=Named("contrastive"),
)

Kind = Literal["trial", "final", "score", "items"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LOOKS: tuple[Kind, ...] = ("score", "items")  # those that see test classes

LOOK_COST = 0.1  # of a score beside a training, about: for the time left


@dataclass(frozen=True)
class Piece:
    """A pure function of the plan, the data and these fields: whoever runs it, where and when, finds the same.

    trial: one fold of one set of values.  final: one seed with the chosen values on all training classes; the network is kept.
    score: that network on the test classes.  items: what the report shows of the test classes.
    """

    kind: Kind
    data: str  # name of the data set
    point: str = ""  # of a sweep: "dim=64"; empty: the protocol as it is
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
    methods: tuple[Method, ...]
    protocol: Protocol
    trials: int
    folds: int  # that a set of values runs; 1: half of the training classes are held out, once
    seeds: int
    tune: Tune = "rate"
    sweeps: dict[str, tuple[int, ...]] = field(default_factory=dict)  # "dim" or "batch" -> values
    weights: str = ""  # digest of the file
    device: Literal["cpu", "cuda"] = "cpu"
    sets: dict[str, tuple[dict[str, Any], ...]] = field(default_factory=dict)  # method -> the sets of values that tuning tries
    notes: tuple[str, ...] = ()  # what had to be decided otherwise than was asked for
    extensions: tuple[Extension, ...] = ()

    def as_table(self) -> dict[str, Any]:
        """As the store holds it; `from_table` makes it again."""
        table: dict[str, Any] = as_table(self)
        return table

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
        new = tuple(method for method in asked.methods if method.name not in self.by_name)
        if not new and asked.seeds <= self.seeds:
            return self
        *methods, untrained = self.methods
        seeds = max(self.seeds, asked.seeds)
        extension = Extension(time, command, seeds, tuple(method.name for method in new), looked)
        sets = {
            method.name: tuple(own | {RATE: rate} for own, rate in zip(asked.sets[method.name], self.rates, strict=True))
            for method in new
            if self.trials and asked.trials == self.trials
        }
        return replace(
            self, methods=(*methods, *new, untrained), seeds=seeds, sets=self.sets | sets, extensions=(*self.extensions, extension)
        )

    @cached_property
    def by_name(self) -> dict[str, Method]:
        return {method.name: method for method in self.methods}

    @cached_property
    def sources(self) -> dict[str, Source]:
        return {source.name: source for source in self.data}

    @cached_property
    def points(self) -> tuple[str, ...]:
        """The protocol as it is, and every other point of the sweeps; one setting varies at a time."""
        varied = (f"{name}={value}" for name, values in self.sweeps.items() for value in values)
        return tuple(dict.fromkeys(("", *(self.canonical(point) for point in varied))))

    def canonical(self, point: str) -> str:
        """Where a sweep meets the protocol as it is, nothing is trained twice."""
        return "" if point and self.at_point(point) == self.protocol else point

    def at_point(self, point: str) -> Protocol:
        """The protocol at a point of a sweep. As many images are seen with any batch size."""
        if not point:
            return self.protocol
        name, value = point.split("=")
        if name == "batch":
            steps = max(1, round(self.protocol.steps * self.protocol.batch / int(value)))
            return replace(self.protocol, batch=int(value), steps=steps)
        return replace(self.protocol, dim=int(value))

    def is_at(self, method: Method, point: str) -> bool:
        """A method with a dimension of its own has no place in a sweep over dimensions."""
        return not point.startswith("dim=") or method.head.dim is None

    def cost(self, piece: Piece) -> float:
        """What a piece costs beside a training, about: for the time left."""
        return {"trial": 1 - 1 / num_parts(self.folds), "final": 1.0, "score": LOOK_COST, "items": LOOK_COST}[piece.kind]

    @property
    def measures_time(self) -> bool:
        """Whether trials decide how long the final trainings are."""
        return self.protocol.equal == "time" and not self.protocol.seconds

    @cached_property
    def rates(self) -> tuple[float, ...]:
        """The learning rates that every method tries, as multiples of the protocol's; empty without tuning."""
        return tuple(values[RATE] for values in next(iter(self.sets.values()), ()))


class Progress:
    """A plan and the pieces that were claimed or finished so far: what follows from both. Nothing here looks at a test class."""

    def __init__(self, plan: Plan, claims: Mapping[str, Claim]) -> None:
        self.plan = plan
        self.claims = claims

    def is_done(self, piece: Piece) -> bool:
        claim = self.claims.get(piece.key)
        return claim is not None and claim.finished is not None

    def failure(self, piece: Piece) -> str | None:
        return self.claims[piece.key].failure

    def fold_scores(self, data: str, method: str, number: int) -> list[float | None]:
        """MAP@R of one set of values on the folds that it has run, None where it failed."""
        pieces = [Piece("trial", data, "", method, number, fold) for fold in range(self.plan.folds)]
        return [self.claims[piece.key].score for piece in pieces if self.is_done(piece)]

    def rates_beyond(self, data: str) -> dict[int, float]:
        """Further rates that every method tries, by the number of their set: one beyond each edge at which some method did best.

        They are judged by the first fold of the sets that were drawn, and only once: that a further rate is best widens nothing again.
        What one method has shown is not undone by another, so that a rate once named here stays.
        """
        return self._widenings[data][0]

    def is_widening_known(self, data: str) -> bool:
        """Whether every method has shown where it does best, or both edges have been left behind anyway."""
        return self._widenings[data][1]

    @cached_property
    def _widenings(self) -> dict[str, tuple[dict[int, float], bool]]:
        return {source.name: self._widening(source.name) for source in self.plan.data}

    def _widening(self, data: str) -> tuple[dict[int, float], bool]:
        rates = self.plan.rates
        if len(set(rates)) < INSIDE:
            return {}, True
        edges = {self._edge(data, method) for method in self._first_methods}
        beyond = {"highest": (len(rates), True), "lowest": (len(rates) + 1, False)}
        found = {number: next_rate(rates, above=above) for edge, (number, above) in beyond.items() if edge in edges}
        return found, None not in edges or len(found) == len(beyond)

    def _edge(self, data: str, method: str) -> Literal["lowest", "highest", ""] | None:
        """Where the method's best rate lies among those drawn; None while it has not tried them all."""
        first = [Piece("trial", data, "", method, number) for number in range(len(self.plan.rates))]
        return edge_of(self.plan.rates, [self.claims[piece.key].score for piece in first]) if all(map(self.is_done, first)) else None

    def set_numbers(self, data: str, method: str) -> list[int]:
        """The sets of values that are known to be tried, by their number."""
        drawn = self.plan.sets.get(method, ())
        return [*range(len(drawn)), *(self.rates_beyond(data) if drawn else ())]

    def settings(self, data: str, method: str, number: int | None) -> dict[str, Any]:
        """A set of values; of one with a rate beyond those drawn, everything else is the best drawn set's. None: the method file's."""
        if number is None:
            return {}
        drawn = self.plan.sets[method]
        if number < len(drawn):
            return drawn[number]
        first = {i: self.fold_scores(data, method, i)[:1] for i in range(len(drawn))}
        return drawn[winner(first, num_folds=1) or 0] | {RATE: self.rates_beyond(data)[number]}

    def method_with(self, data: str, method: str, number: int | None) -> Method:
        """A method with one of its sets of values; None: as its file has it."""
        return with_settings(self.plan.by_name[method], self.settings(data, method, number))

    def trial_pieces(self, data: str, method: str) -> list[Piece]:
        """The trials of one method that are known to be needed: the first fold of all sets, then the other folds of the better half."""
        drawn = [Piece("trial", data, "", method, number) for number in range(len(self.plan.sets.get(method, ())))]
        if not all(map(self.is_done, drawn)):
            return drawn
        first = [Piece("trial", data, "", method, number) for number in self.set_numbers(data, method)]
        if not self.is_widening_known(data) or not all(map(self.is_done, first)):
            return first
        kept = survivors({piece.number: self.claims[piece.key].score for piece in first})
        return first + [Piece("trial", data, "", method, number, fold) for fold in range(1, self.plan.folds) for number in kept]

    def is_chosen(self, data: str, method: str) -> bool:
        known = method not in self.plan.sets or (self.is_widening_known(data) and self._is_time_known(data))
        return known and all(map(self.is_done, self.trial_pieces(data, method)))

    def _is_time_known(self, data: str) -> bool:
        return not self.plan.measures_time or all(self._edge(data, method) is not None for method in self._first_methods)

    @cached_property
    def _first_methods(self) -> list[str]:
        """The methods that are tuned and were there from the start: what is decided for all is decided by them."""
        return [method for method in self.plan.sets if method not in self.plan.added]

    def protocol_for(self, piece: Piece) -> Protocol:
        """The protocol of a final training.

        Where time is equal and not given, it is the median over methods of what all steps would take at the pace of its trials: a function
        of what is stored, the same for every worker and for whoever goes on.
        """
        protocol = self.plan.at_point(piece.point)
        if not self.plan.measures_time:
            return protocol
        paces = []
        for method in self._first_methods:
            trials = [Piece("trial", piece.data, "", method, number) for number in range(len(self.plan.rates))]
            spent = [self.claims[trial.key].seconds for trial in trials]
            if measured := [seconds for seconds in spent if seconds is not None]:
                paces.append(median(measured))
        if not paces:
            raise ValueError("no trial of any method ended, so that none tells how long a training takes: give --set seconds=20")
        return replace(protocol, seconds=median(paces))

    def choice(self, data: str, method: str) -> int | None:
        """The number of the winning set; None for the values of the method file, without tuning or if every set failed."""
        scores = {number: self.fold_scores(data, method, number) for number in self.set_numbers(data, method)}
        return winner(scores, num_folds=self.plan.folds)

    def final_pieces(self) -> Iterator[Piece]:
        for seed in range(self.plan.seeds):
            for source in self.plan.data:
                for point in self.plan.points:
                    for method in self.plan.methods:
                        if self.plan.is_at(method, point):
                            yield Piece("final", source.name, point, method.name, seed)

    @property
    def is_decided(self) -> bool:
        """Every value is chosen and every network trained: only now may a test class be seen."""
        chosen = all(self.is_chosen(source.name, method.name) for source in self.plan.data for method in self.plan.methods)
        return chosen and all(map(self.is_done, self.final_pieces()))

    def decided_for(self, piece: Piece) -> str:
        """Names all that was decided for a look at the test classes before it: what is added to the plan later does not change it."""
        same = replace(self.plan, methods=(), seeds=0, sets={}, sweeps={}, extensions=()).as_table()
        method = None if piece.kind == "items" else self.method_with(piece.data, piece.method, self.choice(piece.data, piece.method))
        return hashlib.sha256(json.dumps([same, piece.key, as_table(method)], sort_keys=True).encode()).hexdigest()

    @property
    def decisions(self) -> str:
        """Names all choices: digest of the chosen set of every method on every data set."""
        chosen = [
            [source.name, method.name, self.choice(source.name, method.name)] for source in self.plan.data for method in self.plan.methods
        ]
        return hashlib.sha256(json.dumps([self.plan.as_table(), chosen], sort_keys=True).encode()).hexdigest()

    def due(self) -> list[Piece]:
        """Pieces that may run now and are not finished, in this order: all of tuning first, then trainings, then test scores."""
        pieces = []
        for source in self.plan.data:
            for method in self.plan.methods:
                pieces += self.trial_pieces(source.name, method.name)
        pieces.sort(key=lambda piece: (piece.fold, piece.number))
        pieces += [piece for piece in self.final_pieces() if self.is_chosen(piece.data, piece.method)]
        if self.is_decided:
            pieces += self.score_pieces()
        return [piece for piece in pieces if not self.is_done(piece)]

    def score_pieces(self) -> list[Piece]:
        """The test scores of every network that could be trained."""
        trained = [piece for piece in self.final_pieces() if self.failure(piece) is None]
        return [replace(piece, kind="score") for piece in trained] + [Piece("items", source.name) for source in self.plan.data]

    @property
    def is_complete(self) -> bool:
        return self.is_decided and all(map(self.is_done, self.score_pieces()))

    def expected(self) -> list[Piece]:
        """All pieces that there will be, as far as can be foreseen: for the time left."""
        pieces: list[Piece] = []
        for source in self.plan.data:
            for method in self.plan.sets:
                numbers = self.set_numbers(source.name, method)
                kept = numbers[: math.ceil(len(numbers) / 2)]
                pieces += [Piece("trial", source.name, "", method, number) for number in numbers]
                pieces += [Piece("trial", source.name, "", method, number, fold) for fold in range(1, self.plan.folds) for number in kept]
            pieces.append(Piece("items", source.name))
        finals = list(self.final_pieces())
        return pieces + finals + [replace(piece, kind="score") for piece in finals]

    @property
    def elapsed(self) -> float:
        """Seconds in which at least one finished piece was under way, whoever did it."""
        seconds, until = 0.0, 0.0
        for claimed, finished in sorted((claim.claimed, claim.finished) for claim in self.claims.values() if claim.finished is not None):
            seconds += max(0.0, finished - max(claimed, until))
            until = max(until, finished)
        return seconds


OnProgress: TypeAlias = Callable[[Progress], None]


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
    if method.name == UNTRAINED:
        return "no training"
    reasons = []
    if method.ensemble.members > 1:
        reasons.append(f"{method.ensemble.members} models")
    if len(method.head.levels) > 1:
        reasons.append(f"{len(method.head.levels)} levels")
    if method.head.kind != Head.kind:
        reasons.append(OTHER_HEADS[method.head.kind])
    if method.head.binary:
        reasons.append(f"{width:,} bits")
    elif width != protocol.dim and (protocol.head_start == "random" or method.head.dim is not None):  # as many as its features allow
        reasons.append(f"{width:,} dimensions")
    return ", ".join(reasons)
