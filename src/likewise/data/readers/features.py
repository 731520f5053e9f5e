"""Features: vectors with labels from .npz or .npy. Nothing pickled is ever loaded."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.data.dataset import Dataset, Features
from likewise.data.readers.parts import parts_of

Array = npt.NDArray[Any]
# What numpy's reader raises for files that are damaged, encrypted or of another kind.
_UNREADABLE = (ValueError, EOFError, OSError, RuntimeError, zipfile.BadZipFile, zlib.error)
_SAVE = "save with numpy.savez(file, features=..., labels=...)"


def recognises_features(path: Path) -> bool:
    return path.is_file() and path.suffix.lower() in (".npz", ".npy")


def read_features(path: Path, *, labels: Path | None = None) -> Dataset:
    """Vectors (items, dimensions) with labels.

    .npz: arrays `features` or `embeddings`, `labels` (numbers or text) and, optionally, `split` (train, test, query, gallery).
    .npy: the vectors; the labels lie beside them, in NAME.labels.npy, NAME_labels.npy, NAME.labels.txt, labels.npy or labels.txt (text
    has one label a line), or in the file `labels`.
    """
    if not path.is_file():
        raise ValueError(f"{path} is {'a folder' if path.is_dir() else 'not there'}: expected .npz or .npy")
    if path.suffix.lower() not in (".npz", ".npy"):
        raise ValueError(f"{path} ends in {path.suffix or 'nothing'!r}: expected .npz or .npy")
    words: Array | None = None
    if path.suffix.lower() == ".npz":
        arrays = _archive(path)
        name = next((name for name in ("features", "embeddings") if name in arrays), None)
        if name is None or ("labels" not in arrays and labels is None):
            wanted = "features or embeddings" if name is None else "labels"
            raise ValueError(f"{path} has no array {wanted}, it holds {', '.join(arrays) or 'nothing'}: {_SAVE}")
        vectors, words = arrays[name], arrays.get("split")
        names = arrays["labels"] if labels is None else _labels(labels)
    else:
        vectors, names = _array(path), _labels(_beside(path) if labels is None else labels)
    if vectors.ndim != 2 or vectors.dtype.kind not in "fiu" or not vectors.size:
        raise ValueError(f"{path}: the vectors are {vectors.dtype} of shape {vectors.shape}: expected numbers of shape (items, dimensions)")
    for what, array in (("labels", names), ("split", words)):
        if array is not None and array.shape != (len(vectors),):
            raise ValueError(f"{path}: {len(vectors):,} vectors, but {what} of shape {array.shape}: expected one of them a vector")
    if names.dtype.kind not in "iuUSb":
        raise ValueError(f"{path}: the labels are {names.dtype}: expected whole numbers or text")
    with np.errstate(over="ignore"):  # what overflows is found just below
        single = np.ascontiguousarray(vectors, dtype=np.float32)
    unsound = np.flatnonzero(~np.isfinite(single).all(axis=1))
    if len(unsound):
        raise ValueError(f"{path}: {len(unsound):,} vectors hold NaN, infinity or what float32 cannot hold, first row {unsound[0]}")
    texts = names.astype("U") if names.dtype.kind != "S" else np.char.decode(names, "utf-8")
    _, first, inverse = np.unique(names, return_index=True, return_inverse=True)
    parts, notes = (None, ()) if words is None else parts_of(words.astype("U").tolist())
    return Dataset(
        name=path.stem,
        items=Features(single),
        labels=inverse.astype(np.int64),
        class_names=tuple(texts[first].tolist()),
        parts=None if parts is None else np.array(parts, dtype=np.str_),
        notes=notes,
    )


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


def _beside(path: Path) -> Path:
    names = [f"{path.stem}.labels.npy", f"{path.stem}_labels.npy", f"{path.stem}.labels.txt", "labels.npy", "labels.txt"]
    for name in names:
        if (path.parent / name).is_file() and name != path.name:
            return path.parent / name
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
