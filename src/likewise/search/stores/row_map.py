"""RowMap: which row of a store's files holds which item, at some moment."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RowMap:
    """Rows are in the order of ids, as both are given out one after the other."""

    row_ids: Ids  # (rows,) the id of the item in each row; -1 where it was removed
    next_id: int
    removals: int  # so many transactions removed something
    generation: int  # of the files: the next one when they are written anew, without removed rows

    def __len__(self) -> int:
        return len(self.row_ids)

    @cached_property
    def live(self) -> Ids:
        """The rows whose items are there, counting up."""
        return np.flatnonzero(self.row_ids >= 0)

    @cached_property
    def ids(self) -> Ids:
        """Of the items that are there, counting up."""
        return np.asarray(self.row_ids[self.live])

    def rows_of(self, ids: Ids) -> Ids:
        """The rows of items; a KeyError for one that is not there."""
        place = np.searchsorted(self.ids, ids)
        there = np.zeros(len(ids), dtype=bool)
        within = place < len(self.ids)
        there[within] = self.ids[place[within]] == ids[within]
        if not there.all():
            raise KeyError(int(ids[~there][0]))
        return np.asarray(self.live[place])
