"""The one interface of the engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from likewise.rows import CountedFunction, RowFunction, Rows


class Engine(Protocol):
    """Carries a function of a block of rows out over all rows of a batch.

    `parameters` are the tensors the function itself owns and learns; `between_references` asks for the positives'
    own rows against the references, for losses that look there.
    """

    def total(
        self, function: CountedFunction, rows: Rows, *, parameters: Sequence[Tensor], between_references: bool
    ) -> tuple[Tensor, Tensor]:
        """The sum of all rows' values, differentiable, and of their counts, which is not."""
        ...

    def each(self, function: RowFunction, rows: Rows, *, parameters: Sequence[Tensor], between_references: bool) -> Tensor:
        """The result of every row: (n, ...), differentiable."""
        ...
