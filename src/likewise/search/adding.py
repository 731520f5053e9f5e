"""Adding: images into a store, in chunks that are kept one after the other; what is there already and has not changed is not embedded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from likewise.data.dataset import Dataset
from likewise.data.packing.packed import NoneDecoded, Problem
from likewise.evaluation.binary import unpack_bits
from likewise.models.embedder import Embedder
from likewise.models.ray_embedding import RayEmbedder
from likewise.progress import ProgressCallback
from likewise.search.intake import Taken, chunks
from likewise.search.item import Item
from likewise.search.vector_store import Vectors, VectorStore


@dataclass(frozen=True)
class Added:
    """What became of images that were to be added."""

    added: int = 0
    changed: int = 0  # were there with another content, label or metadata
    unchanged: int = 0
    removed: int = 0  # their files are gone, where that was asked for
    skipped: tuple[Problem, ...] = ()  # cannot be read or decoded
    notes: tuple[str, ...] = ()  # what the readers tell

    def __add__(self, other: Added) -> Added:
        return Added(
            self.added + other.added,
            self.changed + other.changed,
            self.unchanged + other.unchanged,
            self.removed + other.removed,
            self.skipped + other.skipped,
            self.notes + other.notes,
        )


def add_images(
    store: VectorStore,
    embedder: Callable[[], Embedder],
    datasets: Sequence[Dataset],
    on_progress: ProgressCallback | None,
    cluster: RayEmbedder | None = None,
) -> Added:
    """Adds the images of the data sets. embedder: is asked for only where there is something to embed.  cluster: embeds in its place."""
    total, done = sum(map(len, datasets)), 0
    result = Added(notes=tuple(note for dataset in datasets for note in dataset.notes))
    for dataset in datasets:
        for taken in chunks(dataset, 0 if cluster is None else cluster.num_at_once):
            result += _add_chunk(store, embedder, cluster, taken, None if on_progress is None else _within(on_progress, done, total))
            done += taken.num_given
            if on_progress is not None:
                on_progress("indexing", done, total)
    return result


def vectors_of(embedder: Embedder, rows: npt.NDArray[np.generic]) -> Vectors:
    """What the embedder gave, as the store takes it: bits become vectors of -1 and +1, whose cosine similarity orders as their distance."""
    if rows.dtype != np.uint8:
        return rows.astype(np.float32, copy=False)
    width = embedder.network.width_of(embedder.network.spec.levels)
    return np.asarray(unpack_bits(rows)[:, :width].numpy(), dtype=np.float32)


def _within(on_progress: ProgressCallback, done: int, total: int) -> ProgressCallback:
    """A chunk's progress as that of the whole."""
    return lambda what, number, _: on_progress("indexing", min(done + number, total - 1), total)


def _add_chunk(
    store: VectorStore,
    embedder: Callable[[], Embedder],
    cluster: RayEmbedder | None,
    taken: Taken,
    on_progress: ProgressCallback | None,
) -> Added:
    ids = store.find([item.path for item in taken.items])
    known = dict(zip(ids, store.items(list(ids.values())), strict=True))
    to_embed = [place for place, item in enumerate(taken.items) if item.path not in known or known[item.path].digest != item.digest]
    told_anew = [item for item in taken.items if item.path in known and _is_told_anew(known[item.path], item)]
    problems = list(taken.problems)
    embedded: list[Item] = []
    if to_embed:
        chosen = taken.subset(to_embed)
        try:
            rows, kept, skipped = (cluster or embedder()).embed_images(chosen.dataset, on_progress=on_progress)
            embedded, problems = [chosen.items[place] for place in kept.tolist()], [*problems, *skipped]
            store.add(embedded, vectors_of(embedder(), rows))
        except NoneDecoded as fault:
            problems += fault.problems
    if told_anew:
        store.add(told_anew, store.vectors([ids[item.path] for item in told_anew]))
    num_changed = sum(item.path in known for item in embedded) + len(told_anew)
    return Added(
        added=sum(item.path not in known for item in embedded),
        changed=num_changed,
        unchanged=len(taken.items) - len(to_embed) - len(told_anew),
        skipped=tuple(problems),
    )


def _is_told_anew(before: Item, now: Item) -> bool:
    """Whether an unchanged file comes with another label or metadata. A file that comes with neither keeps what is known of it."""
    is_told = now.label is not None or bool(now.metadata)
    return before.digest == now.digest and is_told and (before.label, dict(before.metadata)) != (now.label, dict(now.metadata))
