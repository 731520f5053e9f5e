"""Workshop: how one piece is done. The same function in this process, in a worker and on another machine."""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from torch import Tensor

from likewise.comparison.baselines import WHITENING, is_baseline
from likewise.comparison.folder import EMBEDDINGS, ITEMS, NETWORKS, OPENINGS
from likewise.comparison.level_scores import Levels, joined_queries
from likewise.comparison.plan import DECIDING_SCORE, LOOKS, Piece, Plan
from likewise.comparison.plan_progress import Progress
from likewise.comparison.running.database import is_storage_fault
from likewise.comparison.running.store import PieceResult
from likewise.comparison.sweeping.batch_fit import fitted_to_batch
from likewise.comparison.tuning import tuning_folds
from likewise.configuration import as_table, from_table
from likewise.data.dataset import Dataset
from likewise.data.guard import TestGuard, TestKey, TestPart
from likewise.data.ledger import Occasion
from likewise.data.packing.thumbnails import middle_square
from likewise.data.splits import Split
from likewise.environment import num_threads
from likewise.evaluation.scores import Scores
from likewise.files import file_digest, write_whole
from likewise.methods import Method
from likewise.models.head_start import Starts
from likewise.models.network import Network, NetworkSpec, level_combinations, make_network
from likewise.models.whitening import whiten
from likewise.own_code import Code, known_code, take_over
from likewise.protocols import Protocol
from likewise.training.feeds import Feed, feed_conditions, make_feed
from likewise.training.fit import fit
from likewise.training.loop import untrained_spec
from likewise.training.scoring import embed_feed, protocol_scores, vectors_to_score

SCORING = "final scores"  # what the test classes are opened for
SMALLEST_THUMBNAIL, LARGEST_THUMBNAIL = 32, 112  # pixels a side
THUMBNAILS_BYTES = 256 << 20  # of all test items: where there are many they are smaller


class Stopwatch:
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


@dataclass(frozen=True, eq=False)
class Context:
    """All that a process needs to work on a comparison, beside the store. It can be sent to another process."""

    plan: Plan
    datasets: dict[str, Dataset]
    folder: Path
    weights: Path | None
    device: str
    comparison: str = ""  # its name in the store
    keeps_items: bool = True  # pictures and embeddings of the test items, for the report
    own_code: Mapping[str, Code] = field(default_factory=known_code)  # of losses and the like that the user wrote

    def split(self, data: str) -> Split:
        return Split.from_json(self.plan.sources[data].split, self.datasets[data], record=self.folder / OPENINGS)

    def occasion(self, progress: Progress) -> Occasion:
        """All openings of the test classes by this comparison, with all that it decided before, are one look."""
        decided = hashlib.sha256(f"{self.comparison}:{progress.decisions}".encode()).hexdigest()
        return Occasion("compare", str(self.folder), decided=decided)

    def network_file(self, piece: Piece) -> Path:
        """Where the network of a final training is kept until it is scored."""
        return self.folder / NETWORKS / f"{file_name(piece)}.safetensors"


Step = Callable[[Piece, Progress, Stopwatch], PieceResult]


