"""A table of images: CSV, TSV or Parquet with a path and a label a row, and perhaps parts and boxes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from PIL import ExifTags, Image

from likewise.data.dataset import Box, Cell, Dataset, Part
from likewise.data.readers.listing import ListedImage, dataset_of
from likewise.data.readers.parts import parts_of
from likewise.formats.parquet_files import read_parquet
from likewise.formats.regular_file import is_regular, opened, parsing
from likewise.formats.text_files import read_delimited
from likewise.wording import quoted, some_of

Columns = dict[str, list[Any]]
_BOXES = (("x_1", "y_1", "x_2", "y_2"), ("left", "top", "right", "bottom"), ("x1", "y1", "x2", "y2"), ("xmin", "ymin", "xmax", "ymax"))
_TRUE, _FALSE = ("true", "1", "1.0", "yes", "t", "y"), ("false", "0", "0.0", "no", "f", "n")


def recognises_table(path: Path) -> bool:
    return is_regular(path) and path.suffix.lower() in (".csv", ".tsv", ".parquet")


def read_table(
    path: Path,
    *,
    path_column: str = "path",
    label_column: str = "label",
    split_column: str = "split",
    images: Path | None = None,
    delimiter: str | None = None,
    boxes: bool = True,
    strict: bool = False,
    labelled: bool = True,
) -> Dataset:
    """A row an image: columns path and label; optional split (train, test, query, gallery, validation), is_query and is_gallery, and a
    box (x_1, y_1, x_2, y_2, or left, top, right, bottom, or one column bbox of four numbers). open-metric-learning's tables are read as
    they are.

    Paths are relative to the table's folder, or to `images`. Labels are kept as the text they are. boxes=False leaves the boxes unused.
    strict: a missing file is an error, not a note.  labelled=False: rows may have no label, and the table no column of them.
    All columns but path and label are kept, for who searches the images by them.
    """
    if not path.is_file():
        raise ValueError(f"{path} is {'a folder' if path.is_dir() else 'not there'}: expected a table, .csv or .parquet")
    table = (
        _parquet(path)
        if path.suffix.lower() == ".parquet"
        else dict(read_delimited(path, delimiter=delimiter or ("\t" if path.suffix.lower() == ".tsv" else ",")))
    )
    for option, column in (("path_column", path_column), ("label_column", label_column)):
        if column not in table and (labelled or column == path_column):
            raise ValueError(f"{path} has no column {column!r}, it has {some_of(table)}: name the right one with {option}=...")
    if split_column != "split" and split_column not in table:
        raise ValueError(f"{path} has no column {split_column!r}, it has {some_of(table)}: name the right one with split_column=...")
    num_rows = len(table[path_column])
    if not num_rows:
        raise ValueError(f"{path} has no rows below its header")
    for column in (path_column, label_column) if labelled else (path_column,):
        empty = [i for i, value in enumerate(table[column]) if _is_empty(value)]
        if empty:
            raise ValueError(
                f"{path}: {len(empty):,} rows have no {column}, first row {empty[0] + 1} below the header: fill or drop these rows"
            )
    root = path.parent if images is None else images
    paths = [root / str(value) for value in table[path_column]]
    parts, notes = _parts(path, table, split_column)
    cuts = _boxes(path, table, paths) if boxes else None
    labels = ["" if _is_empty(label) else str(label) for label in table.get(label_column, [None] * num_rows)]
    further = [name for name in table if name and name not in (path_column, label_column)]
    rows = [
        ListedImage(
            paths[i],
            labels[i],
            None if parts is None else parts[i],
            None if cuts is None else cuts[i],
            tuple(_cell(table[name][i]) for name in further),
        )
        for i in range(num_rows)
    ]
    if labelled and len(set(labels)) == 1:
        notes = (*notes, f"there is one class, {quoted(rows[0].label)}: enough to embed, too little to train or to score")
    return dataset_of(path.stem, rows, strict=strict, notes=notes, column_names=further)


def _parquet(path: Path) -> Columns:
    table = read_parquet(path)
    with parsing(path, "Parquet file", "save dates and texts as text"):  # a time may be one that Python has no name for
        return {name: table[name].to_pylist() for name in table.column_names}


def _parts(path: Path, table: Columns, split_column: str) -> tuple[list[Part] | None, tuple[str, ...]]:
    """The split column, refined by is_query and is_gallery; an item that is both is a test item."""
    flags = [name for name in ("is_query", "is_gallery") if name in table]
    if split_column not in table and not flags:
        return None, ()
    notes: tuple[str, ...] = ()
    if split_column in table:
        empty = [i for i, word in enumerate(table[split_column]) if _is_empty(word)]
        if empty:
            raise ValueError(f"{path}: {len(empty):,} rows have no {split_column}, first row {empty[0] + 1} below the header")
        try:
            parts, notes = parts_of([str(word) for word in table[split_column]])
        except ValueError as fault:
            raise ValueError(f"{path}, column {split_column}: {fault}") from None
    else:
        marked = [any(_flag(path, name, table[name][i]) for name in flags) for i in range(len(table[flags[0]]))]
        parts = ["test" if mark else "train" for mark in marked]
    if len(flags) < 2:
        if flags:
            raise ValueError(f"{path} has a column {flags[0]} only: expected is_query and is_gallery together")
        return parts, notes
    refined: list[Part] = []
    for i, part in enumerate(parts):
        query, gallery = (_flag(path, name, table[name][i]) for name in flags)
        if part == "train" and (query or gallery):
            raise ValueError(f"{path}, row {i + 1} below the header: a train item is marked as query or gallery: expected neither")
        if part != "train" and not (query or gallery):
            raise ValueError(f"{path}, row {i + 1} below the header: a test item is neither query nor gallery: mark it as one or both")
        half: Part = "test" if query and gallery else "query" if query else "gallery"
        refined.append("train" if part == "train" else half)
    return refined, notes


def _flag(path: Path, name: str, value: Any) -> bool:
    if _is_empty(value):
        return False
    word = str(value).strip().lower()
    if word not in _TRUE + _FALSE:
        raise ValueError(f"{path}, column {name}: {quoted(value)}: expected true or false")
    return word in _TRUE


def _boxes(path: Path, table: Columns, paths: list[Path]) -> list[Box] | None:
    """Boxes of all rows; a row without one gets its whole image."""
    names = next((names for names in _BOXES if all(name in table for name in names)), None)
    if names is not None:
        corners = list(zip(*(table[name] for name in names), strict=True))
    elif "bbox" in table:
        corners = [_four(path, i, value) for i, value in enumerate(table["bbox"])]
    else:
        return None
    boxes = [None if all(map(_is_empty, four)) else _box(path, i, four) for i, four in enumerate(corners)]
    if all(box is None for box in boxes):
        return None
    return [_whole_image(paths[i]) if box is None else box for i, box in enumerate(boxes)]


def _four(path: Path, i: int, value: Any) -> tuple[Any, ...]:
    if _is_empty(value):
        return ("",) * 4
    if isinstance(value, str):
        four: tuple[Any, ...] = tuple(value.strip("[]() ").replace(",", " ").split())
    else:
        four = tuple(value) if isinstance(value, Iterable) else (value,)
    if len(four) != 4:
        raise ValueError(f"{path}, row {i + 1} below the header: bbox {quoted(value)}: expected four numbers, left, top, right, bottom")
    return four


def _box(path: Path, i: int, four: tuple[Any, ...]) -> Box:
    try:
        left, top, right, bottom = (round(float(value)) for value in four)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"{path}, row {i + 1} below the header: box {quoted(four)}: expected four numbers, or none") from None
    if not (0 <= left < right and 0 <= top < bottom):
        raise ValueError(
            f"{path}, row {i + 1} below the header: box {(left, top, right, bottom)}: expected left < right and top < bottom, from 0 on"
        )
    return left, top, right, bottom


def _whole_image(path: Path) -> Box:
    """The image as it is seen: turned as its EXIF says. Only the header is read; a damaged or missing file is found when it is decoded."""
    try:
        with warnings.catch_warnings(action="ignore"), opened(path) as file, Image.open(file) as image:
            turned = image.getexif().get(ExifTags.Base.Orientation, 1) >= 5
            width, height = image.size[::-1] if turned else image.size
    except Exception:  # of a broken file Pillow's plugins raise what they like
        return 0, 0, 1, 1
    return 0, 0, width, height


def _cell(value: Any) -> Cell:
    """A number, a text or a truth value as it is, anything else (a date, a list) as its text."""
    if _is_empty(value):
        return None
    return value if isinstance(value, str | int | float | bool) else str(value)


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip()) or (isinstance(value, float) and math.isnan(value))
