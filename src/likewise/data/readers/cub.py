"""CUB-200-2011: 200 species of birds. Classes 1-100 train, 101-200 test."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from likewise.data.dataset import Box, Dataset
from likewise.data.readers.class_folders import image_extensions
from likewise.data.readers.listing import ListedImage, Published, columns, dataset_of, number, text_lines, whole
from likewise.wording import quoted

PUBLISHED = {"train": Published(5_864, 100), "test": Published(5_924, 100)}
LAST_TRAIN_CLASS = 100
_CLASS_FOLDER = re.compile(r"(\d{3})\..+")


def recognises_cub(path: Path) -> bool:
    """images.txt with its labels, or class folders named 001.Name to 200.Name and nothing else."""
    root = _root(path)
    if (root / "images.txt").is_file() and (root / "image_class_labels.txt").is_file():
        return True
    folders = _class_folders(root / "images") or _class_folders(root)
    return len(folders) == 200 and sorted(folders) == list(range(1, 201))


def read_cub(path: Path, *, boxes: bool = False, strict: bool = False) -> Dataset:
    """The published layout (images.txt, image_class_labels.txt, classes.txt), or class folders NNN.Name of any image type.

    The file train_test_split.txt is for classification and not used. boxes: cut to bounding_boxes.txt; the usual protocol does not.
    """
    root = _root(path)
    if (root / "images.txt").is_file():
        rows, classes = _listed(root, boxes)
    else:
        if boxes:
            raise ValueError(f"boxes=True needs {root / 'bounding_boxes.txt'} and {root / 'images.txt'}, which are not there")
        rows, classes = _from_folders(root)
    return dataset_of("cub", rows, strict=strict, class_order=classes, published=PUBLISHED)


def _root(path: Path) -> Path:
    return path / "CUB_200_2011" if (path / "CUB_200_2011").is_dir() else path


def _class_folders(folder: Path) -> dict[int, Path]:
    """Class number -> folder; empty where a folder is not named as a class."""
    if not folder.is_dir():
        return {}
    folders: dict[int, Path] = {}
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(".") or not entry.is_dir():
            continue
        match = _CLASS_FOLDER.fullmatch(entry.name)
        if match is None:
            return {}
        folders[int(match[1])] = entry
    return folders


def _listed(root: Path, boxes: bool) -> tuple[list[ListedImage], list[str]]:
    images, labels, names = root / "images.txt", root / "image_class_labels.txt", root / "classes.txt"
    path_of = dict(columns(images, text_lines(images), 2, last_may_have_spaces=True))
    class_of = dict(columns(labels, text_lines(labels), 2))
    name_of = dict(columns(names, text_lines(names), 2, last_may_have_spaces=True))
    box_of: dict[str, Box] = {}
    if boxes:
        file = root / "bounding_boxes.txt"
        for key, *texts in columns(file, text_lines(file), 5):
            left, top, width, height = (number(file, text) for text in texts)
            box_of[key] = left, top, left + width, top + height
    rows = []
    for key, name in path_of.items():
        if key not in class_of or class_of[key] not in name_of or (boxes and key not in box_of):
            raise ValueError(
                f"{root}: image {quoted(key)} ({quoted(name)}) has no class or box in the annotation files: they belong to another version"
            )
        label = class_of[key]
        part = _part(whole(labels, label))
        rows.append(ListedImage(root / "images" / name, name_of[label], part, box_of.get(key)))
    return rows, [name_of[label] for label in sorted(name_of, key=lambda text: whole(names, text))]


def _from_folders(root: Path) -> tuple[list[ListedImage], list[str]]:
    folders = _class_folders(root / "images") or _class_folders(root)
    if not folders:
        raise ValueError(f"{root} is not CUB-200-2011: expected images.txt and image_class_labels.txt, or class folders images/NNN.Name")
    extensions = image_extensions()
    rows = [
        ListedImage(file, folder.name, _part(label))
        for label, folder in sorted(folders.items())
        for file in sorted(folder.iterdir())
        if file.suffix.lower() in extensions and not file.name.startswith(".")
    ]
    if not rows:
        raise ValueError(f"{root} has CUB's class folders but no images in them")
    return rows, [folder.name for _, folder in sorted(folders.items())]


def _part(label: int) -> Literal["train", "test"]:
    return "train" if label <= LAST_TRAIN_CLASS else "test"
