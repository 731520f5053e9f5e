"""Benches: the comparisons that items are run in, one for each data set under one protocol with one set of weights.

All items share them: a row is a method named by its content, so that what two items ask for is trained once, and a bench grows by the
methods and seeds that are asked for (comparison.plan.Plan.extended). Nothing is tuned but where a part says so, and then the learning rate
alone, on training classes. What another item adds changes no figure that is there, and no claim: a claim is judged by its own rows (`looks`
counts how often).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from likewise.comparison.compare import carry_out, opened, remove_scored
from likewise.comparison.folder import EMBEDDINGS, find_folder, plan_in
from likewise.comparison.level_scores import level_name, queries_of
from likewise.comparison.plan import Piece, Plan
from likewise.comparison.plan_progress import OnProgress, Progress
from likewise.comparison.request import Request
from likewise.comparison.running.store import PieceResult, Store
from likewise.comparison.running.workshop import Stopwatch
from likewise.comparison.statistics import estimates
from likewise.configuration import as_table
from likewise.data.dataset import Dataset
from likewise.environment import device_kind
from likewise.evaluation.certainty.uncertainty import class_tables
from likewise.evaluation.metrics import CLUSTERING_METRICS, METRICS, RETRIEVAL_METRICS
from likewise.evaluation.retrieval import PerQuery
from likewise.methods import Method
from likewise.models.weights.pretrained import WEIGHTS, WeightsFile
from likewise.progress import ProgressCallback
from likewise.protocols import Protocol
from likewise.reproductions.reproduction import RowResult

KS = (1, 2, 4, 8, 10, 16, 32, 100, 1000)  # of R@K, in every bench: what one item asks for and another does not costs no training
DRAWN = 3  # dimensions up to which embeddings are kept, as somebody may draw them


@dataclass(frozen=True, eq=False)
class Bench:
    """A comparison in a folder of its own; it may not have been begun."""

    path: Path
    dataset: Dataset
    protocol: Protocol
    weights: WeightsFile | None

    @staticmethod
    def of(folder: Path, reader: str, dataset: Dataset, protocol: Protocol, weights: WeightsFile | None) -> Bench:
        """Among the benches in the folder. Its protocol has all scores that any item asks for, and tunes as far as it says."""
        metrics = METRICS if any(name in CLUSTERING_METRICS for name in protocol.metrics) else RETRIEVAL_METRICS
        wide = replace(protocol, ks=tuple(sorted({*KS, *protocol.ks})), metrics=metrics, seeds=1)
        content = json.dumps([as_table(replace(wide, about="")), "" if weights is None else weights.digest], sort_keys=True)
        name = f"{reader}-{protocol.name}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"
        return Bench(folder / name, dataset, wide, weights)

    def lacks(self, methods: Sequence[Method], *, seeds: int) -> int:
        """How many trainings with these seeds are not there yet."""
        state = self.state()
        wanted = [Piece("final", self.dataset.name, "", method.name, seed) for method in methods for seed in range(seeds)]
        return len(wanted) if state is None else sum(not state.is_done(piece) for piece in wanted)

    def state(self) -> Progress | None:
        """How far it is; None before it is begun."""
        folder = find_folder(self.path)
        if folder is None:
            return None
        with closing(folder.store()) as store:
            return store.progress()

    def grow(
        self,
        methods: Sequence[Method],
        *,
        seeds: int,
        device: str,
        jobs: int | None,
        minutes: float | None,
        command: str,
        on_progress: OnProgress,
        on_preparing: ProgressCallback | None = None,
    ) -> None:
        """Trains and scores these methods with so many seeds, where that was not done; TimeIsUp after the minutes."""
        there = plan_in(self.path)
        known = () if there is None else there.compared
        new = [method for method in methods if there is None or method.name not in there.by_name]
        if there is not None:
            seeds = max(seeds, there.seeds)
            state = self.state()
            if not new and seeds == there.seeds and state is not None and state.is_complete:
                return
            if there.device != device_kind(device):
                raise ValueError(f"{self.path} was begun on {there.device} and this is {device}, whose scores do not compare: go on there")
        request = Request(
            methods=[*known, *new],
            data=self.dataset,
            protocol=self.protocol,
            seeds=seeds,
            weights=self._weights_given,
            device=device,
            jobs=jobs,
            out=self.path,
            minutes=minutes,
            levels=True,
            keep_items=self.protocol.dim <= DRAWN,
            command=command,
        )
        with opened(request) as comparison:
            progress = carry_out(comparison, Stopwatch(), on_progress=on_progress, on_preparing=on_preparing)
            remove_scored(replace(comparison.context, plan=progress.plan), progress)

    @property
    def _weights_given(self) -> Path | None:
        """None where the protocol has weights of its own, as these bring how images are prepared."""
        own = WEIGHTS.get(self.protocol.weights)
        return None if self.weights is None or (own is not None and own.sha256 == self.weights.digest) else self.weights.path


@dataclass(frozen=True, eq=False)
class BenchFigures:
    """What a bench has found so far."""

    plan: Plan
    rows: dict[str, RowResult]  # by name of method, or of some of its levels (level_name): scored with one seed at least
    failures: dict[str, str]  # name of method -> what went wrong with a seed
    class_sizes: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int64] | None  # of the test items, where somebody may draw them

    @property
    def data_words(self) -> str:
        source = self.plan.data[0]
        train, test = (f"{source.split[f'num_{part}']:,}" for part in ("train", "test"))
        classes = {part: f"{source.split[f'num_{part}_classes']:,}" for part in ("train", "test")}
        return f"{source.name}: {train} items of {classes['train']} classes train, {test} of {classes['test']} test"


def figures_in(bench: Bench) -> BenchFigures | None:
    """What is scored so far, whether or not the bench is complete; None before anything is."""
    folder = find_folder(bench.path)
    if folder is None:
        return None
    with closing(folder.store()) as store:
        return _Reader(bench, store).figures()


class _Reader:
    """Reads the scores of a comparison that may not be finished."""

    def __init__(self, bench: Bench, store: Store) -> None:
        self._bench, self._store, self._progress = bench, store, store.progress()
        self._data = self._progress.plan.data[0].name

    def figures(self) -> BenchFigures:
        rows: dict[str, RowResult] = {}
        failures: dict[str, str] = {}
        sizes = np.zeros(0)
        for method in self._progress.plan.compared:
            results = self._results(method, failures)
            if method.name in failures or not results:
                continue
            stored = [PerQuery.from_bytes(scored.arrays) for _, scored in results if scored.arrays is not None]
            queries = [queries_of(of_seed) for of_seed in stored]
            tables, sizes = class_tables(queries)
            if not all(np.isfinite(table).all() for table in tables.values()):
                failures[method.name] = "its embeddings came to nothing (not finite)"
                continue
            first = results[0][1].facts
            whole = rows[method.name] = RowResult(
                scores=estimates([scored.facts["scores"] for _, scored in results], queries),
                by_class=tables,
                seconds=tuple(trained.facts["training_seconds"] for trained, _ in results),
                dim=first["width"],
                settings=self._progress.settings(self._data, method.name, self._progress.choice(self._data, method.name)),
                adapted=results[0][0].facts.get("adapted", ""),
                embeddings=self._bench.path / EMBEDDINGS / first["embeddings"] if "embeddings" in first else None,
                planes=tuple(self._bench.path / EMBEDDINGS / scored.facts["plane"] for _, scored in results if "plane" in scored.facts),
            )
            for of_seeds in zip(*(scored.facts.get("levels", []) for _, scored in results), strict=True):  # one combination
                levels = tuple(of_seeds[0]["levels"])
                of_levels = [queries_of(of_seed, levels) for of_seed in stored]
                scores = estimates([of_seed["scores"] for of_seed in of_seeds], of_levels)
                by_class = class_tables(of_levels)[0]
                found = replace(whole, scores=scores, by_class=by_class, dim=of_seeds[0]["width"], embeddings=None, planes=())
                rows[level_name(method.name, levels)] = found
        return BenchFigures(self._progress.plan, rows, failures, sizes, self._labels())

    def _results(self, method: Method, failures: dict[str, str]) -> list[tuple[PieceResult, PieceResult]]:
        """The training and the score of every seed from the first on that has both. A failure of any seed is one of the method."""
        found: list[tuple[PieceResult, PieceResult]] = []
        for seed in range(self._progress.plan.seeds):
            training = Piece("final", self._data, "", method.name, seed)
            pieces = (training, replace(training, kind="score"))
            results = [self._store.result(piece) for piece in pieces if self._progress.is_done(piece)]
            for result in results:
                if result.failure is not None:
                    failures.setdefault(method.name, f"seed {seed}: {result.failure}")
            if len(results) == len(pieces) and len(found) == seed:
                found.append((results[0], results[1]))
        return found

    def _labels(self) -> npt.NDArray[np.int64] | None:
        piece = Piece("items", self._data)
        if self._bench.protocol.dim > DRAWN or not self._progress.is_done(piece):
            return None
        return np.array(self._store.result(piece).facts.get("labels", []), dtype=np.int64)
