"""N-pair loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from likewise.losses.loss import Loss
from likewise.pairs import Pairs, log_sum_exp, masked_mean, softplus


@dataclass(frozen=True)
class NPair(Loss):
    """l = mean over p of log(1 + sum_N exp(s_n - s_p)), s the dot product of unnormalised embeddings (RLL, eq. 2; NRA, eq. 4).

    Plus norm_penalty x mean ||x||^2: without it the loss falls by growing the vectors.
    """

    norm_penalty: float = 5e-4

    normalize: ClassVar[bool] = False

    def per_anchor(self, pairs: Pairs) -> Tensor:
        pull, push = pairs.positives, pairs.negatives
        negatives = log_sum_exp(push.similarity, push.mask)
        return masked_mean(softplus(negatives[:, None] - pull.similarity), pull.mask)

    def penalty(self, anchors: Tensor, references: Tensor) -> Tensor:
        return self.norm_penalty * anchors.square().sum(-1).mean()

    def num_terms(self, pairs: Pairs) -> Tensor:
        return pairs.positives.count
