"""Near copies: images of an index that are the same file, or as alike as an image and a lightly changed copy of it.

Files are the same if their digests are. What a lightly changed copy is depends on the model: some give an image and its JPEG of quality 75
a similarity of 0.98, others 0.93. So it is measured, on images of the index itself: each is trimmed by 2 % at every edge, saved again as
JPEG of quality 75 and embedded; the similarity that 95 % of these copies reach is the threshold. A threshold for "the same class" would be
far too low. Copies that were changed more are not found: half the size and JPEG 50, or grey, look like another image to most networks.

Copies are tied together in pairs: a, b and c are one group if a is a copy of b and b of c.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from likewise.data.dataset import Box
from likewise.data.packing.decode import Undecodable, decode, image_bytes
from likewise.files import file_digest
from likewise.progress import ProgressCallback
from likewise.search.filters import Filter
from likewise.search.index import Index, Where
from likewise.search.item import Item
from likewise.search.vector_store import Ids, Vectors, VectorStore
from likewise.wording import count_of

MEASURED_ON = 100  # images
REACHED_BY = 0.95  # of the copies
TRIMMED, QUALITY = 0.02, 75
WITHOUT_FILES = 0.95  # the threshold where no image's file is there to be measured on
BLOCK = 16384  # vectors of a block
TILE = 1024  # rows of a block that are compared with another block at once
MOST_COMPARED = 200_000  # images that are all compared with each other; of more, each with its nearest
NEAREST = 32

Groups = npt.NDArray[np.int64]  # (items,) the group of each


@dataclass(frozen=True)
class GroupedImage:
    """An image in a group."""

    id: int
    path: str
    label: str | None
    similarity: float  # see the group


@dataclass(frozen=True)
class CopyGroup:
    """Images that are copies of each other, by their ids. An image's similarity is that to its nearest in the group."""

    kind: Literal["file", "near"]  # the same bytes, or nearly the same picture
    images: tuple[GroupedImage, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """Classes of its images, in order."""
        return tuple(sorted({image.label for image in self.images if image.label is not None}))

    @property
    def is_across_classes(self) -> bool:
        return len(self.labels) > 1

    @property
    def similarity(self) -> float:
        """The least by which an image is tied to the group."""
        return min(image.similarity for image in self.images)


@dataclass(frozen=True)
class Copies:
    """Made by `find_copies`: those across classes first, then the largest."""

    groups: tuple[CopyGroup, ...]
    num_images: int  # that were compared
    threshold: float
    notes: tuple[str, ...]  # how the threshold came about, and what was left out

    @property
    def num_spare(self) -> int:
        """Images that could go, so that one of each group is left."""
        return sum(len(group.images) - 1 for group in self.groups)


def find_copies(index: Index, *, similarity: float | None = None, where: Where = (), on_progress: ProgressCallback | None = None) -> Copies:
    """Groups of copies among the images of the index that fulfil the conditions.

    similarity: from which on two images are copies; None: measured, as above.
    """
    if similarity is not None and not 0 < similarity <= 1:
        raise ValueError(f"similarity is {similarity}: expected a number above 0 and up to 1, such as 0.95")
    index.store.refresh()
    ids = index.store.ids(index.filter(where))
    if similarity is None:
        threshold, notes = _measured(index, ids, on_progress)
    else:
        threshold, notes = similarity, []
    digests = [item.digest for item in index.store.items(ids.tolist())]
    files = np.unique(np.array(digests, dtype=str), return_inverse=True)[1] if len(ids) else np.zeros(0, np.int64)
    if len(ids) > MOST_COMPARED:
        notes.append(f"{len(ids):,} images are many: each was compared with its {NEAREST} nearest only")
        pairs = _near_by_search(index.store, ids, threshold, index.filter(where), on_progress)
    else:
        pairs = near_pairs_in_blocks(index.store, ids, threshold, on_progress)
    tied = np.asarray(files, dtype=np.int64)
    for first, second in pairs:
        tied = _tied(tied, first, second)
    groups = [_group(index.store, ids[members]) for members in _members(tied) if len(members) > 1]
    groups.sort(key=lambda group: (not group.is_across_classes, -len(group.images), group.images[0].id))
    return Copies(tuple(groups), len(ids), threshold, tuple(notes))


def _measured(index: Index, ids: Ids, on_progress: ProgressCallback | None) -> tuple[float, list[str]]:
    """The similarity that most of lightly changed copies reach, and how that was found."""
    tried = np.sort(np.random.default_rng(0).permutation(ids)[: 2 * MEASURED_ON])  # some files may be gone
    measured: list[int] = []
    copies: list[Image.Image] = []
    for id, item in zip(tried.tolist(), index.store.items(tried.tolist()), strict=True):
        image = _as_indexed(item)
        if image is None:
            continue
        measured.append(id)
        copies.append(light_copy(image))
        if on_progress is not None:
            on_progress("measuring what copies reach", len(copies), min(MEASURED_ON, len(ids)))
        if len(copies) == MEASURED_ON:
            break
    if not copies:
        return WITHOUT_FILES, [f"no image's file is there as it was, to measure copies with: near copies are taken from {WITHOUT_FILES} on"]
    similarities = (_unit(index.store, np.array(measured)) * index.embed(copies)).sum(axis=1)
    threshold = float(np.quantile(similarities, 1 - REACHED_BY, method="lower"))
    same = index.calibration.same.value if index.calibration is not None else -1.0
    words = (
        f"near copies are taken from {max(threshold, same):.3f} on; {100 * REACHED_BY:.0f} % of copies that are trimmed by "
        f"{100 * TRIMMED:.0f} % and saved again as JPEG are at least {threshold:.3f} alike to their originals, measured with "
        f"{count_of(len(copies), 'image', 'images')} of the index"
    )
    if same > threshold:
        words += f"; images of one class are taken from {same:.3f} on, which is stricter"
    return max(threshold, same), [words]


def _as_indexed(item: Item) -> Image.Image | None:
    """The image, cut as it was when it was embedded; None where its file is gone or has changed since."""
    digest, _, box = item.digest.partition(":")
    try:
        if file_digest(Path(item.path)) != digest:
            return None
        pixels = decode(image_bytes(Path(item.path)), side=None, box=_box_of(box) if box else None)
    except (OSError, Undecodable):
        return None
    return Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy())


