"""Generalised lifted structure loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from likewise.losses.loss import Loss
from likewise.pairs import Pairs, log_sum_exp


@dataclass(frozen=True)
class GeneralizedLifted(Loss):
    """l = [LSE_P(margin - s) + LSE_N(s)]+  (unified view, eq. 9, which is misprinted there: its own weights are those of this)."""

    margin: float = 1.0

    def per_anchor(self, pairs: Pairs) -> Tensor:
        pull, push = pairs.positives, pairs.negatives
        return torch.relu(
            log_sum_exp(self.margin - pull.similarity, pull.mask, empty=0.0) + log_sum_exp(push.similarity, push.mask, empty=0.0)
        )
