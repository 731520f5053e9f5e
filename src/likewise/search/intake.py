"""Intake: images as they are given, files, folders and tables, to items of an index, a chunk at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from likewise.data.dataset import Box, Dataset, Files
from likewise.data.packing.packed import Problem
from likewise.data.readers import read_to_embed
from likewise.environment import num_cores
from likewise.files import file_digest
from likewise.search.item import Item

Images = str | Path | Dataset | Sequence[str | Path | Dataset]

CHUNK = 1000  # images whose vectors are added at once: so many are embedded again after a crash, at the most


@dataclass(frozen=True)
class Taken:
    """Images of a chunk, each path once: the items, and the data set that embeds them in this order."""

    items: list[Item]
    dataset: Dataset
    problems: list[Problem]  # files that cannot be read
    num_given: int  # of the images, before any was left out

    def subset(self, places: list[int]) -> Taken:
        return Taken([self.items[place] for place in places], self.dataset.subset(np.array(places, dtype=np.int64)), [], len(places))


def read_images(images: Images) -> list[Dataset]:
    """The data sets of what is given; a ValueError for what holds no image files."""
    given = [images] if isinstance(images, str | Path | Dataset) else list(images)
    datasets: list[Dataset] = []
    specs: list[str | Path] = []
    for one in given:
        if isinstance(one, Dataset):
            datasets += [*(read_to_embed(specs) if specs else []), one]
            specs = []
        else:
            specs.append(one)
    datasets += read_to_embed(specs) if specs or not datasets else []
    for dataset in datasets:
        if not isinstance(dataset.items, Files):
            raise ValueError(f"{dataset.name} holds no image files: an index is of files, which it names by their paths")
    _check_boxes([dataset.items for dataset in datasets if isinstance(dataset.items, Files)])
    return datasets


def _check_boxes(given: Sequence[Files]) -> None:
    """A ValueError where a path comes with several boxes, of which the last would take the place of the others."""
    if not any(files.boxes for files in given):
        return
    known: dict[str, Box | None] = {}
    for files in given:
        for path, box in zip(files.paths, files.boxes or (None,) * len(files.paths), strict=True):
            name = os.path.abspath(path)
            if known.setdefault(name, box) != box:
                raise ValueError(
                    f"{name} is there with several boxes: an index holds one item a path; cut the boxes into files of their own"
                )


def chunks(dataset: Dataset, at_least: int = 0) -> Iterator[Taken]:
    """All images of a data set, with their digests."""
    size = max(CHUNK, at_least)
    for start in range(0, len(dataset), size):
        yield _taken(dataset.subset(np.arange(start, min(start + size, len(dataset)))))


def _taken(dataset: Dataset) -> Taken:
    assert isinstance(dataset.items, Files)
    paths = [os.path.abspath(path) for path in dataset.items.paths]
    boxes = dataset.items.boxes or (None,) * len(paths)
    last = {path: place for place, path in enumerate(paths)}
    with ThreadPoolExecutor(num_cores()) as pool:
        digests = list(pool.map(_digest, (paths[place] for place in last.values()), (boxes[place] for place in last.values())))
    labels = dataset.label_names()
    items, places, problems = [], [], []
    for place, digest in zip(last.values(), digests, strict=True):
        if isinstance(digest, OSError):
            problems.append(Problem(Path(paths[place]), f"cannot be read: {digest.strerror or digest}"))
            continue
        metadata = {name: cells[place] for name, cells in (dataset.columns or {}).items() if cells[place] is not None}
        items.append(Item(paths[place], digest, str(labels[place]) or None, metadata))
        places.append(place)
    return Taken(items, dataset.subset(np.array(places, dtype=np.int64)), problems, len(dataset))


def _digest(path: str, box: Box | None) -> str | OSError:
    """Of the file's bytes, and of the box where only that counts."""
    try:
        digest = file_digest(Path(path))
    except OSError as fault:
        return fault
    return digest if box is None else f"{digest}:{','.join(map(str, box))}"
