"""Tuplet margin loss."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from likewise.losses.loss import Loss, require_positive
from likewise.pairs import Pairs, log_sum_exp, masked_mean, softplus


@dataclass(frozen=True)
class TupletMargin(Loss):
    """l = mean over p of log(1 + sum_N e^{scale (cos theta_n - cos(theta_p - slack))})  (Yu and Tao 2019, eq. 6).

    A positive nearer than the slack is turned away again: hard tuplets count more, those that may be noise less.
    """

    slack: float = 0.1  # radians; the paper's beta
    scale: float = 64.0  # the paper's s

    def __post_init__(self) -> None:
        require_positive(self, "scale")
        if not 0 <= self.slack < math.pi / 2:
            raise ValueError(f"TupletMargin slack={self.slack!r}: expected radians from 0 to below {math.pi / 2:.2f}")

    def per_anchor(self, pairs: Pairs) -> Tensor:
        pull, push = pairs.positives, pairs.negatives
        square = 1 - pull.similarity.square()
        sine = torch.where(square > 0, torch.where(square > 0, square, 1.0).sqrt(), 0.0)  # its slope is infinite at cosine 1
        turned = pull.similarity * math.cos(self.slack) + sine * math.sin(self.slack)
        negatives = log_sum_exp(self.scale * push.similarity, push.mask)
        return masked_mean(softplus(negatives[:, None] - self.scale * turned), pull.mask)
