"""PostgresqlStore: an index in a table of PostgreSQL with pgvector, which any number of machines share.

A row an item: its metadata as JSONB, its vector as halfvec or vector. Rows come in by COPY, one transaction an `add`. A search looks at all
rows until `prepare` has built an HNSW index (Malkov and Yashunin 2018), whose effort is raised until it reaches the recall asked for. What
it finds is compared again with all digits of the query; where it finds fewer than k, all rows are looked at.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from likewise.configuration import from_table
from likewise.files import write_whole
from likewise.progress import ProgressCallback
from likewise.search.filters import Filter
from likewise.search.item import Item
from likewise.search.stores.postgresql.connections import (
    ADDRESS_VARIABLE,
    EXAMPLE,
    Connections,
    address_of_environment,
    checked_address,
    shown_address,
    writable_parts,
)
from likewise.search.stores.postgresql.filter_sql import filter_sql, restored, storable
from likewise.search.stores.postgresql.nearest_sql import nearest_by_index, nearest_by_scan, nearest_of_few
from likewise.search.stores.postgresql.vector_table import (
    COPY,
    TableSettings,
    TableState,
    VectorTable,
    checked_name,
    copied_row,
    item_of_row,
    name_for,
)
from likewise.search.stores.recall_target import RECALL_AT, checked_target, drawn_queries, kth_similarities, reach_recall
from likewise.search.vector_store import Ids, Vectors, VectorStore, checked_queries, unit_rows

if TYPE_CHECKING:
    from psycopg import Connection

PLACE = "postgresql.json"  # where the table is
BLOCK = 1 << 14  # vectors that are fetched at once
LEAST_INDEXED = 10_000  # items, which are looked at in a few milliseconds
EFFORTS = (20, 28, 40, 56, 80, 112, 160, 224, 320, 448, 640, 1000)  # hnsw.ef_search, of which pgvector takes up to 1,000


@dataclass(frozen=True)
class PostgresqlOptions:
    """address: of the database; by default that in LIKEWISE_POSTGRESQL. A password in it is never written down: it comes from that variable
    or from where libpq looks (PGPASSWORD, ~/.pgpass).
    """

    address: str | None = None
    table: str | None = None  # its name; one that is there is joined
    precision: Literal["float16", "float32"] = "float16"
    recall: float = 0.95  # at 10, that `prepare` builds to

    def __post_init__(self) -> None:
        checked_target(self.recall)


class PostgresqlStore(VectorStore):
    """See the module."""

    kind: ClassVar[str] = "postgresql"

    def __init__(self, folder: Path, table: VectorTable) -> None:
        self.folder, self._table, self.width = folder, table, table.settings.width
        self._use_effort()

    @classmethod
    def create(cls, folder: Path, width: int, **options: Any) -> Self:
        chosen = from_table(PostgresqlOptions, options, where="the options of the store postgresql")
        parts = checked_address(chosen.address) if chosen.address else address_of_environment()
        if parts is None:
            raise ValueError(f"an index in PostgreSQL needs a database: give its address, or set {ADDRESS_VARIABLE}, such as {EXAMPLE}")
        name = checked_name(chosen.table or name_for(folder))
        table = VectorTable.create(Connections(parts), name, TableSettings(width, chosen.precision, chosen.recall))
        place = {"address": writable_parts(parts), "from_environment": not chosen.address, "table": name}
        write_whole(folder / PLACE, json.dumps(place, indent=2).encode())
        return cls(folder, table)

    @classmethod
    def kept_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        address = options.get("address")
        return {**options, **({"address": shown_address(checked_address(address))} if isinstance(address, str) else {})}

    @classmethod
    def open(cls, folder: Path) -> Self:
        place = json.loads((folder / PLACE).read_text(encoding="utf-8"))
        parts, environment = place["address"], address_of_environment()
        if environment is not None and (place["from_environment"] or writable_parts(environment) == parts):
            parts = environment
        return cls(folder, VectorTable(Connections(parts), checked_name(place["table"])))

    def __len__(self) -> int:
        return self._table.state.num_items

    def add(self, items: Sequence[Item], vectors: Vectors) -> Ids:
        table, rows = self._table, unit_rows(vectors, len(items), self.width)
        repeated = [path for path, count in Counter(item.path for item in items).items() if count > 1]
        if repeated:
            raise ValueError(f"{repeated[0]} is there twice: expected each path once")

        def work(connection: Connection[Any]) -> tuple[Ids, TableState]:
            with connection.transaction():
                table.lock(connection)
                next_ids = "SELECT nextval(pg_get_serial_sequence('{name}', 'id')) FROM generate_series(1, %s)"
                ids = sorted(number for (number,) in table.execute(connection, next_ids, [len(items)]))
                paths = [storable(item.path) for item in items]
                replaced = table.execute(connection, "DELETE FROM {name} WHERE path = ANY(%s) RETURNING metadata", [paths]).fetchall()
                with connection.cursor().copy(table.statement(COPY)) as copy:
                    for number, item, vector in zip(ids, items, rows, strict=True):
                        copy.write_row(copied_row(number, item, vector, table.precision))
                return np.array(ids, dtype=np.int64), table.write_counts(connection, items, replaced)

        ids, table.state = table.connections.run(work)
        return ids

    def remove(self, ids: Sequence[int]) -> int:
        table = self._table

        def work(connection: Connection[Any]) -> tuple[int, TableState]:
            with connection.transaction():
                table.lock(connection)
                removed = table.execute(
                    connection, "DELETE FROM {name} WHERE id = ANY(%s) RETURNING metadata", [numbers_of(ids)]
                ).fetchall()
                return len(removed), table.write_counts(connection, [], removed)

        number, table.state = table.connections.run(work)
        return number

    def find(self, paths: Sequence[str]) -> Mapping[str, int]:
        rows = self._table.rows("SELECT path, id FROM {name} WHERE path = ANY(%s)", [storable(path) for path in paths])
        return {restored(path): number for path, number in rows}

    def items(self, ids: Sequence[int]) -> list[Item]:
        numbers = numbers_of(ids)
        rows = self._table.rows("SELECT id, path, digest, label, metadata FROM {name} WHERE id = ANY(%s)", numbers)
        by_id = {number: item_of_row(*values) for number, *values in rows}
        return [by_id[number] for number in numbers]

    def ids(self, where: Filter = ()) -> Ids:
        condition, values = filter_sql(where)
        rows = self._table.rows(f"SELECT id FROM {{name}} WHERE {condition} ORDER BY id", *values)
        return np.fromiter((number for (number,) in rows), dtype=np.int64, count=len(rows))

    def vectors(self, ids: Sequence[int]) -> Vectors:
        numbers = numbers_of(ids)
        by_id = dict(self._table.rows("SELECT id, vector FROM {name} WHERE id = ANY(%s)", numbers))
        joined = b"".join(by_id[number][4:] for number in numbers)
        return np.frombuffer(joined, dtype=self._table.precision.dtype).reshape(len(numbers), self.width).astype(np.float32)

    def search(self, queries: Vectors, k: int, *, where: Filter = ()) -> tuple[Ids, npt.NDArray[np.float32]]:
        queries = checked_queries(queries, self.width, k)
        recall = self._table.settings.recall
        if recall is None:
            return nearest_by_scan(self._table, queries, k, where)
        few = nearest_of_few(self._table, queries, k, where) if where else None
        if few is not None:
            return few
        ids, similarities = nearest_by_index(self._table, queries, k, recall.effort, where)
        short = np.flatnonzero(ids[:, -1] < 0)
        if len(short):
            ids[short], similarities[short] = nearest_by_scan(self._table, queries[short], k, where)
        return ids, similarities

    def columns(self) -> Mapping[str, int]:
        return self._table.state.columns

    def refresh(self) -> None:
        self._table.state = self._table.connections.run(self._table.read_state)
        self._use_effort()

    def close(self) -> None:
        self._table.connections.close()

    def prepare(self, *, anew: bool = False, on_progress: ProgressCallback | None = None) -> None:
        """Builds the HNSW index once there are many items, and again when they are twice as many.

        Some items are held out of it, and compared exactly, until it is measured: its effort is raised until as many of their nearest are
        found as the target says. Whoever is killed meanwhile leaves a store that finds everything, by looking at all of it.
        """
        number, recall = len(self), self._table.settings.recall
        if number < LEAST_INDEXED or self.width > self._table.precision.most_indexed:
            return
        if recall is not None and not anew and number <= 2 * recall.num_items:
            return
        ids = self.ids()
        held = drawn_queries(ids)
        tell = on_progress or (lambda what, done, total: None)
        tell(what := f"HNSW index of {number:,} items", 0, 1)
        self._table.hold_out(held.tolist())
        self._table.build(number)
        tell(what, 1, 1)
        tell(what := "measuring its recall", 0, 1)
        self._measure(held, np.setdiff1d(ids, held, assume_unique=True))
        tell(what, 1, 1)

    def describe(self) -> dict[str, str]:
        """For people, by what it is about."""
        recall = self._table.settings.recall
        ((size,),) = self._table.rows("SELECT pg_size_pretty(pg_total_relation_size('{name}'))")
        return {
            "database": self._table.connections.words,
            "table": self._table.name,
            "vectors": f"{self.width} x {self._table.settings.precision}, {size} with all indexes",
            "search": "exact: every item is looked at" if recall is None else f"HNSW with ef_search {recall.effort} {recall.words}",
        }

    def _measure(self, held: Ids, others: Ids) -> None:
        settings, queries = self._table.settings, self.vectors(held.tolist())
        parts = (self.vectors(others[start : start + BLOCK].tolist()) for start in range(0, len(others), BLOCK))

        def found_with(effort: int) -> npt.NDArray[np.float32]:
            self._use_effort(effort)
            return nearest_by_index(self._table, queries, RECALL_AT, effort, with_held=False)[1]

        recall = reach_recall(settings.target, EFFORTS, found_with, kth_similarities(parts, queries), len(held) + len(others))
        self._table.end_measuring(replace(settings, recall=recall))
        self._use_effort()

    def _use_effort(self, effort: int | None = None) -> None:
        recall = self._table.settings.recall
        effort = recall.effort if effort is None and recall is not None else effort
        if effort is not None:  # a filter that few fulfil makes the index go on until there are enough
            self._table.connections.set_session({"hnsw.ef_search": str(effort), "hnsw.iterative_scan": "relaxed_order"})


def numbers_of(ids: Sequence[int]) -> list[int]:
    return [int(number) for number in ids]
