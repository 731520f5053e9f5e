"""Examination of a data set: a look at every item, once, for what would spoil a training or a score."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from likewise.data.dataset import Box, Dataset, Features, Files, Pixels
from likewise.data.doctor.dataset_report import Broken, DatasetReport, Duplicate, NamedItem, PartCount
from likewise.data.doctor.duplicates import FLAT, SIDE, SMALL, Thumbnails, find_duplicates
from likewise.data.packing.decode import Undecodable, decode, image_bytes, refuse_strip
from likewise.environment import num_cores
from likewise.progress import ProgressCallback
from likewise.wording import printable

CHUNK = 128  # items between two looks at the progress, and at Ctrl-C


def diagnose_dataset(
    dataset: Dataset,
    *,
    parts: npt.NDArray[np.str_] | None = None,
    workers: int | None = None,
    on_progress: ProgressCallback | None = None,
) -> DatasetReport:
    """Reads and decodes every item of a data set.

    parts        each item's part ("train", "test", ...), instead of the data set's own.
    workers      threads; None: one for each core.
    on_progress  is told how many items are examined; None: silent.
    """
    if len(dataset) == 0:
        raise ValueError(f"{dataset.name} has no items: expected at least one")
    dataset.require_labels()
    if workers is not None and workers < 1:
        raise ValueError(f"workers={workers}: expected at least 1, or None for one a core")
    parts = dataset.parts if parts is None else parts
    if parts is not None and len(parts) != len(dataset):
        raise ValueError(f"{len(parts)} parts for {len(dataset)} items: every item needs one part")
    names = dataset.item_names()
    class_names = tuple(map(printable, dataset.class_names))

    def item(index: int) -> NamedItem:
        part = None if parts is None else str(parts[index])
        return NamedItem(index, names[index], class_names[int(dataset.labels[index])], part)

    looks = list(_looks(dataset, workers or num_cores(), on_progress))
    if on_progress is not None:
        on_progress("comparing", 0, 0)
    seen = {i: look for i, look in enumerate(looks) if isinstance(look, ItemFacts)}
    thumbnails: Thumbnails | None = None
    if not isinstance(dataset.items, Features):
        thumbnails = np.zeros((len(dataset), SIDE, SIDE), np.uint8)
        for i, look in seen.items():
            if look.thumbnail is not None:
                thumbnails[i] = look.thumbnail
    files = [look.file if isinstance(look, ItemFacts) else b"" for look in looks] if isinstance(dataset.items, Files) else None
    pixels = [look.pixels if isinstance(look, ItemFacts) else b"" for look in looks]
    is_small = np.array([isinstance(look, ItemFacts) and look.is_small for look in looks])
    groups = find_duplicates(files, pixels, thumbnails, list(seen), is_small=is_small)
    duplicates = [Duplicate(group.kind, tuple(item(i) for i in group.items), group.correlation) for group in groups]
    counts = np.bincount(dataset.labels, minlength=dataset.num_classes)
    return DatasetReport(
        name=dataset.name,
        kind={Files: "images in files", Pixels: "images in memory", Features: "features"}[type(dataset.items)],
        num_items=len(dataset),
        num_classes=int((counts > 0).sum()),
        class_sizes=tuple(sorted(counts[counts > 0].tolist())),
        parts=_part_counts(dataset.labels, parts),
        num_shared_classes=_num_shared_classes(dataset.labels, parts),
        singletons=tuple(class_names[i] for i in np.flatnonzero(counts == 1)),
        empty_classes=tuple(class_names[i] for i in np.flatnonzero(counts == 0)),
        broken=tuple(Broken(item(i), look) for i, look in enumerate(looks) if isinstance(look, str)),
        blank=tuple(item(i) for i, look in seen.items() if look.is_blank),
        duplicates=tuple(sorted(duplicates, key=_severity)),
        notes=dataset.notes,
        alike_names=alike_names(dataset.class_names),
    )


def alike_names(names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Groups of names that a person reads as one: they differ by case, by Unicode form or by spaces."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(" ".join(unicodedata.normalize("NFKC", name).casefold().split()), []).append(name)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


@dataclass(frozen=True)
class ItemFacts:
    """What is kept of an item: enough to tell it from any other."""

    file: bytes
    pixels: bytes
    thumbnail: npt.NDArray[np.uint8] | None
    is_blank: bool
    is_small: bool


def _looks(dataset: Dataset, workers: int, on_progress: ProgressCallback | None) -> Iterator[ItemFacts | str]:
    """A look at each item in turn, or the reason why there is none."""
    items = dataset.items

    def look(index: int) -> ItemFacts | str:
        if isinstance(items, Files):
            return _look_at_file(items.paths[index], None if items.boxes is None else items.boxes[index])
        return _look_at_pixels(items.array[index], b"") if isinstance(items, Pixels) else _look_at_vector(items.array[index])

    with ThreadPoolExecutor(workers) as pool:  # decoding and hashing release Python's lock
        for start in range(0, len(dataset), CHUNK):
            end = min(start + CHUNK, len(dataset))
            yield from pool.map(look, range(start, end))
            if on_progress is not None:
                on_progress("looking", end, len(dataset))


def _look_at_file(path: Path, box: Box | None) -> ItemFacts | str:
    try:
        data = image_bytes(path)
        pixels = decode(data, side=None, box=box).permute(1, 2, 0).numpy()
        refuse_strip(*pixels.shape[:2])
    except OSError as fault:
        return f"cannot be read: {fault.strerror or fault}"
    except Undecodable as fault:
        return str(fault)
    return _look_at_pixels(pixels, data + repr(box).encode())


def _look_at_pixels(pixels: npt.NDArray[np.uint8], data: bytes) -> ItemFacts:
    picture = Image.fromarray(np.ascontiguousarray(pixels)).convert("L")
    longer = max(picture.size)
    thumbnail = np.asarray(picture.resize((SIDE, SIDE), Image.Resampling.BILINEAR if longer < SIDE else Image.Resampling.BOX))
    is_blank = bool(thumbnail.std() < FLAT and pixels.std(axis=(0, 1)).max() < FLAT)
    return ItemFacts(_digest(data), _digest(repr(pixels.shape).encode() + pixels.tobytes()), thumbnail, is_blank, longer <= SMALL)


def _look_at_vector(vector: npt.NDArray[np.float32]) -> ItemFacts | str:
    if not np.isfinite(vector).all():
        return "holds a number that is not finite"
    if not vector.any():
        return "is all zeros: it has no direction"
    return ItemFacts(b"", _digest(vector.tobytes()), None, False, False)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _part_counts(labels: npt.NDArray[np.int64], parts: npt.NDArray[np.str_] | None) -> tuple[PartCount, ...]:
    if parts is None:
        return ()
    names = sorted(set(parts.tolist()), key=lambda part: (part != "train", part))
    return tuple(PartCount(part, int((parts == part).sum()), len(np.unique(labels[parts == part]))) for part in names)


def _num_shared_classes(labels: npt.NDArray[np.int64], parts: npt.NDArray[np.str_] | None) -> int:
    return 0 if parts is None else len(np.intersect1d(labels[parts == "train"], labels[parts != "train"]))


def _severity(duplicate: Duplicate) -> tuple[bool, bool, int, int]:
    return (
        not duplicate.across_split,
        not duplicate.across_classes,
        ("file", "pixels", "near").index(duplicate.kind),
        duplicate.items[0].index,
    )
