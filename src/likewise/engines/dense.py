"""All rows in one block under plain autograd: the reference the other engines are held to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from likewise.rows import RowFunction, Rows, pairs_of


@dataclass(frozen=True)
class Dense:
    """Keeps every similarity; the only engine that can be differentiated twice."""

    def total(self, function: RowFunction, rows: Rows, *, parameters: Sequence[Tensor] = (), between_references: bool = False) -> Tensor:
        return self.each(function, rows, parameters=parameters, between_references=between_references).sum(0)

    def each(self, function: RowFunction, rows: Rows, *, parameters: Sequence[Tensor] = (), between_references: bool = False) -> Tensor:
        anchor_square, reference_square = rows.squared_norms() or (None, None)
        return function(
            pairs_of(
                rows.similarity(),
                rows.block(),
                dim=rows.anchors.shape[1],
                anchor_square=anchor_square,
                reference_square=reference_square,
                statistic=rows.statistic,
                references=rows.references if between_references else None,
            )
        )
