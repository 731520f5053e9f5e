"""Heads: from the features at one level to that level's embedding, un-normalised, in float32."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from likewise.models.backbones.backbone import Level
from likewise.models.pooling import POOLINGS
from likewise.unit_vectors import part_widths

RLL_GRID: dict[Level, int] = {"low": 4, "mid": 2}


class Projection(nn.Linear):
    """The last linear layer, Xavier-initialised; in float32 (its weights' type) under autocast too, for 8 bits are too few."""

    def __init__(self, in_features: int, dim: int, *, bias: bool) -> None:
        super().__init__(in_features, dim, bias=bias)
        nn.init.xavier_uniform_(self.weight)
        if bias:
            nn.init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        with torch.autocast(input.device.type, enabled=False):
            return super().forward(input.to(self.weight.dtype))


class UnitLength(nn.Module):
    """Rows to length 1."""

    def forward(self, features: Tensor) -> Tensor:
        return nn.functional.normalize(features)


class UnitParts(nn.Module):
    """An embedding's parts, of widths in these proportions, each to the root of its share of the length: the cosine of two embeddings is
    then the mean of the parts' cosines, weighed by their widths."""

    def __init__(self, shares: tuple[int, ...], dim: int) -> None:
        super().__init__()
        self.shares = shares
        self.widths = part_widths(shares, dim)

    def forward(self, embeddings: Tensor) -> Tensor:
        parts = zip(embeddings.split(self.widths, dim=1), self.shares, strict=True)
        return torch.cat([nn.functional.normalize(part) * (share / sum(self.shares)) ** 0.5 for part, share in parts], dim=1)

    def extra_repr(self) -> str:
        return f"shares={self.shares}"


def projected(layers: list[nn.Module], in_features: int, dim: int, *, bias: bool, unit: bool) -> nn.Sequential:
    """The layers, then the projection. unit: fed with length 1, and with a bias in any case, as a whitening takes the mean out."""
    return nn.Sequential(*layers, *([UnitLength()] if unit else []), Projection(in_features, dim, bias=bias or unit))


def linear_head(channels: int, dim: int, *, pooling: str, level: Level, unit: bool = False) -> nn.Sequential:
    """pool -> FC. With a bias: pooled ReLU features are all positive, and the bias can take their mean direction out of the embedding."""
    return projected([POOLINGS[pooling]()], channels, dim, bias=True, unit=unit)


def layer_norm_head(channels: int, dim: int, *, pooling: str, level: Level, unit: bool = False) -> nn.Sequential:
    """pool -> layer norm without parameters -> FC (proxy-softmax; Zhai and Wu, 2019). The norm centres, so no bias is needed."""
    return projected([POOLINGS[pooling](), nn.LayerNorm(channels, elementwise_affine=False)], channels, dim, bias=False, unit=unit)


def mlp_head(channels: int, dim: int, *, pooling: str, level: Level, unit: bool = False) -> nn.Sequential:
    """pool -> FC of the same width -> batch norm -> ReLU -> FC."""
    hidden = nn.Linear(channels, channels, bias=False)
    nn.init.xavier_uniform_(hidden.weight)
    layers = [POOLINGS[pooling](), hidden, nn.BatchNorm1d(channels), nn.ReLU(inplace=True)]
    return projected(layers, channels, dim, bias=True, unit=unit)


def rll_head(channels: int, dim: int, *, pooling: str, level: Level, unit: bool = False) -> nn.Sequential:
    """The ranked list authors' head. High: pool -> FC. Low and mid: average pool 5/3 -> 1x1 conv 128 -> BN -> ReLU -> FC 1024 -> BN ->
    ReLU -> FC. No biases before norms nor at the end.

    Differs in the average pool: to a grid of 4 x 4 (low) and 2 x 2 (mid), which is what 5/3 gives on the authors' maps of 14 and 7
    pixels, so that the FC has one size for every backbone and image size.
    """
    if level == "high":
        return projected([POOLINGS[pooling]()], channels, dim, bias=False, unit=unit)
    grid = RLL_GRID[level]
    mixing, hidden = nn.Conv2d(channels, 128, 1, bias=False), nn.Linear(128 * grid**2, 1024, bias=False)
    nn.init.xavier_uniform_(mixing.weight)
    nn.init.xavier_uniform_(hidden.weight)
    layers = [
        nn.AdaptiveAvgPool2d(grid),
        mixing,
        nn.BatchNorm2d(128),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        hidden,
        nn.BatchNorm1d(1024),
        nn.ReLU(inplace=True),
    ]
    return projected(layers, 1024, dim, bias=False, unit=unit)


def no_head(channels: int, dim: int, *, pooling: str, level: Level, unit: bool = False) -> nn.Sequential:
    """The pooled features as they are, whatever `dim` says: the untrained network's embedding."""
    return nn.Sequential(POOLINGS[pooling]())


def projection_place(head: nn.Sequential) -> int:
    """Where in a head its projection stands: last, or before the parts' lengths."""
    return len(head) - 2 if isinstance(head[-1], UnitParts) else len(head) - 1


HEADS: dict[str, Callable[..., nn.Sequential]] = {
    "linear": linear_head,
    "layer_norm": layer_norm_head,
    "mlp": mlp_head,
    "rll": rll_head,
    "none": no_head,
}
