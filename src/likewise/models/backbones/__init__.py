"""Backbones by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial

from likewise.models.backbones.backbone import LEVELS, Backbone, Level, StagedBackbone, freeze_batch_norm, freeze_below_high
from likewise.models.backbones.bn_inception import BNInception
from likewise.models.backbones.convnet import ConvNet
from likewise.models.backbones.efficientnet_lite import EfficientNetLite
from likewise.models.backbones.lenet import LeNet
from likewise.models.backbones.resnet import EXPANSION, BasicBlock, Bottleneck, ResNet
from likewise.models.backbones.timm_backbone import TimmBackbone
from likewise.models.backbones.vectors import MLP, Identity
from likewise.own_code import is_address
from likewise.registries import registered

__all__ = [
    "BACKBONES",
    "LEVELS",
    "Backbone",
    "Level",
    "StagedBackbone",
    "freeze_batch_norm",
    "freeze_below_high",
    "make_backbone",
    "takes_vectors",
]

# A backbone of vectors is made with their length, in_features; one of images without any.
BACKBONES: dict[str, Callable[..., Backbone]] = {
    "resnet18": partial(ResNet, (2, 2, 2, 2), BasicBlock, expansion=1),
    "resnet34": partial(ResNet, (3, 4, 6, 3), BasicBlock, expansion=1),
    "resnet50": partial(ResNet, (3, 4, 6, 3), partial(Bottleneck, stride_on="conv2"), expansion=EXPANSION),
    "resnet50_v1": partial(ResNet, (3, 4, 6, 3), partial(Bottleneck, stride_on="conv1"), expansion=EXPANSION),
    "bn_inception": BNInception,
    "efficientnet_lite0": partial(EfficientNetLite, width=1.0, depth=1.0),
    "efficientnet_lite1": partial(EfficientNetLite, width=1.0, depth=1.1),
    "efficientnet_lite2": partial(EfficientNetLite, width=1.1, depth=1.2),
    "convnet": ConvNet,
    "convnet_small": partial(ConvNet, (16, 16, 32, 64, 128)),  # a quarter of the work
    "lenet": LeNet,
    "mlp": MLP,
    "identity": Identity,
}


def make_backbone(name: str, *, in_features: int | None = None) -> Backbone:
    """The backbone of that name, or of timm with "timm:NAME". `in_features`: the length of the vectors, where the input is vectors."""
    make = _maker(name)
    if _is_of_vectors(make):
        if in_features is None or in_features < 1:
            raise ValueError(f"backbone {name!r} with in_features={in_features}: it takes vectors; give their length as in_features")
        backbone = make(in_features=in_features)
    elif in_features is not None:
        of_vectors = [other for other in BACKBONES if takes_vectors(other)]
        hint = f"leave in_features out, or take one of {', '.join(of_vectors)}"
        raise ValueError(f"backbone {name!r} with in_features={in_features}: it takes images, not vectors; {hint}")
    else:
        backbone = make()
    if not isinstance(backbone, Backbone):
        raise ValueError(
            f"backbone {name!r} is a {type(backbone).__name__}: expected a likewise.models.Backbone, which says its channels at each level "
            "and gives features at the levels that are asked for"
        )
    return backbone


def _maker(name: str) -> Callable[..., Backbone]:
    if name.startswith("timm:"):
        return partial(TimmBackbone, name.removeprefix("timm:"))
    try:
        return registered("backbone", name, BACKBONES)
    except ValueError as fault:
        if is_address(name):
            raise
        raise ValueError(f"{fault} (one of your own has an address: FILE.py:Name)") from fault


def takes_vectors(name: str) -> bool:
    """Whether the backbone of this name is one of vectors, not of images."""
    return _is_of_vectors(_maker(name))


def _is_of_vectors(make: Callable[..., Backbone]) -> bool:
    return "in_features" in inspect.signature(make).parameters
