"""What each place of a feature map has of what the map is pooled to.

With x_pc the map at place p and channel c, and P places:

avg:      x_pc / P
max:      x_pc where it is the largest of its channel, and 0 elsewhere; of n equal largest ones each has an n-th
avg+max:  both added
gem:      m_c x_pc^e / (sum over p of x_pc^e), m_c the generalised mean: by the share of the sum that the mean is the root of
grid:     (the ranked list authors' head) x_pc over the number of places in its cell, in that cell

Each adds up to what the pooling gives, and none is of no place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from likewise.models.pooling import AverageMaxPooling, AveragePooling, GeMPooling, MaxPooling

Parts = Callable[[slice], Tensor]  # of some of the places, counted row by row: (places, *shape)


def place_shares(pooling: nn.Module, features: Tensor) -> tuple[Tensor, Parts]:
    """What the pooling gives of a map (channels, height, width), float64, as (1, *shape); and what each place has of it."""
    if isinstance(pooling, nn.AdaptiveAvgPool2d):
        return _of_grid(pooling, features)
    share = next((share for kind, share in _KINDS.items() if isinstance(pooling, kind)), None)
    if share is None:
        raise ValueError(
            f"the head begins with {type(pooling).__name__}, of which it is not known what each place has of the result: "
            f"known are {', '.join(kind.__name__ for kind in _KINDS)}"
        )
    parts = share(pooling, features.flatten(1).T)
    return parts.sum(dim=0, keepdim=True), lambda places: parts[places]


def _average(pooling: Any, values: Tensor) -> Tensor:  # (places, channels)
    return values / len(values)


def _largest(pooling: Any, values: Tensor) -> Tensor:
    is_largest = (values == values.amax(dim=0)).double()
    return values * is_largest / is_largest.sum(dim=0)


def _average_and_largest(pooling: Any, values: Tensor) -> Tensor:
    return _average(pooling, values) + _largest(pooling, values)


def _generalised(pooling: Any, values: Tensor) -> Tensor:
    exponent = pooling.exponent.detach().cpu().double()
    powers = values.clamp(min=1e-6).pow(exponent)
    return powers / powers.sum(dim=0) * powers.mean(dim=0).pow(1 / exponent)


def _of_grid(pooling: nn.AdaptiveAvgPool2d, features: Tensor) -> tuple[Tensor, Parts]:
    height, width = features.shape[1:]
    whole = pooling(features[None])
    # what a place has of the mean of each cell: the cells' means of a map that is 1 at this place alone
    weights = pooling(torch.eye(height * width, dtype=features.dtype).view(-1, 1, height, width))  # (places, 1, cells, cells)
    values = features.flatten(1).T[:, :, None, None]  # (places, channels, 1, 1)
    return whole, lambda places: values[places] * weights[places]


_KINDS: dict[type[nn.Module], Callable[[Any, Tensor], Tensor]] = {
    AveragePooling: _average,
    MaxPooling: _largest,
    AverageMaxPooling: _average_and_largest,
    GeMPooling: _generalised,
}
