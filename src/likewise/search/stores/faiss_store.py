"""FaissStore: the files of the exact store, and an approximate index of faiss over them.

The index is derived from the rows. What was added since it was built is compared exactly, so that it is found at once; what was removed
since is left out of the search. So the index may be older than the rows, or missing, and nothing is lost or found wrongly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch

from likewise.configuration import from_table
from likewise.files import locked, remove_unfinished
from likewise.progress import ProgressCallback
from likewise.search.filters import Filter
from likewise.search.stores.bounded_search import nearest_rows
from likewise.search.stores.exact_store import ExactStore, View
from likewise.search.stores.faiss_index import DESCRIPTION, FaissIndex, best_of, has_fewer, unit_queries
from likewise.search.stores.faiss_kinds import FAISS_KINDS, import_faiss
from likewise.search.stores.indexed_rows import IndexedRows
from likewise.search.stores.recall_target import RECALL_AT, checked_target
from likewise.search.vector_store import Ids, Vectors, checked_queries

LEAST_INDEXED = 10_000  # items, which are looked at in a few milliseconds
MOST_UNCOVERED = 0.05  # of the items: more than these, and the index is extended
FEW = 20_000  # items that fulfil a filter, or a twentieth of all: these are compared exactly
MOST_EFFORT = 20  # times what an index needs to find the 10 nearest without a filter
LOCK = "faiss.lock"


@dataclass(frozen=True)
class FaissOptions:
    """index: "hnsw", the fastest, or "ivf_pq", which needs a sixteenth of its memory. recall: at 10, that the index is built to."""

    index: Literal["hnsw", "ivf_pq"] = "hnsw"
    recall: float = 0.95

    def __post_init__(self) -> None:
        checked_target(self.recall)


@dataclass(frozen=True, eq=False)
class Covered:
    """What an index says of the rows of a view."""

    key: tuple[str | int, ...]  # that another index, or other rows below its last item, would not have
    indexed: IndexedRows
    share: float  # of the positions that are there


class FaissStore(ExactStore):
    """See the module."""

    kind = "faiss"

    def __init__(self, folder: Path) -> None:
        import_faiss()
        super().__init__(folder)
        self._stamp: tuple[int, int] | None = None
        self._index: FaissIndex | None = None
        self._last_covered: Covered | None = None
        self._read_index()

    @classmethod
    def create(cls, folder: Path, width: int, **options: Any) -> Self:
        given = from_table(FaissOptions, options, where="the options of the store faiss")
        import_faiss()
        FAISS_KINDS[given.index].make(width, 1)  # refuses a width that it cannot have
        return cls._created(folder, width, "float16", index=given.index, recall=given.recall)

    def search(self, queries: Vectors, k: int, *, where: Filter = ()) -> tuple[Ids, npt.NDArray[np.float32]]:
        index = self._index
        if index is None:
            return super().search(queries, k, where=where)
        unit = unit_queries(checked_queries(queries, self.width, k))
        view, wanted = self._chosen(where)
        if where and len(wanted) <= max(FEW, len(view.rows.ids) // 20):
            return super().search(queries, k, where=where)
        ids, similarities = self._by_index(index, view, unit, k, wanted if where else None)
        if view.rows.next_id > index.description.last_id + 1:
            late = wanted[np.searchsorted(wanted, first_row_after(view, index.description.last_id)) :]
            ids, similarities = self._merged(view, late, unit, k, ids, similarities)
        if len(ids) and has_fewer(ids):
            short = np.flatnonzero(ids[:, -1] < 0)
            ids[short], similarities[short] = super().search(queries[short], k, where=where)
        return ids, similarities

    def prepare(self, *, anew: bool = False, on_progress: ProgressCallback | None = None) -> None:
        """Builds the index once there are many items; extends it when many came since, or builds it anew when they are twice as many."""
        with locked(self.folder / LOCK):
            self.refresh()
            view, index = self._view, self._index
            late = view.rows.live[np.searchsorted(view.rows.live, first_row_after(view, index.description.last_id if index else 0)) :]
            number = len(view.rows.ids)
            if number < LEAST_INDEXED or (index and not anew and len(late) <= max(LEAST_INDEXED / 2, MOST_UNCOVERED * number)):
                return
            remove_unfinished(self.folder)
            tell, rows, last_id = on_progress or (lambda what, done, total: None), view.parts["float16"], view.rows.next_id - 1
            loaded = None if anew or index is None else FaissIndex.load(self.folder, to_extend=True)
            if loaded is not None and number <= 2 * loaded.description.recall.num_items:
                made = loaded.extended(rows, late, view.rows.row_ids[late], last_id, tell)
            else:
                settings = self._table.settings
                made = FaissIndex.build(
                    FAISS_KINDS[settings["index"]], rows, view.rows.live, view.rows.ids, settings["recall"], last_id, tell
                )
            made.save(self.folder)
        self.refresh()

    def describe(self) -> dict[str, str]:
        if self._index is None:
            return super().describe()
        late = len(self) - int(np.searchsorted(self._view.rows.ids, self._index.description.last_id, side="right"))
        return {"search": self._index.words, "not in the index yet": f"{late:,} items, which are compared exactly"}

    def refresh(self) -> None:
        self._read_index()  # before the rows: so these are never older than it
        super().refresh()

    def _by_index(self, index: FaissIndex, view: View, unit: Vectors, k: int, wanted: Ids | None) -> tuple[Ids, npt.NDArray[np.float32]]:
        """(Q, k): what the index finds of the rows that are there, and wanted."""
        covered = self._covered(index, view)
        indexed, share = covered.indexed, covered.share
        allowed = indexed.is_there
        if wanted is not None:
            is_wanted = np.zeros(len(view.rows), dtype=bool)
            is_wanted[wanted] = True
            allowed = is_wanted[indexed.places] if allowed is None else is_wanted[indexed.places] & allowed
            share = float(allowed.mean())
        harder = min(MOST_EFFORT, effort_of(k) / max(share, 1e-9))
        effort = None if harder == 1 else int(index.description.recall.effort * harder)
        return index.search(unit, k, indexed, allowed=allowed, effort=effort)

    def _merged(
        self, view: View, late: Ids, unit: Vectors, k: int, ids: Ids, similarities: npt.NDArray[np.float32]
    ) -> tuple[Ids, npt.NDArray[np.float32]]:
        """With the nearest of rows that the index does not know."""
        if not len(late):
            return ids, similarities
        rows, values = nearest_rows(self._rows, view.parts, late, torch.from_numpy(unit), min(k, len(late)))
        ids = np.concatenate([ids, view.rows.row_ids[rows.numpy()]], axis=1)
        return best_of(ids, np.concatenate([similarities, values.float().numpy()], axis=1), k)

    def _covered(self, index: FaissIndex, view: View) -> Covered:
        """Worked out again when files were written anew, or something was removed."""
        about = index.description
        key = (about.mark, view.rows.generation, view.rows.removals, min(about.last_id + 1, view.rows.next_id))
        covered = self._last_covered
        if covered is None or covered.key != key:
            at = np.minimum(np.searchsorted(view.rows.ids, index.ids), max(len(view.rows.ids) - 1, 0))
            is_there = view.rows.ids[at] == index.ids if len(view.rows.ids) else np.zeros(len(index.ids), dtype=bool)
            places = np.where(is_there, view.rows.live[at], 0) if len(view.rows.ids) else np.zeros(len(index.ids), dtype=np.int64)
            indexed = index.indexed(view.parts["float16"], places, None if is_there.all() else is_there)
            covered = self._last_covered = Covered(key, indexed, float(is_there.mean()))
        return covered

    def _read_index(self) -> None:
        try:
            status = (self.folder / DESCRIPTION).stat()
        except FileNotFoundError:
            return
        stamp = status.st_ino, status.st_mtime_ns
        if stamp != self._stamp:
            self._index, self._stamp = FaissIndex.load(self.folder), stamp


def effort_of(k: int) -> float:
    """How much more it takes to find as much of the k nearest as of those that the recall was measured at; of fewer, more is found."""
    return max(1.0, math.sqrt(k / RECALL_AT))


def first_row_after(view: View, last_id: int) -> int:
    """Rows are in the order of ids: the first whose item has a higher id, or the number of rows."""
    at = int(np.searchsorted(view.rows.ids, last_id, side="right"))
    return int(view.rows.live[at]) if at < len(view.rows.live) else len(view.rows)
