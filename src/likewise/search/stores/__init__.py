"""Stores: where the vectors of an index lie and how they are searched."""

from __future__ import annotations

from likewise.search.stores.exact_store import ExactStore
from likewise.search.stores.faiss_store import FaissStore
from likewise.search.stores.postgresql_store import PostgresqlStore
from likewise.search.vector_store import VectorStore

STORES: dict[str, type[VectorStore]] = {"exact": ExactStore, "faiss": FaissStore, "postgresql": PostgresqlStore}
