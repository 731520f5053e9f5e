"""Recall@k surrogate loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from likewise.losses.loss import Loss, require_positive
from likewise.losses.soft_rank import soft_ranks
from likewise.pairs import Pairs, masked_sum


@dataclass(frozen=True)
class RecallAtK(Loss):
    """l = 1 - mean over k of sum_p sigmoid((k - rank_p) / count_temperature) / min(k, |P|)  (Patel et al. 2022).

    rank_p is counted among all items by sigmoids of rank_temperature.
    """

    ks: tuple[int, ...] = (1, 2, 4, 8, 16)
    rank_temperature: float = 0.01
    count_temperature: float = 1.0

    expands_positives: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "ks", tuple(self.ks))
        if not self.ks or min(self.ks) < 1:
            raise ValueError(f"recall_at_k ks={self.ks!r} must be one or more positive numbers, for example (1, 2, 4)")
        require_positive(self, "rank_temperature", "count_temperature")

    def per_anchor(self, pairs: Pairs) -> Tensor:
        pull = pairs.positives
        _, rank = soft_ranks(pairs, temperature=self.rank_temperature)
        recalls = [masked_sum(torch.sigmoid((k - rank) / self.count_temperature), pull.mask) / pull.count.clamp(1, k) for k in self.ks]
        return (1 - torch.stack(recalls).mean(0)).masked_fill(pull.empty, 0.0)
