"""Histogram loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from likewise.losses.loss import Loss
from likewise.losses.soft_histogram import soft_histogram
from likewise.pairs import Pairs


@dataclass(frozen=True)
class Histogram(Loss):
    """L = sum over bins r of h-(r) sum_{q <= r} h+(q): the chance that a random negative pair is more similar than a random positive one.

    h+ and h- are the soft histograms of all positive and all negative similarities of the batch on `bins` nodes of [-1, 1]
    (Ustinova and Lempitsky 2016). A batch without positive or without negative pairs has loss 0.
    """

    bins: int = 100

    def __post_init__(self) -> None:
        if self.bins < 2:
            raise ValueError(f"histogram bins={self.bins} cannot hold a distribution: use at least 2")

    def pooled(self, pairs: Pairs) -> Tensor:
        sides = (pairs.positives, pairs.negatives)
        return torch.cat([soft_histogram(side.similarity, side.mask, low=-1.0, high=1.0, nodes=self.bins) for side in sides], -1)

    def from_pool(self, totals: Tensor) -> Tensor:
        positive, negative = totals[: self.bins], totals[self.bins :]
        pairs = (positive.sum() * negative.sum()).detach()
        return (negative * positive.cumsum(0)).sum() / torch.where(pairs > 0, pairs, 1.0)
