"""Backbones of vectors: features that another model made."""

from __future__ import annotations

from torch import Tensor, nn

from likewise.models.backbones.backbone import LEVELS, Level, StagedBackbone

HIDDEN = 512


class Identity(StagedBackbone):
    """The vectors themselves, at every level: a head is then all that is trained."""

    gives_maps = False

    def __init__(self, in_features: int) -> None:
        super().__init__()
        self.channels = dict.fromkeys(LEVELS, in_features)

    def stem(self, inputs: Tensor) -> Tensor:
        return inputs

    def stage(self, level: Level, features: Tensor) -> Tensor:
        return features


class MLP(StagedBackbone):
    """Three linear layers of 512, each with batch norm and ReLU; a tap after each."""

    gives_maps = False

    def __init__(self, in_features: int) -> None:
        super().__init__()
        self.channels = dict.fromkeys(LEVELS, HIDDEN)
        widths = (in_features, HIDDEN, HIDDEN)
        self.layers = nn.ModuleDict({level: _layer(width) for level, width in zip(LEVELS, widths, strict=True)})

    def stem(self, inputs: Tensor) -> Tensor:
        return inputs

    def stage(self, level: Level, features: Tensor) -> Tensor:
        result: Tensor = self.layers[level](features)
        return result


def _layer(width: int) -> nn.Sequential:
    linear = nn.Linear(width, HIDDEN, bias=False)
    nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
    return nn.Sequential(linear, nn.BatchNorm1d(HIDDEN), nn.ReLU(inplace=True))
