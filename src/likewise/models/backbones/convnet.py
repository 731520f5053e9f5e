"""A small convolutional network for images of 28 to 64 pixels, cheap enough to train on one core of a CPU in seconds."""

from __future__ import annotations

from torch import Tensor, nn

from likewise.models.backbones.backbone import Level, StagedBackbone


class ConvNet(StagedBackbone):
    """Five 3x3 convolutions with batch norm and ReLU, of `widths` channels.

    The first strides by 2, which leaves a quarter of the work, the second does not, the others do. At the end a 32-pixel image is 2 x 2:
    what is drawn where is then in the channels, and pooling loses little of it. Taps after the third (1/4 of the side), fourth and fifth.
    """

    def __init__(self, widths: tuple[int, int, int, int, int] = (32, 32, 64, 128, 256)) -> None:
        super().__init__()
        first, second, low, mid, high = widths
        self.channels = {"low": low, "mid": mid, "high": high}
        self.low = nn.Sequential(*_layer(3, first, stride=2), *_layer(first, second, stride=1), *_layer(second, low, stride=2))
        self.mid = nn.Sequential(*_layer(low, mid, stride=2))
        self.high = nn.Sequential(*_layer(mid, high, stride=2))

    def stem(self, inputs: Tensor) -> Tensor:
        return inputs

    def stage(self, level: Level, features: Tensor) -> Tensor:
        layers: nn.Module = {"low": self.low, "mid": self.mid, "high": self.high}[level]
        result: Tensor = layers(features)
        return result


def _layer(in_channels: int, out_channels: int, *, stride: int) -> tuple[nn.Module, nn.Module, nn.Module]:
    convolution = nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False)
    nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
    return convolution, nn.BatchNorm2d(out_channels), nn.ReLU(inplace=True)
