"""Contrastive loss of several learners that are kept apart (ABE)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from likewise.losses.batch_pairs import batch_pairs, mean_over_anchors
from likewise.losses.contrastive import Contrastive
from likewise.losses.loss import Loss
from likewise.unit_vectors import unit_parts


@dataclass(frozen=True)
class AttentionEnsemble(Loss):
    """L = sum_m contrastive of the m-th parts + divergence mean_i sum_{p < q} [apart - ||x_ip - x_iq||^2]+  (Kim et al. 2018, eq. 5-8).

    The parts of an embedding are learners of equal width. Each learns by the contrastive loss, with a margin of squared distances, hence a
    threshold of similarities of 1 - margin / 2. The second term keeps the learners' embeddings x_ip, x_iq of one image i apart, so that
    they look at different things. As in `contrastive` pairs are summed within a row; the paper takes their mean.
    """

    parts: tuple[int, ...] = (1, 1)  # proportions of the parts' widths: equal
    margin: float = 1.0  # m_c
    apart: float = 1.0  # m_div
    divergence: float = 1.0  # lambda_div

    def __post_init__(self) -> None:
        if len(set(self.parts)) > 1:
            raise ValueError(f"attention_ensemble parts={self.parts!r}: its learners are compared with each other, expected equal parts")

    def of_vectors(self, vectors: Tensor, labels: Tensor) -> Tensor:
        if vectors.shape[1] % len(self.parts):
            raise ValueError(f"embeddings of {vectors.shape[1]} dimensions cannot be cut into {len(self.parts)} equal parts")
        learners = unit_parts(vectors, self.parts)
        contrastive = Contrastive(threshold=1 - self.margin / 2)
        total = vectors.new_zeros(())
        for part in learners:
            pairs = batch_pairs(part, labels)
            total = total + mean_over_anchors(contrastive.per_anchor(pairs), pairs)
        for first, second in combinations(learners, 2):
            alike = torch.relu(self.apart - 2 + 2 * (first * second).sum(1)).mean()
            total = total + self.divergence * alike
        return torch.where(pairs.valid.any(), total, 0.0)