class Workshop:
    """Does pieces of one comparison in this process; what several pieces need is made once."""

    def __init__(self, context: Context) -> None:
        take_over(context.own_code)
        self.context = context
        self._splits: dict[str, Split] = {}
        self._examined: dict[str, tuple[TestGuard, TestKey]] = {}
        self._train: dict[tuple[str, Hashable], Feed] = {}  # data set, and what the protocol decides of it
        self._starts = Starts()
        self._test: dict[tuple[str, Hashable], tuple[TestPart, Feed]] = {}

    @property
    def plan(self) -> Plan:
        return self.context.plan

    def perform(self, piece: Piece, progress: Progress, *, network: str = "") -> PieceResult:
        """What the piece finds. A fault of the method or the data is a finding too: the other methods go on.

        network: the digest of the one that the piece scores, as it was stored when that was trained.
        """
        watch = Stopwatch()
        if progress.plan is not self.plan:  # it was extended
            self.context = replace(self.context, plan=progress.plan)
        if piece.kind not in LOOKS:  # of an extension: what trains has no test item within its reach
            self._test.clear()
            self._examined.clear()
        score = partial(self._score, digest=network)
        steps: dict[str, Step] = {
            "trial": self._trial,
            "final": self._final,
            "score": score,
            "items": self._items,
        }
        try:
            with num_threads(1 if self.context.device == "cpu" else None):
                result = steps[piece.kind](piece, progress, watch)
        except Exception as fault:
            if is_storage_fault(fault):
                raise
            result = PieceResult({}, failure=f"{type(fault).__name__}: {fault}" if not isinstance(fault, ValueError) else str(fault))
        return replace(result, facts=result.facts | {"time": watch.seconds})

    def _trial(self, piece: Piece, progress: Progress, watch: Stopwatch) -> PieceResult:
        with self._split(piece.data).test.closed("tuning"):
            feed = self._training_feed(piece.data, self.plan.protocol, watch)
            train, held_out = self._fold(piece, feed)
            with watch.measures("training"):
                protocol = self._for_share(train.num_classes / feed.num_classes)
                method = progress.method_with(piece.data, piece.method, piece.number)
                fitting = fitted_to_batch(method, protocol, train.codes(), may_change_protocol=False)
                trained = fit(
                    fitting.method,
                    protocol,
                    train,
                    seed=piece.fold,
                    weights=self.context.weights,
                    validation=held_out,
                    device=self.context.device,
                    starts=self._starts,
                )
        # The last step counts, as it will in the final training: choosing the best step would flatter methods with restless curves.
        facts = {"rows": trained.rows, "seconds_of_all_steps": trained.seconds * self.plan.protocol.steps / protocol.steps}
        return PieceResult(facts, score=trained.rows[-1][DECIDING_SCORE])

    def _final(self, piece: Piece, progress: Progress, watch: Stopwatch) -> PieceResult:
        method, protocol = progress.method_for(piece), progress.protocol_for(piece)
        with self._split(piece.data).test.closed("training"):
            feed = self._training_feed(piece.data, protocol, watch)
            with watch.measures("training"):
                if is_baseline(method):
                    began = time.perf_counter()
                    network = self._baseline(method, protocol, feed, seed=piece.number)
                    spent = time.perf_counter() - began if method.name == WHITENING else 0.0
                    facts: dict[str, Any] = {"rows": [], "training_seconds": spent, "peak_bytes": 0}
                else:
                    fitting = fitted_to_batch(method, protocol, feed.codes(), may_change_protocol=bool(piece.point))
                    trained = fit(
                        fitting.method,
                        fitting.protocol,
                        feed,
                        seed=piece.number,
                        weights=self.context.weights,
                        device=self.context.device,
                        starts=self._starts,
                    )
                    network = trained.network
                    facts = {"rows": trained.rows, "training_seconds": trained.seconds, "peak_bytes": trained.peak_bytes}
                    facts |= {"adapted": fitting.adapted} if fitting.adapted else {}
        with watch.measures("saving"):
            path = self.context.network_file(piece)
            facts |= {"network": path.name, "digest": save_network(network, path), "skipped": [str(problem) for problem in feed.skipped]}
        return PieceResult(facts)

    def _baseline(self, method: Method, protocol: Protocol, feed: Feed, *, seed: int) -> Network:
        weights = None if protocol.frozen else self.context.weights  # which have made the feed
        spec = untrained_spec(method, protocol, feed.in_features, pretrained=weights is not None)
        network = make_network(spec, seed=seed, weights=weights)
        if method.name != WHITENING:
            return network
        features = embed_feed(network.to(self.context.device), feed, protocol, device=self.context.device)
        return network.with_whitening(whiten(features, feed.labels, shrinkage="auto"))

    def _score(self, piece: Piece, progress: Progress, watch: Stopwatch, *, digest: str) -> PieceResult:
        final, protocol = replace(piece, kind="final"), self.plan.at_point(piece.point)
        path = self.context.network_file(final)
        restored = self._restored(final, progress, watch, digest) if digest else []
        part, feed = self._test_feed(piece, progress, watch, protocol, also=file_digest(path) if path.is_file() else "")
        with watch.measures("evaluation"):
            network = load_network(path).to(self.context.device)
            outputs = embed_feed(network, feed, protocol, device=self.context.device, normalize=False)
            halves = part.query_and_gallery(part.indices[feed.indices])
            metrics = (*protocol.metrics, DECIDING_SCORE)

            def scored(levels: Levels | None = None) -> Scores:
                vectors = vectors_to_score(network, outputs, protocol, levels=levels)
                return protocol_scores(vectors, feed.labels, protocol, query_and_gallery=halves, metrics=metrics)

            scores = scored()
            of_levels = {levels: scored(levels) for levels in (level_combinations(network.spec.levels)[:-1] if self.plan.levels else ())}
        facts: dict[str, Any] = {
            "scores": scores.means,
            "levels": [{"levels": levels, "scores": found.means, "width": network.width_of(levels)} for levels, found in of_levels.items()],
            "width": network.width,
            "notes": [*restored, *scores.notes],
            "record": self._seal(piece.data),
        }
        files: dict[str, str] = {}
        with watch.measures("saving"):
            if piece.number == 0 and self.context.keeps_items:
                dtype = np.float16 if protocol.compared_by == "cosine" else np.float32  # of any length, beyond what 16 bits hold
                facts["embeddings"] = self._kept(file_name(piece), vectors_to_score(network, outputs, protocol), dtype, files)
            if network.num_outputs == 2:  # what can be drawn as it is
                facts["plane"] = self._kept(f"{file_name(piece)}-plane", outputs, np.float32, files)
        facts["files"] = files
        return PieceResult(facts, score=scores.means[DECIDING_SCORE], arrays=joined_queries(scores, of_levels).to_bytes())

    def _restored(self, final: Piece, progress: Progress, watch: Stopwatch, digest: str) -> list[str]:
        """A network that is not as it was stored is trained again, which gives the same one; what to tell of that. A ValueError, if not."""
        path = self.context.network_file(final)
        if path.is_file() and file_digest(path) == digest:
            return []
        state = f"{'damaged' if path.is_file() else 'missing'} before it was scored"
        self._test.clear()  # what trains has no test item within its reach
        self._examined.clear()
        if self._final(final, progress, watch).facts["digest"] != digest:
            path.unlink()
            raise ValueError(f"its network was {state}, and trained again it is another one: begin anew with another --out")
        return [f"the network of {final.in_words} was {state}; it was trained again and is the same, byte for byte"]

    def _kept(self, name: str, vectors: Tensor, dtype: type[np.floating[Any]], files: dict[str, str]) -> str:
        """Writes vectors of the test items and puts their digest among those of the files; gives the name of the file."""
        content = io.BytesIO()
        np.save(content, vectors.cpu().numpy().astype(dtype))
        file = self.context.folder / EMBEDDINGS / f"{name}.npy"
        write_whole(file, content.getvalue())
        files[file.name] = hashlib.sha256(content.getvalue()).hexdigest()
        return file.name

    def _items(self, piece: Piece, progress: Progress, watch: Stopwatch) -> PieceResult:
        part, feed = self._test_feed(piece, progress, watch, self.plan.protocol)
        names = self.context.datasets[piece.data].item_names()
        indices = part.indices[feed.indices]
        look = self._examined[piece.data][0].look
        with watch.measures("saving"):
            file = self.context.folder / ITEMS / f"{file_name(piece)}.npy"
            thumbnails = write_thumbnails(feed, file) if self.context.keeps_items else None
            query, gallery = part.query_and_gallery(indices) or (None, None)
        return PieceResult(
            {
                "labels": feed.labels.tolist(),
                "names": [names[index] for index in indices.tolist()],
                "thumbnails": None if thumbnails is None else thumbnails.name,
                "files": {} if thumbnails is None else {thumbnails.name: file_digest(thumbnails)},
                "skipped": [str(problem) for problem in feed.skipped],
                "query": None if query is None else query.tolist(),
                "gallery": None if gallery is None else gallery.tolist(),
                "record": self._seal(piece.data),
                "look": None if look is None else look.as_json(),
            }
        )

    def _split(self, data: str) -> Split:
        if data not in self._splits:
            self._splits[data] = self.context.split(data)
        return self._splits[data]

    def _training_feed(self, data: str, protocol: Protocol, watch: Stopwatch) -> Feed:
        key = data, feed_conditions(protocol)
        if key not in self._train:
            with watch.measures("packing"):
                train = self._split(data).train_part(self.context.datasets[data])
                self._train[key] = self._feed(train, protocol, trains=True)
        return self._train[key]

    def _feed(self, dataset: Dataset, protocol: Protocol, *, trains: bool) -> Feed:
        return make_feed(dataset, protocol, weights=self.context.weights, device=self.context.device, trains=trains)

    def _for_share(self, share: float) -> Protocol:
        """The protocol for a training on this share of the classes: each is seen as often as in the final training."""
        whole = self.plan.protocol
        steps = max(1, round(share * whole.steps))
        if self.plan.measures_time:
            return replace(whole, steps=steps, validate_every=steps, equal="steps")
        return replace(whole, steps=steps, validate_every=steps, seconds=share * whole.seconds)

    def _fold(self, piece: Piece, feed: Feed) -> tuple[Feed, Feed]:
        """The training and the held-out side of a fold. Positions, as the feed may lack images that cannot be decoded."""
        train = self._split(piece.data).train_part(self.context.datasets[piece.data])
        fold = tuning_folds(train, self.plan.folds)[piece.fold]
        sides = (np.flatnonzero(np.isin(feed.indices, side)) for side in (fold.train, fold.validation))
        trained_on, held_out = (feed.subset(side) for side in sides)
        return trained_on, held_out

    def _test_feed(
        self, piece: Piece, progress: Progress, watch: Stopwatch, protocol: Protocol, *, also: str = ""
    ) -> tuple[TestPart, Feed]:
        """The test items, through the guard. Before every choice is made and every network trained, the guard stays closed."""
        decided = hashlib.sha256(f"{progress.decided_for(piece)}:{also}".encode()).hexdigest()
        if piece.data not in self._examined:
            # A guard of its own: that of the trainings is closed for good, and whatever asked it for its key has a key to nothing.
            guard = self.context.split(piece.data).test
            self._examined[piece.data] = (guard, guard.issue_key(SCORING))
        guard, key = self._examined[piece.data]
        if not progress.is_decided:
            with guard.closed("tuning or training"):
                guard.open(key, run=piece.in_words, purpose=SCORING, decided=decided)
        part = guard.open(key, run=piece.in_words, purpose=SCORING, decided=decided, occasion=self.context.occasion(progress))
        place = piece.data, feed_conditions(protocol)
        if place not in self._test:
            with watch.measures("packing"):
                test = self.context.datasets[piece.data].subset(part.indices)
                self._test[place] = (part, self._feed(test, protocol, trains=False))
        return self._test[place]

    def _seal(self, data: str) -> dict[str, Any]:
        """What the guard's record holds now, for the store: its file could be edited."""
        seal = self._examined[data][0].seal()
        assert seal is not None  # a comparison's record is a file
        return asdict(seal)


