"""VectorStore: the contract of what holds the items of an index with their vectors, and searches them."""

from __future__ import annotations

import math
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from likewise.progress import ProgressCallback
from likewise.search.filters import Filter
from likewise.search.item import Item

Vectors = npt.NDArray[np.float32]  # (items, width) unit rows
Ids = npt.NDArray[np.int64]


class VectorStore(ABC):
    """Items under ids that count up and are never used again. One item a path.

    What `add` and `remove` have returned from is kept, whatever happens to the process or the machine afterwards. Any number of processes
    may search at once; one writes at a time, and those that search see what it has finished, at the latest after `refresh`.
    """

    kind: ClassVar[str]  # the name in STORES
    folder: Path  # what it keeps in files is here
    width: int  # of a vector

    @classmethod
    @abstractmethod
    def create(cls, folder: Path, width: int, **options: Any) -> Self:
        """A new store without items, in a folder that is made, or is there and empty. Options that it does not know are a ValueError."""

    @classmethod
    @abstractmethod
    def open(cls, folder: Path) -> Self:
        """The store that `create` made in the folder, by any process."""

    @classmethod
    def kept_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """What may be written down of the options that `create` is given: nothing that is secret."""
        return dict(options)

    @abstractmethod
    def __len__(self) -> int:
        """Items that are there, without the removed."""

    @abstractmethod
    def add(self, items: Sequence[Item], vectors: Vectors) -> Ids:
        """Adds the items, each in place of the one of the same path if there is one, all or none, and gives their ids."""

    @abstractmethod
    def remove(self, ids: Sequence[int]) -> int:
        """Removes the items, and gives how many were there."""

    @abstractmethod
    def find(self, paths: Sequence[str]) -> Mapping[str, int]:
        """The ids of those of the paths that are there."""

    @abstractmethod
    def items(self, ids: Sequence[int]) -> list[Item]:
        """In this order; a KeyError for an id that is not there."""

    @abstractmethod
    def ids(self, where: Filter = ()) -> Ids:
        """Of all items that fulfil the conditions, counting up."""

    @abstractmethod
    def vectors(self, ids: Sequence[int]) -> Vectors:
        """As they are compared, in this order; a KeyError for an id that is not there."""

    @abstractmethod
    def search(self, queries: Vectors, k: int, *, where: Filter = ()) -> tuple[Ids, npt.NDArray[np.float32]]:
        """The k nearest items of each query (Q, k), nearest first, of equals the lower id first, and their cosine similarities.

        Where fewer than k items fulfil the conditions the rest is id -1 with similarity -inf.
        """

    @abstractmethod
    def columns(self) -> Mapping[str, int]:
        """Metadata columns, and how many items have a value there."""

    def prepare(self, *, anew: bool = False, on_progress: ProgressCallback | None = None) -> None:  # noqa: B027, not all need it
        """Builds what makes searches of many items fast, if it is not there yet and pays; anew: also if it is there."""

    def describe(self) -> dict[str, str]:
        """What there is to tell people of it, by what it is about."""
        return {"search": "exact: every item is looked at"}

    def refresh(self) -> None:  # noqa: B027, only where others write is there something to do
        """Sees what other processes have written since."""

    def copy(self, folder: Path) -> None:
        """Makes the folder, with what `open` needs there to find the same items. Nobody writes meanwhile."""
        shutil.copytree(self.folder, folder)

    def close(self) -> None:  # noqa: B027, only where something is held open is there something to do
        """Lets go of files and connections."""

    def blocks(self, size: int = 65536, where: Filter = ()) -> Iterator[tuple[Ids, Vectors]]:
        """Ids and vectors of all items, block by block, so that none needs them all in memory."""
        ids = self.ids(where)
        for start in range(0, len(ids), size):
            part = ids[start : start + size]
            yield part, self.vectors(part.tolist())


def unit_rows(vectors: Vectors, num_items: int, width: int) -> Vectors:
    """The vectors of so many items at length 1; a ValueError for what are none."""
    rows = np.asarray(vectors, dtype=np.float32)
    if rows.shape != (num_items, width):
        raise ValueError(
            f"vectors of shape {rows.shape} for {num_items:,} items: expected {(num_items, width)}; embed with the index's model"
        )
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise ValueError(f"vector {bad[0]} holds NaN or infinity ({len(bad):,} such of {num_items:,}): expected finite numbers")
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, np.float32(1)), dtype=np.float32)


def checked_queries(queries: Vectors, width: int, k: int) -> Vectors:
    """The queries as float32; a ValueError for what are none, and for a k that is no number of neighbours."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ValueError(f"k is {k!r}: expected a whole number of neighbours, 1 or more")
    rows = np.asarray(queries, dtype=np.float32)
    if rows.ndim != 2 or rows.shape[1] != width:
        raise ValueError(f"queries of shape {rows.shape}: expected (queries, {width}); embed them with the index's model")
    if not math.isfinite(np.vdot(rows, rows)) and not np.isfinite(rows).all():  # the one is quick, but large numbers add up to infinity too
        raise ValueError("a query holds NaN or infinity: expected finite numbers")
    return rows
