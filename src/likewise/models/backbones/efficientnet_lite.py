"""EfficientNet-Lite (Tan and Le, 2019; Lite: 2020) with the state-dict names of efficientnet_lite_pytorch, without the classifier.

Lite differs from EfficientNet so that phones can run it: ReLU6 instead of swish, no squeeze and excitation, stem and last layer of one
width at every scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor, nn

from likewise.models.backbones.backbone import Level, StagedBackbone
from likewise.models.backbones.pixel_scale import PixelScale

STEM, LAST = 32, 1280  # channels
EXPANSION = 6


@dataclass(frozen=True)
class Row:
    """Equal blocks one after the other; the first has the stride and changes the number of channels."""

    num_blocks: int
    kernel: int
    stride: int
    channels: int
    expansion: int = EXPANSION


# of scale 1: widths are multiplied and rounded to eights, block counts multiplied and rounded up (those of the first and last row stay)
ROWS: dict[Level, tuple[Row, ...]] = {
    "low": (Row(1, 3, 1, 16, expansion=1), Row(2, 3, 2, 24), Row(2, 5, 2, 40)),
    "mid": (Row(3, 3, 2, 80), Row(3, 5, 1, 112)),
    "high": (Row(4, 5, 2, 192), Row(1, 3, 1, 320)),
}


class SameConv2d(nn.Conv2d):
    """A convolution padded as TensorFlow pads: ceil(side / stride) places, and an odd padding lies on the right and below.

    So a stride of 2 pads even sides more on one side, which torch's own padding cannot. The public weights were trained with this.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel: int, *, stride: int = 1, groups: int = 1) -> None:
        super().__init__(in_channels, out_channels, kernel, stride=stride, groups=groups, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        tall, wide = (
            max((math.ceil(side / stride) - 1) * stride + kernel - side, 0)
            for side, stride, kernel in zip(input.shape[2:], self.stride, self.kernel_size, strict=True)
        )
        if tall % 2 or wide % 2:
            padded = nn.functional.pad(input, (wide // 2, wide - wide // 2, tall // 2, tall - tall // 2))
            return nn.functional.conv2d(padded, self.weight, stride=self.stride, groups=self.groups)
        return nn.functional.conv2d(input, self.weight, stride=self.stride, padding=(tall // 2, wide // 2), groups=self.groups)


class InvertedBottleneck(nn.Module):
    """1x1 to `expansion` times the channels (not where that is 1), depthwise, 1x1 back; the input is added where shapes agree."""

    def __init__(self, in_channels: int, channels: int, *, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = in_channels * expansion
        self.expands = expansion > 1
        if self.expands:
            self._expand_conv = SameConv2d(in_channels, inner, 1)
            self._bn0 = _norm(inner)
        self._depthwise_conv = SameConv2d(inner, inner, kernel, stride=stride, groups=inner)
        self._bn1 = _norm(inner)
        self._project_conv = SameConv2d(inner, channels, 1)
        self._bn2 = _norm(channels)
        self.relu = nn.ReLU6(inplace=True)
        self.adds_input = stride == 1 and in_channels == channels

    def forward(self, features: Tensor) -> Tensor:
        inner: Tensor = self.relu(self._bn0(self._expand_conv(features))) if self.expands else features
        inner = self.relu(self._bn1(self._depthwise_conv(inner)))
        inner = self._bn2(self._project_conv(inner))
        return inner + features if self.adds_input else inner


class EfficientNetLite(StagedBackbone):
    """Taps after the third and fifth row of blocks and after the last 1x1 convolution, at 1/8, 1/16 and 1/32 of the input's side.

    Takes images as every backbone does and turns them into what the public weights were trained on, (pixel - 127) / 128. Blocks are not
    dropped at random in training, which the authors did with up to every fifth.
    """

    classifier = ("_fc.",)

    def __init__(self, *, width: float, depth: float) -> None:
        super().__init__()
        self.pixel_scale = PixelScale(mean=(127, 127, 127), std=(128, 128, 128))
        self._conv_stem = SameConv2d(3, STEM, 3, stride=2)
        self._bn0 = _norm(STEM)
        self.channels = {}
        self.ends: dict[Level, int] = {}  # of a level among the blocks
        blocks: list[InvertedBottleneck] = []
        channels = STEM
        for level, rows in ROWS.items():
            for row in rows:
                scaled = _to_eights(row.channels * width)
                for number in range(row.num_blocks if row.num_blocks == 1 else math.ceil(row.num_blocks * depth)):
                    stride = row.stride if number == 0 else 1
                    blocks.append(InvertedBottleneck(channels, scaled, kernel=row.kernel, stride=stride, expansion=row.expansion))
                    channels = scaled
            self.channels[level], self.ends[level] = channels, len(blocks)
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = SameConv2d(channels, LAST, 1)
        self._bn1 = _norm(LAST)
        self.relu = nn.ReLU6(inplace=True)
        self.channels["high"] = LAST
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")

    def stem(self, inputs: Tensor) -> Tensor:
        features: Tensor = self.relu(self._bn0(self._conv_stem(self.pixel_scale(inputs))))
        return features

    def stage(self, level: Level, features: Tensor) -> Tensor:
        first = {"low": 0, "mid": self.ends["low"], "high": self.ends["mid"]}[level]
        for block in self._blocks[first : self.ends[level]]:
            features = block(features)
        return self.relu(self._bn1(self._conv_head(features))) if level == "high" else features


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)  # the authors'


def _to_eights(channels: float) -> int:
    """The nearest multiple of 8, or the next above where that would take off more than a tenth."""
    rounded = int(channels + 4) // 8 * 8
    return rounded if rounded >= 0.9 * channels else rounded + 8
