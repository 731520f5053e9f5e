"""Nonlinear Rank Approximation loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from likewise.losses.loss import Loss, require_positive
from likewise.pairs import Pairs, masked_max, masked_min


@dataclass(frozen=True)
class NonlinearRank(Loss):
    """l = -log(s+ + eps) - log(1 - s- + eps)  (NRA, eq. 8-13), s = 1 - w(r), r = (D - D_min) / (D_max - D_min).

    s+ belongs to the farthest positive, s- to the nearest negative; w is the sigmoid-like power curve of eq. 10. A row whose
    distances are all equal has no ranks and contributes 0. The pairs that set D_min and D_max receive gradient too, of either
    sign. The paper trains with normalize=False.
    """

    alpha: float = 4.0  # steepness of the curve in the middle
    eps: float = 1e-4

    def __post_init__(self) -> None:
        require_positive(self, "alpha", "eps")

    def per_anchor(self, pairs: Pairs) -> Tensor:
        pull, push = pairs.positives, pairs.negatives
        positive, negative = pull.distance, push.distance
        nearest_positive, farthest_positive = masked_min(positive, pull.mask), masked_max(positive, pull.mask)
        nearest_negative, farthest_negative = masked_min(negative, push.mask), masked_max(negative, push.mask)
        least = torch.minimum(nearest_positive, nearest_negative)
        spread = torch.maximum(farthest_positive, farthest_negative) - least
        ranked = spread.isfinite() & (spread > 0)
        least, spread = torch.where(ranked, least, 0.0), torch.where(ranked, spread, 1.0)

        def transfer(distance: Tensor, known: Tensor) -> Tensor:
            return self.transfer((torch.where(known, distance, 0.0) - least) / spread)

        has_positive, has_negative = ~pull.empty & ranked, ~push.empty & ranked
        pulled = -torch.log(1 - transfer(farthest_positive, has_positive) + self.eps)
        pushed = -torch.log(transfer(nearest_negative, has_negative) + self.eps)
        return torch.where(has_positive, pulled, 0.0) + torch.where(has_negative, pushed, 0.0)

    def transfer(self, rank: Tensor) -> Tensor:
        """w(r) = (2r)^alpha / 2 below 1/2, 1 - (2 (1 - r))^alpha / 2 above (eq. 10)."""
        rank = rank.clamp(0, 1)
        tiny = torch.finfo(rank.dtype).tiny  # keeps the slope of r^alpha at 0 finite for alpha < 1
        tail = (2 * torch.minimum(rank, 1 - rank)).clamp_min(tiny).pow(self.alpha) / 2
        return torch.where(rank < 0.5, tail, 1 - tail)
