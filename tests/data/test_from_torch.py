"""Dataset.from_torch: what a torch Dataset gives, as a data set of ours."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

import likewise
from likewise.data.dataset import Dataset, Features, Files, Pixels


class Listed:
    """A data set of what it is given."""

    def __init__(self, pairs: list[Any], **more: Any) -> None:
        self.pairs = pairs
        vars(self).update(more)

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, number: int) -> Any:
        return self.pairs[number]


def test_vectors() -> None:
    vectors, labels = torch.randn(6, 4, dtype=torch.float64), torch.tensor([3, 3, 7, 7, 3, 7])
    dataset = Dataset.from_torch(TensorDataset(vectors, labels), name="mine")
    assert isinstance(dataset.items, Features)
    np.testing.assert_array_equal(dataset.items.array, vectors.float().numpy())
    assert dataset.class_names == ("3", "7")
    assert dataset.labels.tolist() == [0, 0, 1, 1, 0, 1]


def test_images_of_every_form_are_the_same_pixels() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 8, 6, 3), dtype=np.uint8)
    forms: dict[str, list[Any]] = {
        "pillow": [Image.fromarray(image) for image in pixels],
        "bytes": [torch.from_numpy(image).permute(2, 0, 1) for image in pixels],
        "floats": [torch.from_numpy(image).permute(2, 0, 1) / 255 for image in pixels],
        "numpy": list(pixels),
    }
    for form, images in forms.items():
        dataset = Dataset.from_torch(Listed(list(zip(images, "ababa", strict=True))))
        assert isinstance(dataset.items, Pixels)
        np.testing.assert_array_equal(dataset.items.array, pixels, err_msg=form)
        assert dataset.class_names == ("a", "b")
    grey = Dataset.from_torch(Listed([(torch.zeros(1, 8, 6), 0), (Image.new("L", (6, 8)), 1)], classes=["cat", "dog"]))
    assert isinstance(grey.items, Pixels)
    assert grey.items.array.shape == (2, 8, 6)
    assert grey.class_names == ("cat", "dog")


def test_folders_go_by_their_paths(tmp_path: Path) -> None:
    """As torchvision's ImageFolder has them, of any sizes; nothing is opened."""
    samples = [(str(tmp_path / f"{number}.png"), number % 2) for number in range(4)]
    dataset = Dataset.from_torch(Listed([None] * 4, samples=samples, classes=["a", "b"]), parts=["train", "test", "train", "test"])
    assert isinstance(dataset.items, Files)
    assert [str(path) for path in dataset.items.paths] == [path for path, _ in samples]
    assert dataset.parts is not None
    assert dataset.labels.tolist() == [0, 1, 0, 1]


def test_it_trains(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(16).repeat_interleave(6)
    vectors = torch.randn(16, 12, generator=generator)[labels] + 0.3 * torch.randn(96, 12, generator=generator)
    dataset = Dataset.from_torch(TensorDataset(vectors, labels))
    run = likewise.train("raw", dataset, protocol="features", settings={"steps": 3, "batch": 16}, out=tmp_path / "run")
    assert run.scores["R@1"] > 0.5


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (iter(()), "has no __len__: expected a torch Dataset"),
        (Listed([]), "there is nothing in it"),
        (Listed([torch.zeros(3)]), r"item 0: expected \(item, label\), not Tensor"),
        (Listed([(torch.zeros(2, 5, 5), 0)]), r"item 0 is of shape \(2, 5, 5\): expected a vector"),
        (Listed([(torch.full((3, 5, 5), -1.2), 0)]), "item 0 holds numbers from -1.2 to -1.2: expected pixels from 0 to 1"),
        (Listed([(torch.zeros(3, 5, 5, dtype=torch.int32), 0)]), "item 0 holds int32: expected pixels in 8 bits"),
        (Listed([(torch.zeros(4), 0), (torch.zeros(5), 1)]), r"different shapes, such as \(4,\) and \(5,\)"),
        (Listed([(torch.zeros(4), 0.5)]), "item 0: the label is 0.5: expected a whole number or a text"),
        (Listed([(torch.zeros(4), torch.tensor([1, 0]))]), "item 0: the label is tensor"),
    ],
)
def test_faults_in_words(given: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Dataset.from_torch(given, name="mine")
