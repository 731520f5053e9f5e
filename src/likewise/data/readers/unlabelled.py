"""Images without classes: files, a folder of any depth, or a list of paths. Enough to embed and to search, not to train."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from likewise.data.dataset import Dataset
from likewise.data.readers.class_folders import image_extensions, images_below
from likewise.data.readers.listing import ListedImage, dataset_of
from likewise.formats.regular_file import is_regular
from likewise.formats.text_files import read_lines

LIST = ".txt"


def is_image_file(path: Path) -> bool:
    return path.suffix.lower() in image_extensions() and is_regular(path)


def recognises_unlabelled(path: Path) -> bool:
    return is_image_file(path) or (path.suffix.lower() == LIST and path.is_file())


def read_unlabelled(path: Path, *, strict: bool = False) -> Dataset:
    """An image file; the images in a folder and below, whatever its folders mean; or .txt with the path of an image a line, which is
    relative to the list's folder.

    strict: a listed file that is missing is an error, not a note.
    """
    if path.is_dir():
        return images_of([path / file for file in images_below(path)], name=path.resolve().name or "folder", strict=strict)
    if path.suffix.lower() == LIST:
        lines = read_lines(path, expected="the path of an image a line")
        return images_of([path.parent / line for line in lines], name=path.stem, strict=strict)
    return images_of([path], name=path.name, strict=strict)


def images_of(paths: Sequence[Path], *, name: str, strict: bool = False) -> Dataset:
    """These files, in their order."""
    if not paths:
        raise ValueError(f"{name} holds no images: expected files of any type that Pillow reads ({len(image_extensions())} extensions)")
    return dataset_of(name, [ListedImage(path, "") for path in paths], strict=strict)
