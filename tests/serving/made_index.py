"""A small index of made images."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import likewise
from likewise.data.augmentation import Augmentation
from likewise.models.embedder import Embedder, Preprocessing
from likewise.models.network import NetworkSpec, make_network
from likewise.search.index import Index

CLASSES = ("crimson", "jade", "navy", "amber")
A_CLASS = 6  # images
COLOURS = ((190, 30, 50), (20, 150, 100), (30, 40, 130), (240, 180, 20))


def made_image(label: int, number: int, size: tuple[int, int] = (80, 64)) -> Image.Image:
    """Noise in the colour of its class."""
    rng = np.random.default_rng([label, number])
    pixels = np.array(COLOURS[label]) + rng.normal(0, 40, (size[1] // 8, size[0] // 8, 3))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).resize(size, Image.Resampling.BICUBIC)


def as_bytes(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    out = BytesIO()
    image.save(out, format=kind, **options)
    return out.getvalue()


def small_embedder() -> Embedder:
    spec = NetworkSpec("convnet", dim=16)
    return Embedder(make_network(spec, seed=0).eval(), Preprocessing(32, Augmentation(size=32, crop="whole")))


@dataclass
class MadeIndex:
    """An index on the disk, and the images it is of."""

    folder: Path
    images: Path
    table: Path
    paths: list[Path] = field(default_factory=list)


def make_index(folder: Path, *, calibrated: bool = False, store: str = "exact", **options: Any) -> MadeIndex:
    images = folder / "images"
    rows = ["path,label,place,year"]
    paths = []
    for label, name in enumerate(CLASSES):
        (images / name).mkdir(parents=True)
        for number in range(A_CLASS):
            paths.append(images / name / f"{name}{number}.png")
            made_image(label, number).save(paths[-1])
            rows.append(f"images/{name}/{name}{number}.png,{name},{'harbour' if number % 2 else 'forest'},{2000 + number}")
    table = folder / "images.csv"
    table.write_text("\n".join(rows) + "\n", encoding="utf-8")
    embedder = small_embedder()
    if calibrated:
        labels = np.repeat(np.arange(len(CLASSES)), A_CLASS)
        embedder = replace(embedder, calibration=likewise.calibrate(embedder.embed(paths), labels, false_accepts=0.2))
    Index.build(embedder, table, out=folder / "made.index", store=store, device="cpu", **options).close()
    return MadeIndex(folder / "made.index", images, table, paths)
