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
        pull, push = pairs.positives, pairs.negatives
        boundary = self.boundary.to(pairs.similarity.dtype)
        boundary = boundary[pairs.anchor_labels][:, None] if self.num_classes else boundary
        far = torch.relu(pull.distance - boundary + self.margin)
        near = torch.relu(boundary - push.distance + self.margin)
        active = masked_count(pull.mask & (far > 0), far.dtype) + masked_count(push.mask & (near > 0), near.dtype)
        return (masked_sum(far, pull.mask) + masked_sum(near, push.mask)) / active.clamp_min(1)
