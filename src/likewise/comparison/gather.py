"""Gather: a finished comparison's results out of its store and folder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from likewise.comparison.equal import equal_conditions, versions
from likewise.comparison.pieces import BY, Piece
from likewise.comparison.plan import Progress, apart
from likewise.comparison.results import ComparisonResults, Curve, MethodResult, TestItems, Trial
from likewise.comparison.statistics import beside_the_best, estimates, rank_test
from likewise.comparison.store import Found, Row, Store
from likewise.comparison.workshop import Context
from likewise.configuration import as_table
from likewise.data.packed import left_out
from likewise.evaluation.retrieval import PerQuery
from likewise.methods import Method, at


class Gatherer:
    """Reads each result of a finished comparison once."""

    def __init__(self, context: Context, store: Store, about: dict[str, Any]) -> None:
        self.context, self.plan, self.store, self.about = context, context.plan, store, about
        self.progress = Progress(context.plan, store.rows())
        self.time_spent: dict[str, float] = defaultdict(float)
        self.notes: list[str] = []

    def seconds_since(self, before: Mapping[str, Row]) -> float:
        """What the pieces took that were not finished then."""
        new = [row.piece for key, row in self.progress.rows.items() if key not in before or before[key].finished is None]
        return sum(sum(self.store.result(piece).result["time"].values()) for piece in new)

    def results(self) -> ComparisonResults:
        plan = self.plan
        items = {source.name: self._items(source.name) for source in plan.data}
        methods: list[MethodResult] = []
        for source in plan.data:
            found = {point: self._at_point(source.name, point) for point in plan.points}
            methods += found[""]
            for name, values in plan.sweeps.items():
                for value in values:
                    methods += [replace(held, sweep={name: value}) for held in found[plan.canonical(f"{name}={value}")]]
        if not methods:
            raise ValueError(f"no method could be scored: {'; '.join(dict.fromkeys(self.notes)) or 'see the store'}")
        ranks = self._ranks(methods)
        for source in plan.data:
            split = self.context.split(source.name)
            self.notes += [*self.context.datasets[source.name].notes, *split.notes]
        record = [asdict(opening) for source in plan.data for opening in self.context.split(source.name).test.record]
        before, now = self.about["versions"], versions()
        changed = [f"{name} {before[name]}, then {now[name]}" for name in now if before.get(name) not in (None, now[name])]
        if changed:
            self.notes.append(f"not all of it ran with the same versions: {'; '.join(changed)}")
        refused = sum(opening["event"] == "refused" for opening in record)
        if refused:
            self.notes.append(f"{refused} requests for the test classes were refused: see the record")
        return ComparisonResults(
            title=f"{', '.join(source.name for source in plan.data)} under {plan.protocol.name}",
            command=self.about["command"],
            created=self.about["created"],
            protocol=as_table(plan.protocol),
            equal=equal_conditions(plan, self.context.weights),
            num_seeds=plan.seeds,
            num_trials=plan.trials,
            num_folds=plan.folds if plan.trials else 0,
            methods=tuple(methods),
            items=items,
            guard_record=tuple(record),
            versions=now,
            notes=tuple(dict.fromkeys(self.notes)),
            average_ranks=ranks[0],
            critical_difference=ranks[1],
            time_spent=dict(self.time_spent),
        )

    def _found(self, piece: Piece) -> Found:
        found = self.store.result(piece)
        for kind, seconds in found.result["time"].items():
            self.time_spent[kind] += seconds
        return found

    def _at_point(self, data: str, point: str) -> list[MethodResult]:
        """Every method that could be scored, the statistics among those under equal conditions."""
        found: list[MethodResult] = []
        queries: dict[str, list[PerQuery]] = {}
        for method in self.plan.methods:
            if self.plan.is_at(method, point) and (result := self._method(method, data, point, queries)) is not None:
                found.append(result)
        equal = [result for result in found if not result.apart]
        if not equal:
            return found
        verdicts = beside_the_best(
            {result.name: queries[result.name] for result in equal}, {result.name: result.scores[BY].values for result in equal}
        )
        return [
            replace(result, p_value=verdicts[result.name].p_value, within_noise=verdicts[result.name].within_noise)
            if result.name in verdicts
            else result
            for result in found
        ]

    def _method(self, method: Method, data: str, point: str, queries: dict[str, list[PerQuery]]) -> MethodResult | None:
        trainings: list[Found] = []
        scored: list[Found] = []
        for seed in range(self.plan.seeds):
            final = Piece("final", data, point, method.name, seed)
            for piece, into in ((final, trainings), (replace(final, kind="score"), scored)):
                if not self.progress.is_done(piece):
                    continue
                found = self._found(piece)
                if found.failure is None:
                    into.append(found)
                else:
                    self.notes.append(f"{method.title} failed with {piece.run}: {found.failure}")
        if len(scored) < self.plan.seeds:  # fewer seeds than the others have would not be equal conditions
            return None
        self._note_skipped(data, "training", trainings[0].result["skipped"])
        queries[method.name] = [PerQuery.from_bytes(found.arrays) for found in scored if found.arrays is not None]
        self.notes += [f"{data}: {note}" for note in scored[0].result["notes"]]
        chosen = self.progress.choice(data, method.name)
        if chosen is None and method.name in self.plan.sets:
            self.notes.append(
                f"{method.title}: tuning failed with every set of values, so it has those of its file: {self._tuning_fault(data, method)}"
            )
        settings = {} if chosen is None else self.plan.sets[method.name][chosen]
        curves = [_curve(seed, found.result["rows"]) for seed, found in enumerate(trainings) if found.result["rows"]]
        if chosen is not None and curves and not point:
            curves[0] = self._with_validation(curves[0], data, method.name, chosen)
        width = scored[0].result["width"]
        return MethodResult(
            name=method.name,
            title=method.title,
            dataset=data,
            apart=apart(method, self.plan.at_point(point), width),
            dim=width,
            settings=settings,
            defaults={name: at(method, name) for name in settings},
            scores=estimates([found.result["scores"] for found in scored], queries[method.name]),
            p_value=None,
            within_noise=False,
            seconds=tuple(found.result["training_seconds"] for found in trainings),
            memory_bytes=max(found.result["peak_bytes"] for found in trainings),
            curves=tuple(curves),
            trials=tuple(self._trials(data, method.name)) if not point else (),
            published={name: value / 100 for name, value in method.published.get(self.plan.protocol.name, {}).items()},
            embeddings=self.context.folder / "embeddings" / scored[0].result["embeddings"],
        )

    def _trials(self, data: str, method: str) -> list[Trial]:
        found = []
        for number, values in enumerate(self.plan.sets.get(method, ())):
            folds = self.progress.fold_scores(data, method, number)
            whole = [score for score in folds if score is not None]
            state = "failed" if len(whole) < len(folds) else "complete" if len(folds) == self.plan.folds else "pruned"
            mean = sum(whole) / len(whole) if state == "complete" else None
            found.append(Trial(number, dict(values), mean, state))  # type: ignore[arg-type]
            for fold in range(len(folds)):
                self._found(Piece("trial", data, "", method, number, fold))
        return found

    def _tuning_fault(self, data: str, method: Method) -> str:
        rows = (self.progress.rows[piece.key] for piece in self.progress.trial_pieces(data, method.name))
        return next(row.failure for row in rows if row.failure is not None)

    def _with_validation(self, curve: Curve, data: str, method: str, number: int) -> Curve:
        """The chosen values' scores on the held-out classes of the folds, averaged: the final trainings hold nothing out."""
        rows = [self.store.result(Piece("trial", data, "", method, number, fold)).result["rows"] for fold in range(self.plan.folds)]
        validated = [[row for row in fold if BY in row] for fold in rows]
        steps = tuple(int(row["step"]) for row in validated[0])
        means = np.mean([[row[BY] for row in fold] for fold in validated], axis=0)
        return replace(curve, validation_steps=steps, validation=tuple(means.tolist()))

    def _items(self, data: str) -> TestItems:
        found = self._found(Piece("items", data))
        if found.failure is not None:
            raise ValueError(f"{data}: the test items cannot be read: {found.failure}")
        held = found.result
        self._note_skipped(data, "test", held["skipped"])
        thumbnails = None if held["thumbnails"] is None else np.load(self.context.folder / "items" / held["thumbnails"], mmap_mode="r")
        halves = {name: None if held[name] is None else np.array(held[name], dtype=np.int64) for name in ("query", "gallery")}
        names = self.context.datasets[data].class_names
        return TestItems(np.array(held["labels"], dtype=np.int64), names, tuple(held["names"]), thumbnails, **halves)

    def _note_skipped(self, data: str, part: str, skipped: list[str]) -> None:
        if skipped:
            self.notes.append(f"{data}: {left_out(skipped, what=f'{part} images')}")

    def _ranks(self, methods: list[MethodResult]) -> tuple[dict[str, float], float | None]:
        """Average ranks over the data sets of the methods that were scored on all of them."""
        if len(self.plan.data) < 2:
            return {}, None
        scores: dict[str, list[float]] = defaultdict(list)
        for result in methods:
            if not result.sweep and not result.apart:
                scores[result.name].append(result.scores[BY].mean)
        everywhere = {name: values for name, values in scores.items() if len(values) == len(self.plan.data)}
        if len(everywhere) < 2:
            return {}, None
        found = rank_test(everywhere)
        if found.p_value is not None:
            self.notes.append(f"Friedman's test over {len(self.plan.data)} data sets: p = {found.p_value:.3g}")
        return found.average_ranks, found.critical_difference


def _curve(seed: int, rows: list[dict[str, float]]) -> Curve:
    return Curve(seed, tuple(int(row["step"]) for row in rows), tuple(row["loss"] for row in rows))
