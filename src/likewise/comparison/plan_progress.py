"""Progress: a plan and the pieces that are done; which others are due, and what was chosen."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from statistics import median
from typing import Any, Literal, TypeAlias

from likewise.comparison.plan import Claim, Piece, Plan, plain_table
from likewise.comparison.sweeping.sweeps import method_at
from likewise.comparison.tuning import INSIDE, edge_of, next_rate, survivors, winner
from likewise.configuration import with_settings
from likewise.methods import RATE, Method
from likewise.own_code import at_address
from likewise.protocols import Protocol
from likewise.registries import is_here


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
        """Further rates that every method tries, numbered after those that all try: one beyond each edge at which some method did best.

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
        rates = [values[RATE] for values in self.plan.sets[method]]
        first = [Piece("trial", data, "", method, number) for number in range(len(rates))]
        return edge_of(rates, [self.claims[piece.key].score for piece in first]) if all(map(self.is_done, first)) else None

    def _beyond(self, data: str, method: str) -> dict[int, float]:
        """The further rates by the numbers that their sets have with this method, after those that were drawn for it."""
        further = len(self.plan.sets.get(method, ())) - len(self.plan.rates)
        return {number + further: rate for number, rate in self.rates_beyond(data).items()}

    def set_numbers(self, data: str, method: str) -> list[int]:
        """The sets of values that are known to be tried, by their number."""
        drawn = self.plan.sets.get(method, ())
        return [*range(len(drawn)), *(self._beyond(data, method) if drawn else ())]

    def settings(self, data: str, method: str, number: int | None) -> dict[str, Any]:
        """A set of values; of one with a rate beyond those drawn, everything else is the best drawn set's. None: the method file's."""
        if number is None:
            return {}
        drawn = self.plan.sets[method]
        if number < len(drawn):
            return drawn[number]
        first = {i: self.fold_scores(data, method, i)[:1] for i in range(len(drawn))}
        return drawn[winner(first, num_folds=1) or 0] | {RATE: self._beyond(data, method)[number]}

    def method_with(self, data: str, method: str, number: int | None) -> Method:
        """A method with one of its sets of values; None: as its file has it."""
        return with_settings(self.plan.by_name[method], self.settings(data, method, number))

    def method_for(self, piece: Piece) -> Method:
        """The method of a final training: with the values that were chosen, and those of its point."""
        return method_at(self.method_with(piece.data, piece.method, self.choice(piece.data, piece.method)), piece.point)

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
        if not self.plan.measures_time or protocol.seconds:
            return protocol
        paces = []
        for method in self._first_methods:
            trials = [Piece("trial", piece.data, "", method, number) for number in range(len(self.plan.sets[method]))]
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
                for point, name in self.plan.trainings:
                    if seed < self.plan.seeds_of(self.plan.by_name[name]):
                        yield Piece("final", source.name, point, name, seed)

    @property
    def is_decided(self) -> bool:
        """Every value is chosen and every network trained: only now may a test class be seen."""
        chosen = all(self.is_chosen(source.name, method.name) for source in self.plan.data for method in self.plan.methods)
        return chosen and all(map(self.is_done, self.final_pieces()))

    def decided_for(self, piece: Piece) -> str:
        """Names all that was decided for a look at the test classes before it: what is added to the plan later does not change it."""
        same = replace(self.plan, methods=(), seeds=0, sets={}, sweeps={}, extensions=()).as_table()
        method = None if piece.kind == "items" else self.method_for(piece)
        return hashlib.sha256(json.dumps([same, piece.key, plain_table(method)], sort_keys=True).encode()).hexdigest()

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
                first = [Piece("trial", source.name, "", method, number) for number in numbers]
                if self.is_widening_known(source.name) and all(map(self.is_done, first)):  # then it is known which half goes on
                    pieces += self.trial_pieces(source.name, method)
                    continue
                kept = numbers[: math.ceil(len(numbers) / 2)]
                pieces += first
                pieces += [Piece("trial", source.name, "", method, number, fold) for fold in range(1, self.plan.folds) for number in kept]
            pieces.append(Piece("items", source.name))
        finals = list(self.final_pieces())
        return pieces + finals + [replace(piece, kind="score") for piece in finals]

    def num_rates_foreseen(self, data: str) -> float:
        """Rates beyond those that are known, which every method may try: for the time left. As long as that is open, half of them."""
        return 0.0 if self.is_widening_known(data) else 1 - len(self.rates_beyond(data)) / 2

    @property
    def elapsed(self) -> float:
        """Seconds in which at least one finished piece was under way, whoever did it."""
        seconds, until = 0.0, 0.0
        for claimed, finished in sorted((claim.claimed, claim.finished) for claim in self.claims.values() if claim.finished is not None):
            seconds += max(0.0, finished - max(claimed, until))
            until = max(until, finished)
        return seconds


OnProgress: TypeAlias = Callable[[Progress], None]


def check_code(progress: Progress) -> None:
    """A ValueError where something is left to train with a loss, a miner, a sampler or a backbone of the user's that is not known here."""
    left = {piece.method for piece in progress.expected() if piece.kind in ("trial", "final") and not progress.is_done(piece)}
    for method in progress.plan.compared:
        if method.name in left:
            for name in (*method.names, *progress.plan.protocol.names):
                if not is_here(name):
                    at_address(name)  # whose fault has the words
