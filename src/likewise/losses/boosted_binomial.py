"""Binomial deviance of an embedding's parts, boosted (BIER)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from likewise.losses.batch_pairs import batch_pairs, mean_over_anchors
from likewise.losses.loss import Loss, require_positive
from likewise.pairs import masked_mean, softplus
from likewise.unit_vectors import unit_parts


@dataclass(frozen=True)
class BoostedBinomial(Loss):
    """L = 1/M sum_m mean over anchors of (mean_P w_m log(1 + e^{-z_m}) + mean_N w_m log(1 + e^{-z_m}))  (Opitz et al. 2017).

    An embedding is cut into M parts, learners of their own: s_m is the cosine of the m-th parts of two items. z is how far a pair is on
    its right side: alpha (s - threshold) of a positive, beta (threshold - s) of a negative. The weights are those of online gradient
    boosting (the paper's Algorithm 1): w_1 = 1, and a later learner sees a pair by the negative gradient of the ensemble before it,

        w_{m+1} = -dl/dZ = 1 / (1 + e^{shrinkage Z_m}),    Z_m = (1 - eta_m) Z_{m-1} + eta_m z_m,    eta_m = 2 / (m + 1),

    held constant. Shrinkage 1 is the algorithm as printed; the authors' code shrinks by .06, without which easy negatives weigh nothing at
    all. beta = alpha C with the paper's C = 25. Differs in its means, over a row and then over anchors as of every loss here; the
    paper's are over all pairs of a side. With one part it is `binomial_deviance`.
    """

    parts: tuple[int, ...] = (3, 5, 8)  # proportions of the parts' widths: of 512 dimensions 96, 160 and 256
    alpha: float = 2.0  # sharpness on positives
    beta: float = 50.0  # sharpness on negatives
    threshold: float = 0.5
    shrinkage: float = 1.0

    def __post_init__(self) -> None:
        require_positive(self, "alpha", "beta")

    def of_vectors(self, vectors: Tensor, labels: Tensor) -> Tensor:
        total = vectors.new_zeros(())
        ensemble = weights = torch.ones_like(total)
        for number, part in enumerate(unit_parts(vectors, self.parts), start=1):
            pairs = batch_pairs(part, labels)
            distance_to_threshold = pairs.similarity - self.threshold
            right = torch.where(pairs.positive, self.alpha * distance_to_threshold, -self.beta * distance_to_threshold)
            deviance = weights * softplus(-right)
            total = total + mean_over_anchors(masked_mean(deviance, pairs.positive) + masked_mean(deviance, pairs.negative), pairs)
            ensemble = torch.lerp(ensemble.expand_as(right), right.detach(), 2 / (number + 1))
            weights = torch.sigmoid(-self.shrinkage * ensemble)
        return total / len(self.parts)
