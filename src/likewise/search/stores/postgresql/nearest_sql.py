"""Nearest rows in SQL: of many queries in one statement, by the HNSW index or by a look at every row. To length 0 every similarity is 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.search.filters import Filter
from likewise.search.stores.postgresql.connections import QueryVector
from likewise.search.stores.postgresql.filter_sql import filter_sql
from likewise.search.stores.postgresql.vector_table import VectorTable
from likewise.search.vector_store import Ids, Vectors

SPARE_CANDIDATES = 16  # beyond k: what rounding the query to float16 may have put in the wrong order
OF_EACH_QUERY = """
SELECT queries.number, found.id, 1 - found.distance
FROM unnest(%b::vector[]) WITH ORDINALITY AS queries (vector, number) CROSS JOIN LATERAL (
    SELECT id, coalesce(nullif(candidates.vector::vector <=> queries.vector, 'NaN'), 1) AS distance
    FROM {candidates} AS candidates ORDER BY distance, id LIMIT %s
) AS found ORDER BY queries.number, found.distance, found.id
"""
BY_INDEX = "(SELECT id, vector FROM {name} WHERE NOT held AND {condition} ORDER BY vector <=> queries.vector::{type} LIMIT %s)"
HELD = "SELECT id, vector FROM {name} WHERE held AND {condition}"  # out of the index, while that is built and measured
CHOSEN = "WITH chosen AS MATERIALIZED (SELECT id, vector FROM {name} WHERE {condition})"  # once for all queries
FEW = 10_000  # rows that fulfil a filter: comparing all of them is faster than looking for them along the index


def nearest_by_index(
    table: VectorTable, queries: Vectors, k: int, effort: int, where: Filter = (), *, with_held: bool = True
) -> tuple[Ids, npt.NDArray[np.float32]]:
    """Candidates by the index, then the k nearest of these with all digits of the query (Q, k); -1 where it gave fewer."""
    condition, values = filter_sql(where)
    limit = max(k, min(k + SPARE_CANDIDATES, effort))
    candidates, given = BY_INDEX, [as_parameter(queries), *values, limit]
    if with_held:
        candidates, given = f"({BY_INDEX} UNION ALL {HELD})", [*given, *values]
    text = OF_EACH_QUERY.replace("{candidates}", candidates).replace("{type}", table.precision.type).replace("{condition}", condition)
    return _nearest(table, text, given, len(queries), k)


def nearest_by_scan(table: VectorTable, queries: Vectors, k: int, where: Filter = ()) -> tuple[Ids, npt.NDArray[np.float32]]:
    """The k nearest of all rows; -1 where there are fewer. No index serves the order by all digits."""
    condition, values = filter_sql(where)
    return _nearest_of(table, condition, values, queries, k) if where else _nearest_of(table, "", [], queries, k)


def nearest_of_few(table: VectorTable, queries: Vectors, k: int, where: Filter) -> tuple[Ids, npt.NDArray[np.float32]] | None:
    """The same where few rows fulfil the conditions, else None."""
    condition, values = filter_sql(where)
    rows = table.rows(f"SELECT id FROM {{name}} WHERE {condition} LIMIT %s", *values, FEW + 1)
    return _nearest_of(table, "id = ANY(%s)", [[number for (number,) in rows]], queries, k) if len(rows) <= FEW else None


def _nearest_of(table: VectorTable, condition: str, values: list[Any], queries: Vectors, k: int) -> tuple[Ids, npt.NDArray[np.float32]]:
    text = OF_EACH_QUERY.replace("{candidates}", "chosen" if condition else "{name}")
    text = CHOSEN.replace("{condition}", condition) + text if condition else text
    return _nearest(table, text, [*values, as_parameter(queries)], len(queries), k)


def _nearest(table: VectorTable, text: str, values: list[Any], num_queries: int, k: int) -> tuple[Ids, npt.NDArray[np.float32]]:
    rows = table.rows(text, *values, k)
    ids, similarities = np.full((num_queries, k), -1, dtype=np.int64), np.full((num_queries, k), -np.inf, dtype=np.float32)
    if rows:
        numbers, found, near = (np.array(column) for column in zip(*rows, strict=True))
        places = np.arange(len(rows)) - np.searchsorted(numbers, numbers)  # counted from the first row of its query
        ids[numbers - 1, places], similarities[numbers - 1, places] = found, near
    return ids, similarities


def as_parameter(queries: Vectors) -> list[QueryVector]:
    return [QueryVector(query) for query in queries]
