"""Backbone: from inputs to features at three depths, and its batch norms frozen."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal, Self, get_args

import torch
from torch import Tensor, nn

Level = Literal["low", "mid", "high"]
LEVELS: tuple[Level, ...] = get_args(Level)
PROBE_SIDE = 64  # pixels of an image that is only to find out what depends on what


class Backbone(nn.Module):
    """A network with features to tap at low, mid and high depth: maps (N, C, H, W), or vectors (N, C)."""

    channels: dict[Level, int]
    gives_maps: bool = True
    classifier: ClassVar[tuple[str, ...]] = ()  # how the names of a public weight file begin that are its classifier's, not ours
    has_frozen_batch_norm: bool = False

    @abstractmethod
    def forward(self, inputs: Tensor, levels: tuple[Level, ...] = ("high",)) -> tuple[Tensor, ...]:
        """The features at these levels, in their order."""

    @property
    def named_as_in_files(self) -> nn.Module:
        """The module whose state-dict names are those of public weight files."""
        return self

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if self.has_frozen_batch_norm:
            for layer in batch_norms(self):
                layer.eval()
        return self


class StagedBackbone(Backbone):
    """A backbone that is a stem and one stage after the other, a tap at the end of each."""

    @abstractmethod
    def stem(self, inputs: Tensor) -> Tensor:
        """What comes before the stage that ends at the low tap."""

    @abstractmethod
    def stage(self, level: Level, features: Tensor) -> Tensor:
        """From the tap before to this one. Must not change `features` in place: they may have been tapped."""

    def forward(self, inputs: Tensor, levels: tuple[Level, ...] = ("high",)) -> tuple[Tensor, ...]:
        """Computes nothing deeper than the deepest of the levels. Given maps of the mid tap instead of images, goes on from there."""
        if inputs.ndim == 4 and levels == ("high",) and inputs.shape[1] == self.channels["mid"]:
            return (self.stage("high", inputs),)
        features = self.stem(inputs)
        taps: dict[Level, Tensor] = {}
        for level in LEVELS[: 1 + max(map(LEVELS.index, levels))]:
            features = taps[level] = self.stage(level, features)
        return tuple(taps[level] for level in levels)


def batch_norms(module: nn.Module) -> list[nn.modules.batchnorm._BatchNorm]:
    """All batch norm layers of a module."""
    return [layer for layer in module.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]


def freeze_batch_norm(network: nn.Module) -> None:
    """Freezes statistics and affine parameters of the batch norms of every backbone in the network, whatever train() is called later.

    Those of heads are new layers without statistics worth keeping, and stay as they are.
    """
    for backbone in network.modules():
        if isinstance(backbone, Backbone):
            backbone.has_frozen_batch_norm = True
            for layer in batch_norms(backbone):
                layer.eval().requires_grad_(False)


def freeze_below_high(network: nn.Module) -> None:
    """Freezes what every backbone of the network computes up to its mid tap: only the last stage, and heads, learn.

    What that is is asked of autograd: the parameters that the mid tap depends on.
    """
    for backbone in network.modules():
        if isinstance(backbone, Backbone):
            if not backbone.gives_maps:
                raise ValueError(f"{type(backbone).__name__} takes vectors and has no stages of an image backbone: --set trains=all")
            learning = [parameter for parameter in backbone.parameters() if parameter.requires_grad]
            (maps,) = backbone(torch.zeros(2, 3, PROBE_SIDE, PROBE_SIDE, device=learning[0].device), ("mid",))
            of_mid = torch.autograd.grad(maps.sum(), learning, allow_unused=True)
            for parameter, gradient in zip(learning, of_mid, strict=True):
                parameter.requires_grad_(gradient is None)
