"""Hit: an image that a search found, and Hits: all that it found for a query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from likewise.search.item import Value


@dataclass(frozen=True)
class Hit:
    path: str
    similarity: float  # cosine
    label: str | None  # None: not known
    id: int
    metadata: Mapping[str, Value]
    probability: float | None  # that query and hit are of one class, at equal odds (see likeness.py); None: the model is not calibrated
    words: str | None  # the same in words

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "metadata": dict(self.metadata)}


class Hits(list[Hit]):
    """The nearest first."""

    def __init__(self, hits: Iterable[Hit] = (), *, is_known: bool | None = None) -> None:
        super().__init__(hits)
        self.is_known = is_known  # whether the query passes for one whose class is there; None: not calibrated
