"""Browsing: what there is in an index, for whoever has nothing to search with yet."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence

import numpy as np

import likewise
from likewise.search.filters import as_text
from likewise.search.item import Item
from likewise.serving.answers import ColumnAnswer, ColumnsAnswer, IndexAnswer, ItemsAnswer
from likewise.serving.search_service import SearchService, item_answer
from likewise.wording import printable

LOOKED_AT = 4000  # items, whose values stand for those of all
VALUES = 100  # of a column that are proposed
LONGEST = 80  # letters of a value that is proposed


class Browsing:
    """Columns are looked at once for every number of items."""

    def __init__(self, service: SearchService) -> None:
        self.service = service
        self._columns: tuple[int, ColumnsAnswer] | None = None
        self._lock = threading.Lock()

    def about(self) -> IndexAnswer:
        self.service.refresh()
        index, limits = self.service.index, self.service.limits
        return IndexAnswer(
            name=printable(index.folder.absolute().name),
            num_items=len(index.store),
            store=index.store.kind,
            is_calibrated=index.calibration is not None,
            explains=self.service.explains,
            takes_marks=self.service.takes_marks,
            upload_bytes=limits.upload_bytes,
            pixels=limits.pixels,
            most_results=limits.most_results,
            version=likewise.__version__,
        )

    def num_items(self) -> int:
        self.service.refresh()
        return len(self.service.index.store)

    def some_items(self, limit: int, where: Sequence[str]) -> ItemsAnswer:
        """From all over the index, the same every time."""
        conditions = self.service.filter(where)
        store = self.service.index.store
        ids = _spread(store.ids(conditions), limit)
        return ItemsAnswer(items=[item_answer(id, item) for id, item in zip(ids, store.items(ids), strict=True)])

    def columns(self) -> ColumnsAnswer:
        """With the values that are most frequent in some items."""
        num_items = self.num_items()
        with self._lock:
            if self._columns is None or self._columns[0] != num_items:
                self._columns = num_items, self._looked_up()
            return self._columns[1]

    def _looked_up(self) -> ColumnsAnswer:
        store = self.service.index.store
        items = store.items(_spread(store.ids(), LOOKED_AT))
        columns = [_column(name, count, items) for name, count in store.columns().items() if count]
        labelled = sum(item.label is not None for item in items)
        if labelled:
            columns.insert(0, _column("label", round(labelled / len(items) * len(store)), items))
        return ColumnsAnswer(columns=columns)


def _spread(ids: np.ndarray[tuple[int], np.dtype[np.int64]], most: int) -> list[int]:
    """At most so many of them, at equal distances."""
    chosen = np.linspace(0, len(ids) - 1, most).round().astype(np.int64) if len(ids) > most else np.arange(len(ids))
    return [int(id) for id in ids[chosen]]


def _column(name: str, num_items: int, items: Sequence[Item]) -> ColumnAnswer:
    values = Counter(as_text(value) for item in items if (value := item.value(name)) is not None)
    shown = [printable(value) for value, _ in values.most_common() if len(value) <= LONGEST][:VALUES]
    return ColumnAnswer(name=printable(name), num_items=num_items, values=shown)
