"""Quadruplets chosen by a similarity that is learned with the embedding (PDDM)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from likewise.losses.batch_pairs import batch_pairs, mean_over_anchors
from likewise.losses.loss import Loss
from likewise.unit_vectors import unit


class PositionDependent(Loss, nn.Module):
    """l = [a + S_ik - S_ij]+ + [a + S_jl - S_ij]+ + [b + D_ij - D_ik]+ + [b + D_ij - D_jl]+  (Huang, Loy and Tang 2016): a double header,
    of learned similarities S and of distances D.

    j is the positive of the anchor i that is least similar by S, k the negative of i and l that of j that are most similar. S depends on
    where in the space two items are, not only on how far apart:

        u = |x - y|, v = (x + y) / 2,    u' = relu(W_u u / ||u|| + b_u),  v' = relu(W_v v / ||v|| + b_v),
        S = w . relu(W_c [u', v'] + b_c) + b,

    all layers as wide as the embedding. It serves training alone: what is compared in the end are the embeddings. Differs in that each
    anchor has its quadruplet; the paper takes that of the batch's least similar positive pair.
    """

    def __init__(self, score_margin: float = 0.5, margin: float = 1.0, dim: int = 128) -> None:
        super().__init__()
        self.score_margin, self.margin, self.dim = score_margin, margin, dim  # a and b
        self.apart, self.middle = nn.Linear(dim, dim), nn.Linear(dim, dim)  # of u and of v
        self.joined, self.score = nn.Linear(2 * dim, dim), nn.Linear(dim, 1)

    def of_vectors(self, vectors: Tensor, labels: Tensor) -> Tensor:
        pairs = batch_pairs(vectors, labels)
        items = torch.arange(len(vectors), device=vectors.device)
        with torch.no_grad():
            scores = torch.stack([self.similarity(vectors, vector.expand_as(vectors)) for vector in vectors])
            positive = torch.where(pairs.positive, scores, torch.inf).argmin(1)
            negative = torch.where(pairs.negative, scores, -torch.inf).argmax(1)
        total = vectors.new_zeros(len(vectors))
        near, near_score = self._compared(vectors, items, positive)
        for anchor, other in ((items, negative), (positive, negative[positive])):
            far, far_score = self._compared(vectors, anchor, other)
            total = total + torch.relu(self.score_margin + far_score - near_score) + torch.relu(self.margin + near - far)
        return mean_over_anchors(total, pairs)

    def _compared(self, vectors: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Distances and learned similarities of the items at these places: two (n,)."""
        x, y = vectors[first], vectors[second]
        return torch.linalg.vector_norm(x - y, dim=1), self.similarity(x, y)

    def similarity(self, first: Tensor, second: Tensor) -> Tensor:
        """S of each row of one with that of the other: (n,)."""
        apart = torch.relu(self.apart(unit((first - second).abs())))
        middle = torch.relu(self.middle(unit((first + second) / 2)))
        score: Tensor = self.score(torch.relu(self.joined(torch.cat([apart, middle], dim=1))))
        return score.squeeze(1)
