"""Margin loss with a learned boundary."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from likewise.losses.loss import Loss
from likewise.pairs import Pairs, masked_count, masked_sum


class Margin(Loss, nn.Module):
    """l = (sum_P [d - b + margin]+ + sum_N [b - d + margin]+) / number of active pairs in the row  (unbiased evaluation, 2.2).

    The boundary b is learned: one for each class of the anchor with `num_classes`, else one for all.
    """

    def __init__(self, margin: float = 0.2, boundary: float = 1.2, num_classes: int | None = None) -> None:
        super().__init__()
        self.margin = margin
        self.num_classes = num_classes
        self.boundary = nn.Parameter(torch.full((num_classes or 1,), float(boundary)))

    def per_anchor(self, pairs: Pairs) -> Tensor:
        far, near = self._hinges(pairs)
        total = masked_sum(far, pairs.positives.mask) + masked_sum(near, pairs.negatives.mask)
        return total / _num_active(pairs, far, near).clamp_min(1)

    def num_terms(self, pairs: Pairs) -> Tensor:
        return _num_active(pairs, *self._hinges(pairs))

    def _hinges(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        boundary = self.boundary.to(pairs.similarity.dtype)
        boundary = boundary[pairs.anchor_labels][:, None] if self.num_classes else boundary
        far = torch.relu(pairs.positives.distance - boundary + self.margin)
        return far, torch.relu(boundary - pairs.negatives.distance + self.margin)


def _num_active(pairs: Pairs, far: Tensor, near: Tensor) -> Tensor:
    return masked_count(pairs.positives.mask & (far > 0), far.dtype) + masked_count(pairs.negatives.mask & (near > 0), near.dtype)
