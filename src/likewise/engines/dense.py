"""The one interface of the engines, and the plainest of them: all rows in one block under plain autograd."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from likewise.pairs import Pairs
from likewise.rows import CountedFunction, RowFunction, Rows, pairs_of


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


@dataclass(frozen=True)
class Dense:
    """Keeps every similarity; the only engine that can be differentiated twice, and the reference the others are held to."""

    def total(
        self, function: CountedFunction, rows: Rows, *, parameters: Sequence[Tensor] = (), between_references: bool = False
    ) -> tuple[Tensor, Tensor]:
        values, counts = function(self.pairs(rows, between_references=between_references))
        return values.sum(), counts.sum()

    def each(self, function: RowFunction, rows: Rows, *, parameters: Sequence[Tensor] = (), between_references: bool = False) -> Tensor:
        return function(self.pairs(rows, between_references=between_references))

    def pairs(self, rows: Rows, *, between_references: bool) -> Pairs:
        """All rows as one block."""
        squared_norms = rows.squared_norms()  # first: autograd adds up gradients in the order of what made them, and rounds accordingly
        similarity = rows.similarity()
        between = None
        if between_references:
            between = similarity if rows.symmetric else rows.references @ rows.references.T
        return all_pairs(rows, similarity, squared_norms, between)


def all_pairs(rows: Rows, similarity: Tensor, squared_norms: tuple[Tensor, Tensor] | None, between: Tensor | None) -> Pairs:
    """The Pairs of all rows with these similarities (n, r), norms and similarities between references (r, r)."""
    anchor_square, reference_square = squared_norms or (None, None)
    return pairs_of(
        similarity,
        rows.block(),
        dim=rows.anchors.shape[1],
        anchor_square=anchor_square,
        reference_square=reference_square,
        statistic=rows.statistic,
        between=between,
    )
