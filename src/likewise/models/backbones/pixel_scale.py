"""Pixel scale: what weights that were not trained on ImageNet's mean and deviation see instead."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from likewise.data.augmentation import IMAGENET_MEAN, IMAGENET_STD, Colour


class PixelScale(nn.Module):
    """From images as batches hold them, z = (v / 255 - m) / s with ImageNet's m and s, to (v - mean) / std of the pixels v in 0 to 255.

    That is z * (255 s / std) + (255 m - mean) / std for each channel, so augmentation, embedder and export know one normalisation only,
    and what a backbone wants besides is its first layer. Nothing of it is in the state dict.
    """

    factor: Tensor
    shift: Tensor

    def __init__(self, mean: Colour, std: Colour) -> None:
        super().__init__()
        of_files, of_batches = (
            [torch.tensor(colour, dtype=torch.float64).view(3, 1, 1) for colour in colours]
            for colours in ((mean, std), (IMAGENET_MEAN, IMAGENET_STD))
        )
        self.register_buffer("factor", (255 * of_batches[1] / of_files[1]).float(), persistent=False)
        self.register_buffer("shift", ((255 * of_batches[0] - of_files[0]) / of_files[1]).float(), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        return images * self.factor + self.shift
