"""FastAP loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from likewise.losses.loss import Loss, require_positive
from likewise.losses.soft_histogram import soft_histogram
from likewise.pairs import Pairs


@dataclass(frozen=True)
class FastAP(Loss):
    """l = 1 - 1/|P| sum_j h+_j H+_j / H_j, h the soft histograms of squared distances, H their running sums  (Cakir et al. 2019)."""

    bins: int = 10

    def __post_init__(self) -> None:
        require_positive(self, "bins")

    def per_anchor(self, pairs: Pairs) -> Tensor:
        pull, push = pairs.positives, pairs.negatives
        positive, negative = (
            soft_histogram(side.squared_distance, side.mask, low=0.0, high=4.0, nodes=self.bins + 1) for side in (pull, push)
        )
        so_far = (positive + negative).cumsum(-1)
        share = positive.cumsum(-1) / torch.where(so_far > 0, so_far, 1.0)
        return (1 - (positive * share).sum(-1) / pull.count.clamp_min(1)).masked_fill(pull.empty, 0.0)
