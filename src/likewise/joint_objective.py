"""Several objectives as one, and regularisers of the embeddings themselves to add to a loss.

likewise.joint_objective.JointObjective([(1.0, likewise.objective("raw")), (0.1, likewise.objective(Decorrelation()))])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from likewise.losses.loss import Loss
from likewise.objectives import Objective


class JointObjective(nn.Module):
    """sum over terms of weight x objective, called as each of them is: with the same embeddings, labels and further arguments.

    Each term is normalised, mined, blocked and gathered as it was made; what they learn are parameters of this module.
    `values` holds what each term was at the last call, without gradient and before its weight.
    """

    def __init__(self, terms: Sequence[tuple[float, Objective]]) -> None:
        super().__init__()
        if not terms:
            raise ValueError("a joint objective of no terms: give pairs of a weight and an objective")
        for number, term in enumerate(terms):
            if not isinstance(term, tuple) or len(term) != 2 or not isinstance(term[1], Objective):
                raise ValueError(
                    f"term {number} is {term!r}: expected a pair of a weight and an objective, (0.5, likewise.objective('raw'))"
                )
            if not isinstance(term[0], int | float) or not 0 <= term[0] < float("inf"):
                raise ValueError(f"term {number} has the weight {term[0]!r}: expected a number of at least 0")
        self.weights = tuple(float(weight) for weight, _ in terms)
        self.objectives = nn.ModuleList(objective for _, objective in terms)
        self.values: tuple[Tensor, ...] = ()

    def forward(self, embeddings: Tensor, labels: Tensor | None = None, **further: Any) -> Tensor:
        losses = [objective(embeddings, labels, **further) for objective in self.objectives]
        self.values = tuple(loss.detach() for loss in losses)
        return torch.stack([weight * loss for weight, loss in zip(self.weights, losses, strict=True)]).sum()


@dataclass(frozen=True)
class NormPenalty(Loss):
    """L = mean (||x|| - target)^2: keeps embeddings that are not normalised from growing; target 0 is weight decay of the embeddings."""

    target: float = 0.0

    normalize: ClassVar[bool] = False

    def of_vectors(self, vectors: Tensor, labels: Tensor) -> Tensor:
        if self.target == 0:
            return vectors.square().sum(1).mean()
        squared = vectors.square().sum(1)
        length = torch.where(squared > 0, torch.where(squared > 0, squared, 1.0).sqrt(), 0.0)  # a zero vector has no direction to grow in
        return (length - self.target).square().mean()


@dataclass(frozen=True)
class CentrePenalty(Loss):
    """L = ||mean x||^2 of unit vectors: 1 where all point the same way, 0 where they balance around the origin."""

    def of_vectors(self, vectors: Tensor, labels: Tensor) -> Tensor:
        return vectors.mean(0).square().sum()


@dataclass(frozen=True)
class Decorrelation(Loss):
    """L = mean over pairs of dimensions of their squared covariance over the batch's unit vectors, times the dimension: orthogonal axes."""

    def of_vectors(self, vectors: Tensor, labels: Tensor) -> Tensor:
        number, dim = vectors.shape
        if number < 2 or dim < 2:
            return (vectors * 0).sum()
        centred = vectors - vectors.mean(0)
        covariance = centred.T @ centred / (number - 1)
        apart = covariance.square().sum() - covariance.diagonal().square().sum()
        return apart / (dim - 1)
