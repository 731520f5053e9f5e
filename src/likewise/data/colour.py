"""Colour changes and erasing, for a whole batch at once: each image with its own factors. Defined as in torchvision, in a fixed order."""

from __future__ import annotations

import torch
from torch import Tensor

LUMA = (0.299, 0.587, 0.114)
# Columns of the factors of an image.
BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)


def jittered(images: Tensor, factors: Tensor) -> Tensor:
    """(images, height, width, 3) from 0 to 1, by factors (images, 4): brightness, then contrast, saturation, hue."""
    brightness, contrast, saturation, hue = factors[:, :, None, None, None].unbind(1)
    images = (images * brightness).clamp(0, 1)
    images = _mixed(images, _grey(images).mean(dim=(1, 2), keepdim=True), contrast)
    images = _mixed(images, _grey(images), saturation)
    return _hue_shifted(images, hue)


def _grey(images: Tensor) -> Tensor:
    return (LUMA[0] * images[..., 0] + LUMA[1] * images[..., 1] + LUMA[2] * images[..., 2])[..., None]


def _mixed(images: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    return (other + (images - other) * factor).clamp(0, 1)


def _hue_shifted(images: Tensor, shift: Tensor) -> Tensor:
    """The hue turned by `shift` of the circle, saturation and value of HSV kept."""
    value = images.amax(dim=3)
    chroma = value - images.amin(dim=3)
    red, green, blue = images.unbind(3)
    divisor = torch.where(chroma == 0, 1.0, chroma)
    sector = torch.where(
        value == red,
        (green - blue) / divisor,
        torch.where(value == green, 2 + (blue - red) / divisor, 4 + (red - green) / divisor),
    )
    sector = sector + 6 * shift[..., 0]  # 0 red, 2 green, 4 blue
    k = torch.remainder(sector[..., None] + 5 - 2 * torch.arange(3, device=images.device), 6)  # 5, 3, 1 for red, green, blue
    return value[..., None] - chroma[..., None] * torch.minimum(k, 4 - k).clamp(0, 1)


def erased(images: Tensor, rectangles: Tensor) -> Tensor:
    """(images, height, width, 3) with rectangles (images, 4): top, left, height, width, set to 0, the mean colour of normalised images."""
    top, left, height, width = rectangles[:, :, None].unbind(1)  # (images, 1)
    row = torch.arange(images.shape[1], device=images.device)
    column = torch.arange(images.shape[2], device=images.device)
    rows = (row >= top) & (row < top + height)
    columns = (column >= left) & (column < left + width)
    return images.masked_fill((rows[:, :, None] & columns[:, None, :])[..., None], 0.0)
