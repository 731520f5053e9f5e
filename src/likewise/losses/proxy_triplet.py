"""Proxy-triplet loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from likewise.losses.loss import Loss, Meets
from likewise.pairs import Pairs, masked_mean, masked_sum


@dataclass(frozen=True)
class ProxyTriplet(Loss):
    """l = mean over the other proxies of [d^2 own - d^2 other + margin]+  (unbiased evaluation, 2.9)."""

    margin: float = 1.0

    meets: ClassVar[Meets] = "proxies"

    def per_anchor(self, pairs: Pairs) -> Tensor:
        pull, push = pairs.positives, pairs.negatives
        own = masked_sum(pull.squared_distance, pull.mask)
        hinge = masked_mean(torch.relu(own[:, None] - push.squared_distance + self.margin), push.mask)
        return hinge.masked_fill(pull.empty, 0.0)

    def num_terms(self, pairs: Pairs) -> Tensor:
        return pairs.negatives.count * ~pairs.positives.empty
