"""Angular loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from likewise.losses.loss import Loss
from likewise.pairs import Pairs, log1p_sum_exp, masked_mean, of_each_positive


@dataclass(frozen=True)
class Angular(Loss):
    """l = mean over p of log(1 + sum_N exp(4 t (x_a + x_p).x_n - 2 (1 + t) x_a.x_p)), t = tan^2(angle)  (unbiased evaluation, eq. 4-5).

    The positive meets the anchor's negatives too, so the loss looks at pairs of references.
    """

    angle: float = 45.0  # degrees: bounds the angle at the negative corner of the triangle

    expands_positives: ClassVar[bool] = True
    between_references: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.angle < 90:
            raise ValueError(f"angular angle={self.angle!r} must lie between 0 and 90 degrees")

    def per_anchor(self, pairs: Pairs) -> Tensor:
        return masked_mean(of_each_positive(self.of_positives, pairs), pairs.positives.mask)

    def of_positives(self, pairs: Pairs) -> Tensor:
        """The term of each positive: (a, positives)."""
        pull, push = pairs.positives, pairs.negatives
        square = math.tan(math.radians(self.angle)) ** 2
        both = push.similarity[:, None, :] + pairs.positives_against_references()  # (a, positives, r)
        terms = 4 * square * both - 2 * (1 + square) * pull.similarity[..., None]
        return log1p_sum_exp(terms, push.mask[:, None, :])

    def num_terms(self, pairs: Pairs) -> Tensor:
        return pairs.positives.count
