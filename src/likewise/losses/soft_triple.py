"""SoftTriple loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from likewise.losses.loss import Loss, Meets, require_positive
from likewise.pairs import Pairs, any_of, log_sum_exp


@dataclass(frozen=True)
class SoftTriple(Loss):
    """l = cross entropy of scale x (S_c - margin [c = y]) over classes, S_c = sum_k softmax_k(s_ck / gamma) s_ck  (Qian et al. 2019).

    Each class has `num_centers` centres; `regularization` draws the centres of a class together so that unneeded ones merge.
    """

    num_centers: int = 10
    scale: float = 20.0  # lambda
    gamma: float = 0.1  # temperature among the centres of a class
    margin: float = 0.01  # delta
    regularization: float = 0.2  # tau

    meets: ClassVar[Meets] = "proxies"

    def __post_init__(self) -> None:
        require_positive(self, "num_centers", "scale", "gamma")
        object.__setattr__(self, "proxies_per_class", self.num_centers)

    def per_anchor(self, pairs: Pairs) -> Tensor:
        similarity = pairs.similarity.unflatten(-1, (-1, self.num_centers))  # (a, classes, centres)
        of_class = ((similarity / self.gamma).softmax(-1) * similarity).sum(-1)
        own = any_of(pairs.positive.unflatten(-1, (-1, self.num_centers)))
        other = any_of(pairs.negative.unflatten(-1, (-1, self.num_centers)))
        logits = self.scale * (of_class - self.margin * own.to(of_class.dtype))
        own_logit = torch.where(own, logits, 0.0).sum(-1)
        return (log_sum_exp(logits, own | other) - own_logit).masked_fill(pairs.positives.empty, 0.0)

    def penalty(self, anchors: Tensor, references: Tensor) -> Tensor:
        """regularization x mean over classes and pairs of centres of their distance / 2  (their eq. 7)."""
        k = self.num_centers
        if k == 1 or self.regularization == 0:
            return references.sum() * 0
        centers = references.unflatten(0, (-1, k))  # (classes, k, d)
        products = centers @ centers.mT  # (classes, k, k): far smaller than the differences of all pairs
        norms = products.diagonal(dim1=-2, dim2=-1)
        squared = norms[:, :, None] + norms[:, None, :] - 2 * products
        first, second = torch.triu_indices(k, k, 1, device=references.device)
        squared = squared[:, first, second]
        apart = squared > 8 * torch.finfo(squared.dtype).eps * (norms[:, first] + norms[:, second]).detach() / 2
        distance = torch.where(apart, torch.where(apart, squared, 1.0).sqrt(), 0.0)
        penalty: Tensor = self.regularization / (centers.shape[0] * k * (k - 1)) * distance.sum()
        return penalty
