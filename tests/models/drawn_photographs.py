"""Images with what photographs have: smooth light, edges, texture, saturated and dark places."""

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFilter
from torch import Tensor


def drawn_photographs(count: int, side: int, *, seed: int = 0) -> list[Image.Image]:
    rng = np.random.default_rng(seed)
    images = []
    for _ in range(count):
        coarse = rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)
        image = Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC)
        pen = ImageDraw.Draw(image)
        for _ in range(12):
            left, top = rng.integers(0, side, 2).tolist()
            wide, tall = rng.integers(side // 16, side // 2, 2).tolist()
            colour = tuple(rng.integers(0, 256, 3).tolist())
            shape = pen.ellipse if rng.random() < 0.5 else pen.rectangle
            shape((left, top, left + wide, top + tall), fill=colour)
        image = image.filter(ImageFilter.GaussianBlur(1))
        grain = rng.normal(0, 8, (side, side, 3))
        images.append(Image.fromarray((np.asarray(image) + grain).clip(0, 255).astype(np.uint8)))
    return images


def pixels_of(images: list[Image.Image]) -> Tensor:
    """float (images, 3, side, side) from 0 to 255."""
    return torch.stack([torch.from_numpy(np.array(image)).permute(2, 0, 1).float() for image in images])
