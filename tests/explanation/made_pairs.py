"""Image pairs of which it is known where they match, and embedders for them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image

import likewise
from likewise.data.augmentation import Augmentation
from likewise.models import Embedder, NetworkSpec, Preprocessing, make_network

SIDE = 64
PIXELS = Augmentation(SIDE, "whole", mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))  # grey is 0: an untrained network sees nothing there


def embedder(seed: int = 0, **spec: object) -> Embedder:
    settings = {"backbone": "convnet_small", "dim": 12, **spec}
    return Embedder(make_network(NetworkSpec(**settings), seed=seed).eval(), Preprocessing(None, PIXELS))  # type: ignore[arg-type]


def noise(seed: int, height: int = SIDE, width: int = SIDE) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def texture(seed: int, side: int) -> npt.NDArray[np.uint8]:
    """Stripes of two colours."""
    rng = np.random.default_rng(seed)
    colours = rng.integers(0, 256, (2, 3))
    down, across = rng.uniform(-1.5, 1.5, 2)
    rows, columns = np.mgrid[:side, :side]
    return np.asarray(colours[(np.sin(down * rows + across * columns) > 0).astype(int)], dtype=np.uint8)


def matching_pair(patch: int = 24) -> tuple[Image.Image, Image.Image]:
    """Grey, with one texture at the top left of the first image and at the bottom right of the second; each has another one besides."""
    return placed({(0, 0): 1001, (SIDE - patch, SIDE - patch): 1002}, patch), placed(
        {(SIDE - patch, SIDE - patch): 1001, (0, 0): 1003}, patch
    )


def placed(textures: dict[tuple[int, int], int], patch: int) -> Image.Image:
    """Grey, with textures at these corners."""
    pixels = np.full((SIDE, SIDE, 3), 127, dtype=np.uint8)
    for (top, left), seed in textures.items():
        pixels[top : top + patch, left : left + patch] = texture(seed, patch)
    return Image.fromarray(pixels)


def of_textures(**spec: object) -> Embedder:
    """An embedder that tells textures apart: untrained features, whitened by those of many textures."""
    plain = embedder(head="none", levels=("mid",), **spec)
    seen = [placed({(16, 16): seed}, 24) for seed in range(300)]
    return plain.with_whitening(likewise.whiten(plain.embed(seen), dim=24))
