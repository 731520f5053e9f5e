"""Circle loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from likewise.losses.loss import Loss, require_positive
from likewise.pairs import Pairs, log_sum_exp, softplus


@dataclass(frozen=True)
class Circle(Loss):
    """l = log(1 + sum_N e^{scale a_n (s - margin)} sum_P e^{-scale a_p (s - 1 + margin)}), a_n = [s + margin]+, a_p = [1 + margin - s]+.

    The paces a_n, a_p are constants for the gradient (Sun et al. 2020; the settings are the paper's for fine-grained retrieval).
    """

    margin: float = 0.4
    scale: float = 80.0  # gamma

    def __post_init__(self) -> None:
        require_positive(self, "scale")

    def per_anchor(self, pairs: Pairs) -> Tensor:
        pull, push = pairs.positives, pairs.negatives
        pace_pull = torch.relu(1 + self.margin - pull.similarity.detach())
        pace_push = torch.relu(push.similarity.detach() + self.margin)
        pulled = log_sum_exp(-self.scale * pace_pull * (pull.similarity - 1 + self.margin), pull.mask)
        pushed = log_sum_exp(self.scale * pace_push * (push.similarity - self.margin), push.mask)
        return softplus(pulled + pushed)
