"""Prototypical loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from likewise.losses.loss import Loss, Meets
from likewise.pairs import Pairs, log_sum_exp, masked_mean, softplus


@dataclass(frozen=True)
class Prototypical(Loss):
    """l = -log softmax of -d^2 to the class means of the episode's support  (unbiased evaluation, eq. 13), unnormalised.

    In a batch the first `num_support` items of each class are its support, the rest are the anchors.
    """

    num_support: int | None = None  # None: half of the class's items

    normalize: ClassVar[bool] = False
    meets: ClassVar[Meets] = "prototypes"

    def __post_init__(self) -> None:
        if self.num_support is not None and self.num_support < 1:
            raise ValueError(f"prototypical num_support={self.num_support} leaves classes without a mean: use at least 1")

    def per_anchor(self, pairs: Pairs) -> Tensor:
        pull, push = pairs.positives, pairs.negatives
        others = log_sum_exp(-push.squared_distance, push.mask)
        return masked_mean(softplus(others[:, None] + pull.squared_distance), pull.mask)

    def num_terms(self, pairs: Pairs) -> Tensor:
        return pairs.positives.count
