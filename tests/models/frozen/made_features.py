"""Images, weights and conditions that features are computed under here, and the same features by hand."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor

from likewise.data.augmentation import IMAGENET_MEAN, IMAGENET_STD
from likewise.data.dataset import Dataset, Files
from likewise.models.backbones import make_backbone
from likewise.models.frozen import streaming
from likewise.models.frozen.frozen_features import FrozenFeatures, frozen_features
from likewise.models.images import DatasetImage

from ..drawn_photographs import drawn_photographs

SIDE = 64
COUNT = 20
BACKBONE = "convnet_small"


def make_images(folder: Path, count: int = COUNT) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, image in enumerate(drawn_photographs(count, SIDE)):
        image.save(folder / f"{number:03}.bmp")  # without loss, all of one size


def dataset(folder: Path) -> Dataset:
    paths = tuple(sorted(folder.iterdir()))
    return Dataset("made", Files(paths), np.arange(len(paths)) % 3, ("a", "b", "c"))


class Compute:
    """`frozen_features` under these conditions, and how many images it had to decode."""

    def __init__(self, home: Path, weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.weights, self.decoded = home, weights, 0
        original = streaming.loaded

        def counted(image: DatasetImage) -> Tensor | str:
            self.decoded += 1
            return original(image)

        monkeypatch.setattr(streaming, "loaded", counted)

    def __call__(self, data: Dataset, **changes: object) -> FrozenFeatures:
        settings: dict[str, object] = {
            "backbone": BACKBONE,
            "weights": self.weights,
            "augmentation": "centre64",
            "side": SIDE,
            "folder": self.home,
            "workers": 2,
        }
        self.decoded = 0
        return frozen_features(data, **(settings | changes))  # type: ignore[arg-type]


def by_hand(data: Dataset, weights: Path, *, mirror: bool = False) -> Tensor:
    """Pillow's pixels through the backbone, averaged over places."""
    assert isinstance(data.items, Files)
    backbone = make_backbone(BACKBONE)
    backbone.load_state_dict(load_file(weights))
    images = [np.asarray(Image.open(path).convert("RGB"), dtype=np.float32) / 255 for path in data.items.paths]
    pixels = (np.stack(images) - np.array(IMAGENET_MEAN)) / np.array(IMAGENET_STD)
    inputs = torch.from_numpy(pixels).float().permute(0, 3, 1, 2)
    with torch.no_grad():
        (maps,) = backbone.eval()(inputs.flip(3) if mirror else inputs, ("high",))
    return torch.as_tensor(maps.mean((2, 3)))


def assert_alike(given: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(given, expected, rtol=0, atol=1e-4 * float(expected.abs().max()))


def rows_files(home: Path) -> list[Path]:
    return sorted(home.rglob("*.rows"))