def _box_of(text: str) -> Box:
    left, top, right, bottom = map(int, text.split(","))
    return left, top, right, bottom


def light_copy(image: Image.Image) -> Image.Image:
    """Trimmed at every edge and saved again as JPEG."""
    across, down = (round(TRIMMED * side) for side in image.size)
    stored = io.BytesIO()
    image.crop((across, down, image.width - across, image.height - down)).save(stored, "JPEG", quality=QUALITY)
    return Image.open(stored).convert("RGB")


Pairs = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


def near_pairs_in_blocks(store: VectorStore, ids: Ids, threshold: float, on_progress: ProgressCallback | None = None) -> Iterator[Pairs]:
    """Places among the ids of all pairs at or above the threshold, some at a time; each pair is compared once."""
    starts = range(0, len(ids), BLOCK)
    total, done = len(starts) * (len(starts) + 1) // 2, 0
    for start in starts:
        rows = _unit(store, ids[start : start + BLOCK])
        for other in range(start, len(ids), BLOCK):
            others = rows if other == start else _unit(store, ids[other : other + BLOCK])
            for tile in range(0, len(rows), TILE):
                first, second = np.nonzero(rows[tile : tile + TILE] @ others.T >= threshold)
                first, second = first + start + tile, second + other
                is_once = first < second
                if is_once.any():
                    yield first[is_once], second[is_once]
            done += 1
            if on_progress is not None:
                on_progress("comparing", done, total)


def _near_by_search(store: VectorStore, ids: Ids, threshold: float, where: Filter, on_progress: ProgressCallback | None) -> Iterator[Pairs]:
    """The same of each image and its nearest, as the store finds them."""
    for start in range(0, len(ids), TILE):
        part = ids[start : start + TILE]
        found, similarities = store.search(store.vectors(part.tolist()), NEAREST, where=where)
        first, at = np.nonzero(similarities >= threshold)
        yield first + start, np.searchsorted(ids, found[first, at])
        if on_progress is not None:
            on_progress("comparing", start + len(part), len(ids))


def _unit(store: VectorStore, ids: Ids) -> Vectors:
    """Vectors at length 1: of stored ones the last digits are lost."""
    vectors = store.vectors(ids.tolist())
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12), dtype=np.float32)


def _tied(groups: Groups, first: npt.NDArray[np.int64], second: npt.NDArray[np.int64]) -> Groups:
    """The groups with these pairs tied together."""
    graph = coo_array((np.ones(len(first), np.bool_), (groups[first], groups[second])), shape=(len(groups), len(groups)))
    return np.asarray(connected_components(graph, directed=False)[1][groups], dtype=np.int64)


def _members(groups: Groups) -> list[npt.NDArray[np.int64]]:
    """Places of each group's items, counting up."""
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1) if len(order) else []


def _group(store: VectorStore, ids: Ids) -> CopyGroup:
    items = store.items(ids.tolist())
    nearest = _nearest_within(_unit(store, ids))
    kind: Literal["file", "near"] = "file" if len({item.digest for item in items}) == 1 else "near"
    return CopyGroup(kind, grouped_images(ids, [(item.path, item.label) for item in items], nearest))


def grouped_images(ids: Ids, named: Sequence[tuple[str, str | None]], similarities: Vectors) -> tuple[GroupedImage, ...]:
    told = zip(ids.tolist(), named, similarities.tolist(), strict=True)
    return tuple(GroupedImage(id, path, label, similarity) for id, (path, label), similarity in told)


def _nearest_within(vectors: Vectors) -> Vectors:
    """The similarity of each to the nearest other, at most 1."""
    nearest = np.full(len(vectors), -np.inf, dtype=np.float32)
    for start in range(0, len(vectors), TILE):
        similarities = vectors[start : start + TILE] @ vectors.T
        similarities[np.arange(len(similarities)), np.arange(start, start + len(similarities))] = -np.inf
        nearest[start : start + TILE] = similarities.max(axis=1)
    return np.minimum(nearest, 1.0)
