"""Triplet loss whose margin is read off a tree of classes (HTL)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from likewise.losses.batch_pairs import batch_pairs, mean_over_anchors
from likewise.losses.loss import Loss
from likewise.losses.triplet import mean_over_triplets

FARTHEST = 4.0  # the largest squared distance of two unit vectors


class HierarchicalTriplet(Loss, nn.Module):
    """L = mean over anchors a of 1/2 mean over P, N of [d_ap^2 - d_an^2 + margin(a, n)]+  (Ge et al. 2018, eq. 1-6).

    With d(p, q)^2 the mean squared distance of items of two classes, s_p that of two items of one, and d_0 the mean of s over classes,

        margin(a, n) = margin + t_h - s_a,    t_l = d_0 + l (4 - d_0) / levels,

    h the lowest level l of a tree at which the classes of a and n are one: classes are joined at level l where a chain of classes leads
    from one to the other whose steps are all at most t_l (single linkage). So nearby classes have the margin alone, and those far apart
    have to stay as far apart as they are.

    The tree is constant for the gradient. With `num_classes` and `dim` it is made of running means of the classes' items, from which all
    distances follow: d(p, q)^2 = 2 - 2 m_p . m_q. Differs from the paper's: that is made once an epoch from all images and has every class;
    this one is of the present means, and has the classes of the batch.
    """

    means: Tensor | None
    spreads: Tensor | None

    def __init__(
        self, margin: float = 0.1, levels: int = 16, momentum: float = 0.9, num_classes: int | None = None, dim: int | None = None
    ) -> None:
        super().__init__()
        if levels < 1:
            raise ValueError(f"hierarchical_triplet levels={levels!r} must be a number of at least 1")
        self.margin, self.levels, self.momentum = margin, levels, momentum
        is_running = num_classes is not None and dim is not None
        self.num_classes = num_classes if is_running else None
        self.dim = dim if is_running else None
        self.register_buffer("means", torch.full((num_classes, dim), torch.nan) if is_running else None)  # type: ignore[arg-type]
        self.register_buffer("spreads", torch.full((num_classes,), torch.nan) if is_running else None)  # type: ignore[arg-type]

    def of_vectors(self, vectors: Tensor, labels: Tensor) -> Tensor:
        pairs = batch_pairs(vectors, labels)
        classes, member = torch.unique(labels, return_inverse=True)
        with torch.no_grad():
            means, spreads = class_statistics(vectors, member, len(classes))
            typical = spreads
            if self.means is not None and self.spreads is not None:
                means, spreads, typical = self._running(classes, means, spreads)
            margins = self._margins(means, spreads, typical.nanmean().nan_to_num(0.0))[member][:, member]
        pull, push = pairs.positives, pairs.negatives
        squared = pull.squared_distance
        return mean_over_anchors(mean_over_triplets(squared, pull, squared - margins, push) / 2, pairs)

    def _running(self, classes: Tensor, means: Tensor, spreads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Means and spreads of these classes, and the spreads of all, after these of a batch have joined them."""
        assert self.means is not None
        assert self.spreads is not None
        for running, found in ((self.means, means), (self.spreads, spreads)):
            before, now = running[classes], found.to(running.dtype)
            mixed = torch.where(before.isnan(), now, torch.where(now.isnan(), before, self.momentum * before + (1 - self.momentum) * now))
            if self.training:
                running[classes] = mixed
            found.copy_(mixed)
        return means, spreads, self.spreads.to(spreads.dtype)

    def _margins(self, means: Tensor, spreads: Tensor, typical: Tensor) -> Tensor:
        """margin(a, n) of all pairs of classes: (k, k)."""
        chain = 2 - 2 * means @ means.T  # the longest step of the shortest-stepped chain found so far
        for through in range(len(chain)):
            chain = torch.minimum(chain, torch.maximum(chain[:, through, None], chain[through]))
        step = ((FARTHEST - typical) / self.levels).clamp_min(torch.finfo(chain.dtype).tiny)
        level = ((chain - typical) / step).ceil().clamp(0, self.levels)
        return self.margin + typical + level * step - torch.where(spreads.isnan(), typical, spreads)[:, None]


def class_statistics(vectors: Tensor, member: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
    """The means of classes (k, d) of unit vectors, and the mean squared distance of two items of each (k,), NaN where there is one only."""
    size = torch.bincount(member, minlength=num_classes).to(vectors.dtype)
    total = vectors.new_zeros(num_classes, vectors.shape[1]).index_add_(0, member, vectors)
    squares = vectors.new_zeros(num_classes).index_add_(0, member, vectors.square().sum(1))
    between = (total.square().sum(1) - squares) / (size * (size - 1))  # the mean similarity of two items; 0 / 0 for a single one
    return total / size[:, None], torch.where(size > 1, (2 - 2 * between).clamp(0, FARTHEST), torch.nan)
