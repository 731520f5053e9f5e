"""Triplet loss over all, semi-hard or hardest triplets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from likewise.losses.loss import Loss
from likewise.pairs import Pairs, Side, as_number, masked_max, masked_mean, masked_min, masked_sum, semihard_negative


@dataclass(frozen=True)
class Triplet(Loss):
    """l = mean over triplets of [D_p - D_n + margin]+, D = d^2 (RLL, eq. 1) or d (unbiased evaluation, eq. 1).

    - select "all": every positive with every negative, without enumerating them: N log N a row.
    - select "semihard": every positive with the nearest negative farther than it, or, if none is farther, with the farthest.
    - select "hard": the farthest positive with the nearest negative.
    """

    margin: float = 0.2
    select: Literal["all", "semihard", "hard"] = "all"
    squared: bool = True

    def __post_init__(self) -> None:
        if self.select not in ("all", "semihard", "hard"):
            raise ValueError(f"triplet select={self.select!r} is unknown: use 'all', 'semihard' or 'hard'")

    def per_anchor(self, pairs: Pairs) -> Tensor:
        pull, push = pairs.positives, pairs.negatives
        positive, negative = self._distance(pull), self._distance(push)
        if self.select == "all":
            return mean_over_triplets(positive + self.margin, pull, negative, push)
        none = pull.empty | push.empty
        if self.select == "hard":
            gap = masked_max(positive, pull.mask, empty=0.0) - masked_min(negative, push.mask, empty=0.0)
            return torch.relu(gap + self.margin).masked_fill(none, 0.0)
        partner = semihard_negative(positive, pull, negative, push)
        return masked_mean(torch.relu(positive - partner + self.margin), pull.mask).masked_fill(none, 0.0)

    def num_terms(self, pairs: Pairs) -> Tensor:
        positives, negatives = pairs.positives.count, pairs.negatives.count
        if self.select == "all":
            return positives * negatives
        return (positives if self.select == "semihard" else positives.clamp_max(1)) * (negatives > 0)

    def _distance(self, side: Side) -> Tensor:
        return side.squared_distance if self.squared else side.distance


def mean_over_triplets(positive: Tensor, pull: Side, negative: Tensor, push: Side) -> Tensor:
    """The mean of [D_p - D_n]+ over all triplets of each row, (a,), from counts: a triplet is active when D_n < D_p, so

    sum = sum_p k_p D_p - sum_n c_n D_n,

    with k_p the active negatives of p and c_n the active positives of n. The counts are constant almost everywhere, so this has the value
    and the gradient of the sum over triplets. A margin is added to D_p, or taken off D_n.
    """
    with torch.no_grad():
        limits, order = torch.where(pull.mask, positive, -torch.inf).sort(-1)
        passed = torch.searchsorted(limits, negative.contiguous(), right=True)  # limits no larger than D_n
        active_positives = limits.shape[-1] - passed
        per_limit = torch.zeros(*limits.shape[:-1], limits.shape[-1] + 1, dtype=negative.dtype, device=negative.device)
        per_limit.scatter_add_(-1, passed, as_number(push.mask, negative.dtype))
        active_negatives = torch.empty_like(limits).scatter_(-1, order, per_limit.cumsum(-1)[..., :-1])
    total = masked_sum(active_negatives * positive, pull.mask) - masked_sum(active_positives * negative, push.mask)
    return total / (pull.count * push.count).clamp_min(1)
