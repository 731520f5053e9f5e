"""Crops: rectangles of packed images of any sizes, resized to one size, as one batch.

Both ways resize as torch's antialiased bilinear interpolation of the cut-out rectangle does: output pixel i of a side shrunk by
`scale` = length / size is the mean of the source pixels k weighted by max(0, 1 - |k + 1/2 - (i + 1/2) scale| / max(scale, 1)), over those
inside the rectangle.

gathered_crops: no loop over images: every output pixel computes the addresses and weights of its source pixels in the one flat buffer.
A few kernels, or one when compiled; float results. copied_crops: image by image with torch's uint8 interpolation, which on a CPU is
much faster; results rounded to whole numbers.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from likewise.data.augmentation import Choices, Int64s

# Columns of the whole numbers that describe a crop to gathered_crops.
FIRST_PIXEL, ROW_LENGTH, TOP, LEFT, HEIGHT, WIDTH, MIRROR = range(7)


def num_taps(choices: Choices, height: int, width: int, *, antialias: bool) -> int:
    """Source pixels in a row or column that an output pixel depends on: 1 if nothing is resized, 2, or 4, 8, ... where a crop shrinks."""
    if (choices.height == height).all() and (choices.width == width).all():
        return 1
    shrink = max(choices.height.max() / height, choices.width.max() / width, 1.0) if antialias else 1.0
    return int(2 ** math.ceil(math.log2(2 * shrink)))  # a power of two: few variants to compile


def crop_numbers(first_pixels: Int64s, row_lengths: Int64s, choices: Choices) -> Int64s:
    """(images, 7) for gathered_crops; first_pixels counts pixels of the buffer, three bytes each."""
    columns = (first_pixels, row_lengths, choices.top, choices.left, choices.height, choices.width, choices.mirror)
    return np.stack([np.asarray(column, dtype=np.int64) for column in columns], axis=1)


def gathered_crops(buffer: Tensor, numbers: Tensor, *, height: int, width: int, taps: int, antialias: bool = True) -> Tensor:
    """Float32 (images, height, width, 3) from 0 to 255."""
    pixels = buffer.view(-1, 3)
    column = numbers[:, :, None]  # (images, 7, 1)
    rows, row_weights = _taps(column[:, HEIGHT], height, taps, antialias, None)  # (images, height, taps)
    columns, column_weights = _taps(column[:, WIDTH], width, taps, antialias, column[:, MIRROR])  # (images, width, taps)
    starts = column[:, FIRST_PIXEL, :, None] + (column[:, TOP, :, None] + rows) * column[:, ROW_LENGTH, :, None]
    columns = columns + column[:, LEFT, :, None]
    total = torch.zeros((), device=buffer.device)
    for i in range(taps):
        line = torch.zeros((), device=buffer.device)
        for j in range(taps):
            source = pixels[starts[:, :, None, i] + columns[:, None, :, j]]  # (images, height, width, 3)
            line = line + source * column_weights[:, None, :, j, None]
        total = total + line * row_weights[:, :, None, i, None]
    return total


def _taps(length: Tensor, size: int, taps: int, antialias: bool, mirror: Tensor | None) -> tuple[Tensor, Tensor]:
    """Source positions in the crop and their weights, (images, size, taps), for lengths (images, 1)."""
    place = torch.arange(size, device=length.device)
    if mirror is not None:
        place = torch.where(mirror.bool(), size - 1 - place, place)
    scale = length.float() / size
    support = scale.clamp(min=1) if antialias else torch.ones_like(scale)
    centre = (place + 0.5) * scale  # (images, size)
    first = torch.floor(centre - support - 0.5) + 1
    source = first[:, :, None] + torch.arange(taps, device=length.device)
    inside = (source >= 0) & (source < length[:, :, None])
    weight = (1 - (source + 0.5 - centre[:, :, None]).abs() / support[:, :, None]).clamp(min=0) * inside
    weight = weight / weight.sum(dim=2, keepdim=True)
    return torch.minimum(source.long().clamp(min=0), length[:, :, None] - 1), weight


def copied_crops(
    images: list[Tensor], choices: Choices, *, height: int, width: int, scale: Tensor, shift: Tensor, antialias: bool = True
) -> Tensor:
    """Float32 (images, height, width, 3): pixels from 0 to 255 times `scale` plus `shift`, each (3,).

    The images are uint8 (3, height, width) on the CPU.
    """
    batch = torch.from_numpy(
        np.empty((len(images), height, width, 3), dtype=np.float32)
    )  # in huge pages, where torch.empty takes small ones
    scale, shift = scale.repeat(width), shift.repeat(width)  # whole rows: a loop over three channels would cost ten times as much
    crops = zip(choices.top.tolist(), choices.left.tolist(), choices.height.tolist(), choices.width.tolist(), strict=True)
    for image, (top, left, tall, wide), mirror, out in zip(images, crops, choices.mirror.tolist(), batch, strict=True):
        crop = image[:, top : top + tall, left : left + wide]
        if (tall, wide) != (height, width):
            crop = functional.interpolate(crop[None], size=(height, width), mode="bilinear", antialias=antialias)[0]
        crop = crop.permute(1, 2, 0)
        out.copy_(crop.flip(1) if mirror else crop)
        out.view(height, -1).mul_(scale).add_(shift)  # while the image is in the core's cache
    return batch
