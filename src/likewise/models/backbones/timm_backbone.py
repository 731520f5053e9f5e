"""Any image model of timm as a backbone, where timm is installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from torch import Tensor, nn

from likewise.checks import known_name
from likewise.data.augmentation import IMAGENET_MEAN, IMAGENET_STD, Colour
from likewise.models.backbones.backbone import LEVELS, Backbone, Level
from likewise.models.backbones.pixel_scale import PixelScale

PYRAMID = 5  # stages that a convolutional model has at most; what has more features is a row of equal blocks


class TimmBackbone(Backbone):
    """Taps: the last three stages of a pyramid; of a row of equal blocks (a transformer) a third, two thirds and all of them.

    Weights are never downloaded: they come from a file with timm's own names. Images are scaled as the model's own settings say.
    """

    classifier = ("fc.", "head.", "classifier.")

    def __init__(self, name: str) -> None:
        super().__init__()
        timm = import_timm(name)
        self.model: nn.Module = timm.create_model(known_timm_model(timm, name), pretrained=False, num_classes=0)
        features: Any = getattr(self.model, "feature_info", None)
        if not hasattr(self.model, "forward_intermediates") or not features or len(features) < len(LEVELS):
            raise ValueError(f"backbone 'timm:{name}' has no features at three depths: take another model, such as timm:convnext_tiny")
        count = len(features)
        last = [count - 3, count - 2, count - 1] if count <= PYRAMID else [count // 3 - 1, 2 * count // 3 - 1, count - 1]
        self.positions: dict[Level, int] = dict(zip(LEVELS, last, strict=True))
        self.channels = {level: int(features[position]["num_chs"]) for level, position in self.positions.items()}
        self.has_equal_blocks = count > PYRAMID
        settings: Any = getattr(self.model, "pretrained_cfg", None) or {}
        self.pixel_scale = _pixel_scale(tuple(settings.get("mean", IMAGENET_MEAN)), tuple(settings.get("std", IMAGENET_STD)))

    @property
    def named_as_in_files(self) -> nn.Module:
        return self.model

    def forward(self, inputs: Tensor, levels: tuple[Level, ...] = ("high",)) -> tuple[Tensor, ...]:
        chosen = sorted(self.positions[level] for level in levels)
        run: Any = self.model.forward_intermediates
        # the last norm belongs to features of its width only
        maps = run(self.pixel_scale(inputs), indices=chosen, norm=self.has_equal_blocks, output_fmt="NCHW", intermediates_only=True)
        by_position = dict(zip(chosen, maps, strict=True))
        return tuple(by_position[self.positions[level]] for level in levels)


def import_timm(name: str) -> Any:
    """timm, to make the model of this name."""
    try:
        return import_module("timm")
    except ImportError as fault:
        raise ValueError(f"'timm:{name}' needs timm, which cannot be imported ({fault}): pip install timm") from fault


def known_timm_model(timm: Any, name: str) -> str:
    """The name itself, if timm has a model of this name; a tag of its weights may follow after a dot."""
    architecture, dot, tag = name.partition(".")
    return known_name("timm model", architecture, timm.list_models()) + dot + tag


def _pixel_scale(mean: Colour, std: Colour) -> nn.Module:
    """From images as batches hold them to those less `mean` by `std`, both of values from 0 to 1."""
    if (mean, std) == (IMAGENET_MEAN, IMAGENET_STD):
        return nn.Identity()
    red, green, blue = ((255 * centre, 255 * spread) for centre, spread in zip(mean, std, strict=True))
    return PixelScale(mean=(red[0], green[0], blue[0]), std=(red[1], green[1], blue[1]))
