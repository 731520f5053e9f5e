"""SearchService: what the service answers, as plain functions that threads run. No HTTP here but the numbers of refusals."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image

from likewise.evaluation.calibration import Calibration
from likewise.explanation.matching import Explanation, SeenImage, explain
from likewise.models.images import Picture
from likewise.search.feedback import Feedback, MarkedImage
from likewise.search.filters import Filter
from likewise.search.hits import Hit
from likewise.search.index import Index
from likewise.search.item import Item
from likewise.search.likeness import NOT_CALIBRATED, PROBABLY, UNKNOWN, VERY_LIKELY, is_known
from likewise.search.vector_store import Vectors
from likewise.serving.admission.client_limits import ClientLimits
from likewise.serving.admission.refusals import Refusal
from likewise.serving.answers import (
    ExplainAnswer,
    ItemAnswer,
    MarkAnswer,
    MarkRequest,
    MarksAnswer,
    NeighbourAnswer,
    PairAnswer,
    QueryAnswer,
    SearchAnswer,
    SeenAnswer,
    VerdictAnswer,
)
from likewise.serving.picture_vectors import PictureVectors
from likewise.serving.served_images import ByteCache, ItemImages, as_address, box_of, jpeg_of
from likewise.wording import count_of, printable

REFRESHED_EVERY = 1.0  # seconds after which a search looks whether others have written to the index
LARGEST_ID = 2**63 - 1  # that a store can look for
RECENT_BYTES = 256 * 2**20  # of uploaded pictures that are remembered, with their vectors


@dataclass(frozen=True, eq=False)
class AskedQuery:
    """What is searched with: an image of the index, or a picture by its handle."""

    vector: Vectors  # (1, width)
    item: ItemAnswer | None = None
    picture: str | None = None
    path: str | None = None  # where its marks are found; None: nothing was marked yet

    def answer(self) -> QueryAnswer:
        image = f"api/pictures/{self.picture}" if self.item is None else self.item.image
        return QueryAnswer(picture=self.picture, item=self.item, image=image)


class SearchService:
    """An index, and what is remembered of those who search it. Any number of threads may ask at once."""

    def __init__(self, index: Index, limits: ClientLimits | None = None, *, takes_marks: bool = True) -> None:
        self.index, self.limits, self.takes_marks = index, limits or ClientLimits(), takes_marks
        self.feedback = Feedback(index.folder)
        self._images = ItemImages(self.limits.pixels)
        self._recent = ByteCache(RECENT_BYTES)
        self._refreshed = time.monotonic()
        self._refreshing = threading.Lock()

    def warm_up(self) -> None:
        """Loads the model, and lets it embed something, before anybody waits for that."""
        if self.index.embedder.preprocessing is not None:
            grey = BytesIO()
            Image.new("RGB", (64, 64), "grey").save(grey, format="PNG")
            self._vectors(grey.getvalue())

    @cached_property
    def _vectors(self) -> PictureVectors:
        return PictureVectors(self.index.embedder, self.index.store.width, self.limits.pixels)

    def search(self, file: BinaryIO | None, *, id: int | None, picture: str | None, k: int, where: Sequence[str]) -> SearchAnswer:
        """With the one of file, id and picture that is given."""
        start = time.perf_counter()
        conditions = self.filter(where)
        if id is not None:
            query = self._of_item(id)
        else:
            query = self._of_picture(file.read() if file is not None else self._remembered(picture or ""))
        hits = self._hits(query, k, conditions)
        marks = {} if query.path is None else self.feedback.marks_of(query.path, [hit.path for hit in hits])
        return SearchAnswer(
            query=query.answer(),
            verdict=verdict_of(hits, self.index.calibration),
            neighbours=[_neighbour(hit, marks.get(hit.path)) for hit in hits],
            seconds=time.perf_counter() - start,
        )

    def filter(self, where: Sequence[str]) -> Filter:
        """A Refusal for conditions that are none, and for columns that no image has."""
        self.refresh()
        try:
            return self.index.filter([condition for condition in where if condition.strip()])
        except ValueError as fault:
            raise Refusal(422, str(fault)) from fault

    def refresh(self) -> None:
        """Sees what other processes have written to the index, every now and then."""
        if time.monotonic() - self._refreshed >= REFRESHED_EVERY and self._refreshing.acquire(blocking=False):
            try:
                self.index.store.refresh()
                self._refreshed = time.monotonic()
            finally:
                self._refreshing.release()

    def _hits(self, query: AskedQuery, k: int, where: Filter) -> list[Hit]:
        """Without the query itself."""
        own = None if query.item is None else query.item.id
        if not len(self.index):
            return []
        (hits,) = self.index.search_vectors(query.vector, k if own is None else k + 1, where)
        return [hit for hit in hits if hit.id != own][:k]

    def _of_item(self, id: int) -> AskedQuery:
        item = self.stored(id)
        return AskedQuery(self._vector(id), item=item_answer(id, item), path=item.path)

    def _of_picture(self, data: bytes) -> AskedQuery:
        handle = hashlib.sha256(data).hexdigest()
        known = self._recent.get(f"vector of {handle}")
        if known is None:
            vector = self._vectors(data)
            self._recent.put(f"vector of {handle}", vector.tobytes())
        else:
            vector = np.frombuffer(known, dtype=np.float32)[None].copy()
        self._recent.put(handle, data)
        kept = self.feedback.picture(handle)
        return AskedQuery(vector, picture=handle, path=None if kept is None else str(kept))

    def stored(self, id: int) -> Item:
        with _known_ids():
            if id > LARGEST_ID:
                raise KeyError(id)
            (item,) = self.index.store.items([id])
        return item

    def _vector(self, id: int) -> Vectors:
        with _known_ids():
            return self.index.store.vectors([id])

    def item(self, id: int) -> ItemAnswer:
        self.refresh()
        return item_answer(id, self.stored(id))

    def item_image(self, id: int, size: str) -> tuple[str, bytes]:
        """A name of this state of the file, and the image as JPEG."""
        item = self.stored(id)
        return self._images.tag(item, size), self._images.jpeg(item, size)

    def picture_image(self, handle: str, size: str) -> tuple[str, bytes]:
        return f"{handle}-{size}", jpeg_of(self._remembered(handle), size, self.limits.pixels)

    def _remembered(self, handle: str) -> bytes:
        found = self._recent.get(handle)
        if found is None:
            kept = self.feedback.picture(handle)
            found = None if kept is None else kept.read_bytes()
        if found is None:
            raise Refusal(410, "this picture is not remembered any more: search with it again")
        return found

    def mark(self, request: MarkRequest) -> MarkAnswer:
        """Keeps the pair, and first the picture if it is one that was uploaded."""
        if not self.takes_marks:
            raise Refusal(403, "this server takes no marks: it was started with --no-marks")
        if (request.query_id is None) == (request.picture is None):
            raise Refusal(422, "what was searched with: expected one of query_id and picture")
        item = self.stored(request.id)
        if request.query_id is not None:
            asked = self.stored(request.query_id)
            query, vector = MarkedImage(asked.path, asked.digest), self._vector(request.query_id)
        else:
            data = self._remembered(request.picture or "")
            vector = self._of_picture(data).vector
            try:
                query = self.feedback.keep_picture(data)
            except ValueError as fault:
                raise Refusal(507, str(fault)) from fault
        if query.path == item.path:
            raise Refusal(422, "an image and itself: expected a pair of two")
        similarity = float(vector[0] @ self._vector(request.id)[0])
        is_same = None if request.mark is None else request.mark == "right"
        self.feedback.mark(query, MarkedImage(item.path, item.digest), is_same, similarity)
        return MarkAnswer(id=request.id, mark=request.mark, num_marks=self.feedback.num_pairs())

    def marks(self) -> MarksAnswer:
        pairs = self.feedback.pairs()
        ids = self.index.store.find(list({image.path for pair in pairs for image in (pair.query, pair.item)}))
        return MarksAnswer(
            pairs=[
                PairAnswer(
                    query_id=ids.get(pair.query.path),
                    id=ids.get(pair.item.path),
                    query_name=_name(pair.query.path),
                    name=_name(pair.item.path),
                    mark="right" if pair.is_same else "wrong",
                    similarity=pair.similarity,
                    marked_at=pair.marked_at,
                )
                for pair in pairs
            ]
        )

    @property
    def explains(self) -> bool:
        embedder = self.index.embedder
        return embedder.preprocessing is not None and not embedder.network.spec.binary

    def explain(self, id: int, *, query_id: int | None, picture: str | None) -> ExplainAnswer:
        if not self.explains:
            raise Refusal(422, "the similarities of this model are not a sum over places of images, so there is nothing to show")
        query = self._shown(query_id) if query_id is not None else Image.open(BytesIO(self._remembered(picture or "")))
        try:
            return explain_answer(explain(self.index.embedder, query, self._shown(id)))
        except ValueError as fault:
            raise Refusal(422, f"it cannot be shown where they match: {fault}") from fault

    def _shown(self, id: int) -> Picture:
        """The file, or what counts of it; a Refusal where it is gone."""
        item = self.stored(id)
        self._images.tag(item, "full")
        if box_of(item) is None:
            return Path(item.path)
        return Image.fromarray(self._images.pixels(item).permute(1, 2, 0).contiguous().numpy())

    def close(self) -> None:
        self.index.close()


@contextmanager
def _known_ids() -> Iterator[None]:
    try:
        yield
    except KeyError as fault:
        raise Refusal(404, f"there is no image {fault.args[0]} in the index: it was removed, or never there") from None


def item_answer(id: int, item: Item | Hit) -> ItemAnswer:
    label = None if item.label is None else printable(item.label)
    return ItemAnswer(id=id, name=_name(item.path), label=label, metadata=dict(item.metadata), image=f"api/images/{id}")


def _neighbour(hit: Hit, is_same: bool | None) -> NeighbourAnswer:
    return NeighbourAnswer(
        **item_answer(hit.id, hit).model_dump(),
        similarity=hit.similarity,
        probability=hit.probability,
        words=hit.words,
        mark=None if is_same is None else "right" if is_same else "wrong",
    )


def _name(path: str) -> str:
    """Of a file, without where it lies on this machine."""
    return printable(Path(path).name)


def verdict_of(hits: Sequence[Hit], calibration: Calibration | None) -> VerdictAnswer:
    """Whether the query is of a class that the index holds, by its nearest."""
    if calibration is None:
        return VerdictAnswer(is_known=None, words=NOT_CALIBRATED)
    if not hits:
        return VerdictAnswer(is_known=None, words="there is nothing to compare with")
    known = is_known(hits[0].similarity, calibration)
    if known is False:
        return VerdictAnswer(is_known=False, words=UNKNOWN)
    best = VERY_LIKELY if known else PROBABLY
    number = sum(hit.words == best for hit in hits)
    return VerdictAnswer(is_known=known, words=f"{count_of(number, 'image is', 'images are') if number else 'no image is'} {best}")


def explain_answer(explanation: Explanation) -> ExplainAnswer:
    table = explanation.as_table()
    seen = {name: _seen(image, table[name]) for name, image in (("a", explanation.a), ("b", explanation.b))}
    return ExplainAnswer.model_validate({**table, **seen})


def _seen(image: SeenImage, table: dict[str, object]) -> SeenAnswer:
    return SeenAnswer.model_validate({**table, "picture": as_address(image.picture)})
