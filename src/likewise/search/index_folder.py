"""The folder of an index: index.json says what it is, `model` holds the embedder, `store` the vectors. One process writes at a time."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import Timeout

from likewise.addresses import command_line
from likewise.checks import known_name
from likewise.configuration import as_table, from_table
from likewise.files import locked, write_folder, write_whole
from likewise.formats.settings_files import read_sealed_table
from likewise.models.bundle import DESCRIPTION as EMBEDDER
from likewise.models.embedder import Embedder
from likewise.sealing import Damaged, sealed_json
from likewise.search.index_digests import check_index, take_digests, write_digests
from likewise.search.stores import STORES
from likewise.search.vector_store import VectorStore

FORMAT = 1
DESCRIPTION, MODEL, STORE, LOCK, WRITER = "index.json", "model", "store", "writer.lock", "writer.json"


@dataclass(frozen=True)
class IndexDescription:
    """What index.json holds."""

    store: str  # the name in STORES
    model: str  # the digest of the embedder
    options: dict[str, Any] = field(default_factory=dict)  # of the store
    format: int = FORMAT


def create_index_folder(folder: Path, embedder: Embedder, store: str, options: Mapping[str, Any]) -> None:
    """Makes the folder of an index without images: all of it or nothing."""
    kind = STORES[known_name("store", store, STORES)]
    with write_folder(folder, known_by=DESCRIPTION, what="an index") as unfinished:
        embedder.save(unfinished / MODEL)
        kind.create(unfinished / STORE, embedder.network.width_of(embedder.network.spec.levels), **options).close()
        write_description(unfinished, IndexDescription(store, model_digest(unfinished / MODEL), kind.kept_options(options)))
        write_digests(unfinished, unfinished / STORE, {})


def write_description(folder: Path, description: IndexDescription) -> None:
    write_whole(folder / DESCRIPTION, sealed_json(as_table(description)))


def is_index(folder: Path) -> bool:
    return (folder / DESCRIPTION).is_file()


def read_description(folder: Path) -> IndexDescription:
    """What the folder says it is; a ValueError where it is no index, of another format, or its model is another one."""
    if not is_index(folder):
        words = "is not there" if not folder.exists() else f"holds no {DESCRIPTION}"
        raise ValueError(f"{folder} {words}: expected an index; `likewise index MODEL IMAGES --out {folder}` makes one")
    path = folder / DESCRIPTION
    try:
        table = read_sealed_table(path, remedy="copy the whole index again, or build it anew")
        version = table["format"]
    except Damaged:
        raise
    except (OSError, KeyError, TypeError) as fault:
        raise ValueError(f"{path} is damaged ({fault!r}): copy the whole index again, or build it anew") from fault
    if version != FORMAT:
        raise ValueError(f"{folder} is an index of format {version!r}, and this version of likewise reads {FORMAT}: update likewise")
    description = from_table(IndexDescription, table, where=str(path))
    if model_digest(folder / MODEL) != description.model:
        raise ValueError(
            f"{folder / MODEL} is not the model that the vectors of this index were made with: put that one back, or build the index anew"
        )
    return description


def open_store(folder: Path, description: IndexDescription) -> VectorStore:
    """The store, after its files were held against their digests."""
    check_index(folder, folder / STORE)
    return STORES[known_name("store", description.store, STORES)].open(folder / STORE)


def model_digest(folder: Path) -> str:
    """Names what the embedder in the folder computes: its network, weights and preprocessing, whatever its card says. 64 digits."""
    path = folder / EMBEDDER
    try:
        described = read_sealed_table(path, remedy="copy the whole folder again")
        computed = {name: described[name] for name in ("spec", "preprocessing", "sha256")}
    except Damaged:
        raise
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise ValueError(f"{path} cannot be read ({fault!r}): copy the whole folder again") from fault
    return hashlib.sha256(json.dumps(computed, sort_keys=True).encode()).hexdigest()


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Nobody else writes to the index inside; a ValueError says who does. In the end the digests of its files are written down."""
    lock = locked(folder / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise ValueError(f"{folder} is being written to by {_writer(folder / WRITER)}: wait until that has finished") from None
    try:
        about = {"process": os.getpid(), "machine": platform.node(), "since": time.time(), "command": command_line()}
        write_whole(folder / WRITER, json.dumps(about).encode())
        before = take_digests(folder)
        yield
        write_digests(folder, folder / STORE, before)
    finally:
        (folder / WRITER).unlink(missing_ok=True)
        lock.release()


def _writer(path: Path) -> str:
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        since = time.strftime("%H:%M:%S", time.localtime(about["since"]))
        return f"process {about['process']} on {about['machine']} since {since} ({about['command']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
