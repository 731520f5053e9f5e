"""ColumnCodes: the columns of all rows in memory, each different value held once, so that a condition is tried on every value and not on
every item.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from likewise.search.filters import Condition
from likewise.search.item import Value

NO_VALUE = 0  # the code of rows without a value in a column


class ColumnCodes:
    """Rows are only ever added: a row keeps its values until the files are written anew."""

    def __init__(self) -> None:
        self.num_rows = 0
        self.next_id = 0  # of the items to come
        self._values: dict[str, dict[tuple[type, Value], int]] = {}  # column -> value with its type (1 is not true) -> code
        self._codes: dict[str, npt.NDArray[np.int32]] = {}

    def extend(self, rows: Iterable[tuple[int, Mapping[str, Value]]], num_rows: int, next_id: int) -> None:
        """Adds the values of further rows; rows that are left out have none."""
        new: dict[str, npt.NDArray[np.int32]] = {}
        for row, values in rows:
            for column, value in values.items():
                if value is None:
                    continue
                if column not in new:
                    new[column] = np.full(num_rows - self.num_rows, NO_VALUE, np.int32)
                codes = self._values.setdefault(column, {})
                new[column][row - self.num_rows] = codes.setdefault((type(value), value), len(codes) + 1)
        for column in {*self._codes, *new}:
            before = self._codes.get(column, np.full(self.num_rows, NO_VALUE, np.int32))
            added = new.get(column, np.full(num_rows - self.num_rows, NO_VALUE, np.int32))
            self._codes[column] = np.concatenate([before, added])
        self.num_rows, self.next_id = num_rows, next_id

    def holds(self, condition: Condition) -> npt.NDArray[np.bool_]:
        """(rows,) which of them fulfil the condition."""
        values = [None, *(value for _, value in self._values.get(condition.column, {}))]
        holds = np.array([condition.holds_for(value) for value in values])
        codes = self._codes.get(condition.column)
        return np.full(self.num_rows, holds[NO_VALUE]) if codes is None else np.asarray(holds[codes])
