"""Layers of a head as linear maps of the parts of what they are fed.

Let x = sum of parts + rest be the input of a layer. A linear layer gives W x + b: W times each part, and W rest + b. A division by the
length of x, or by its deviation, is linear too once that number is held as it is for this x; so is a ReLU, once it is held which of its
units are on: relu(x)_i = x_i where x_i > 0, and 0 times it elsewhere. So the parts of the output again add up to the output, exactly.
What was held would move if a part were taken away: parts say how the output is made up, not what it would be without them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from likewise.models.heads import UnitLength, UnitParts

LEAST_LENGTH = 1e-12  # as torch's normalize has it


@dataclass(frozen=True, eq=False)
class HeldLayer:
    """A layer as it acts near one input, in float64."""

    whole: Tensor  # (1, *shape) what it gives
    of_parts: Callable[[Tensor], Tensor]  # rows of parts (n, *shape) to rows of parts; linear
    shift: Tensor | float = 0.0  # what it adds that is of no part

    def of_rest(self, rest: Tensor) -> Tensor:
        return self.of_parts(rest) + self.shift


def held_layer(layer: nn.Module, whole: Tensor) -> HeldLayer:
    """The layer held at its input `whole` (1, *shape), float64; a ValueError for a layer that is of no known kind."""
    for kind, hold in _KINDS.items():
        if isinstance(layer, kind):
            return hold(layer, whole)
    raise ValueError(
        f"the head has a layer of the kind {type(layer).__name__}, whose output cannot be split into parts of its input: "
        f"known are {', '.join(kind.__name__ for kind in _KINDS)}"
    )


def is_switching(layer: nn.Module) -> bool:
    """Whether what is held are units that are on or off, not only lengths."""
    return isinstance(layer, nn.ReLU)


def length_of(whole: Tensor) -> Tensor:
    """Of rows (n, width), (n, 1)."""
    length: Tensor = torch.linalg.vector_norm(whole, dim=1, keepdim=True)
    return length.clamp(min=LEAST_LENGTH)


def _linear(layer: Any, whole: Tensor) -> HeldLayer:
    weight = layer.weight.detach().cpu().double()
    shift = 0.0 if layer.bias is None else layer.bias.detach().cpu().double()
    return HeldLayer(whole @ weight.T + shift, lambda parts: parts @ weight.T, shift)


def _mixing(layer: Any, whole: Tensor) -> HeldLayer:
    """A convolution of single places."""
    if set(layer.kernel_size) | set(layer.stride) != {1} or layer.groups != 1:
        raise ValueError(f"the head has {layer}: expected a convolution of 1 x 1, which does not mix places")
    weight = layer.weight.detach().cpu().double()[:, :, 0, 0]
    shift = 0.0 if layer.bias is None else layer.bias.detach().cpu().double()[:, None, None]

    def of_parts(parts: Tensor) -> Tensor:
        return torch.einsum("nchw,dc->ndhw", parts, weight)

    return HeldLayer(of_parts(whole) + shift, of_parts, shift)


def _batch_norm(layer: Any, whole: Tensor) -> HeldLayer:
    shape = (1, -1) + (1,) * (whole.ndim - 2)
    mean, variance = (value.cpu().double().view(shape) for value in (layer.running_mean, layer.running_var))
    scale = (variance + layer.eps).rsqrt()
    if layer.weight is not None:
        scale = scale * layer.weight.detach().cpu().double().view(shape)
    shift = -mean * scale
    if layer.bias is not None:
        shift = shift + layer.bias.detach().cpu().double().view(shape)
    return HeldLayer(whole * scale + shift, lambda parts: parts * scale, shift)


def _layer_norm(layer: Any, whole: Tensor) -> HeldLayer:
    centred = whole - whole.mean(dim=1, keepdim=True)
    scale = (centred.square().mean(dim=1, keepdim=True) + layer.eps).rsqrt()
    shift: Tensor | float = 0.0
    if layer.weight is not None:
        scale = scale * layer.weight.detach().cpu().double()
    if layer.bias is not None:
        shift = layer.bias.detach().cpu().double()
    return HeldLayer(centred * scale + shift, lambda parts: (parts - parts.mean(dim=1, keepdim=True)) * scale, shift)


def _relu(layer: Any, whole: Tensor) -> HeldLayer:
    is_on = (whole > 0).double()
    return HeldLayer(whole * is_on, lambda parts: parts * is_on)


def _unit_length(layer: Any, whole: Tensor) -> HeldLayer:
    length = length_of(whole)
    return HeldLayer(whole / length, lambda parts: parts / length)


def _unit_parts(layer: Any, whole: Tensor) -> HeldLayer:
    """Each part divided by its own length, and weighed."""
    shares: tuple[int, ...] = layer.shares
    parts = zip(whole.split(layer.widths, dim=1), shares, strict=True)
    scale = torch.cat([((share / sum(shares)) ** 0.5 / length_of(part)).expand_as(part) for part, share in parts], dim=1)
    return HeldLayer(whole * scale, lambda parts: parts * scale)


def _flatten(layer: Any, whole: Tensor) -> HeldLayer:
    return HeldLayer(whole.flatten(1), lambda parts: parts.flatten(1))


_KINDS: dict[type[nn.Module], Callable[[Any, Tensor], HeldLayer]] = {
    nn.Linear: _linear,
    nn.Conv2d: _mixing,
    nn.modules.batchnorm._BatchNorm: _batch_norm,
    nn.LayerNorm: _layer_norm,
    nn.ReLU: _relu,
    nn.Flatten: _flatten,
    UnitLength: _unit_length,
    UnitParts: _unit_parts,
}
