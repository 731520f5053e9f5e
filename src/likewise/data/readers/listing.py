"""Listing: images as a data set's own files list them. Those that are there become a Dataset; the rest is told in its notes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from likewise.data.dataset import Box, Cell, Dataset, Files, Part
from likewise.formats.regular_file import NotRegular, require_regular
from likewise.formats.text_files import read_text
from likewise.limits import require_within
from likewise.wording import quoted

LONGEST_PATH = 400  # letters that a message has of one


@dataclass(frozen=True)
class ListedImage:
    """One listed image."""

    path: Path
    label: str  # empty: not known
    part: Part | None = None
    box: Box | None = None
    cells: tuple[Cell, ...] = ()  # further ones, as many as columns have names


@dataclass(frozen=True)
class Published:
    """Images and classes of one part, as the papers state them."""

    images: int
    classes: int


def dataset_of(
    name: str,
    rows: Sequence[ListedImage],
    *,
    strict: bool,
    class_order: Iterable[str] | None = None,
    published: dict[str, Published] | None = None,
    notes: Sequence[str] = (),
    column_names: Sequence[str] = (),
) -> Dataset:
    """A Dataset of the rows whose file is there. Classes are numbered in `class_order`, else sorted; a class without images is left out.

    strict: a missing file, or a count that differs from the published one, is an error instead of a note.
    """
    present = _present([row.path for row in rows])
    kept = [row for row, there in zip(rows, present, strict=True) if there]
    told = list(notes)
    if len(kept) < len(rows):
        missing = [row.path for row, there in zip(rows, present, strict=True) if not there]
        words = f"{len(missing):,} of {len(rows):,} listed images are missing, first {_named(missing[0])}"
        if not kept:
            raise ValueError(
                f"{name}: all {len(rows):,} listed images are missing, first {_named(missing[0])}: are the images unpacked there?"
            )
        if strict:
            raise ValueError(f"{name}: {words}: restore them, or read without strict to leave them out")
        told.append(f"{words}; they are left out")
    if not kept:
        raise ValueError(f"{name}: no images are listed")
    labels = {row.label for row in kept if row.label}
    require_within("classes", len(labels), f"{name} has classes:")
    class_names = [label for label in class_order if label in labels] if class_order is not None else sorted(labels)
    number = {label: i for i, label in enumerate(class_names)}
    boxes = tuple(row.box for row in kept if row.box is not None)
    parts = [row.part or "" for row in kept]
    dataset = Dataset(
        name=name,
        items=Files(tuple(row.path for row in kept), boxes or None),
        labels=np.array([number.get(row.label, -1) for row in kept], dtype=np.int64),
        class_names=tuple(class_names),
        parts=np.array(parts, dtype=np.str_) if any(parts) else None,
        columns=dict(zip(column_names, zip(*(row.cells for row in kept), strict=True), strict=True)) if column_names else None,
    )
    differences = count_notes(dataset, published or {})
    if strict and differences:
        raise ValueError(f"{name}: {differences[0]}: get the full data set, or read without strict")
    return replace(dataset, notes=(*told, *differences))


def count_notes(dataset: Dataset, published: dict[str, Published]) -> list[str]:
    """One note for every part whose counts are not the published ones."""
    notes = []
    for part, expected in published.items():
        mask = np.zeros(len(dataset), dtype=bool) if dataset.parts is None else dataset.parts == part
        images, classes = int(mask.sum()), len(np.unique(dataset.labels[mask]))
        if (images, classes) != (expected.images, expected.classes):
            notes.append(
                f"{part} has {images:,} images of {classes:,} classes, published are {expected.images:,} of {expected.classes:,}: "
                "scores do not compare with published ones"
            )
    return notes


def text_lines(path: Path) -> list[str]:
    """The lines of an annotation file, without empty ones."""
    if not path.exists():
        raise ValueError(f"{path} is missing: it belongs to the published data set")
    return [line for line in read_text(path, expected="the published annotation file").splitlines() if line.strip()]


def columns(
    path: Path, lines: Sequence[str], num_columns: int, *, first_line: int = 1, last_may_have_spaces: bool = False
) -> list[list[str]]:
    """Lines cut at white space, each into so many columns."""
    cut = [line.split(maxsplit=num_columns - 1) if last_may_have_spaces else line.split() for line in lines]
    for i, cells in enumerate(cut):
        if len(cells) != num_columns:
            raise ValueError(f"{path}, line {first_line + i}: {quoted(lines[i])} has {len(cells)} columns, expected {num_columns}")
    return [[cell.strip() for cell in cells] for cells in cut]


def whole(path: Path, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{path}: {quoted(text)} stands where a whole number was expected") from None


def number(path: Path, text: str) -> int:
    """A number that may have a fraction, rounded."""
    try:
        return round(float(text))
    except (ValueError, OverflowError):
        raise ValueError(f"{path}: {quoted(text)} stands where a number was expected") from None


def _named(path: Path) -> str:
    """With what it is, where something is there that is no file: a pipe, a device, a link that leads nowhere."""
    try:
        require_regular(path)
    except NotRegular as fault:
        return f"{path} ({fault.strerror})"
    except (OSError, ValueError):
        if len(str(path)) > LONGEST_PATH or "\0" in str(path):
            return f"{quoted(str(path))} (no name of a file)"
        return f"{path} (a link that leads nowhere)" if os.path.islink(path) else str(path)
    return str(path)


def _is_file(entry: os.DirEntry[str]) -> bool:
    """A link that leads back to itself is no file, and no reason to refuse the others."""
    try:
        return entry.is_file()
    except OSError:
        return False


def _present(paths: Sequence[Path]) -> list[bool]:
    """Which of the files are there, one listing a folder: a data set may have 100,000 files on a slow disk."""
    files: dict[Path, set[str]] = {}
    there = []
    for path in paths:
        if path.parent not in files:
            try:
                with os.scandir(path.parent) as entries:
                    files[path.parent] = {entry.name for entry in entries if _is_file(entry)}
            except (FileNotFoundError, NotADirectoryError, ValueError):  # a ValueError: a name with a null in it, which no file has
                files[path.parent] = set()
            except OSError as fault:
                raise ValueError(f"folder {path.parent} cannot be read ({fault.strerror}): check its permissions") from fault
        there.append(path.name in files[path.parent])
    return there
