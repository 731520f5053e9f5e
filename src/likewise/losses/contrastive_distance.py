"""Contrastive loss on distances."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from likewise.losses.loss import Loss
from likewise.pairs import Pairs, masked_sum


@dataclass(frozen=True)
class ContrastiveDistance(Loss):
    """l = mean over all others of d^2 if positive, [margin - d]+^2 if negative  (NRA, eq. 1)."""

    margin: float = 1.0

    def per_anchor(self, pairs: Pairs) -> Tensor:
        pull, push = pairs.positives, pairs.negatives
        near = torch.relu(self.margin - push.distance).square()
        total = masked_sum(pull.squared_distance, pull.mask) + masked_sum(near, push.mask)
        return total / (pull.count + push.count).clamp_min(1)

    def num_terms(self, pairs: Pairs) -> Tensor:
        return pairs.positives.count + pairs.negatives.count
