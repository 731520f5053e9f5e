"""Proxy-Anchor loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from likewise.losses.loss import Loss, Meets, require_positive
from likewise.pairs import Pairs, log1p_sum_exp


@dataclass(frozen=True)
class ProxyAnchor(Loss):
    """L = mean over proxies with a positive of log(1 + sum_P e^{-alpha (s - delta)})
    + mean over all proxies of log(1 + sum_N e^{alpha (s + delta)})  (Kim et al. 2020).

    The proxy is the anchor, the batch its references.
    """

    alpha: float = 32.0
    delta: float = 0.1

    meets: ClassVar[Meets] = "proxies"
    proxies_are_anchors: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_positive(self, "alpha")

    def pooled(self, pairs: Pairs) -> Tensor:
        pull, push = pairs.positives, pairs.negatives
        pulled = log1p_sum_exp(-self.alpha * (pull.similarity - self.delta), pull.mask)
        pushed = log1p_sum_exp(self.alpha * (push.similarity + self.delta), push.mask)
        met = (~pull.empty).to(pulled.dtype)
        return torch.stack([pulled, met, pushed, torch.ones_like(met)], -1)

    def from_pool(self, totals: Tensor) -> Tensor:
        pulled, met, pushed, proxies = totals.unbind()
        return pulled / met.clamp_min(1) + pushed / proxies
