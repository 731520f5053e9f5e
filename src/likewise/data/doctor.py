"""Dataset doctor: looks at every item once and tells what would spoil a training or a score."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from likewise.data.dataset import Box, Dataset, Features, Files, Pixels
from likewise.data.decode import Undecodable, decode
from likewise.data.duplicates import FLAT, SIDE, SMALL, Kind, Thumbnails, find_duplicates
from likewise.progress import ProgressCallback

KIND_WORDS: dict[Kind, str] = {"file": "identical files", "pixels": "identical pixels", "near": "nearly the same"}
CHUNK = 128  # items between two looks at the progress, and at Ctrl-C


@dataclass(frozen=True)
class Item:
    """An item as a report names it."""

    index: int
    name: str  # the path below the data set's folder, or "item 17"
    class_name: str
    part: str | None


@dataclass(frozen=True)
class Broken:
    """An item that cannot be used, and why."""

    item: Item
    reason: str


@dataclass(frozen=True)
class Duplicate:
    """Items that are one picture."""

    kind: Kind
    items: tuple[Item, ...]
    correlation: float

    @property
    def across_split(self) -> bool:
        """On both sides: a model is tested on what it was trained on. Query and gallery are one side."""
        return len({item.part == "train" for item in self.items if item.part is not None}) > 1

    @property
    def across_classes(self) -> bool:
        """Under two labels: one of them is wrong, or both are right and the labels are not all there is."""
        return len({item.class_name for item in self.items}) > 1

    @property
    def place(self) -> str:
        if self.across_split:
            return "in train and in test" + (", under different labels" if self.across_classes else "")
        return "under different labels" if self.across_classes else "of one class"

    @property
    def is_problem(self) -> bool:
        """Nearly equal pictures of one class on one side are common (a burst of photographs) and harmless."""
        return self.kind != "near" or self.across_split or self.across_classes


@dataclass(frozen=True)
class PartCount:
    """How much of a data set a part holds."""

    part: str
    num_items: int
    num_classes: int


@dataclass(frozen=True)
class DatasetReport:
    """What the doctor found."""

    name: str
    kind: str  # images in files, images in memory, features
    num_items: int
    num_classes: int  # with at least one item
    class_sizes: tuple[int, ...]  # of those, ascending
    parts: tuple[PartCount, ...]  # empty without official parts
    num_shared_classes: int  # with items on both sides
    singletons: tuple[str, ...]
    empty_classes: tuple[str, ...]
    broken: tuple[Broken, ...]
    blank: tuple[Item, ...]  # pictures of one grey
    duplicates: tuple[Duplicate, ...]  # the worst first
    notes: tuple[str, ...]  # the reader's

    @property
    def problems(self) -> tuple[str, ...]:
        """What should be looked at before the data are used, in words; none in a healthy data set."""
        return tuple(_problems(self))

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is good to know."""
        return tuple(_remarks(self))

    def as_json(self) -> dict[str, Any]:
        sizes = np.array(self.class_sizes or (0,))
        summary = {
            "least": int(sizes.min()),
            "median": float(np.median(sizes)),
            "most": int(sizes.max()),
            "histogram": size_histogram(self),
        }
        duplicates = [
            {**asdict(found), "across_split": found.across_split, "across_classes": found.across_classes, "is_problem": found.is_problem}
            for found in self.duplicates
        ]
        return {**asdict(self), "class_sizes": summary, "duplicates": duplicates, "problems": self.problems, "remarks": self.remarks}


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
    if workers is not None and workers < 1:
        raise ValueError(f"workers={workers}: expected at least 1, or None for one a core")
    parts = dataset.parts if parts is None else parts
    if parts is not None and len(parts) != len(dataset):
        raise ValueError(f"{len(parts)} parts for {len(dataset)} items: every item needs one part")
    names = _names(dataset)
    class_names = tuple(map(_printable, dataset.class_names))

    def item(index: int) -> Item:
        part = None if parts is None else str(parts[index])
        return Item(index, names(index), class_names[int(dataset.labels[index])], part)

    looks = list(_looks(dataset, workers or os.cpu_count() or 1, on_progress))
    if on_progress is not None:
        on_progress("comparing", 0, 0)
    seen = {i: look for i, look in enumerate(looks) if isinstance(look, Look)}
    thumbnails: Thumbnails | None = None
    if not isinstance(dataset.items, Features):
        thumbnails = np.zeros((len(dataset), SIDE, SIDE), np.uint8)
        for i, look in seen.items():
            if look.thumbnail is not None:
                thumbnails[i] = look.thumbnail
    files = [look.file if isinstance(look, Look) else b"" for look in looks] if isinstance(dataset.items, Files) else None
    pixels = [look.pixels if isinstance(look, Look) else b"" for look in looks]
    is_small = np.array([isinstance(look, Look) and look.is_small for look in looks])
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
    )


@dataclass(frozen=True)
class Look:
    """What is kept of an item: enough to tell it from any other."""

    file: bytes
    pixels: bytes
    thumbnail: npt.NDArray[np.uint8] | None
    is_blank: bool
    is_small: bool


