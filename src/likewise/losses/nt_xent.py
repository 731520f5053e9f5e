"""NT-Xent loss."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from likewise.losses.loss import Loss, require_positive
from likewise.pairs import Pairs, log_sum_exp, masked_mean, softplus


@dataclass(frozen=True)
class NTXent(Loss):
    """l = mean over p of -log(e^{s_p / t} / (e^{s_p / t} + sum_N e^{s_n / t}))  (Chen et al. 2020)."""

    temperature: float = 0.07

    def __post_init__(self) -> None:
        require_positive(self, "temperature")

    def per_anchor(self, pairs: Pairs) -> Tensor:
        pull, push = pairs.positives, pairs.negatives
        negatives = log_sum_exp(push.similarity / self.temperature, push.mask)
        return masked_mean(softplus(negatives[:, None] - pull.similarity / self.temperature), pull.mask)

    def num_terms(self, pairs: Pairs) -> Tensor:
        return pairs.positives.count
