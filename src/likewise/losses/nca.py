"""Neighbourhood components analysis."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from likewise.losses.loss import Loss, require_positive
from likewise.pairs import Pairs, log_sum_exp, softplus


@dataclass(frozen=True)
class NCA(Loss):
    """l = -log(sum_P e^{-scale d^2} / sum over all others e^{-scale d^2})  (Goldberger et al. 2005, their f with the logarithm).

    The chance that the neighbour an anchor draws by its distance is one of its class.
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        require_positive(self, "scale")

    def per_anchor(self, pairs: Pairs) -> Tensor:
        pull, push = pairs.positives, pairs.negatives
        own = log_sum_exp(-self.scale * pull.squared_distance, pull.mask, empty=0.0)
        others = log_sum_exp(-self.scale * push.squared_distance, push.mask)
        return softplus(others - own).masked_fill(pull.empty, 0.0)
