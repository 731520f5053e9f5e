"""The one interface of the engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from likewise.rows import RowFunction, Rows


class Engine(Protocol):
    """Carries a function of a block of rows out over all rows of a batch.

    `parameters` are the tensors the function itself owns and learns; `between_references` asks for the vectors of the
    references in `Pairs`, for losses that look at pairs of references.
    """

    def total(self, function: RowFunction, rows: Rows, *, parameters: Sequence[Tensor], between_references: bool) -> Tensor:
        """The sum over all rows of a function that gives (a, k): (k,). Only its first column is differentiable."""
        ...

    def each(self, function: RowFunction, rows: Rows, *, parameters: Sequence[Tensor], between_references: bool) -> Tensor:
        """The result of every row: (n, ...), differentiable."""
        ...
