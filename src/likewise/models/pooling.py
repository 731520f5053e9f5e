"""Poolings: feature maps (N, C, H, W) to vectors (N, C) in float32. Vectors pass through."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


class AveragePooling(nn.Module):
    """The mean over places, summed in float32."""

    def forward(self, features: Tensor) -> Tensor:
        return features.float() if features.ndim == 2 else features.mean((2, 3), dtype=torch.float32)


class MaxPooling(nn.Module):
    """The largest value over places."""

    def forward(self, features: Tensor) -> Tensor:
        return features.float() if features.ndim == 2 else features.amax((2, 3)).float()


class AverageMaxPooling(nn.Module):
    """Mean plus largest value (the Proxy-Anchor authors' pooling)."""

    def forward(self, features: Tensor) -> Tensor:
        return features.float() if features.ndim == 2 else features.mean((2, 3), dtype=torch.float32) + features.amax((2, 3)).float()


class GeMPooling(nn.Module):
    """Generalised mean: (mean over places of x^p)^(1/p), p learned from 3 on (Radenovic et al., 2018). Values below 1e-6 count as 1e-6.

    p = 1 is the average, p -> infinity the maximum. In float32, also under autocast: x^p leaves the range of 16 bits.
    """

    def __init__(self) -> None:
        super().__init__()
        self.exponent = nn.Parameter(torch.tensor([3.0]))

    def forward(self, features: Tensor) -> Tensor:
        if features.ndim == 2:
            return features.float()
        return features.float().clamp(min=1e-6).pow(self.exponent).mean((2, 3)).pow(1 / self.exponent)


POOLINGS: dict[str, Callable[[], nn.Module]] = {
    "avg": AveragePooling,
    "max": MaxPooling,
    "avg+max": AverageMaxPooling,
    "gem": GeMPooling,
}
