"""Smooth-AP loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from likewise.losses.loss import Loss, require_positive
from likewise.losses.soft_rank import soft_ranks
from likewise.pairs import Pairs, masked_mean


@dataclass(frozen=True)
class SmoothAP(Loss):
    """l = 1 - mean over p of rank among positives / rank among all, ranks counted by sigmoids  (Brown et al. 2020)."""

    temperature: float = 0.01

    expands_positives: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_positive(self, "temperature")

    def per_anchor(self, pairs: Pairs) -> Tensor:
        among_positives, among_all = soft_ranks(pairs, temperature=self.temperature)
        mask = pairs.positives.mask
        return (1 - masked_mean(among_positives / among_all, mask)).masked_fill(pairs.positives.empty, 0.0)

    def num_terms(self, pairs: Pairs) -> Tensor:
        return pairs.positives.count
