"""DatasetReport: what the examination of a data set found, and what that means in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from likewise.data.doctor.duplicates import DuplicateKind
from likewise.wording import count_of, listed, quoted

KIND_WORDS: dict[DuplicateKind, str] = {"file": "identical files", "pixels": "identical pixels", "near": "nearly the same"}


@dataclass(frozen=True)
class NamedItem:
    """An item as a report names it."""

    index: int
    name: str  # the path below the data set's folder, or "item 17"
    class_name: str
    part: str | None


@dataclass(frozen=True)
class Broken:
    """An item that cannot be used, and why."""

    item: NamedItem
    reason: str


@dataclass(frozen=True)
class Duplicate:
    """Items that are one picture."""

    kind: DuplicateKind
    items: tuple[NamedItem, ...]
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
    blank: tuple[NamedItem, ...]  # pictures of one grey
    duplicates: tuple[Duplicate, ...]  # the worst first
    notes: tuple[str, ...]  # the reader's
    alike_names: tuple[tuple[str, ...], ...] = ()  # classes whose names differ only by case, by Unicode form or by spaces

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
            {
                **asdict(duplicate),
                "across_split": duplicate.across_split,
                "across_classes": duplicate.across_classes,
                "is_problem": duplicate.is_problem,
            }
            for duplicate in self.duplicates
        ]
        return {**asdict(self), "class_sizes": summary, "duplicates": duplicates, "problems": self.problems, "remarks": self.remarks}


def size_histogram(report: DatasetReport, *, num_bins: int = 12) -> list[tuple[int, int, int]]:
    """Least size, most size and number of classes of each bin; bins of equal width."""
    least, most = report.class_sizes[0], report.class_sizes[-1]
    width = -(-(most - least + 1) // num_bins)
    counts = np.bincount((np.array(report.class_sizes) - least) // width)
    return [(least + width * i, min(least + width * (i + 1) - 1, most), count) for i, count in enumerate(counts.tolist())]


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
    for names in report.alike_names:
        yield f"the classes {listed([quoted(name) for name in names])} differ only by case, Unicode form or spaces: are they one class?"
    yield from _duplicate_counts(report, problems=True)


def _remarks(report: DatasetReport) -> Iterator[str]:
    yield from report.notes
    if report.num_shared_classes:
        shared = count_of(report.num_shared_classes, "class is", "classes are")
        yield f"{shared} in train and in test: scores tell how well known classes are found again, not new ones"
    yield from _duplicate_counts(report, problems=False)


def _duplicate_counts(report: DatasetReport, *, problems: bool) -> Iterator[str]:
    chosen = [duplicate for duplicate in report.duplicates if duplicate.is_problem == problems]  # the worst first
    counts = Counter(f"{'near' if duplicate.kind == 'near' else 'exact'} duplicates {duplicate.place}" for duplicate in chosen)
    for words, count in counts.items():
        yield f"{count_of(count, 'group', 'groups')} of {words}"
