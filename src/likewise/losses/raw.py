"""RAW: relative and absolute similarity weights."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from likewise.losses.loss import Loss, require_positive
from likewise.pairs import Pairs, log1p_sum_exp


@dataclass(frozen=True)
class RelativeAbsolute(Loss):
    """l = 1/alpha log(1 + sum_P e^{-alpha (s - threshold)}) + 1/beta log(1 + sum_N e^{beta (s - threshold)})  (unified view, eq. 17)."""

    alpha: float = 2.0  # sharpness on positives
    beta: float = 50.0  # sharpness on negatives
    threshold: float = 0.5  # the paper's gamma

    def __post_init__(self) -> None:
        require_positive(self, "alpha", "beta")

    def per_anchor(self, pairs: Pairs) -> Tensor:
        pull, push = pairs.positives, pairs.negatives
        pulled = log1p_sum_exp(-self.alpha * (pull.similarity - self.threshold), pull.mask) / self.alpha
        pushed = log1p_sum_exp(self.beta * (push.similarity - self.threshold), push.mask) / self.beta
        return pulled + pushed
