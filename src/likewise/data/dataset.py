"""Dataset: what a reader gives. Items with labels, not yet decoded, and where each came from."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from likewise.wording import printable

Part = Literal["train", "test", "query", "gallery"]  # query and gallery are the two halves of a test part (In-Shop)
Box = tuple[int, int, int, int]  # left, top, right, bottom in pixels
Cell = str | int | float | bool | None  # of a table; None: empty


@dataclass(frozen=True)
class Files:
    """Images in files, each perhaps cut to a box first."""

    paths: tuple[Path, ...]
    boxes: tuple[Box, ...] | None = None

    def __len__(self) -> int:
        return len(self.paths)


@dataclass(frozen=True)
class Pixels:
    """Images of one size in memory: uint8 (items, height, width) or (items, height, width, 3)."""

    array: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.array)


@dataclass(frozen=True)
class Features:
    """Vectors instead of images: float32 (items, dimensions)."""

    array: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.array)


@dataclass(frozen=True)
class Dataset:
    """Items with their labels, as far as these are known. `parts` names each item's part where the data set has an official split."""

    name: str
    items: Files | Pixels | Features
    labels: npt.NDArray[np.int64]  # (items,) index into class_names; -1: not known
    class_names: tuple[str, ...]
    parts: npt.NDArray[np.str_] | None = None  # (items,) of Part
    notes: tuple[str, ...] = ()  # what the reader wants the user to know: missing files, counts that differ
    class_groups: tuple[str, ...] | None = None  # of every class, where some belong together (an alphabet): folds keep them together
    columns: Mapping[str, tuple[Cell, ...]] | None = None  # what a table says of the items besides: by name, a cell an item

    def __post_init__(self) -> None:
        if len(self.items) != len(self.labels):
            raise ValueError(f"{self.name}: {len(self.items)} items but {len(self.labels)} labels: every item needs one label")
        if self.parts is not None and len(self.parts) != len(self.labels):
            raise ValueError(f"{self.name}: {len(self.parts)} parts for {len(self.labels)} items: every item needs one part")

        if self.class_groups is not None and len(self.class_groups) != len(self.class_names):
            raise ValueError(f"{self.name}: {len(self.class_groups)} groups for {len(self.class_names)} classes: every class needs one")

    @staticmethod
    def from_torch(dataset: Any, *, name: str = "torch", parts: Sequence[Part] | None = None) -> Dataset:
        """A torch Dataset of (item, label): torchvision's folders by their paths, others read into memory once, item by item.

        Items are vectors, Pillow images, or pixels in 8 bits or from 0 to 1, all of one size. A transform of paths is not made, one of
        others is made once: random changes are the protocol's to make. Labels are numbers, named by its `classes` where it has them,
        or texts.  parts: "train" or "test" of every item, where they are fixed.
        """
        from likewise.data.from_torch import dataset_of_torch

        return dataset_of_torch(dataset, name, parts)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def kind(self) -> str:
        """What the items are, as a sentence has it."""
        return "vectors" if isinstance(self.items, Features) else "images"

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @property
    def is_labelled(self) -> npt.NDArray[np.bool_]:
        """(items,) whether the class is known."""
        return self.labels >= 0

    def label_names(self) -> npt.NDArray[np.str_]:
        """(items,) the name of each item's class, empty where it is not known."""
        return np.array(["", *self.class_names], dtype=np.str_)[self.labels + 1]

    def require_labels(self) -> None:
        """A ValueError, with what to do, unless the class of every item is known."""
        if self.is_labelled.all():
            return
        unknown = int((~self.is_labelled).sum())
        who = (
            f"{self.name} has no classes"
            if unknown == len(self)
            else f"{unknown:,} of the {len(self):,} items of {self.name} have no class"
        )
        if isinstance(self.items, Files):
            what_to_do = (
                f"put each into a folder that is named after its class ({self.name}/CLASS/image.jpg), or list paths and labels in a .csv"
            )
        else:
            what_to_do = "give a label for each"
        raise ValueError(f"{who}: to train and to score, every item needs one; {what_to_do}. `likewise embed` takes them as they are")

    def subset(self, indices: npt.NDArray[np.int64]) -> Dataset:
        """These items, in this order; the classes keep their numbers."""
        items: Files | Pixels | Features
        if isinstance(self.items, Files):
            boxes = self.items.boxes
            items = Files(tuple(self.items.paths[i] for i in indices), None if boxes is None else tuple(boxes[i] for i in indices))
        elif isinstance(self.items, Pixels):
            items = Pixels(self.items.array[indices])
        else:
            items = Features(self.items.array[indices])
        return replace(
            self,
            items=items,
            labels=self.labels[indices],
            parts=None if self.parts is None else self.parts[indices],
            columns=None if self.columns is None else {name: tuple(cells[i] for i in indices) for name, cells in self.columns.items()},
        )

    def fingerprint(self) -> str:
        """Names the content: equal for equal items, labels, class names and parts. 64 hexadecimal digits.

        A file stands for its path below the files' common folder and its size: no image is read, and a copy of the data set
        elsewhere has the same fingerprint, hence the same splits. (The packed cache also looks at the times of change.)
        """
        digest = hashlib.sha256()
        digest.update(repr((type(self.items).__name__, self.class_names)).encode())
        if isinstance(self.items, Files):
            paths = _of_one_kind(self.items.paths)
            common = _common_folder(paths)
            for path in paths:
                # a file name need not be UTF-8
                digest.update(f"{path.relative_to(common).as_posix()}\0{path.stat().st_size}\n".encode(errors="surrogateescape"))
            digest.update(repr(self.items.boxes).encode())
        else:
            digest.update(repr(self.items.array.shape).encode())
            digest.update(np.ascontiguousarray(self.items.array).tobytes())
        digest.update(self.labels.tobytes())
        digest.update(b"" if self.parts is None else "\0".join(self.parts.tolist()).encode())
        return digest.hexdigest()

    def items_digest(self, indices: npt.NDArray[np.int64]) -> str:
        """Names these items by content, class and half, in whatever order they stand and whatever else is in the data set. 64 digits.

        As in the fingerprint, a file stands for its path below these files' common folder and its size.
        """
        chosen = self.subset(indices)
        classes = [self.class_names[label] for label in chosen.labels.tolist()]
        halves = [""] * len(chosen) if chosen.parts is None else [part if part in ("query", "gallery") else "" for part in chosen.parts]
        if isinstance(chosen.items, Files):
            paths = _of_one_kind(chosen.items.paths)
            common = _common_folder(paths)
            boxes = chosen.items.boxes or (None,) * len(paths)
            contents = [
                repr((path.relative_to(common).as_posix(), path.stat().st_size, box)) for path, box in zip(paths, boxes, strict=True)
            ]
        else:
            rows = np.ascontiguousarray(chosen.items.array)
            contents = [f"{rows.dtype}{rows.shape[1:]}{hashlib.sha256(row.tobytes()).hexdigest()}" for row in rows]
        items = sorted(map(repr, zip(contents, classes, halves, strict=True)))
        return hashlib.sha256("\n".join([type(chosen.items).__name__, *items]).encode(errors="surrogateescape")).hexdigest()

    def item_names(self) -> list[str]:
        """What to call the items in front of people: files by their paths below their common folder, others by their numbers."""
        if not isinstance(self.items, Files):
            return [f"item {number}" for number in range(len(self))]
        paths = [os.path.abspath(path) for path in self.items.paths]
        common = os.path.commonpath([os.path.dirname(path) for path in paths])
        return [printable(os.path.relpath(path, common)) for path in paths]


def _of_one_kind(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """As they are if all are absolute or all relative; made absolute where both are among them, which have no common folder."""
    return paths if len({path.is_absolute() for path in paths}) == 1 else tuple(path.absolute() for path in paths)


def _common_folder(paths: tuple[Path, ...]) -> Path:
    folders = {path.parent for path in paths}
    common = next(iter(folders))
    while not all(folder.is_relative_to(common) for folder in folders):
        common = common.parent
    return common
