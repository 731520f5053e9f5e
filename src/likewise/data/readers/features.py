"""Features: vectors with labels from .npz, .npy or Parquet. Nothing pickled is ever loaded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from likewise.data.dataset import Dataset, Features, Part
from likewise.data.readers.parts import parts_of
from likewise.formats.numpy_files import Array, ArrayHeader, open_npz, read_npy
from likewise.formats.parquet_files import column_texts, parquet_columns, read_parquet, vector_column
from likewise.formats.regular_file import is_regular
from likewise.formats.text_files import read_text_labels
from likewise.limits import require_within
from likewise.wording import some_of

COLUMN = "embedding"  # of a Parquet file
_SAVE = "save with numpy.savez(file, features=..., labels=...)"


def recognises_features(path: Path) -> bool:
    if not is_regular(path):
        return False
    return path.suffix.lower() in (".npz", ".npy") or (path.suffix.lower() == ".parquet" and _has_vectors(path))


def read_features(path: Path, *, labels: Path | None = None, labelled: bool = True) -> Dataset:
    """Vectors (items, dimensions) with labels, as `likewise embed` writes them.

    .npz: arrays `features` or `embeddings`, `labels` (numbers or text) and, optionally, `split` (train, test, query, gallery).
    .parquet: columns `embedding` (lists of numbers), `label` and, optionally, `split`.
    .npy: the vectors; the labels lie beside them, in NAME.labels.npy, NAME_labels.npy, NAME.labels.txt, labels.npy or labels.txt (text
    has one label a line), or in the file `labels`.
    A split is used as it is: the test classes of the network that made the vectors stay test classes.
    Vectors whose label or part is empty, where others have one, are left out; labelled=False keeps them, without a class.
    """
    if not path.is_file():
        raise ValueError(f"{path} is {'a folder' if path.is_dir() else 'not there'}: expected .npz, .npy or .parquet")
    if path.suffix.lower() not in (".npz", ".npy", ".parquet"):
        raise ValueError(f"{path} ends in {path.suffix or 'nothing'!r}: expected .npz, .npy or .parquet")
    words: Array | None = None
    names: Array | None
    if path.suffix.lower() == ".npy":
        beside = labels or _beside(path, required=labelled)
        vectors, names = read_npy(path), None if beside is None else _labels(beside)
    else:
        vectors, names, words = _archived(path) if path.suffix.lower() == ".npz" else _tabled(path)
        names = names if labels is None else _labels(labels)
        if names is None and labelled:
            raise ValueError(f"{path} has vectors without labels: to train and to score, every vector needs one; {_SAVE}")
    _check_shapes(path, vectors, {what: array for what, array in (("labels", names), ("split", words)) if array is not None})
    with np.errstate(over="ignore"):  # what overflows is found just below
        single = np.ascontiguousarray(vectors, dtype=np.float32)
    unsound = np.flatnonzero(~np.isfinite(single).all(axis=1))
    if len(unsound):
        raise ValueError(f"{path}: {len(unsound):,} vectors hold NaN, infinity or what float32 cannot hold, first row {unsound[0]}")
    if names is None:
        return Dataset(path.stem, Features(single), np.full(len(single), -1), ())
    if names.dtype.kind not in "iuUb":
        raise ValueError(f"{path}: the labels are {names.dtype}: expected whole numbers or text")
    return _labelled(path, single, names, words, drop=labelled)


def _labelled(path: Path, vectors: npt.NDArray[np.float32], names: Array, words: Array | None, *, drop: bool) -> Dataset:
    """The vectors with their classes and parts, those without either dropped or kept."""
    texts = names.astype("U")
    marks = None if words is None else words.astype("U")
    known = {"label": texts != ""} | ({} if marks is None else {"split": marks != ""})
    whole = np.logical_and.reduce(list(known.values()))
    if drop and not whole.any():
        raise ValueError(
            f"{path}: none of the {len(texts):,} vectors has a {' and a '.join(known)}: to train and to score, each needs them"
        )
    notes = [f"{(~given).sum():,} of {len(given):,} vectors have no {what}; they are left out" for what, given in known.items()]
    told = [note for note, given in zip(notes, known.values(), strict=True) if drop and not given.all()]
    if drop:
        vectors, names, texts, marks = vectors[whole], names[whole], texts[whole], None if marks is None else marks[whole]
    has_label = texts != ""
    _, first, inverse = np.unique(names[has_label], return_index=True, return_inverse=True)
    codes = np.full(len(texts), -1)
    codes[has_label] = inverse
    parts: list[Part] | None = None
    if marks is not None and all(marks):
        try:
            parts, of_parts = parts_of(marks.tolist())
        except ValueError as fault:
            raise ValueError(f"{path}, split: {fault}") from None
        told += [f"{path.name} says which vectors train and which test: its split is used, and none is drawn", *of_parts]
    return Dataset(
        name=path.stem,
        items=Features(vectors),
        labels=codes,
        class_names=tuple(texts[has_label][first].tolist()),
        parts=None if parts is None else np.array(parts, dtype=np.str_),
        notes=tuple(told),
    )


def _archived(path: Path) -> tuple[Array, Array | None, Array | None]:
    """Vectors, labels and split of an archive."""
    with open_npz(path) as archive:
        name = next((name for name in ("features", "embeddings") if name in archive), None)
        if name is None:
            raise ValueError(f"{path} has no array features or embeddings, it holds {some_of(archive.names)}: {_SAVE}")
        headers = {what: archive.header(what) for what in (name, "labels", "split") if what in archive}
        _check_shapes(path, headers.pop(name), headers)  # before any of them is unpacked
        labels, words = (archive.array(what) if what in archive else None for what in ("labels", "split"))
        return archive.array(name), labels, words


def _check_shapes(path: Path, vectors: ArrayHeader | Array, others: Mapping[str, ArrayHeader | Array]) -> None:
    """A ValueError unless there are numbers (items, dimensions), and one of each other thing an item."""
    if len(vectors.shape) != 2 or vectors.dtype.kind not in "fiu" or not math.prod(vectors.shape):
        raise ValueError(f"{path}: the vectors are {vectors.dtype} of shape {vectors.shape}: expected numbers of shape (items, dimensions)")
    require_within("dim", vectors.shape[1], f"{path} has vectors of dimensions:")
    for what, array in others.items():
        if array.shape != vectors.shape[:1]:
            raise ValueError(f"{path}: {vectors.shape[0]:,} vectors, but {what} of shape {array.shape}: expected one of them a vector")


def _tabled(path: Path) -> tuple[Array, Array | None, Array | None]:
    """Vectors, labels and split of a Parquet file."""
    names = parquet_columns(path)
    wanted = [name for name in (COLUMN, "label", "split") if name in names]
    if COLUMN not in wanted:
        raise ValueError(f"{path} has no column {COLUMN!r}, it has {some_of(names)}: `likewise embed` writes such files")
    table = read_parquet(path, wanted)
    by_name = {name: column_texts(path, table[name], name) for name in wanted[1:]}
    return vector_column(table[COLUMN].combine_chunks(), f"column {COLUMN!r} of {path}"), by_name.get("label"), by_name.get("split")


def _has_vectors(path: Path) -> bool:
    """Whether a Parquet file has vectors; not where it cannot be read, which its reader will say."""
    try:
        return COLUMN in parquet_columns(path)
    except ValueError:
        return False


def _beside(path: Path, *, required: bool) -> Path | None:
    names = [f"{path.stem}.labels.npy", f"{path.stem}_labels.npy", f"{path.stem}.labels.txt", "labels.npy", "labels.txt"]
    for name in names:
        if (path.parent / name).is_file() and name != path.name:
            return path.parent / name
    if not required:
        return None
    raise ValueError(f"{path} holds vectors only, and no labels lie beside it: expected one of {', '.join(names)}, or give labels=...")


def _labels(path: Path) -> Array:
    if not path.is_file():
        raise ValueError(
            f"labels={path} is {'a folder' if path.is_dir() else 'not there'}: expected a .npy file, or text with one label a line"
        )
    return read_npy(path) if path.suffix.lower() == ".npy" else read_text_labels(path)
