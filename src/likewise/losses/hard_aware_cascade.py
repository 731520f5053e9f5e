"""Contrastive loss in a cascade of ever harder pairs (HDC)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from likewise.losses.batch_pairs import batch_pairs
from likewise.losses.loss import Loss
from likewise.pairs import masked_sum
from likewise.unit_vectors import unit_parts


@dataclass(frozen=True)
class HardAwareCascade(Loss):
    """L = 1/A sum_k (sum over P_k of d_k^2 + sum over N_k of [margin - d_k^2]+)  (Yuan, Yang and Zhang 2017).

    The k-th part of an embedding is a model of its own, deeper than the one before: d_k is the distance of the k-th parts of two items. P_1
    and N_1 are all positive and negative pairs of the batch. Of P_{k-1}, the pairs that the model before was trained on, P_k has those that
    are farthest by d_{k-1}, and N_k the nearest of N_{k-1}: a share `hardest` of all pairs of their side. Which pairs these are is constant
    for the gradient. A is the number of anchors with a positive and a negative.

    As in the authors' code the hinge is on squared distances; there a level's sum is divided by the number of pairs with a loss, and every
    level chooses by its own distances instead of by those of the level before, as the paper has it.
    """

    parts: tuple[int, ...] = (1, 1, 1)  # proportions of the parts' widths, one part a level
    hardest: tuple[float, ...] = (1.0, 0.5, 0.2)  # share of all pairs that each level sees
    margin: float = 1.0

    def __post_init__(self) -> None:
        if len(self.hardest) < len(self.parts):
            raise ValueError(f"hard_aware_cascade hardest={self.hardest!r}: expected a share for each of {len(self.parts)} parts")
        if self.hardest[0] != 1 or not all(0 < share <= 1 for share in self.hardest):
            raise ValueError(f"hard_aware_cascade hardest={self.hardest!r}: expected 1, all pairs, then shares above 0 and up to 1")

    def of_vectors(self, vectors: Tensor, labels: Tensor) -> Tensor:
        total = vectors.new_zeros(())
        pairs = batch_pairs(vectors, labels)
        positive, negative = pairs.positive.triu(1).flatten(), pairs.negative.triu(1).flatten()  # every pair once
        num_positive, num_negative = positive.sum(), negative.sum()
        squared = None  # of the level before
        for part, share in zip(unit_parts(vectors, self.parts), self.hardest, strict=False):
            if squared is not None:
                positive = _largest(squared, positive, share * num_positive)
                negative = _largest(-squared, negative, share * num_negative)
            of_part = 2 - 2 * (part @ part.T).flatten()
            total = total + masked_sum(of_part, positive) + masked_sum(torch.relu(self.margin - of_part), negative)
            squared = of_part.detach()
        num_anchors = pairs.valid.sum()
        return torch.where(num_anchors > 0, total / num_anchors.clamp_min(1), 0.0)


def _largest(values: Tensor, mask: Tensor, count: Tensor) -> Tensor:
    """Where the mask holds and the values are the `count` (rounded up) largest of those, and any equal to the least of them."""
    ordered = torch.where(mask, values, -math.inf).sort(descending=True).values
    return mask & (values >= ordered[(count.ceil().long() - 1).clamp_min(0)])
