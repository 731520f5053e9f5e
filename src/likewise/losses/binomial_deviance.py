"""Binomial deviance loss."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from likewise.losses.loss import Loss, require_positive
from likewise.pairs import Pairs, masked_mean, softplus


@dataclass(frozen=True)
class BinomialDeviance(Loss):
    """l = mean_P log(1 + e^{alpha (threshold - s)}) + mean_N log(1 + e^{beta (s - threshold)})  (unified view, eq. 12)."""

    alpha: float = 2.0  # sharpness on positives
    beta: float = 50.0  # sharpness on negatives
    threshold: float = 0.5  # the paper's gamma

    def __post_init__(self) -> None:
        require_positive(self, "alpha", "beta")

    def per_anchor(self, pairs: Pairs) -> Tensor:
        pull, push = pairs.positives, pairs.negatives
        return masked_mean(softplus(self.alpha * (self.threshold - pull.similarity)), pull.mask) + masked_mean(
            softplus(self.beta * (push.similarity - self.threshold)), push.mask
        )
