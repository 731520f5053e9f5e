"""Spectral clustering loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from likewise.losses.loss import Loss


@dataclass(frozen=True)
class SpectralClustering(Loss):
    """L = 1/N ||X X+ - Y Y+||_F^2, X the embeddings, Y the one-hot labels  (RLL, 2.1.2; Law et al. 2017).

    The squared distance of two projectors is rank(X) + rank(Y) - 2 trace(X X+ Y Y+); its gradient by X is
    -4 (I - X X+) Y Y+ (X+)^T, in closed form. Directions of X below its round-off are not part of its span, so that a batch of
    rank-deficient embeddings has a finite loss and gradient. A batch of no more items than dimensions spans everything and has
    gradient 0: the method needs large batches.
    """

    def of_vectors(self, vectors: Tensor, labels: Tensor) -> Tensor:
        _, classes, counts = torch.unique(labels, return_inverse=True, return_counts=True)
        if not 1 < counts.shape[0] < labels.shape[0]:  # one class, or none of two items: no anchor has a positive and a negative
            return (vectors * 0).sum()
        loss: Tensor = _ProjectorDistance.apply(vectors, classes, counts)  # type: ignore[no-untyped-call]
        return loss / vectors.shape[0]


class _ProjectorDistance(torch.autograd.Function):
    """||X X+ - Y Y+||_F^2 without ever forming an N x N matrix."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, classes: Tensor, counts: Tensor) -> Tensor:
        left, values, right = torch.linalg.svd(vectors, full_matrices=False)
        limit = values[:1] * max(vectors.shape) * torch.finfo(vectors.dtype).eps
        spanned = values > limit
        left = left * spanned  # an orthonormal basis of the span of X
        means = torch.zeros(counts.shape[0], left.shape[1], dtype=left.dtype, device=left.device)
        means = means.index_add_(0, classes, left) / counts[:, None]  # (Y^T Y)^-1 Y^T U
        agreement = (means.square() * counts[:, None]).sum()  # trace(X X+ Y Y+)
        shared = means[classes]  # Y Y+ U
        inverse = torch.where(spanned, 1 / torch.where(spanned, values, 1.0), 0.0)
        slope = (shared - left @ (left.T @ shared)) * inverse @ right  # (I - X X+) Y Y+ (X+)^T
        ctx.save_for_backward(-4 * slope)
        distance: Tensor = spanned.sum() + counts.shape[0] - 2 * agreement
        return distance

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return slope * gradient, None, None
