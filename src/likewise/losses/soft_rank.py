"""How many items stand before a positive, softly."""

from __future__ import annotations

import torch
from torch import Tensor

from likewise.pairs import Pairs, Side, masked_sum, of_each_positive


def items_before(pairs: Pairs, side: Side, *, temperature: float) -> Tensor:
    """sum over the items j of a side of sigmoid((s_j - s_p) / temperature), for every positive p: (a, positives)."""

    def of_positives(some: Pairs) -> Tensor:
        gap = side.similarity[:, None, :] - some.positives.similarity[..., None]  # (a, positives, k)
        return masked_sum(torch.sigmoid(gap / temperature), side.mask[:, None, :])

    return of_each_positive(of_positives, pairs)


def soft_ranks(pairs: Pairs, *, temperature: float) -> tuple[Tensor, Tensor]:
    """The rank of every positive among the positives, and among all items: two (a, positives) tensors, from 1."""
    among_positives = 0.5 + items_before(pairs, pairs.positives, temperature=temperature)  # it met itself: sigmoid(0) = 1/2
    return among_positives, among_positives + items_before(pairs, pairs.negatives, temperature=temperature)
