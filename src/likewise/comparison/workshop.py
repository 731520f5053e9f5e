"""Work: how one piece is done. The same function in this process, in a worker and on another machine."""

from __future__ import annotations

import hashlib
import io
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from likewise.comparison.faults import is_of_the_place
from likewise.comparison.network_file import load_network, save_network
from likewise.comparison.pieces import BY, UNTRAINED, Piece
from likewise.comparison.plan import Plan, Progress
from likewise.comparison.store import Found
from likewise.comparison.thumbnails import write_thumbnails
from likewise.data.dataset import Dataset
from likewise.data.guard import TestGuard, TestKey, TestPart
from likewise.data.splits import Split, folds
from likewise.files import write_whole
from likewise.models.network import make_network
from likewise.training.feeds import Feed, make_feed
from likewise.training.fit import fit
from likewise.training.loop import network_spec
from likewise.training.scoring import embed_feed, protocol_scores, vectors_to_score
from likewise.training.train import SPLIT_SEED, file_digest

NETWORKS = "networks"  # the trained networks, until they are scored
OPENINGS = "test_openings.jsonl"  # the guard's record
SCORING = "final scores"  # what the test classes are opened for


@dataclass(frozen=True, eq=False)
class Context:
    """All that a process needs to work on a comparison, beside the store. It can be sent to another process."""

    plan: Plan
    datasets: dict[str, Dataset]
    folder: Path
    weights: Path | None
    device: str

    def split(self, data: str) -> Split:
        return Split.from_json(self.plan.sources[data].split, self.datasets[data], record=self.folder / OPENINGS)


