"""Backbones by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from likewise.checks import known_name
from likewise.models.backbones.backbone import LEVELS, Backbone, Level, freeze_batch_norm
from likewise.models.backbones.bn_inception import BNInception
from likewise.models.backbones.convnet import ConvNet
from likewise.models.backbones.resnet import EXPANSION, BasicBlock, Bottleneck, ResNet
from likewise.models.backbones.timm_backbone import TimmBackbone
from likewise.models.backbones.vectors import MLP, Identity

__all__ = ["BACKBONES", "LEVELS", "Backbone", "Level", "freeze_batch_norm", "make_backbone"]

OF_IMAGES: dict[str, Callable[[], Backbone]] = {
    "resnet18": partial(ResNet, (2, 2, 2, 2), BasicBlock, expansion=1),
    "resnet34": partial(ResNet, (3, 4, 6, 3), BasicBlock, expansion=1),
    "resnet50": partial(ResNet, (3, 4, 6, 3), partial(Bottleneck, stride_on="conv2"), expansion=EXPANSION),
    "resnet50_v1": partial(ResNet, (3, 4, 6, 3), partial(Bottleneck, stride_on="conv1"), expansion=EXPANSION),
    "bn_inception": BNInception,
    "convnet": ConvNet,
}
OF_VECTORS: dict[str, Callable[[int], Backbone]] = {
    "mlp": MLP,
    "identity": Identity,
}
BACKBONES: dict[str, Callable[..., Backbone]] = {**OF_IMAGES, **OF_VECTORS}


def make_backbone(name: str, *, in_features: int | None = None) -> Backbone:
    """The backbone of that name, or of timm with "timm:NAME". `in_features`: the length of the vectors, where the input is vectors."""
    if name in OF_VECTORS:
        if in_features is None or in_features < 1:
            raise ValueError(f"backbone {name!r} with in_features={in_features}: it takes vectors; give their length as in_features")
        return OF_VECTORS[name](in_features)
    if in_features is not None:
        hint = f"leave in_features out, or take one of {', '.join(OF_VECTORS)}"
        raise ValueError(f"backbone {name!r} with in_features={in_features}: it takes images, not vectors; {hint}")
    if name.startswith("timm:"):
        return TimmBackbone(name.removeprefix("timm:"))
    return OF_IMAGES[known_name("backbone", name, BACKBONES)]()
