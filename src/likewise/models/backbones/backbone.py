"""Backbone: from inputs to features at three depths, and its batch norms frozen."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal, Self, get_args

from torch import Tensor, nn

Level = Literal["low", "mid", "high"]
LEVELS: tuple[Level, ...] = get_args(Level)


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
        """Computes nothing deeper than the deepest of the levels."""
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
