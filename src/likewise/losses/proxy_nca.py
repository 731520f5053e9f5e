"""Proxy-NCA loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from likewise.losses.loss import Loss, Meets, require_positive
from likewise.pairs import Pairs, log_sum_exp, masked_sum


@dataclass(frozen=True)
class ProxyNCA(Loss):
    """l = -log(e^{-D own} / sum over OTHER proxies e^{-D}), D = scale x d^2  (unbiased evaluation, eq. 14).

    Embeddings and proxies are unit vectors: without a scale the loss barely trains (4.2).
    """

    scale: float = 3.0

    meets: ClassVar[Meets] = "proxies"

    def __post_init__(self) -> None:
        require_positive(self, "scale")

    def per_anchor(self, pairs: Pairs) -> Tensor:
        pull, push = pairs.positives, pairs.negatives
        own = masked_sum(self.scale * pull.squared_distance, pull.mask)
        return own + log_sum_exp(-self.scale * push.squared_distance, push.mask, empty=0.0)
