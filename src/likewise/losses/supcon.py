"""Supervised contrastive loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from likewise.losses.loss import Loss, require_positive
from likewise.pairs import VERY_LOW, Pairs, log_sum_exp, masked_mean


@dataclass(frozen=True)
class SupCon(Loss):
    """l = -mean over p of log(e^{s_p / t} / sum over all others e^{s / t})  (Khosla et al. 2020, L_out)."""

    temperature: float = 0.1

    def __post_init__(self) -> None:
        require_positive(self, "temperature")

    def per_anchor(self, pairs: Pairs) -> Tensor:
        pull, push = pairs.positives, pairs.negatives
        own, others = pull.similarity / self.temperature, push.similarity / self.temperature
        everything = torch.logaddexp(log_sum_exp(own, pull.mask, empty=VERY_LOW), log_sum_exp(others, push.mask, empty=VERY_LOW))
        return (everything - masked_mean(own, pull.mask)).masked_fill(pull.empty, 0.0)

    def num_terms(self, pairs: Pairs) -> Tensor:
        return pairs.positives.count