class Workshop:
    """Does pieces of one comparison in this process; what several pieces need is made once."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.plan = context.plan
        self._splits: dict[str, Split] = {}
        self._examined: dict[str, tuple[TestGuard, TestKey]] = {}
        self._train: dict[str, Feed] = {}
        self._test: dict[str, tuple[TestPart, Feed]] = {}

    def perform(self, piece: Piece, progress: Progress) -> Found:
        """What the piece finds. A fault of the method or the data is a finding too: the other methods go on."""
        watch = _Watch()
        steps = {"trial": self._trial, "final": self._final, "score": self._score, "items": self._items}
        try:
            with _threads(1 if self.context.device == "cpu" else None):
                found = steps[piece.kind](piece, progress, watch)
        except Exception as fault:
            if is_of_the_place(fault):
                raise
            found = Found({}, failure=f"{type(fault).__name__}: {fault}" if not isinstance(fault, ValueError) else str(fault))
        return replace(found, result=found.result | {"time": watch.seconds})

    def _trial(self, piece: Piece, progress: Progress, watch: _Watch) -> Found:
        with self._closed(piece.data, "tuning"):
            feed = self._training_feed(piece.data, watch)
            train, held_out = self._fold(piece, feed)
            with watch.measures("training"):
                method = self.plan.with_set(piece.method, piece.number)
                found = fit(
                    method,
                    self.plan.protocol,
                    train,
                    seed=piece.fold,
                    weights=self.context.weights,
                    validation=held_out,
                    device=self.context.device,
                )
        # The last step counts, as it will in the final training: choosing the best step would flatter methods with restless curves.
        return Found({"rows": found.rows}, score=found.rows[-1][BY])

    def _final(self, piece: Piece, progress: Progress, watch: _Watch) -> Found:
        method = self.plan.with_set(piece.method, progress.choice(piece.data, piece.method))
        protocol = self.plan.at_point(piece.point)
        with self._closed(piece.data, "training"):
            feed = self._training_feed(piece.data, watch)
            with watch.measures("training"):
                if method.name == UNTRAINED:
                    network = make_network(
                        network_spec(method, protocol, feed.in_features), seed=piece.number, weights=self.context.weights
                    )
                    result: dict[str, Any] = {"rows": [], "training_seconds": 0.0, "peak_bytes": 0}
                else:
                    found = fit(method, protocol, feed, seed=piece.number, weights=self.context.weights, device=self.context.device)
                    network = found.network
                    result = {"rows": found.rows, "training_seconds": found.seconds, "peak_bytes": found.peak_bytes}
        with watch.measures("saving"):
            path = self.context.folder / NETWORKS / f"{file_name(piece)}.safetensors"
            result |= {"network": path.name, "digest": save_network(network, path), "skipped": [str(problem) for problem in feed.skipped]}
        return Found(result)

    def _score(self, piece: Piece, progress: Progress, watch: _Watch) -> Found:
        trained = replace(piece, kind="final")
        path = self.context.folder / NETWORKS / f"{file_name(trained)}.safetensors"
        part, feed = self._test_feed(piece, progress, watch, also=file_digest(path) if path.is_file() else "")
        protocol = self.plan.at_point(piece.point)
        with watch.measures("evaluation"):
            network = load_network(path).to(self.context.device)
            vectors = vectors_to_score(network, embed_feed(network, feed, protocol, device=self.context.device))
            halves = part.query_and_gallery(part.indices[feed.indices])
            scores = protocol_scores(vectors, feed.labels, protocol, query_and_gallery=halves, metrics=(*protocol.metrics, BY))
        assert scores.per_query is not None  # BY is of retrieval
        result: dict[str, Any] = {"scores": scores.means, "width": network.width, "notes": list(scores.notes)}
        if piece.number == 0:
            with watch.measures("saving"):
                kept = self.context.folder / "embeddings" / f"{file_name(piece)}.npy"
                held = io.BytesIO()
                np.save(held, vectors.cpu().numpy().astype(np.float16))
                write_whole(kept, held.getvalue())
                result["embeddings"] = kept.name
        return Found(result, score=scores.means[BY], arrays=scores.per_query.to_bytes())

    def _items(self, piece: Piece, progress: Progress, watch: _Watch) -> Found:
        part, feed = self._test_feed(piece, progress, watch)
        names = self.context.datasets[piece.data].item_names()
        indices = part.indices[feed.indices]
        with watch.measures("saving"):
            thumbnails = write_thumbnails(feed, self.context.folder / "items" / f"{file_name(piece)}.npy")
            query, gallery = part.query_and_gallery(indices) or (None, None)
        return Found(
            {
                "labels": feed.labels.tolist(),
                "names": [names[index] for index in indices.tolist()],
                "thumbnails": None if thumbnails is None else thumbnails.name,
                "skipped": [str(problem) for problem in feed.skipped],
                "query": None if query is None else query.tolist(),
                "gallery": None if gallery is None else gallery.tolist(),
            }
        )

    def _split(self, data: str) -> Split:
        if data not in self._splits:
            self._splits[data] = self.context.split(data)
        return self._splits[data]

    @contextmanager
    def _closed(self, data: str, reason: str) -> Iterator[None]:
        with self._split(data).test.closed(reason):
            yield

    def _training_feed(self, data: str, watch: _Watch) -> Feed:
        if data not in self._train:
            with watch.measures("packing"):
                train = self._split(data).train_part(self.context.datasets[data])
                self._train[data] = make_feed(train, self.plan.protocol)
        return self._train[data]

    def _fold(self, piece: Piece, feed: Feed) -> tuple[Feed, Feed]:
        """The training and the held-out side of a fold. Positions, as the feed may lack images that cannot be decoded."""
        train = self._split(piece.data).train_part(self.context.datasets[piece.data])
        fold = folds(train, np.arange(len(train)), k=self.plan.folds, seed=SPLIT_SEED)[piece.fold]
        sides = (np.flatnonzero(np.isin(feed.indices, side)) for side in (fold.train, fold.validation))
        own, held_out = (feed.subset(side) for side in sides)
        return own, held_out

    def _test_feed(self, piece: Piece, progress: Progress, watch: _Watch, *, also: str = "") -> tuple[TestPart, Feed]:
        """The test items, through the guard. Before every choice is made and every network trained, the guard stays closed."""
        decided = hashlib.sha256(f"{progress.decisions}:{also}".encode()).hexdigest()
        if piece.data not in self._examined:
            # A guard of its own: that of the trainings is closed for good, and whatever asked it for its key has a key to nothing.
            guard = self.context.split(piece.data).test
            key = guard.issue_key(SCORING)
            if not progress.is_decided:
                with guard.closed("tuning or training"):
                    guard.open(key, run=piece.run, purpose=SCORING, decided=decided)
            self._examined[piece.data] = (guard, key)
        guard, key = self._examined[piece.data]
        part = guard.open(key, run=piece.run, purpose=SCORING, decided=decided)
        if piece.data not in self._test:
            with watch.measures("packing"):
                test = self.context.datasets[piece.data].subset(part.indices)
                self._test[piece.data] = (part, make_feed(test, self.plan.protocol))
        return self._test[piece.data]


def file_name(piece: Piece) -> str:
    """A name that every file system takes, still readable; the digest tells apart what reads alike."""
    parts = [part for part in (piece.data, piece.point, piece.method, str(piece.number)) if part]
    return f"{re.sub(r'[^A-Za-z0-9_.=-]+', '-', '-'.join(parts))[:80]}-{hashlib.sha256(piece.key.encode()).hexdigest()[:8]}"


@contextmanager
def _threads(number: int | None) -> Iterator[None]:
    """Sums of several threads differ in the last bit: on a CPU a piece has one, wherever it runs."""
    before = torch.get_num_threads()
    if number is not None:
        torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Watch:
    """Seconds by kind of work."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def measures(self, kind: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[kind] = self.seconds.get(kind, 0.0) + time.perf_counter() - began
