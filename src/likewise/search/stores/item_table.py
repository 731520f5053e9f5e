"""ItemTable: what a store in files knows of its items, in SQLite: paths, digests, labels, metadata, and the row that holds each vector.

SQLite's commit is what acknowledges: it is on the disk when it returns (WAL, synchronous FULL), and the rows are there before it. What a
killed process had not committed is not there when the table is opened again.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.formats.regular_file import in_brief
from likewise.search.filters import Condition, Filter
from likewise.search.item import Item, Value
from likewise.search.stores.column_codes import ColumnCodes
from likewise.search.stores.row_map import RowMap

Ids = npt.NDArray[np.int64]

WAITS_FOR = 60.0  # seconds, while another process is in the middle of a transaction
AT_ONCE = 500  # values in one statement
# What comes of tables and values that are not as they were written; they have no common type.
DAMAGED = (sqlite3.Error, ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError, MemoryError)
MOST = 1 << 40  # rows, items, removals that anything holds
SCHEMA = """
BEGIN;
CREATE TABLE settings (name TEXT PRIMARY KEY, value NOT NULL);
CREATE TABLE state (next_id INTEGER NOT NULL, num_rows INTEGER NOT NULL, removals INTEGER NOT NULL, generation INTEGER NOT NULL);
CREATE TABLE items (
    id INTEGER PRIMARY KEY, row INTEGER NOT NULL, path BLOB NOT NULL UNIQUE, digest TEXT NOT NULL, label BLOB, metadata TEXT NOT NULL
);
CREATE TABLE columns (name BLOB PRIMARY KEY, number INTEGER NOT NULL);
INSERT INTO state VALUES (1, 0, 0, 0);
COMMIT;
"""


class StaleRows(Exception):
    """Rows of files that were written anew since: `refresh`, and ask again."""


class ItemTable:
    """A table in a file. Threads may share one; every process opens its own. `rows` is what is seen of it, until `refresh`."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise ValueError(f"{path} is missing: copy the whole index, or build it anew")
        self.path = path
        self._guard = threading.RLock()
        self._database = _connected(path)
        self._codes: tuple[int, ColumnCodes] | None = None  # with the generation of the rows they are of
        with _damage_in_words(path, closes=self._database):
            self.settings: dict[str, Any] = dict(self._database.execute("SELECT name, value FROM settings").fetchall())
            self.rows = self._read_rows(None)

    @classmethod
    def create(cls, path: Path, settings: Mapping[str, str | int]) -> ItemTable:
        with closing(_connected(path)) as database:
            database.executescript(SCHEMA)
            database.executemany("INSERT INTO settings VALUES (?, ?)", settings.items())
        return cls(path)

    def add(self, items: Sequence[Item], write: Callable[[int, int], object]) -> Ids:
        """Adds the items; write(generation, start) puts their rows on the disk in this order, into the files of that generation and
        beginning with that number.
        """
        paths = [_as_bytes(item.path) for item in items]
        repeated = [path for path, count in Counter(paths).items() if count > 1]
        if repeated:
            raise ValueError(f"{_as_text(repeated[0])} is there twice: expected each path once")
        with self._guard:
            with self._transaction():
                with _damage_in_words(self.path):
                    next_id, num_rows, _, generation = self._state()
                write(generation, num_rows)
                self._delete([id for (id,) in self._select("id", "path", paths)])
                self._insert(items, paths, next_id, num_rows)
            self.refresh()
        return np.arange(next_id, next_id + len(items), dtype=np.int64)

    def remove(self, ids: Sequence[int]) -> int:
        """Gives how many were there."""
        with self._guard:
            with self._transaction():
                number = self._delete(ids)
            self.refresh()
        return number

    def renumber(self, write: Callable[[RowMap], object]) -> None:
        """Makes the live rows the only ones; `write` puts them on the disk as the files of the next generation, in their order."""
        with self._guard:
            with self._transaction():
                rows = self._read_rows(self.rows)
                write(rows)
                self._database.executemany("UPDATE items SET row = ? WHERE id = ?", enumerate(rows.ids.tolist()))
                self._database.execute("UPDATE state SET num_rows = ?, generation = generation + 1", (len(rows.ids),))
            self.refresh()

    def refresh(self) -> None:
        """Sees what was committed since, by whatever process."""
        with self._guard, _damage_in_words(self.path):
            self.rows = self._read_rows(self.rows)

    def find(self, paths: Sequence[str]) -> dict[str, int]:
        with self._guard, _damage_in_words(self.path):
            return {_as_text(path): id for id, path in self._select("id, path", "path", [_as_bytes(path) for path in paths])}

    def items(self, ids: Sequence[int]) -> list[Item]:
        with self._guard, _damage_in_words(self.path):
            items = {id: _item(*values) for id, *values in self._select("id, path, digest, label, metadata", "id", ids)}
        return [items[id] for id in ids]

    def rows_where(self, rows: RowMap, where: Filter) -> Ids:
        """Those of the live rows whose items fulfil the conditions, counting up. StaleRows, where they cannot be told any more."""
        if not where:
            return rows.live
        holds = rows.row_ids >= 0
        for condition in where:
            with self._guard, _damage_in_words(self.path):
                of_rows = self._path_holds(rows, condition) if condition.column == "path" else self._codes_of(rows).holds(condition)
            holds &= of_rows[: len(rows)]
        return np.flatnonzero(holds)

    def columns(self) -> dict[str, int]:
        """Metadata columns, and how many items have a value there."""
        with self._guard, _damage_in_words(self.path):
            counts = self._database.execute("SELECT name, number FROM columns WHERE number > 0 ORDER BY name").fetchall()
            return {_as_text(name): number for name, number in counts}

    def flush(self) -> None:
        """Brings everything into the one file, for whoever copies that."""
        with self._guard:
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        with self._guard:
            self._database.close()

    def _read_rows(self, before: RowMap | None) -> RowMap:
        """As they are now. Where nothing but additions happened since `before`, only these are read."""
        with self._reading():
            next_id, num_rows, removals, generation = self._state()
            if before is not None and (before.next_id, before.removals, before.generation) == (next_id, removals, generation):
                return before
            row_ids = np.full(num_rows, -1, dtype=np.int64)
            first_id = 0
            if before is not None and (before.removals, before.generation) == (removals, generation):
                row_ids[: len(before)], first_id = before.row_ids, before.next_id
            pairs = np.array(self._database.execute("SELECT row, id FROM items WHERE id >= ?", (first_id,)).fetchall(), dtype=np.int64)
            if len(pairs):
                row_ids[pairs[:, 0]] = pairs[:, 1]
        return RowMap(row_ids, next_id, removals, generation)

    def _state(self) -> tuple[int, int, int, int]:
        next_id, num_rows, removals, generation = self._database.execute("SELECT * FROM state").fetchone()
        if not all(isinstance(value, int) and 0 <= value <= MOST for value in (next_id, num_rows, removals, generation)):
            raise ValueError(f"{num_rows!r} rows, the next item {next_id!r}")
        return next_id, num_rows, removals, generation

    def _path_holds(self, rows: RowMap, condition: Condition) -> npt.NDArray[np.bool_]:
        """(rows,) which of them fulfil a condition on the path. Paths are not kept in memory: each is another one."""
        holds = np.zeros(len(rows), dtype=bool)
        with self._reading():
            self._check_fresh(rows)
            for row, path in self._database.execute("SELECT row, path FROM items WHERE id < ?", (rows.next_id,)):
                holds[row] = condition.holds_for(_as_text(path))
        return holds

    def _codes_of(self, rows: RowMap) -> ColumnCodes:
        """The columns of all rows, and perhaps of rows that were added since."""
        generation, codes = self._codes or (-1, ColumnCodes())
        if generation != rows.generation:
            codes = ColumnCodes()
        if codes.num_rows < len(rows):
            with self._reading():
                self._check_fresh(rows)
                found = self._database.execute(
                    "SELECT row, label, metadata FROM items WHERE id >= ? AND id < ?", (codes.next_id, rows.next_id)
                )
                codes.extend(((row, _columns(label, metadata)) for row, label, metadata in found), len(rows), rows.next_id)
        self._codes = rows.generation, codes
        return codes

    def _check_fresh(self, rows: RowMap) -> None:
        if self._state()[3] != rows.generation:
            raise StaleRows

    def _insert(self, items: Sequence[Item], paths: list[bytes], next_id: int, num_rows: int) -> None:
        values = [
            (
                next_id + place,
                num_rows + place,
                path,
                item.digest,
                None if item.label is None else _as_bytes(item.label),
                json.dumps(dict(item.metadata)),
            )
            for place, (item, path) in enumerate(zip(items, paths, strict=True))
        ]
        self._database.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?, ?)", values)
        self._count_columns((item.metadata for item in items), +1)
        self._database.execute("UPDATE state SET next_id = next_id + ?, num_rows = num_rows + ?", (len(items), len(items)))

    def _delete(self, ids: Sequence[int]) -> int:
        with _damage_in_words(self.path):
            metadata = [json.loads(text) for (text,) in self._select("metadata", "id", ids)]
        if metadata:
            self._count_columns(metadata, -1)
            self._database.executemany("DELETE FROM items WHERE id = ?", [(int(id),) for id in ids])
            self._database.execute("UPDATE state SET removals = removals + 1")
        return len(metadata)

    def _count_columns(self, metadata: Iterable[Mapping[str, Value]], sign: int) -> None:
        counts = Counter(column for values in metadata for column, value in values.items() if value is not None)
        self._database.executemany(
            "INSERT INTO columns VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET number = number + ?2",
            [(_as_bytes(column), sign * count) for column, count in counts.items()],
        )

    def _select(self, what: str, column: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """Rows of items with one of these values in the column, in no particular order; a value may be given more than once."""
        for start in range(0, len(values), AT_ONCE):
            some = [int(value) if column == "id" else value for value in values[start : start + AT_ONCE]]
            yield from self._database.execute(f"SELECT {what} FROM items WHERE {column} IN ({', '.join('?' * len(some))})", some).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing of what is written inside; nobody else writes meanwhile."""
        try:
            self._database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as fault:
            raise ValueError(f"{self.path} cannot be written ({fault}): another process may be at it; try again later") from fault
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException as fault:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            if isinstance(fault, sqlite3.OperationalError):
                raise OSError(f"{self.path} cannot be written ({fault}): nothing of this was kept") from fault
            raise

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Statements inside see one and the same moment."""
        if self._database.in_transaction:
            yield
            return
        self._database.execute("BEGIN")
        try:
            yield
        finally:
            self._database.execute("COMMIT")


def _connected(path: Path) -> sqlite3.Connection:
    """Where nothing can be written, to be read only: SQLite would have to write down that it reads."""
    if not os.access(path.parent, os.W_OK):
        unfinished = path.with_name(f"{path.name}-wal")
        if unfinished.exists() and unfinished.stat().st_size:
            raise ValueError(f"{unfinished} holds changes that are not in {path.name} yet: open the index once where it can be written")
        return sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True, isolation_level=None, check_same_thread=False)
    database = sqlite3.connect(path, timeout=WAITS_FOR, isolation_level=None, check_same_thread=False)
    with _damage_in_words(path, closes=database):
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
    return database


@contextmanager
def _damage_in_words(path: Path, *, closes: sqlite3.Connection | None = None) -> Iterator[None]:
    try:
        yield
    except DAMAGED as fault:
        if closes is not None:
            closes.close()
        what_to_do = "copy the whole index again, or build it anew"
        raise ValueError(f"{path} is damaged or cannot be opened ({in_brief(fault)}): {what_to_do}") from fault


def _item(path: bytes, digest: str, label: bytes | None, metadata: str) -> Item:
    return Item(_as_text(path), digest, None if label is None else _as_text(label), json.loads(metadata))


def _columns(label: bytes | None, metadata: str) -> dict[str, Value]:
    return {**json.loads(metadata), "label": None if label is None else _as_text(label)}


def _as_bytes(text: str) -> bytes:
    """The name of a file need not be text, and Python's is then one that SQLite would not take."""
    return text.encode("utf-8", "surrogatepass")


def _as_text(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogatepass")
