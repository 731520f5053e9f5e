"""Lifted structure loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from likewise.losses.loss import Loss
from likewise.pairs import VERY_LOW, Pairs, log_sum_exp, masked_mean


@dataclass(frozen=True)
class Lifted(Loss):
    """l = 1/2 mean over p of [J_ip]+^2, J_ip = log(sum_{N_i} exp(margin - d) + sum_{N_p} exp(margin - d)) + d_ip  (NRA, eq. 3).

    The second sum belongs to the positive's own row: it is that row's statistic. squared=False is the plain hinge of RLL, eq. 3.
    """

    margin: float = 1.0
    squared: bool = True

    def statistic(self, pairs: Pairs) -> Tensor:
        push = pairs.negatives
        return log_sum_exp(self.margin - push.distance, push.mask, empty=VERY_LOW)

    def per_anchor(self, pairs: Pairs) -> Tensor:
        assert pairs.statistic is not None
        pull = pairs.positives
        negatives = torch.logaddexp(self.statistic(pairs)[:, None], pull.per_column(pairs.statistic))
        hinge = torch.relu(negatives + pull.distance)
        return masked_mean(hinge.square() if self.squared else hinge, pull.mask) / 2

    def num_terms(self, pairs: Pairs) -> Tensor:
        return pairs.positives.count
