"""ExactStore: vectors in mapped files, all of which a search looks at; the nearest are the nearest."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch

from likewise.configuration import from_table
from likewise.formats.regular_file import in_brief
from likewise.search.filters import Filter
from likewise.search.item import Item
from likewise.search.stores.bounded_search import nearest_rows
from likewise.search.stores.item_table import ItemTable, StaleRows
from likewise.search.stores.row_file import RowFile, Rows
from likewise.search.stores.row_kinds import ROW_KINDS, RowKind
from likewise.search.stores.row_map import RowMap
from likewise.search.vector_store import Ids, Vectors, VectorStore, checked_queries, unit_rows

TABLE = "items.sqlite"
QUERIES = 1024  # searched at once
MANY_REMOVED = 1024  # rows from which on, if they are half of all, the files are written anew
WRITTEN_AT_ONCE = 1 << 16  # rows
TRIES = 10  # to map files that another process writes anew


@dataclass(frozen=True)
class ExactOptions:
    """rows: how vectors are kept. float16 and float32 take as many bytes as they say, and float32 half as many again; int8 and bits come
    beside float16, and a search reads half or a sixteenth of its bytes before it compares the best in float16. What is found is the nearest
    for certain, but for bits.
    """

    rows: Literal["float16", "float32", "int8", "bits"] = "float16"


@dataclass(frozen=True, eq=False)
class View:
    """The rows of some moment, and what holds them."""

    rows: RowMap
    parts: Mapping[str, Rows]


class ExactStore(VectorStore):
    """Files of rows that only grow, and a table of items that says how many of the rows count."""

    kind = "exact"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._table = ItemTable(folder / TABLE)
        self._opened = _file_of(folder / TABLE)
        width, rows = (self._table.settings.get(name) for name in ("width", "rows"))
        if not isinstance(width, int) or width < 1 or not isinstance(rows, str) or rows not in ROW_KINDS:
            words = in_brief(ValueError(f"rows of kind {rows!r}, {width!r} wide"))
            raise ValueError(f"{folder / TABLE} is damaged ({words}): copy the whole index again, or build it anew")
        self.width = width
        self._rows: RowKind = ROW_KINDS[rows]
        self._view = self._mapped()

    @classmethod
    def create(cls, folder: Path, width: int, **options: Any) -> Self:
        given = from_table(ExactOptions, options, where="the options of the store exact")
        return cls._created(folder, width, given.rows)

    @classmethod
    def _created(cls, folder: Path, width: int, rows: str, **settings: Any) -> Self:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ValueError(f"{folder} is not empty: give another folder for the store")
        for file in _files(folder, ROW_KINDS[rows], width, 0).values():
            file.create()
        ItemTable.create(folder / TABLE, {"width": width, "rows": rows, **settings}).close()
        return cls(folder)

    @classmethod
    def open(cls, folder: Path) -> Self:
        return cls(folder)

    def __len__(self) -> int:
        return len(self._view.rows.ids)

    def add(self, items: Sequence[Item], vectors: Vectors) -> Ids:
        if not items:
            return np.zeros(0, np.int64)
        parts = self._rows.encoded(unit_rows(vectors, len(items), self.width))

        def write(generation: int, start: int) -> None:
            for name, file in self._files(generation).items():
                file.write(start, parts[name])

        ids = self._table.add(items, write)
        self._tidy()
        return ids

    def remove(self, ids: Sequence[int]) -> int:
        number = self._table.remove(ids)
        self._tidy()
        return number

    def find(self, paths: Sequence[str]) -> Mapping[str, int]:
        return self._table.find(paths)

    def items(self, ids: Sequence[int]) -> list[Item]:
        return self._table.items(ids)

    def ids(self, where: Filter = ()) -> Ids:
        view, live = self._chosen(where)
        return np.asarray(view.rows.row_ids[live])

    def vectors(self, ids: Sequence[int]) -> Vectors:
        view = self._view
        return view.parts[self._rows.exact][view.rows.rows_of(np.asarray(ids, dtype=np.int64))].astype(np.float32)

    def search(self, queries: Vectors, k: int, *, where: Filter = ()) -> tuple[Ids, npt.NDArray[np.float32]]:
        given = torch.from_numpy(checked_queries(queries, self.width, k))
        view, live = self._chosen(where)
        ids, similarities = np.full((len(given), k), -1, np.int64), np.full((len(given), k), -np.inf, np.float32)
        most = min(k, len(live))
        for start in range(0, len(given) if most else 0, QUERIES):
            part = slice(start, start + QUERIES)
            rows, values = nearest_rows(self._rows, view.parts, live, given[part], most)
            ids[part, :most], similarities[part, :most] = view.rows.row_ids[rows.numpy()], values.float().numpy()
        return ids, similarities

    def columns(self) -> Mapping[str, int]:
        return self._table.columns()

    def describe(self) -> dict[str, str]:
        exact = f"every item is looked at, the order is that of the vectors in {self._rows.exact}"
        return {
            "search": f"exact: {exact}"
            if self._rows.is_bounded
            else "nearly exact: every item is looked at by its bits, the best in float16"
        }

    def refresh(self) -> None:
        if _file_of(self.folder / TABLE) != self._opened:  # the open table outlives its file, but the rows are read by their names
            raise OSError(errno.ESTALE, "it was deleted, moved or made anew since it was opened: open it again", str(self.folder))
        self._table.refresh()
        self._view = self._mapped()

    def compact(self) -> None:
        """Writes the files anew without the rows of removed items; who searches meanwhile goes on with the old ones."""

        def write(rows: RowMap) -> None:
            before, after = self._files(rows.generation), self._files(rows.generation + 1)
            for name, file in after.items():
                file.create()
                every = before[name].mapped(len(rows))
                for start in range(0, len(rows.live), WRITTEN_AT_ONCE):
                    file.write(start, every[rows.live[start : start + WRITTEN_AT_ONCE]])

        self._table.renumber(write)
        self._view = self._mapped()
        self._drop_other_generations()

    def copy(self, folder: Path) -> None:
        self._table.flush()
        super().copy(folder)

    def close(self) -> None:
        self._table.close()

    def _chosen(self, where: Filter) -> tuple[View, Ids]:
        """What there is to see, and those of its rows whose items fulfil the conditions."""
        for _ in range(TRIES):
            view = self._view
            try:
                return view, self._table.rows_where(view.rows, where)
            except StaleRows:
                self.refresh()
        raise ValueError(f"{self.folder} is written anew all the time: try again later")

    def _tidy(self) -> None:
        """After something was written."""
        rows = self._table.rows
        if 2 * len(rows.live) <= len(rows) and len(rows) - len(rows.live) >= MANY_REMOVED:
            self.compact()
        else:
            self._view = self._mapped()

    def _mapped(self) -> View:
        """What the table has seen, with its files."""
        for _ in range(TRIES):
            rows = self._table.rows
            try:
                return View(rows, {name: file.mapped(len(rows)) for name, file in self._files(rows.generation).items()})
            except FileNotFoundError:  # written anew since, and deleted; unless it is missing
                self._table.refresh()
        raise OSError(errno.ENOENT, "files of rows are missing: copy the whole index again, or build it anew", str(self.folder))

    def _files(self, generation: int) -> dict[str, RowFile]:
        return _files(self.folder, self._rows, self.width, generation)

    def _drop_other_generations(self) -> None:
        for path in self.folder.glob("rows-*"):
            found = re.fullmatch(r"rows-(\d+)\.\w+", path.name)
            if found and int(found[1]) != self._view.rows.generation:
                with suppress(OSError):  # Windows keeps what another process has mapped; the next time it goes
                    path.unlink()


def _file_of(path: Path) -> tuple[int, int] | None:
    """Which file it is, whatever its name; None where there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _files(folder: Path, kind: RowKind, width: int, generation: int) -> dict[str, RowFile]:
    return {name: RowFile(folder / f"rows-{generation}.{name}", part.dtype, part.columns) for name, part in kind.parts(width).items()}
