"""Small images in class folders, and a small model of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from likewise.data.augmentation import Augmentation
from likewise.models import Embedder, NetworkSpec, Preprocessing, make_network

CENTRE = Augmentation(28, "centre", mean=(0.5, 0.4, 0.3), std=(0.5, 0.6, 0.7))


def small_embedder(seed: int = 0, **settings: object) -> Embedder:
    network = make_network(NetworkSpec("convnet", **{"dim": 12, **settings}), seed=seed)  # type: ignore[arg-type]
    return Embedder(network, Preprocessing(32, CENTRE), {"method": "raw"})


def picture(path: Path, seed: int, colour: int) -> Path:
    """Noise about a colour."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    base = np.random.default_rng(colour).integers(0, 256, (4, 4, 3))
    pixels = np.kron(base, np.ones((10, 10, 1))) + rng.normal(0, 20, (40, 40, 3))
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path)
    return path


def class_folders(root: Path, *, classes: int = 3, images: int = 4) -> list[Path]:
    """root/class c/i.png."""
    return [picture(root / f"class {c}" / f"{i}.png", 10 * c + i, c) for c in range(classes) for i in range(images)]