def _looks(dataset: Dataset, workers: int, on_progress: ProgressCallback | None) -> Iterator[Look | str]:
    """A look at each item in turn, or the reason why there is none."""
    items = dataset.items

    def look(index: int) -> Look | str:
        if isinstance(items, Files):
            return _look_at_file(items.paths[index], None if items.boxes is None else items.boxes[index])
        return _look_at_pixels(items.array[index], b"") if isinstance(items, Pixels) else _look_at_vector(items.array[index])

    with ThreadPoolExecutor(workers) as pool:  # decoding and hashing release Python's lock
        for start in range(0, len(dataset), CHUNK):
            end = min(start + CHUNK, len(dataset))
            yield from pool.map(look, range(start, end))
            if on_progress is not None:
                on_progress("looking", end, len(dataset))


def _look_at_file(path: Path, box: Box | None) -> Look | str:
    try:
        data = path.read_bytes()
        pixels = decode(data, side=None, box=box).permute(1, 2, 0).numpy()
    except OSError as fault:
        return f"cannot be read: {fault.strerror or fault}"
    except Undecodable as fault:
        return str(fault)
    return _look_at_pixels(pixels, data + repr(box).encode())


def _look_at_pixels(pixels: npt.NDArray[np.uint8], data: bytes) -> Look:
    picture = Image.fromarray(np.ascontiguousarray(pixels)).convert("L")
    longer = max(picture.size)
    thumbnail = np.asarray(picture.resize((SIDE, SIDE), Image.Resampling.BILINEAR if longer < SIDE else Image.Resampling.BOX))
    is_blank = bool(thumbnail.std() < FLAT and pixels.std(axis=(0, 1)).max() < FLAT)
    return Look(_digest(data), _digest(repr(pixels.shape).encode() + pixels.tobytes()), thumbnail, is_blank, longer <= SMALL)


def _look_at_vector(vector: npt.NDArray[np.float32]) -> Look | str:
    if not np.isfinite(vector).all():
        return "holds a number that is not finite"
    if not vector.any():
        return "is all zeros: it has no direction"
    return Look(b"", _digest(vector.tobytes()), None, False, False)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _names(dataset: Dataset) -> Callable[[int], str]:
    items = dataset.items
    if not isinstance(items, Files):
        return lambda index: f"item {index}"
    absolute = [os.path.abspath(path) for path in items.paths]
    common = os.path.commonpath([os.path.dirname(path) for path in absolute])
    return lambda index: _printable(os.path.relpath(absolute[index], common))


def _printable(name: str) -> str:
    """A file name need not be UTF-8; what is printed and written must."""
    return name.encode(errors="surrogateescape").decode(errors="replace")


def _part_counts(labels: npt.NDArray[np.int64], parts: npt.NDArray[np.str_] | None) -> tuple[PartCount, ...]:
    if parts is None:
        return ()
    held = sorted(set(parts.tolist()), key=lambda part: (part != "train", part))
    return tuple(PartCount(part, int((parts == part).sum()), len(np.unique(labels[parts == part]))) for part in held)


def _num_shared_classes(labels: npt.NDArray[np.int64], parts: npt.NDArray[np.str_] | None) -> int:
    return 0 if parts is None else len(np.intersect1d(labels[parts == "train"], labels[parts != "train"]))


def _severity(found: Duplicate) -> tuple[bool, bool, int, int]:
    return (not found.across_split, not found.across_classes, ("file", "pixels", "near").index(found.kind), found.items[0].index)


def size_histogram(report: DatasetReport, *, num_bins: int = 12) -> list[tuple[int, int, int]]:
    """Least size, most size and number of classes of each bin; bins of equal width."""
    least, most = report.class_sizes[0], report.class_sizes[-1]
    width = -(-(most - least + 1) // num_bins)
    counts = np.bincount((np.array(report.class_sizes) - least) // width)
    return [(least + width * i, min(least + width * (i + 1) - 1, most), count) for i, count in enumerate(counts.tolist())]


def count_of(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _problems(report: DatasetReport) -> Iterator[str]:
    what = "vector" if report.kind == "features" else "image"
    if report.num_classes < 2:
        yield "there is one class: nothing is to be told apart"
    if report.broken:
        yield f"{count_of(len(report.broken), what, what + 's')} cannot be used: see the reasons"
    if report.blank:
        yield f"{count_of(len(report.blank), 'image is', 'images are')} blank"
    if report.singletons:
        alone = count_of(len(report.singletons), "class has", "classes have")
        yield f"{alone} a single {what}: no positive pair in training, nothing to find in a test"
    if report.empty_classes:
        yield f"{count_of(len(report.empty_classes), 'class has', 'classes have')} no {what}s"
    yield from _duplicate_counts(report, problems=True)


def _remarks(report: DatasetReport) -> Iterator[str]:
    yield from report.notes
    if report.num_shared_classes:
        shared = count_of(report.num_shared_classes, "class is", "classes are")
        yield f"{shared} in train and in test: scores tell how well known classes are found again, not new ones"
    yield from _duplicate_counts(report, problems=False)


def _duplicate_counts(report: DatasetReport, *, problems: bool) -> Iterator[str]:
    chosen = [found for found in report.duplicates if found.is_problem == problems]  # the worst first
    counts = Counter(f"{'near' if found.kind == 'near' else 'exact'} duplicates {found.place}" for found in chosen)
    for words, count in counts.items():
        yield f"{count_of(count, 'group', 'groups')} of {words}"
