"""MNIST and Fashion-MNIST: images of 28 x 28 in IDX files, plain or gzipped."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from likewise.data.dataset import Dataset, Pixels
from likewise.data.readers.listing import Published, count_notes
from likewise.formats.idx_files import read_idx

PUBLISHED = {"train": Published(60_000, 10), "test": Published(10_000, 10)}
_DIGITS = tuple("0123456789")
_FASHION = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
_STEMS = {"train": "train", "test": "t10k"}
_KINDS = {"images": 3, "labels": 1}  # dimensions


def recognises_mnist(path: Path) -> bool:
    return _root(path) is not None and "fashion" not in str(path.absolute()).lower()


def recognises_fashion_mnist(path: Path) -> bool:
    return _root(path) is not None and "fashion" in str(path.absolute()).lower()


def read_mnist(path: Path, *, strict: bool = False) -> Dataset:
    """The four files train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-... (with .gz or not), in the folder or its raw/.

    The official parts share all ten classes; `split(..., official=False)` draws disjoint ones.
    """
    return _read("mnist", path, _DIGITS, strict)


def read_fashion_mnist(path: Path, *, strict: bool = False) -> Dataset:
    """As MNIST: the four IDX files of Fashion-MNIST. The classes are kinds of clothing."""
    return _read("fashion_mnist", path, _FASHION, strict)


def _read(name: str, path: Path, class_names: tuple[str, ...], strict: bool) -> Dataset:
    root = _root(path)
    if root is None:
        raise ValueError(
            f"{path} is not {name}: expected {', '.join(_file_names('train', 'images')[:1])} and its three sisters, .gz or not"
        )
    images, labels, parts = [], [], []
    for part in _STEMS:
        pixels, numbers = (read_idx(_find(root, part, kind), num_dimensions=dims) for kind, dims in _KINDS.items())
        if len(pixels) != len(numbers):
            raise ValueError(f"{root}: {len(pixels):,} {part} images but {len(numbers):,} labels: the files belong to different sets")
        if len(numbers) and numbers.max() >= len(class_names):
            raise ValueError(f"{root}: a {part} label is {numbers.max()}, {name} has classes 0 to {len(class_names) - 1}")
        images.append(pixels)
        labels.append(numbers)
        parts += [part] * len(numbers)
    if images[0].shape[1:] != images[1].shape[1:]:
        raise ValueError(f"{root}: train images are {images[0].shape[1:]}, test images {images[1].shape[1:]}: expected one size")
    if not parts:
        raise ValueError(f"{root}: the files hold no images")
    dataset = Dataset(
        name, Pixels(np.concatenate(images)), np.concatenate(labels).astype(np.int64), class_names, np.array(parts, dtype=np.str_)
    )
    notes = count_notes(dataset, PUBLISHED)
    if strict and notes:
        raise ValueError(f"{name}: {notes[0]}: get the full data set, or read without strict")
    return Dataset(dataset.name, dataset.items, dataset.labels, dataset.class_names, dataset.parts, notes=tuple(notes))


def _file_names(part: str, kind: str) -> list[str]:
    stem, dims = _STEMS[part], _KINDS[kind]
    return [f"{stem}-{kind}{dot}idx{dims}-ubyte{end}" for dot in "-." for end in ("", ".gz")]


def _find(root: Path, part: str, kind: str) -> Path:
    names = _file_names(part, kind)
    for name in names:
        if (root / name).is_file():
            return root / name
    raise ValueError(f"{root} has no {names[0]} (or {names[1]}): expected the four files of the set")


def _root(path: Path) -> Path | None:
    for root in (path, path / "raw", path / "MNIST" / "raw", path / "FashionMNIST" / "raw"):
        if any((root / name).is_file() for name in _file_names("train", "images")):
            return root
    return None
