"""Features: vectors with labels from .npz, .npy or Parquet. Nothing pickled is ever loaded."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.data.dataset import Dataset, Features, Part
from likewise.data.readers.parts import parts_of

Array = npt.NDArray[Any]
# What numpy's reader raises for files that are damaged, encrypted or of another kind.
_UNREADABLE = (ValueError, EOFError, OSError, RuntimeError, zipfile.BadZipFile, zlib.error)
COLUMN = "embedding"  # of a Parquet file
_SAVE = "save with numpy.savez(file, features=..., labels=...)"


def recognises_features(path: Path) -> bool:
    if not path.is_file():
        return False
    return path.suffix.lower() in (".npz", ".npy") or (path.suffix.lower() == ".parquet" and COLUMN in _columns(path))


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
        vectors, names = _array(path), None if beside is None else _labels(beside)
    else:
        vectors, names, words = _archived(path) if path.suffix.lower() == ".npz" else _tabled(path)
        names = names if labels is None else _labels(labels)
        if names is None and labelled:
            raise ValueError(f"{path} has vectors without labels: to train and to score, every vector needs one; {_SAVE}")
    if vectors.ndim != 2 or vectors.dtype.kind not in "fiu" or not vectors.size:
        raise ValueError(f"{path}: the vectors are {vectors.dtype} of shape {vectors.shape}: expected numbers of shape (items, dimensions)")
    for what, array in (("labels", names), ("split", words)):
        if array is not None and array.shape != (len(vectors),):
            raise ValueError(f"{path}: {len(vectors):,} vectors, but {what} of shape {array.shape}: expected one of them a vector")
    with np.errstate(over="ignore"):  # what overflows is found just below
        single = np.ascontiguousarray(vectors, dtype=np.float32)
    unsound = np.flatnonzero(~np.isfinite(single).all(axis=1))
    if len(unsound):
        raise ValueError(f"{path}: {len(unsound):,} vectors hold NaN, infinity or what float32 cannot hold, first row {unsound[0]}")
    if names is None:
        return Dataset(path.stem, Features(single), np.full(len(single), -1), ())
    if names.dtype.kind not in "iuUSb":
        raise ValueError(f"{path}: the labels are {names.dtype}: expected whole numbers or text")
    return _labelled(path, single, names, words, drop=labelled)


def _labelled(path: Path, vectors: npt.NDArray[np.float32], names: Array, words: Array | None, *, drop: bool) -> Dataset:
    """The vectors with their classes and parts, those without either dropped or kept."""
    texts = names.astype("U") if names.dtype.kind != "S" else np.char.decode(names, "utf-8")
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
        parts, of_parts = parts_of(marks.tolist())
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
    arrays = _archive(path)
    name = next((name for name in ("features", "embeddings") if name in arrays), None)
    if name is None:
        raise ValueError(f"{path} has no array features or embeddings, it holds {', '.join(arrays) or 'nothing'}: {_SAVE}")
    return arrays[name], arrays.get("labels"), arrays.get("split")


def _tabled(path: Path) -> tuple[Array, Array | None, Array | None]:
    """Vectors, labels and split of a Parquet file."""
    import pyarrow
    import pyarrow.parquet

    wanted = [name for name in (COLUMN, "label", "split") if name in _columns(path)]
    if COLUMN not in wanted:
        raise ValueError(f"{path} has no column {COLUMN!r}, it has {', '.join(_columns(path))}: `likewise embed` writes such files")
    try:
        table = pyarrow.parquet.read_table(path, columns=wanted)
    except pyarrow.ArrowException as fault:
        raise ValueError(f"{path} is not a readable Parquet file ({fault})") from fault
    texts = [np.array(table[name].cast(pyarrow.string()).fill_null("").to_pylist(), dtype=np.str_) for name in wanted[1:]]
    by_name = dict(zip(wanted[1:], texts, strict=True))
    return vector_column(table[COLUMN].combine_chunks(), f"column {COLUMN!r} of {path}"), by_name.get("label"), by_name.get("split")


def _columns(path: Path) -> list[str]:
    """The names of a Parquet file's columns; none where it cannot be read, which its reader will say."""
    try:
        import pyarrow
        import pyarrow.parquet

        return list(pyarrow.parquet.read_schema(path).names)
    except (ImportError, OSError, ValueError):  # pyarrow's faults are ValueErrors
        return []


def vector_column(column: Any, what: str) -> Array:
    """(N, d) array from an Arrow column of lists, without a Python object a number."""
    import pyarrow
    import pyarrow.compute

    kind = column.type
    if not (pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind) or pyarrow.types.is_fixed_size_list(kind)):
        raise ValueError(f"{what} is {kind}: expected lists of numbers")
    lengths = pyarrow.compute.unique(pyarrow.compute.list_value_length(column)).to_pylist()
    if len(lengths) > 1:
        lengths = [length or 0 for length in lengths]
        raise ValueError(f"{what} has lists of {min(lengths)} to {max(lengths)} numbers: expected the same number everywhere")
    values = column.flatten()
    if values.null_count:
        raise ValueError(f"{what} has {values.null_count} empty numbers: drop these rows")
    flat: Array = values.to_numpy(zero_copy_only=False)
    return flat.reshape(len(column), lengths[0] if lengths else 0)


def _array(path: Path) -> Array:
    try:
        loaded = np.load(path, allow_pickle=False)
        if not isinstance(loaded, np.ndarray):
            raise ValueError("it is an archive: name it .npz")
    except _UNREADABLE as fault:
        raise ValueError(f"{path} is not a readable numpy file ({fault}): expected what numpy.save writes for numbers or text") from fault
    return loaded


def _archive(path: Path) -> dict[str, Array]:
    try:
        archive = np.load(path, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise ValueError("it is a single array: name it .npy")
        with archive:
            return {name: archive[name] for name in archive}
    except _UNREADABLE as fault:
        raise ValueError(f"{path} is not a readable numpy archive ({fault}): {_SAVE}, the labels as whole numbers or text") from fault


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
    if path.suffix.lower() == ".npy":
        return _array(path)
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as fault:
        raise ValueError(f"{path} is not UTF-8 text: expected one label a line, or a .npy file") from fault
    while lines and not lines[-1].strip():
        lines.pop()
    return np.array([line.strip() for line in lines], dtype=np.str_)
