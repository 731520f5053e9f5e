"""Gather: a finished comparison's results out of its store and folder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from likewise.comparison.baselines import competes
from likewise.comparison.conditions import equal_conditions
from likewise.comparison.folder import EMBEDDINGS, ITEMS, OPENINGS
from likewise.comparison.plan import DECIDING_SCORE, Claim, Piece, why_apart
from likewise.comparison.plan_progress import Progress
from likewise.comparison.results import ComparisonResults, Curve, MethodResult, TestItems, Trial, point_in_words
from likewise.comparison.statistics import estimates, judged, rank_test
from likewise.comparison.store import PieceResult, Store
from likewise.comparison.tuning import trial_score, trial_state
from likewise.comparison.workshop import SCORING, Context
from likewise.configuration import as_table
from likewise.data.guard import Opening, Seal, TestGuard
from likewise.data.ledger import CountedLook
from likewise.data.packed import left_out
from likewise.environment import versions
from likewise.evaluation.retrieval import PerQuery
from likewise.evaluation.verdict import Verdict
from likewise.methods import RATE, Method, at
from likewise.wording import count_of, listed

RECORD_FAULT = (
    f"the record of looks at the test classes ({OPENINGS}) was deleted or edited after scores were stored: what it says now is not all "
    "that happened"
)


class Gatherer:
    """Reads each result of a finished comparison once."""

    def __init__(
        self, context: Context, store: Store, about: dict[str, Any], progress: Progress, *, indifferent: float | None = None
    ) -> None:
        self.context, self.plan, self.store, self.about = context, context.plan, store, about
        self.progress, self.indifferent = progress, indifferent
        self.time_spent: dict[str, float] = defaultdict(float)
        self.notes: list[str] = [*context.plan.notes]
        self._seals: dict[str, list[Seal]] = defaultdict(list)  # data set -> of the guard's record, as each score was stored
        self._looks: dict[str, CountedLook] = {}  # data set -> as it was stored with the first pictures

    def seconds_since(self, before: Mapping[str, Claim]) -> float:
        """What the pieces took that were not finished then."""
        new = [claim.piece for key, claim in self.progress.claims.items() if key not in before or before[key].finished is None]
        return sum(sum(self.store.result(piece).facts["time"].values()) for piece in new)

    def results(self) -> ComparisonResults:
        plan = self.plan
        items = {source.name: self._items(source.name) for source in plan.data}
        looks = {source.name: self._look(source.name, self.context.split(source.name).test) for source in plan.data}
        methods: list[MethodResult] = []
        verdicts: dict[tuple[str, str], Verdict] = {}
        for source in plan.data:
            at_points = {
                point: self._at_point(source.name, point, look_number(looks[source.name], plan.num_looks)) for point in plan.points
            }
            sweeps = [{}, *({name: value} for name, values in plan.sweeps.items() for value in values)]
            for sweep in sweeps:
                found, verdict = at_points[plan.canonical(point_in_words(sweep))]
                methods += [replace(result, sweep=sweep) for result in found]
                if verdict is not None:
                    verdicts[source.name, point_in_words(sweep)] = verdict
        if not methods:
            raise ValueError(f"no method could be scored: {'; '.join(dict.fromkeys(self.notes)) or 'see the store'}")
        average_ranks, critical_difference = self._ranks(methods)
        record: list[Opening] = []
        record_fault = ""
        for source in plan.data:
            self._note_edges(source.name)
            self._note_steps(source.name, methods)
            split = self.context.split(source.name)
            openings = split.test.record
            record += openings
            self.notes += [*self.context.datasets[source.name].notes, *split.notes]
            if not (any(opening.handed_out for opening in openings) and all(map(split.test.still_holds, self._seals[source.name]))):
                record_fault = RECORD_FAULT
        if record_fault:
            self.notes.append(record_fault)
        for extension in plan.extensions:
            when = f"after {count_of(extension.looked, 'test score', 'test scores')}" if extension.looked else "before any test score"
            self.notes.append(f"added on {extension.time[:10]}, {when}: {extension.in_words}")
        before, now = self.about["versions"], versions()
        changed = [f"{name} {before[name]}, then {now[name]}" for name in now if before.get(name) not in (None, now[name])]
        if changed:
            self.notes.append(f"not all of it ran with the same versions: {'; '.join(changed)}")
        refused = sum(opening.event == "refused" for opening in record)
        if refused:
            self.notes.append(f"{refused} requests for the test classes were refused: see the record")
        return ComparisonResults(
            title=f"{', '.join(source.name for source in plan.data)} under {plan.protocol.name}",
            command=self.about["command"],
            created=self.about["created"],
            protocol=as_table(plan.protocol),
            equal=equal_conditions(self.progress, self.context.weights),
            num_seeds=plan.seeds,
            num_trials=plan.trials,
            num_folds=plan.folds if plan.trials else 0,
            methods=tuple(methods),
            items=items,
            guard_record=tuple(map(asdict, record)),
            versions=now,
            record_fault=record_fault,
            looks=looks,
            num_looks=plan.num_looks,
            extensions=plan.extensions,
            tune=plan.tune,
            notes=tuple(dict.fromkeys(self.notes)),
            verdicts=verdicts,
            indifferent=self.indifferent,
            average_ranks=average_ranks,
            critical_difference=critical_difference,
            time_spent=dict(self.time_spent),
        )

    def _result(self, piece: Piece) -> PieceResult:
        result = self.store.result(piece)
        for kind, seconds in result.facts["time"].items():
            self.time_spent[kind] += seconds
        if result.facts.get("record"):
            self._seals[piece.data].append(Seal(**result.facts["record"]))
        return result

    def _look(self, data: str, guard: TestGuard) -> CountedLook:
        """Which look at the test classes this is, entered in the ledger if whoever opened them could not.

        The store remembers it too: a ledger that was lost, or is another user's, does not make it an earlier one.
        """
        look = guard.enter_look(self.context.occasion(self.progress), purpose=SCORING)
        self.notes += [f"{data}: {note}" for note in look.notes]
        return max((found for found in (self._looks.get(data), look) if found is not None), key=lambda found: found.number)

    def _at_point(self, data: str, point: str, look: int) -> tuple[list[MethodResult], Verdict | None]:
        """Every method that could be scored, the verdict among those under equal conditions."""
        results: list[MethodResult] = []
        queries: dict[str, list[PerQuery]] = {}
        for method in self.plan.methods:
            if self.plan.is_at(method, point) and (result := self._method(method, data, point, queries)) is not None:
                results.append(result)
        return judged(results, queries, look=look, indifferent=self.indifferent)

    def _method(self, method: Method, data: str, point: str, queries: dict[str, list[PerQuery]]) -> MethodResult | None:
        trainings: list[PieceResult] = []
        scored: list[PieceResult] = []
        for seed in range(self.plan.seeds_of(method)):
            final = Piece("final", data, point, method.name, seed)
            for piece, into in ((final, trainings), (replace(final, kind="score"), scored)):
                if not self.progress.is_done(piece):
                    continue
                result = self._result(piece)
                if result.failure is None:
                    into.append(result)
                else:
                    self.notes.append(f"{method.title} failed with {piece.in_words}: {result.failure}")
        if len(scored) < self.plan.seeds_of(method):  # fewer seeds than the others have would not be equal conditions
            return None
        self._note_skipped(data, "training", trainings[0].facts["skipped"])
        queries[method.name] = [PerQuery.from_bytes(result.arrays) for result in scored if result.arrays is not None]
        self.notes += [f"{data}: {note}" for note in scored[0].facts["notes"]]
        chosen = self.progress.choice(data, method.name)
        untuned = chosen is None and method.name in self.plan.sets
        if untuned:
            self.notes.append(
                f"{method.title}: tuning failed with every set of values, so it has those of its file: {self._tuning_fault(data, method)}"
            )
        settings = self.progress.settings(data, method.name, chosen)
        curves = [_curve(seed, result.facts["rows"]) for seed, result in enumerate(trainings) if result.facts["rows"]]
        if chosen is not None and curves and not point:
            curves[0] = self._with_validation(curves[0], data, method.name, chosen)
        width, seedless = scored[0].facts["width"], competes(method)
        return MethodResult(
            name=method.name,
            title=f"{method.title} ({width:,}-d)" if seedless and width != self.plan.protocol.dim else method.title,
            dataset=data,
            apart=", ".join(filter(None, (why_apart(method, self.plan.at_point(point), width), "not tuned" if untuned else ""))),
            dim=width,
            settings=settings,
            defaults={name: at(method, name) for name in settings},
            scores=estimates([result.facts["scores"] for result in scored], queries[method.name], seedless=seedless),
            seconds=tuple(result.facts["training_seconds"] for result in trainings),
            memory_bytes=max(result.facts["peak_bytes"] for result in trainings),
            curves=tuple(curves),
            trials=tuple(self._trials(data, method.name)) if not point else (),
            published={name: value / 100 for name, value in method.published.get(self.plan.protocol.name, {}).items()},
            embeddings=self.context.folder / EMBEDDINGS / scored[0].facts["embeddings"],
            seedless=seedless,
        )

    def _trials(self, data: str, method: str) -> list[Trial]:
        trials = []
        for number in self.progress.set_numbers(data, method):
            folds, num_folds = self.progress.fold_scores(data, method, number), self.plan.folds
            values, score = self.progress.settings(data, method, number), trial_score(folds, num_folds=num_folds)
            trials.append(Trial(number, dict(values), score, trial_state(folds, num_folds=num_folds), folds[0]))
            for fold in range(len(folds)):
                self._result(Piece("trial", data, "", method, number, fold))
        return trials

    def _tuning_fault(self, data: str, method: Method) -> str:
        failures = map(self.progress.failure, self.progress.trial_pieces(data, method.name))
        return next(failure for failure in failures if failure is not None)

    def _with_validation(self, curve: Curve, data: str, method: str, number: int) -> Curve:
        """The chosen values' scores on the held-out classes of the folds, averaged: the final trainings hold nothing out."""
        rows = [self.store.result(Piece("trial", data, "", method, number, fold)).facts["rows"] for fold in range(self.plan.folds)]
        validated = [[row for row in fold if DECIDING_SCORE in row] for fold in rows]
        steps = tuple(int(row["step"]) for row in validated[0])
        means = np.mean([[row[DECIDING_SCORE] for row in fold] for fold in validated], axis=0)
        return replace(curve, validation_steps=steps, validation=tuple(means.tolist()))

    def _items(self, data: str) -> TestItems:
        result = self._result(Piece("items", data))
        if result.failure is not None:
            raise ValueError(f"{data}: the test items cannot be read: {result.failure}")
        facts = result.facts
        self._note_skipped(data, "test", facts["skipped"])
        if facts.get("look"):
            self._looks[data] = CountedLook.from_json(facts["look"])
        thumbnails = None if facts["thumbnails"] is None else np.load(self.context.folder / ITEMS / facts["thumbnails"], mmap_mode="r")
        halves = {name: None if facts[name] is None else np.array(facts[name], dtype=np.int64) for name in ("query", "gallery")}
        names = self.context.datasets[data].class_names
        return TestItems(np.array(facts["labels"], dtype=np.int64), names, tuple(facts["names"]), thumbnails, **halves)

    def _note_skipped(self, data: str, part: str, skipped: list[str]) -> None:
        if skipped:
            self.notes.append(f"{data}: {left_out(skipped, what=f'{part} images')}")

    def _note_steps(self, data: str, methods: Sequence[MethodResult]) -> None:
        """How many steps each method took, where time is what is equal."""
        if self.plan.protocol.equal == "time":
            taken = [
                f"{method.title} {round(np.mean([curve.steps[-1] for curve in method.curves])):,}"
                for method in methods
                if method.dataset == data and not method.sweep and method.curves
            ]
            self.notes.append(f"{data}: steps taken in the same time: {listed(taken)}")

    def _note_edges(self, data: str) -> None:
        """Which methods did best at an edge of the rates they tried."""
        where = f"{data}: " if len(self.plan.data) > 1 else ""
        titles: dict[tuple[str, float], list[str]] = defaultdict(list)
        for name in self.plan.sets:
            rates = [self.progress.settings(data, name, number)[RATE] for number in self.progress.set_numbers(data, name)]
            choice = self.progress.choice(data, name)
            rate = self.progress.settings(data, name, choice).get(RATE)
            if rate is not None and rate in (min(rates), max(rates)):
                titles["higher" if rate == max(rates) else "lower", rate].append(self.plan.by_name[name].title)
        for (side, rate), methods in titles.items():
            edge = f"the {'highest' if side == 'higher' else 'lowest'} rate tried, {rate:g} times the protocol's"
            self.notes.append(f"{where}{listed(methods)} did best at {edge}: a {side} one might do better")

    def _ranks(self, methods: list[MethodResult]) -> tuple[dict[str, float], float | None]:
        """Average ranks over the data sets of the methods that were scored on all of them."""
        if len(self.plan.data) < 2:
            return {}, None
        scores: dict[str, list[float]] = defaultdict(list)
        for result in methods:
            if not result.sweep and not result.apart:
                scores[result.name].append(result.scores[DECIDING_SCORE].mean)
        everywhere = {name: values for name, values in scores.items() if len(values) == len(self.plan.data)}
        if len(everywhere) < 2:
            return {}, None
        ranks = rank_test(everywhere)
        if ranks.p_value is not None:
            self.notes.append(f"Friedman's test over {len(self.plan.data)} data sets: p = {ranks.p_value:.3g}")
        if not ranks.can_tell:
            self.notes.append(
                f"over {len(self.plan.data)} data sets average ranks cannot tell any of {len(everywhere)} methods apart: they differ by "
                f"at most {len(everywhere) - 1}, and Nemenyi's critical difference is {ranks.critical_difference:.2f}"
            )
        return ranks.average_ranks, ranks.critical_difference


def look_number(look: CountedLook, num_looks: int) -> int:
    """The how many-th look of this comparison at its test classes: who looks often finds something, so the verdict counts them.

    The user's ledger counts them, and the plan does: a ledger can be lost, or be another user's.
    """
    return max(look.number_in_folder, num_looks)


def _curve(seed: int, rows: list[dict[str, float]]) -> Curve:
    return Curve(seed, tuple(int(row["step"]) for row in rows), tuple(row["loss"] for row in rows))
