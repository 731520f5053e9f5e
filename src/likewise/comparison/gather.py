"""Gather: a finished comparison's results out of its store and folder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from likewise.comparison.baselines import competes
from likewise.comparison.conditions import edge_notes, equal_conditions, steps_note
from likewise.comparison.folder import EMBEDDINGS, ITEMS, OPENINGS
from likewise.comparison.level_scores import queries_of, unlike_scores
from likewise.comparison.plan import CANNOT_TUNE, DECIDING_SCORE, Claim, Piece, why_apart
from likewise.comparison.plan_progress import Progress
from likewise.comparison.results import ComparisonResults, Curve, MethodResult, TestItems, Trial
from likewise.comparison.running.store import BEGIN_ANEW, PieceResult, Store
from likewise.comparison.running.workshop import SCORING, Context
from likewise.comparison.statistics import estimates, judged, level_results, rank_test, verdict_among
from likewise.comparison.sweeping.sweep_notes import adapted_notes, left_out_notes
from likewise.comparison.sweeping.sweeps import method_at, point_in_words, points_of
from likewise.comparison.sweeping.swept_methods import LeftOut, SweptMethod
from likewise.comparison.tuning import trial_score, trial_state
from likewise.configuration import as_table
from likewise.data.guard import Opening, Seal, TestGuard
from likewise.data.ledger import CountedLook
from likewise.data.packing.packed import left_out
from likewise.environment import versions
from likewise.evaluation.certainty.verdict import Verdict
from likewise.evaluation.retrieval import PerQuery
from likewise.files import file_digest
from likewise.formats.numpy_files import map_npy
from likewise.methods import Method, at
from likewise.sealing import Damaged
from likewise.wording import count_of

RECORD_FAULT = (
    f"the record of looks at the test classes ({OPENINGS}) was deleted or edited after scores were stored: what it says now is not all "
    "that happened"
)


@dataclass(frozen=True)
class _Found:
    """A method at a point, and combinations of its levels; and the queries of each, one entry a seed."""

    results: list[MethodResult]
    queries: dict[str, list[PerQuery]]


class Gatherer:
    """Reads each result of a finished comparison once."""

    def __init__(
        self, context: Context, store: Store, about: dict[str, Any], progress: Progress, *, indifferent: float | None = None
    ) -> None:
        self.context, self.plan, self.store, self.about = context, context.plan, store, about
        self.progress, self.indifferent = progress, indifferent
        self.time_spent: dict[str, float] = defaultdict(float)
        self.notes: list[str] = [*context.plan.notes]
        self.network_digests: dict[str, str] = {}  # by the name of the network's file
        self._seals: dict[str, list[Seal]] = defaultdict(list)  # data set -> of the guard's record, as each score was stored
        self._looks: dict[str, CountedLook] = {}  # data set -> as it was stored with the first pictures
        self._found: dict[tuple[str, str, str], _Found] = {}  # by data set, point and method: each is read once
        self._failures: dict[tuple[str, str, str], str] = {}  # why one could not

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
        level_verdicts: dict[tuple[str, str, str], Verdict] = {}
        swept: list[SweptMethod] = []
        for source in plan.data:
            look = look_number(looks[source.name], plan.num_looks)
            sweeps = [{}, *(settings for sweep, values in plan.sweeps.items() for settings in points_of(sweep, values))]
            for settings in sweeps:
                point = point_in_words(settings)
                found, verdict, of_levels = self._at_point(source.name, point, look)
                methods += [replace(result, sweep=settings) for result in found]
                if verdict is not None:
                    verdicts[source.name, point] = verdict
                level_verdicts |= {(source.name, point, name): on_levels for name, on_levels in of_levels.items()}
            swept += [self._swept(source.name, sweep, method, look) for sweep in plan.sweeps for method in plan.compared]
        left_out = [entry for source in plan.data for entry in self._left_out(source.name)]
        self.notes += left_out_notes(plan, left_out) + adapted_notes(methods)
        if not methods:
            raise ValueError(f"no method could be scored: {'; '.join(dict.fromkeys(self.notes)) or 'see the store'}")
        average_ranks, critical_difference = self._ranks(methods)
        record: list[Opening] = []
        record_fault = ""
        for source in plan.data:
            self.notes += edge_notes(self.progress, source.name)
            if plan.protocol.equal == "time":
                self.notes.append(steps_note(source.name, methods))
            split = self.context.split(source.name)
            openings = split.test.record
            record += openings
            self.notes += [*self.context.datasets[source.name].notes, *split.notes]
            holds = all(map(split.test.still_holds, self._seals[source.name])) and not split.test.record_faults
            if not (holds and any(opening.handed_out for opening in openings)):
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
            can_be_tuned=not any(note.startswith(CANNOT_TUNE) for note in plan.notes),
            notes=tuple(dict.fromkeys(self.notes)),
            verdicts=verdicts,
            level_verdicts=level_verdicts,
            swept=tuple(entry for entry in swept if entry.points),
            left_out=tuple(left_out),
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

    def _at_point(self, data: str, point: str, look: int) -> tuple[list[MethodResult], Verdict | None, dict[str, Verdict]]:
        """Every method that could be scored, the verdict among those under equal conditions, and those on a method's levels, by method."""
        results: list[MethodResult] = []
        queries: dict[str, list[PerQuery]] = {}
        on_levels: dict[str, Verdict] = {}
        for method in self.plan.methods:
            found = self._found_at(data, point, method)
            results += found.results
            queries |= found.queries
            if len(found.results) > 1:
                of_levels = verdict_among(found.queries, look=look, indifferent=self.indifferent)
                on_levels |= {} if of_levels is None else {method.name: of_levels}
        return *judged(results, queries, look=look, indifferent=self.indifferent), on_levels

    def _place(self, data: str, point: str, method: Method) -> tuple[str, str, str]:
        """Where the trainings of a method for a point are."""
        return data, self.plan.places[method.name, point], method.name

    def _found_at(self, data: str, point: str, method: Method) -> _Found:
        """Nothing where it takes no part, or could not be scored."""
        if (method.name, point) not in self.plan.places:
            return _Found([], {})
        place = self._place(data, point, method)
        if place not in self._found:
            self._found[place] = self._method(method, data, place[1])
        return self._found[place]

    def _swept(self, data: str, sweep: str, method: Method, look: int) -> SweptMethod:
        """A method over a sweep, its points judged beside each other."""
        scored, left_out, queries = {}, {}, {}
        for settings in points_of(sweep, self.plan.sweeps[sweep]):
            point = point_in_words(settings)
            found = self._found_at(data, point, method)
            if found.results:
                scored[point], queries[point] = settings, found.queries[method.name]
            else:
                left_out[point] = self._why_left_out(data, point, method)
        verdict = verdict_among(queries, look=look, indifferent=self.indifferent)
        return SweptMethod(data, sweep, method.name, method.title, scored, verdict, left_out)

    def _why_left_out(self, data: str, point: str, method: Method) -> str:
        absent = self.plan.absences.get((method.name, point))
        return absent or self._failures[self._place(data, point, method)].removeprefix(f"{method.name}: ")

    def _left_out(self, data: str) -> list[LeftOut]:
        """Every method that has no result at a point; baselines only where they are anything but absent."""
        return [
            LeftOut(data, point, method.name, method.title, self._why_left_out(data, point, method))
            for point in self.plan.points
            for method in self.plan.methods
            if not self._found_at(data, point, method).results
            and (method in self.plan.compared or (method.name, point) in self.plan.places)
        ]

    def _method(self, method: Method, data: str, point: str) -> _Found:
        """The method, and combinations of its levels where they are scored. Nothing if it could not be scored."""
        trainings: list[PieceResult] = []
        scored: list[PieceResult] = []
        place = data, point, method.name
        for seed in range(self.plan.seeds_of(method)):
            final = Piece("final", data, point, method.name, seed)
            for piece, into in ((final, trainings), (replace(final, kind="score"), scored)):
                if not self.progress.is_done(piece):
                    continue
                result = self._result(piece)
                if result.failure is None:
                    into.append(result)
                    continue
                self._failures.setdefault(place, result.failure)
                if not point:
                    self.notes.append(f"{method.title} failed with {piece.in_words}: {result.failure}")
        if len(scored) < self.plan.seeds_of(method):  # fewer seeds than the others have would not be equal conditions
            return _Found([], {})
        self._note_skipped(data, "training", trainings[0].facts["skipped"])
        stored = [PerQuery.from_bytes(result.arrays) for result in scored if result.arrays is not None]
        for seed, (result, queries_of_seed) in enumerate(zip(scored, stored, strict=True)):
            unlike = unlike_scores(result.facts, queries_of_seed)
            if unlike:
                raise Damaged(f"the scores of {method.name}, seed {seed}, on {data} were edited in the store: {unlike}; {BEGIN_ANEW}")
        self.network_digests |= {result.facts["network"]: result.facts["digest"] for result in trainings}
        queries = [queries_of(seed) for seed in stored]
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
        whole = MethodResult(
            name=method.name,
            title=f"{method.title} ({width:,}-d)" if seedless and width != self.plan.protocol.dim else method.title,
            dataset=data,
            apart=", ".join(
                filter(None, (why_apart(method_at(method, point), self.plan.at_point(point), width), "not tuned" if untuned else ""))
            ),
            dim=width,
            settings=settings,
            defaults={name: at(method, name) for name in settings},
            scores=estimates([result.facts["scores"] for result in scored], queries, seedless=seedless),
            seconds=tuple(result.facts["training_seconds"] for result in trainings),
            memory_bytes=max(result.facts["peak_bytes"] for result in trainings),
            curves=tuple(curves),
            trials=tuple(self._trials(data, method.name)) if not point else (),
            published={name: value / 100 for name, value in method.published.get(self.plan.protocol.name, {}).items()},
            embeddings=self._whole(EMBEDDINGS, scored[0].facts, "embeddings"),
            seedless=seedless,
            adapted=trainings[0].facts.get("adapted", ""),
            planes=tuple(filter(None, (self._whole(EMBEDDINGS, result.facts, "plane") for result in scored))),
        )
        of_levels, queries_of_levels = level_results(whole, [result.facts.get("levels", []) for result in scored], stored)
        return _Found([whole, *of_levels], {method.name: queries} | queries_of_levels)

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
        pictures = self._whole(ITEMS, facts, "thumbnails")
        thumbnails = None if pictures is None else map_npy(pictures)
        halves = {name: None if facts[name] is None else np.array(facts[name], dtype=np.int64) for name in ("query", "gallery")}
        names = self.context.datasets[data].class_names
        return TestItems(np.array(facts["labels"], dtype=np.int64), names, tuple(facts["names"]), thumbnails, **halves)

    def _whole(self, folder: str, facts: dict[str, Any], name: str) -> Path | None:
        """The file that a piece wrote besides its result; None where it wrote none, or, with a note, where that is not as it was."""
        if facts.get(name) is None:
            return None
        path = self.context.folder / folder / str(facts[name])
        digest = facts.get("files", {}).get(path.name)
        if path.is_file() and (digest is None or file_digest(path) == digest):  # None: of an earlier version
            return path
        state = "damaged" if path.is_file() else "missing"
        self.notes.append(
            f"{folder}/{path.name} is {state}, so that the report lacks what is drawn of it; no score depends on it. A copy of the file "
            "brings it back, and so does the same comparison with another --out"
        )
        return None

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