def file_name(piece: Piece) -> str:
    """A name that every file system takes, still readable; the digest tells apart what reads alike."""
    parts = [part for part in (piece.data, piece.point, piece.method, str(piece.number)) if part]
    return f"{re.sub(r'[^A-Za-z0-9_.=-]+', '-', '-'.join(parts))[:80]}-{hashlib.sha256(piece.key.encode()).hexdigest()[:8]}"


def save_network(network: Network, path: Path) -> str:
    """Writes the network with all that is needed to build it again, and gives the file's digest."""
    from safetensors.torch import save

    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    content = save(tensors, metadata={"spec": json.dumps(as_table(network.spec))})
    write_whole(path, content)
    return hashlib.sha256(content).hexdigest()


def load_network(path: Path) -> Network:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        spec = from_table(NetworkSpec, json.loads(file.metadata()["spec"]), where=path.name)
        network = make_network(spec, seed=0)
        network.load_state_dict({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118  # it is no mapping
    return network


def write_thumbnails(feed: Feed, path: Path) -> Path | None:
    """uint8 (items, side, side, 3) as .npy, the middle square of each image; None without images. Images smaller than the side stay so."""
    pictures = feed.pictures
    if pictures is None:
        return None
    room = math.isqrt(THUMBNAILS_BYTES // (3 * len(feed)))
    side = min(max(SMALLEST_THUMBNAIL, room), LARGEST_THUMBNAIL, pictures.edge)

    def write(file: BinaryIO) -> None:  # not through a map of the file: on a full disk that kills the process
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (len(feed), side, side, 3)})
        for position in range(len(feed)):
            file.write(middle_square(pictures.image(position), side).permute(1, 2, 0).contiguous().numpy().tobytes())

    write_whole(path, write)
    return path
