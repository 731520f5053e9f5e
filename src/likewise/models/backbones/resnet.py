"""ResNet (He et al., 2015) with torchvision's state-dict names, without the classifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

from likewise.models.backbones.backbone import LEVELS, Level, StagedBackbone

EXPANSION = 4  # of the channels by the last convolution of a bottleneck
NUM_CHANNELS = (64, 128, 256, 512)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions."""

    def __init__(self, in_channels: int, channels: int, *, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = shortcut(in_channels, channels, stride=stride)

    def forward(self, features: Tensor) -> Tensor:
        inner: Tensor = self.relu(self.bn1(self.conv1(features)))
        inner = self.bn2(self.conv2(inner))
        result: Tensor = self.relu(inner + self.downsample(features))
        return result


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1. The stride lies on the first 1x1 in the paper's version (v1), on the 3x3 in torchvision's (v1.5)."""

    def __init__(self, in_channels: int, channels: int, *, stride: int, stride_on: Literal["conv1", "conv2"]) -> None:
        super().__init__()
        first, second = (stride, 1) if stride_on == "conv1" else (1, stride)
        self.conv1 = nn.Conv2d(in_channels, channels, 1, stride=first, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride=second, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, channels * EXPANSION, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels * EXPANSION)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = shortcut(in_channels, channels * EXPANSION, stride=stride)

    def forward(self, features: Tensor) -> Tensor:
        inner: Tensor = self.relu(self.bn1(self.conv1(features)))
        inner = self.relu(self.bn2(self.conv2(inner)))
        inner = self.bn3(self.conv3(inner))
        result: Tensor = self.relu(inner + self.downsample(features))
        return result


def shortcut(in_channels: int, out_channels: int, *, stride: int) -> nn.Module:
    """The identity where shapes agree, else a strided 1x1 convolution with its norm."""
    if stride == 1 and in_channels == out_channels:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(in_channels, out_channels, 1, stride=stride, bias=False), nn.BatchNorm2d(out_channels))


class ResNet(StagedBackbone):
    """Taps after layer2, layer3 and layer4, at 1/8, 1/16 and 1/32 of the input's side."""

    classifier = ("fc.",)

    def __init__(self, num_blocks: tuple[int, int, int, int], block: Callable[..., nn.Module], *, expansion: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        widths = (64, *(channels * expansion for channels in NUM_CHANNELS))
        layers = [
            nn.Sequential(
                block(widths[number], channels, stride=1 if number == 0 else 2),
                *(block(channels * expansion, channels, stride=1) for _ in range(num_blocks[number] - 1)),
            )
            for number, channels in enumerate(NUM_CHANNELS)
        ]
        self.layer1, self.layer2, self.layer3, self.layer4 = layers
        self.channels = {level: channels * expansion for level, channels in zip(LEVELS, NUM_CHANNELS[1:], strict=True)}
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def stem(self, inputs: Tensor) -> Tensor:
        features: Tensor = self.layer1(self.maxpool(self.relu(self.bn1(self.conv1(inputs)))))
        return features

    def stage(self, level: Level, features: Tensor) -> Tensor:
        layer: nn.Module = {"low": self.layer2, "mid": self.layer3, "high": self.layer4}[level]
        result: Tensor = layer(features)
        return result
