"""Contrastive loss on similarities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from likewise.losses.loss import Loss
from likewise.pairs import Pairs, masked_sum


@dataclass(frozen=True)
class Contrastive(Loss):
    """l = sum_N [s - threshold]+ + sum_P (1 - s)  (unified view, eq. 5; the 1 only shifts the value)."""

    threshold: float = 0.5  # lambda

    sums_terms: ClassVar[bool] = True

    def per_anchor(self, pairs: Pairs) -> Tensor:
        pull, push = pairs.positives, pairs.negatives
        return masked_sum(torch.relu(push.similarity - self.threshold), push.mask) + masked_sum(1 - pull.similarity, pull.mask)

    def num_terms(self, pairs: Pairs) -> Tensor:
        return pairs.positives.count + pairs.negatives.count
