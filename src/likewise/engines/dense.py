"""All rows in one block under plain autograd: the reference the other engines are held to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from likewise.pairs import Pairs
from likewise.rows import CountedFunction, RowFunction, Rows, pairs_of


@dataclass(frozen=True)
class Dense:
    """Keeps every similarity; the only engine that can be differentiated twice."""

    def total(
        self, function: CountedFunction, rows: Rows, *, parameters: Sequence[Tensor] = (), between_references: bool = False
    ) -> tuple[Tensor, Tensor]:
        values, counts = function(self._pairs(rows, between_references))
        return values.sum(), counts.sum()

    def each(self, function: RowFunction, rows: Rows, *, parameters: Sequence[Tensor] = (), between_references: bool = False) -> Tensor:
        return function(self._pairs(rows, between_references))

    def _pairs(self, rows: Rows, between_references: bool) -> Pairs:
        anchor_square, reference_square = rows.squared_norms() or (None, None)
        similarity = rows.similarity()
        between = None
        if between_references:
            between = similarity if rows.symmetric else rows.references @ rows.references.T
        return pairs_of(
            similarity,
            rows.block(),
            dim=rows.anchors.shape[1],
            anchor_square=anchor_square,
            reference_square=reference_square,
            statistic=rows.statistic,
            between=between,
        )
