"""Omniglot: 1,623 handwritten characters of 50 alphabets. The background alphabets train, the evaluation alphabets test."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from likewise.data.dataset import Dataset, Part
from likewise.data.readers.class_folders import image_extensions
from likewise.data.readers.listing import ListedImage, Published, dataset_of

PUBLISHED = {"train": Published(19_280, 964), "test": Published(13_180, 659)}
_PARTS: dict[str, Part] = {"images_background": "train", "images_evaluation": "test"}


def recognises_omniglot(path: Path) -> bool:
    return all((path / name).is_dir() for name in _PARTS)


def read_omniglot(path: Path, *, strict: bool = False) -> Dataset:
    """images_background and images_evaluation, each ALPHABET/characterNN/*.png. A class is a character, named alphabet/character.

    The parts share no alphabet, so that folds of the training part share none either.
    """
    lacking = [name for name in _PARTS if not (path / name).is_dir()]
    if lacking:
        raise ValueError(f"{path} is not Omniglot: expected the folders {' and '.join(_PARTS)}; {lacking[0]} is missing")
    extensions = image_extensions()
    rows = [
        ListedImage(file, f"{file.parts[-3]}/{file.parts[-2]}", part)
        for name, part in _PARTS.items()
        for file in sorted((path / name).glob("*/*/*"))
        if file.suffix.lower() in extensions and not any(piece.startswith(".") for piece in file.parts[-3:])
    ]
    if not rows:
        raise ValueError(f"{path} has Omniglot's folders but no images: expected images_background/ALPHABET/characterNN/*.png")
    dataset = dataset_of("omniglot", rows, strict=strict, class_order=dict.fromkeys(row.label for row in rows), published=PUBLISHED)
    return replace(dataset, class_groups=tuple(name.split("/")[0] for name in dataset.class_names))
