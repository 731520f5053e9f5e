"""BN-Inception (GoogLeNet V2, Ioffe and Szegedy, 2015) with the state-dict names of pretrainedmodels, without the classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from likewise.models.backbones.backbone import Level, StagedBackbone
from likewise.models.backbones.pixel_scale import PixelScale

FILE_MEAN_RGB = (128.0, 117.0, 104.0)  # what the public weights expect to be subtracted from values of 0 to 255


@dataclass(frozen=True)
class Inception:
    """One block: branches 1x1, 3x3, double 3x3 and pool side by side. Without the first it strides by 2, and the pool passes through."""

    name: str
    one: int | None  # channels of the 1x1 branch
    three: tuple[int, int]  # channels of the 3x3 branch: reduced, then full
    double: tuple[int, int]  # of the double 3x3 branch
    pool: Literal["avg", "max"]
    projection: int | None  # channels after the pool

    @property
    def stride(self) -> int:
        return 1 if self.one else 2

    def width(self, in_channels: int) -> int:
        return (self.one or 0) + self.three[1] + self.double[1] + (self.projection or in_channels)


BLOCKS: dict[Level, tuple[Inception, ...]] = {
    "low": (
        Inception("3a", 64, (64, 64), (64, 96), "avg", 32),
        Inception("3b", 64, (64, 96), (64, 96), "avg", 64),
        Inception("3c", None, (128, 160), (64, 96), "max", None),
    ),
    "mid": (
        Inception("4a", 224, (64, 96), (96, 128), "avg", 128),
        Inception("4b", 192, (96, 128), (96, 128), "avg", 128),
        Inception("4c", 160, (128, 160), (128, 160), "avg", 128),
        Inception("4d", 96, (128, 192), (160, 192), "avg", 128),
        Inception("4e", None, (128, 192), (192, 256), "max", None),
    ),
    "high": (
        Inception("5a", 352, (192, 320), (160, 224), "avg", 128),
        Inception("5b", 352, (192, 320), (192, 224), "max", 128),
    ),
}


class BNInception(StagedBackbone):
    """Taps after inception_3c, 4e and 5b, at 1/16, 1/32 and 1/32 of the input's side.

    Takes images as every backbone does, RGB less ImageNet's mean by its deviation, and turns them into what the public weights were
    trained on: BGR from 0 to 255, less a mean. The norms' momentum is torch's usual 0.1; the public definition's 0.9 is Caffe's, which
    counts the other way round.
    """

    classifier = ("last_linear.",)

    def __init__(self) -> None:
        super().__init__()
        self.pixel_scale = PixelScale(mean=FILE_MEAN_RGB, std=(1, 1, 1))
        self._add("conv1_7x7_s2", 3, 64, kernel=7, stride=2)
        self._add("conv2_3x3_reduce", 64, 64, kernel=1)
        self._add("conv2_3x3", 64, 192, kernel=3)
        width = 192
        self.channels = {}
        for level, blocks in BLOCKS.items():
            for block in blocks:
                self._add_block(block, width)
                width = block.width(width)
            self.channels[level] = width

    def _add(self, name: str, in_channels: int, out_channels: int, *, kernel: int, stride: int = 1) -> None:
        convolution = nn.Conv2d(in_channels, out_channels, kernel, stride=stride, padding=kernel // 2)
        nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
        assert convolution.bias is not None
        nn.init.zeros_(convolution.bias)
        self.add_module(name, convolution)
        self.add_module(f"{name}_bn", nn.BatchNorm2d(out_channels))

    def _add_block(self, block: Inception, in_channels: int) -> None:
        name = f"inception_{block.name}"
        if block.one is not None:
            self._add(f"{name}_1x1", in_channels, block.one, kernel=1)
        self._add(f"{name}_3x3_reduce", in_channels, block.three[0], kernel=1)
        self._add(f"{name}_3x3", *block.three, kernel=3, stride=block.stride)
        self._add(f"{name}_double_3x3_reduce", in_channels, block.double[0], kernel=1)
        self._add(f"{name}_double_3x3_1", *block.double, kernel=3)
        self._add(f"{name}_double_3x3_2", block.double[1], block.double[1], kernel=3, stride=block.stride)
        if block.projection is not None:
            self._add(f"{name}_pool_proj", in_channels, block.projection, kernel=1)

    def _apply_layers(self, features: Tensor, *names: str) -> Tensor:
        for name in names:
            features = self.get_submodule(f"{name}_bn")(self.get_submodule(name)(features)).relu()
        return features

    def _block(self, block: Inception, features: Tensor) -> Tensor:
        name = f"inception_{block.name}"
        branches = [self._apply_layers(features, f"{name}_1x1")] if block.one is not None else []
        branches.append(self._apply_layers(features, f"{name}_3x3_reduce", f"{name}_3x3"))
        branches.append(self._apply_layers(features, f"{name}_double_3x3_reduce", f"{name}_double_3x3_1", f"{name}_double_3x3_2"))
        if block.pool == "avg":
            pooled = nn.functional.avg_pool2d(features, 3, stride=1, padding=1)
        else:
            padding = 1 if block.stride == 1 else 0  # a striding pool reaches over the edge on one side only
            reached = features if padding else _to_even_sides(features)
            pooled = nn.functional.max_pool2d(reached, 3, stride=block.stride, padding=padding, ceil_mode=True)
        branches.append(pooled if block.projection is None else self._apply_layers(pooled, f"{name}_pool_proj"))
        return torch.cat(branches, dim=1)

    def stem(self, inputs: Tensor) -> Tensor:
        images = self.pixel_scale(inputs).flip(1)
        features = self._apply_layers(images, "conv1_7x7_s2")
        features = nn.functional.max_pool2d(features, 3, stride=2, ceil_mode=True)
        features = self._apply_layers(features, "conv2_3x3_reduce", "conv2_3x3")
        return nn.functional.max_pool2d(features, 3, stride=2, ceil_mode=True)

    def stage(self, level: Level, features: Tensor) -> Tensor:
        for block in BLOCKS[level]:
            features = self._block(block, features)
        return features


def _to_even_sides(features: Tensor) -> Tensor:
    """With a further row or column of zeros, the least that a layer before gives, where their number is odd: of these a striding
    convolution makes one more place than a pool would.
    """
    height, width = features.shape[2:]
    return nn.functional.pad(features, (0, width % 2, 0, height % 2)) if height % 2 or width % 2 else features
