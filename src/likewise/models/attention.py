"""Attention: several masks on one feature map, so that one network looks at a picture in several ways."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from likewise.models.backbones.backbone import Backbone, StagedBackbone


class AttentionMasks(nn.Module):
    """x_m = x * sigmoid(A_m(x)) for each of M learners (ABE; Kim et al. 2018), one value a place and channel.

    A_m is two 1x1 convolutions with batch norm and ReLU between them; on vectors linear layers. The paper's are inception blocks.
    """

    def __init__(self, channels: int, num_learners: int, *, of_maps: bool) -> None:
        super().__init__()
        self.masks = nn.ModuleList(_mask(channels, of_maps=of_maps) for _ in range(num_learners))

    def forward(self, features: Tensor) -> Tensor:
        """All learners' maps one after the other, (M N, channels, ...): batch norms after them see all learners at once, as at the end."""
        return torch.cat([features * torch.sigmoid(mask(features)) for mask in self.masks])


def _mask(channels: int, *, of_maps: bool) -> nn.Sequential:
    if of_maps:
        return nn.Sequential(nn.Conv2d(channels, channels, 1), nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, channels, 1))
    return nn.Sequential(nn.Linear(channels, channels), nn.BatchNorm1d(channels), nn.ReLU(), nn.Linear(channels, channels))


def attended(backbone: Backbone, masks: AttentionMasks, inputs: Tensor) -> Tensor:
    """The backbone's last features under every mask on its low tap, (M N, ...): all that comes after the masks is shared."""
    if not isinstance(backbone, StagedBackbone):
        raise ValueError(f"{type(backbone).__name__} cannot go on from masked features: take a backbone of stages, such as resnet50")
    (tapped,) = backbone(inputs, ("low",))
    features: Tensor = masks(tapped)
    for level in ("mid", "high"):
        features = backbone.stage(level, features)
    return features
