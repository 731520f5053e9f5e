"""Intra-pair variance loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from likewise.losses.loss import Loss
from likewise.pairs import Pairs, masked_mean


@dataclass(frozen=True)
class IntraPairVariance(Loss):
    """l = mean_P [(1 - pull) m_P - s]+^2 + mean_N [s - (1 + push) m_N]+^2, m the means of each side  (Yu and Tao 2019, section 3.3).

    Pairs of one kind are drawn together where they are on the wrong side of their mean: a companion of another loss. The means are those
    of the anchor's row, in the paper those of the batch.
    """

    pull: float = 0.01  # the paper's epsilon of positives
    push: float = 0.01

    def per_anchor(self, pairs: Pairs) -> Tensor:
        near, far = pairs.positives, pairs.negatives
        low = torch.relu((1 - self.pull) * masked_mean(near.similarity, near.mask)[:, None] - near.similarity)
        high = torch.relu(far.similarity - (1 + self.push) * masked_mean(far.similarity, far.mask)[:, None])
        return masked_mean(low.square(), near.mask) + masked_mean(high.square(), far.mask)
