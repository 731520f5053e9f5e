"""A network of two convolutions, as small ones for handwritten digits have been since LeNet."""

from __future__ import annotations

from torch import Tensor, nn

from likewise.models.backbones.backbone import Level, StagedBackbone

GRID = 4  # places along each side at the end: of 28 pixels 24, 12, 8 and 4, and as many of any other image


class LeNet(StagedBackbone):
    """Two 5x5 convolutions of 20 and 50 channels without padding or norms, each with ReLU and 2x2 max pooling.

    Taps before and after the first pooling, and the 4 x 4 places of the second as one of all their channels, so that a linear head on it
    is the fully connected layer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.channels = {"low": 20, "mid": 20, "high": 50 * GRID**2}
        self.low = nn.Sequential(*_layer(3, 20))
        self.mid = nn.MaxPool2d(2)
        self.high = nn.Sequential(*_layer(20, 50), nn.AdaptiveMaxPool2d(GRID), nn.Flatten(), nn.Unflatten(1, (-1, 1, 1)))

    def stem(self, inputs: Tensor) -> Tensor:
        return inputs

    def stage(self, level: Level, features: Tensor) -> Tensor:
        layers: nn.Module = {"low": self.low, "mid": self.mid, "high": self.high}[level]
        result: Tensor = layers(features)
        return result


def _layer(in_channels: int, out_channels: int) -> tuple[nn.Module, nn.Module]:
    convolution = nn.Conv2d(in_channels, out_channels, 5)
    nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
    assert convolution.bias is not None
    nn.init.zeros_(convolution.bias)
    return convolution, nn.ReLU(inplace=True)
