"""A folder of class folders: the class of an image is the folder it lies in."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from PIL import Image

from likewise.data.dataset import Dataset
from likewise.data.readers.listing import ListedImage, dataset_of
from likewise.data.readers.parts import is_part_word, parts_of

_ONLY_NAMED = {"BUFR", "GRIB", "HDF5", "MPEG", "WMF"}  # Pillow knows these files by name but does not decode them


def read_folder(path: Path, *, strict: bool = False, labelled: bool = True) -> Dataset:
    """Images in class folders of any depth.

    The class is the whole path of the image's folder below the root: `birds/sparrow/1.jpg` is of class `birds/sparrow`. Hidden files and
    folders are left out, links are followed. Where the only folders at the top are parts (train and test; train, query and gallery; a
    val besides or instead of test), they are the official split and the class is the path below them.
    strict: images that lie in no class folder are an error, not a note.  labelled=False keeps them, without a class.
    """
    root = path
    if not root.is_dir():
        raise ValueError(f"{root} is {'a file' if root.exists() else 'not there'}: expected a folder of class folders")
    images = images_below(root)
    if not images:
        expected = f"{root}/CLASS/image.jpg" if labelled else "images in it, or in folders below it"
        raise ValueError(
            f"{root} holds no images: expected {expected}, of any type that Pillow reads ({len(image_extensions())} extensions)"
        )
    loose = [file for file in images if len(file.parts) == 1]
    placed = [file for file in images if len(file.parts) > 1]
    if not placed and labelled:
        raise ValueError(
            f"all {len(loose)} images lie directly in {root}, so they have no class: expected {root}/CLASS/image.jpg, or a table of "
            "paths and labels (table:/path.csv); `likewise embed` takes them as they are"
        )
    notes = []
    if loose and labelled:
        words = f"{len(loose):,} images lie directly in {root} and have no class, first {loose[0].name}"
        if strict:
            raise ValueError(f"{words}: move them into class folders, or read without strict")
        notes.append(f"{words}; they are left out")
    tops = {file.parts[0] for file in placed}
    has_parts = len(tops) > 1 and all(map(is_part_word, tops)) and all(len(file.parts) > 2 for file in placed)
    has_parts = has_parts and any(top.lower().startswith("train") for top in tops)
    if has_parts:
        parts, part_notes = parts_of([file.parts[0] for file in placed])
        rows = [ListedImage(root / file, "/".join(file.parts[1:-1]), part) for file, part in zip(placed, parts, strict=True)]
        notes.extend(part_notes)
    else:
        rows = [ListedImage(root / file, "/".join(file.parts[:-1])) for file in placed]
    if not labelled:
        rows += [ListedImage(root / file, "") for file in loose]
    if labelled and len({row.label for row in rows}) == 1:
        notes.append(f"there is one class, {rows[0].label!r}: enough to embed, too little to train or to score")
    return dataset_of(root.resolve().name or "folder", rows, strict=strict, notes=notes)


@cache
def image_extensions() -> frozenset[str]:
    """Extensions of the image files that Pillow reads, lower case, with the dot."""
    registered = Image.registered_extensions()
    return frozenset(extension for extension, kind in registered.items() if kind in Image.OPEN and kind not in _ONLY_NAMED)


def images_below(root: Path) -> list[Path]:
    """Image files below the root, relative to it, in one order on every machine."""
    extensions = image_extensions()
    images: list[Path] = []
    seen: set[tuple[int, int]] = set()  # folders visited: a link may lead back up

    def refuse(fault: OSError) -> None:
        raise ValueError(f"folder {fault.filename} cannot be read ({fault.strerror}): check its permissions") from fault

    for folder, folders, files in os.walk(root, followlinks=True, onerror=refuse):
        state = os.stat(folder)
        if (state.st_dev, state.st_ino) in seen:
            folders.clear()
            continue
        seen.add((state.st_dev, state.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        below = Path(folder).relative_to(root)
        images.extend(below / name for name in files if not name.startswith(".") and os.path.splitext(name)[1].lower() in extensions)
    return sorted(images, key=lambda file: file.parts)
