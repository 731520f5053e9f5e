"""Ranked List Loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from likewise.losses.loss import Loss
from likewise.pairs import Pairs, as_number, masked_max, masked_mean


@dataclass(frozen=True)
class RankedList(Loss):
    """l = mean_{P*} [d - (alpha - margin)]+ + balance x sum_{N*} w/sum(w) [alpha - d]+, w = exp(temperature (alpha - d))  (RLL, eq. 8-13).

    P* = positives with d > alpha - margin, N* = negatives with d < alpha: the non-trivial ones. The weights are constants
    for the gradient and so is everything the query is compared with (section 3.2): only the query moves.
    """

    margin: float = 0.4
    alpha: float = 1.2  # negatives are pushed beyond this distance
    temperature: float = 10.0  # how much nearer negatives outweigh others
    balance: float = 1.0  # lambda

    references_constant: ClassVar[bool] = True

    def per_anchor(self, pairs: Pairs) -> Tensor:
        pull, push = pairs.positives, pairs.negatives
        far = pull.distance - (self.alpha - self.margin)
        near = self.alpha - push.distance
        with torch.no_grad():
            non_trivial = push.mask & (near > 0)
            # relative to the largest, so that no exponent overflows and none of them all underflow
            top = masked_max(near, non_trivial, empty=0.0)[:, None]
            weight = (self.temperature * (near - top)).clamp_max_(0).exp_() * as_number(non_trivial, near.dtype)
            total = weight.sum(-1)
        pulled = masked_mean(far, pull.mask & (far > 0))
        return pulled + self.balance * (weight * near).sum(-1) / torch.where(total > 0, total, 1.0)
