"""FaissIndex: an approximate index of faiss over the rows of a store, and the recall it was measured to have.

It is derived from the rows, and can be made of them anew at any time: files of its own hold it, a JSON file written last says which.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from likewise.files import write_whole
from likewise.progress import ProgressCallback
from likewise.search.stores.faiss_kinds import FAISS_KINDS, FaissKind, import_faiss, trained
from likewise.search.stores.indexed_rows import IndexedRows, Rows, Similarities, products_of_rows, refining_parameters
from likewise.search.stores.recall_target import RECALL_AT, ReachedRecall, drawn_queries, kth_similarities, reach_recall, recalls
from likewise.search.vector_store import Ids, Vectors

DESCRIPTION = "faiss.json"
BLOCK = 1 << 14  # rows that are added at once
SPARE = 6  # beyond k: rows are of length 1 up to their rounding, which may put near ties in the wrong order
FEWER = 200  # queries
SHORTEST = 1e-30  # a length, that its inverse be a number
MOST_IN_MEMORY = 1 << 30  # bytes, which take a third of a second to read


@dataclass(frozen=True)
class FaissDescription:
    """What is written of an index: which files are its own, and how it is to be searched."""

    mark: str
    kind: str
    last_id: int  # all items up to this one were added to it; later ones were not
    factor: int  # candidates for each item that is asked for
    recall: ReachedRecall


@dataclass(frozen=True, eq=False)
class FaissIndex:
    """An index ready to be searched. Items are known to it by positions: in the order of their rows where it can be told them, else in the
    order in which they were added.
    """

    description: FaissDescription
    index: Any
    ids: Ids  # (positions,) of the items
    inverse_lengths: Similarities  # (positions,) of the rows, which rounding leaves a little longer or shorter than 1

    @property
    def kind(self) -> FaissKind:
        return FAISS_KINDS[self.description.kind]

    @property
    def words(self) -> str:
        recall = self.description.recall
        return f"{self.kind.words(recall.effort, self.description.factor)} {recall.words}"

    @classmethod
    def build(
        cls, kind: FaissKind, rows: Rows, live: Ids, ids: Ids, target: float, last_id: int, on_progress: ProgressCallback
    ) -> FaissIndex:
        """An index of the live rows, whose items have these ids.

        Some items are held out while it is measured: its effort is raised until as many of their nearest are found among the others as the
        target says. Then they are added too.
        """
        held_out = drawn_queries(np.arange(len(live)))
        order = np.concatenate([np.delete(np.arange(len(live)), held_out), held_out])
        num_others = len(order) - len(held_out)
        index = kind.make(rows.shape[1], len(live))
        sample = np.random.default_rng(1).permutation(num_others)[: kind.num_trained(index)]
        on_progress(f"training {kind.name}", 0, 1)
        trained(index, unit_float32(rows[live[np.sort(order[sample])]])[0])
        on_progress(f"training {kind.name}", 1, 1)
        positions = order if kind.takes_positions else np.arange(len(order))
        at = order[np.argsort(positions)]  # which of the live rows is at each position
        description = FaissDescription("", kind.name, last_id, 1, ReachedRecall(target, 0.0, 1, len(live), 0))
        made = cls(description, index, ids[at], np.ones(len(at), np.float32))
        made._add(rows, live[order[:num_others]], positions[:num_others], on_progress)
        made = made._measured(rows, live[at], positions[num_others:], on_progress)
        made._add(rows, live[held_out], positions[num_others:], None)
        return made

    def extended(self, rows: Rows, live: Ids, ids: Ids, last_id: int, on_progress: ProgressCallback) -> FaissIndex:
        """With further rows. The index itself is changed: nobody else may be searching by it."""
        made = FaissIndex(
            replace(self.description, last_id=last_id),
            self.index,
            np.concatenate([self.ids, ids]),
            np.concatenate([self.inverse_lengths, np.ones(len(ids), np.float32)]),
        )
        made._add(rows, live, np.arange(len(self.ids), len(made.ids)), on_progress)
        return made

    def _add(self, rows: Rows, places: Ids, positions: Ids, on_progress: ProgressCallback | None) -> None:
        for start in range(0, len(places), BLOCK):
            some = slice(start, start + BLOCK)
            vectors = rows[places[some]].astype(np.float32)
            self.kind.add(self.index, vectors, positions[some])
            self.inverse_lengths[positions[some]] = unit_float32(vectors)[1]
            if on_progress is not None:
                on_progress("indexing", min(start + BLOCK, len(places)), len(places))

    def _measured(self, rows: Rows, places: Ids, held_out: Ids, on_progress: ProgressCallback) -> FaissIndex:
        """First as many candidates as the codes need to be told apart by, then as little effort as the recall allows.

        held_out: the positions that are not in the index yet.
        """
        what, recall = "measuring its recall", self.description.recall
        on_progress(what, 0, 1)
        queries, _ = unit_float32(rows[places[held_out]])
        kth = kth_similarities(row_blocks(rows, np.delete(places, held_out)), queries)
        indexed = self.indexed(rows, places)

        def found_with(effort: int, factor: int, number: int) -> Similarities:
            return self.search(queries[:number], RECALL_AT, indexed, effort=effort, factor=factor)[1]

        efforts, factor = list(self.kind.efforts(self.index)), 1
        for factor in self.kind.factors():  # with all lists, which takes long
            if not self.kind.is_rescored or recalls(found_with(efforts[-1], factor, FEWER), kth[:FEWER]).mean() >= (1 + recall.target) / 2:
                break
        reached = reach_recall(recall.target, efforts, lambda effort: found_with(effort, factor, len(kth)), kth, len(places))
        on_progress(what, 1, 1)
        return replace(self, description=replace(self.description, factor=factor, recall=reached))

    def indexed(self, rows: Rows, places: Ids, is_there: npt.NDArray[np.bool_] | None = None) -> IndexedRows:
        """places: the row of each position; is_there: whether it has one, None: all have."""
        return IndexedRows.of(self.index, rows, places, is_there, is_rescored=self.kind.is_rescored)

    def search(
        self,
        queries: Vectors,
        k: int,
        indexed: IndexedRows,
        *,
        allowed: npt.NDArray[np.bool_] | None = None,
        effort: int | None = None,
        factor: int | None = None,
    ) -> tuple[Ids, Similarities]:
        """The ids (Q, k) of items that it finds and their cosine similarities, the best first; -1 and -inf where there are fewer.

        queries: of length 1. allowed: which positions may be found. effort: by default the one that has the recall.
        """
        if not len(queries):
            return np.empty((0, k), dtype=np.int64), np.empty((0, k), dtype=np.float32)
        parameters = None  # as it was set when it was loaded, which is the fastest way to tell
        if allowed is not None or effort is not None:
            parameters = self.kind.parameters(effort or self.description.recall.effort, indexed.selector(allowed))
        number = min(len(self.ids), k + SPARE)
        if not self.kind.is_rescored:
            similarities, positions = found_by(self.index, queries, number, parameters)
        else:
            similarities, positions = self._refined(queries, number, k * (factor or self.description.factor), indexed, parameters)
        ids = self.ids[positions]
        if has_fewer(positions):  # it found fewer
            ids[positions < 0], similarities[positions < 0] = -1, -np.inf
        similarities *= self.inverse_lengths[positions]
        return best_of(ids, similarities, k)

    def _refined(
        self, queries: Vectors, number: int, num_candidates: int, indexed: IndexedRows, parameters: Any | None
    ) -> tuple[Similarities, Ids]:
        """What is found among so many candidates: at least `number`, if it has them."""
        candidates = min(len(self.ids), max(number, num_candidates))
        if indexed.refining is not None:
            return found_by(indexed.refining, queries, number, refining_parameters(number, candidates, parameters))
        _, positions = found_by(self.index, queries, candidates, parameters)
        return indexed.rescored(queries, positions), positions

    def save(self, folder: Path) -> FaissIndex:
        """Writes files of a new name, then the description that names them, then removes those of the name before."""
        faiss, mark = import_faiss(), secrets.token_hex(4)
        description = replace(self.description, mark=mark)
        of_index, of_items = files_of(folder, mark)
        write_whole(of_index, lambda file: faiss.write_index(self.index, faiss.PyCallbackIOWriter(file.write, 1 << 24)))
        write_whole(of_items, lambda file: np.savez(file, ids=self.ids, inverse_lengths=self.inverse_lengths))
        write_whole(folder / DESCRIPTION, f"{json.dumps(asdict(description), indent=2)}\n".encode())
        for path in folder.glob("faiss-*"):
            if path not in (of_index, of_items):
                path.unlink(missing_ok=True)
        return replace(self, description=description)

    @classmethod
    def load(cls, folder: Path, *, to_extend: bool = False) -> Self | None:
        """What `save` wrote; None where there is none, or none that can be read."""
        try:
            values = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
            description = FaissDescription(**{**values, "recall": ReachedRecall(**values["recall"])})
            of_index, of_items = files_of(folder, description.mark)
            index = import_faiss().read_index(str(of_index)) if to_extend else opened(of_index)
            FAISS_KINDS[description.kind].set_effort(index, description.recall.effort)
            with np.load(of_items) as arrays:
                return cls(description, index, arrays["ids"], arrays["inverse_lengths"])
        except (OSError, ValueError, KeyError, TypeError, RuntimeError):  # it is made of the rows anew
            return None


def opened(path: Path) -> Any:
    """The index of a file, to be searched and not to be changed: in memory of large pages, in which faiss finds its way a seventh faster;
    one that is large is mapped.
    """
    faiss = import_faiss()
    if not hasattr(faiss, "ZeroCopyIOReader") or path.stat().st_size > MOST_IN_MEMORY:  # of faiss 1.10
        return faiss.read_index(str(path), getattr(faiss, "IO_FLAG_MMAP_IFC", 0))
    content = np.fromfile(path, dtype=np.uint8)  # for which NumPy asks for large pages
    index = faiss.read_index(faiss.ZeroCopyIOReader(faiss.swig_ptr(content), content.size))
    index.referenced_objects = [content]  # which it points into
    return index


def files_of(folder: Path, mark: str) -> tuple[Path, Path]:
    return folder / f"faiss-{mark}.index", folder / f"faiss-{mark}.npz"


def row_blocks(rows: Rows, places: Ids) -> Iterator[Vectors]:
    for start in range(0, len(places), BLOCK):
        yield rows[places[start : start + BLOCK]].astype(np.float32)


def best_of(ids: Ids, similarities: Similarities, k: int) -> tuple[Ids, Similarities]:
    """The k most alike of each row, of equals the lower id first; filled up with -1 and -inf."""
    num_rows, number = ids.shape
    if number < k:
        ids = np.pad(ids, ((0, 0), (0, k - number)), constant_values=-1)
        similarities = np.pad(similarities, ((0, 0), (0, k - number)), constant_values=-np.inf)
    order = np.lexsort((ids, -similarities))[:, :k]
    if num_rows > 1:
        order = order + np.arange(num_rows)[:, None] * ids.shape[1]
    return ids.take(order), similarities.take(order)


def has_fewer(numbers: Ids) -> bool:
    """Whether there are -1 at the ends of the rows (Q, k): for one query, told a microsecond sooner."""
    return bool(numbers.item(-1) < 0 if len(numbers) == 1 else np.minimum.reduce(numbers[:, -1]) < 0)


def found_by(index: Any, queries: Vectors, number: int, parameters: Any | None) -> tuple[Similarities, Ids]:
    """What `index.search` gives, without what stands around it: that takes as long as all else that a search needs in Python.
    faiss.contrib.torch_utils, which other packages import, even puts a method that takes no parameters in its place.
    """
    pointer, num_queries = import_faiss().swig_ptr, len(queries)
    similarities, positions = np.empty((num_queries, number), np.float32), np.empty((num_queries, number), np.int64)
    index.search_c(num_queries, pointer(np.ascontiguousarray(queries)), number, pointer(similarities), pointer(positions), parameters)
    return similarities, positions


def unit_float32(rows: Rows) -> tuple[Vectors, Similarities]:
    """The rows at length 1, or 0 where all numbers are, and their inverse lengths."""
    vectors = rows.astype(np.float32, copy=False)
    inverse = np.sqrt(products_of_rows(vectors, vectors))
    np.reciprocal(np.maximum(inverse, SHORTEST, out=inverse), out=inverse)
    return vectors * inverse[:, None], inverse


def unit_queries(queries: Vectors) -> Vectors:
    """At length 1: one alone sooner."""
    if len(queries) != 1:
        return unit_float32(queries)[0]
    return queries * np.float32(1 / max(math.sqrt(np.vdot(queries, queries)), SHORTEST))
