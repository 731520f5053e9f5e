"""Embeddings with labels from a file: .npz, .npy or .parquet. Nothing pickled is ever loaded."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from likewise.formats.numpy_files import ArrayHeader, open_npz, read_npy
from likewise.formats.parquet_files import column_texts, parquet_columns, read_parquet, vector_column
from likewise.formats.regular_file import is_regular
from likewise.formats.text_files import read_text_labels
from likewise.limits import require_within
from likewise.wording import some_of

Array = np.ndarray
PartName = Literal["all", "test", "train"]


@dataclass(frozen=True)
class EmbeddingFile:
    """What a file holds; a gallery where queries and gallery are separate sets."""

    embeddings: Array  # (N, d)
    labels: Array  # (N,) integers or strings
    gallery: Array | None = None
    gallery_labels: Array | None = None
    parts: Array | None = None  # (N,) train, test, query or gallery, where it is known what the network was trained on; or empty
    notes: tuple[str, ...] = ()  # what was left out
    path: Path | None = None

    @property
    def where(self) -> str:
        """For messages."""
        return "" if self.path is None else f" in {self.path}"

    def part(self, name: PartName | None = None) -> "tuple[EmbeddingFile, PartName]":
        """What is to be scored, and which part that is. None: the test items, or all where it is not known which these are."""
        if self.parts is None:
            if name in ("test", "train"):
                raise ValueError(
                    f"nothing says which embeddings are {name} items: embed with a run the data it was trained on, or leave --split out"
                )
            return self, "all"
        if name == "all":
            return replace(self, parts=None), "all"
        from likewise.data.readers.parts import parts_of  # here, as the readers bring image libraries along

        words = self.parts.astype(str)
        parts = np.full(len(words), "", dtype="U7")  # empty: of data that the network was not trained on, so that nothing is known
        try:
            parts[words != ""] = parts_of(words[words != ""].tolist())[0]
        except ValueError as fault:
            raise ValueError(f"the split beside the embeddings{self.where}: {fault} (--split all scores them all)") from None
        chosen = np.flatnonzero((parts != "") & ((parts == "train") == (name == "train")))
        if not len(chosen):
            raise ValueError(f"none of the {len(parts):,} embeddings is a {name or 'test'} item: --split all scores them all")
        query, gallery = (chosen[parts[chosen] == half] for half in ("query", "gallery"))
        if len(query) and len(gallery):
            return EmbeddingFile(self.embeddings[query], self.labels[query], self.embeddings[gallery], self.labels[gallery]), "test"
        return EmbeddingFile(self.embeddings[chosen], self.labels[chosen]), name or "test"


def read_embeddings(
    path: str | Path, *, labels: str | Path | None = None, embedding_name: str | None = None, label_name: str | None = None
) -> EmbeddingFile:
    """Read embeddings and labels.

    .npz: arrays `embeddings` and `labels`, optionally `gallery` and `gallery_labels`, or `split`; .npy: the embeddings, with `labels` a
    second file; .parquet: columns `embedding` (lists of numbers), `label` and, optionally, `split`. A split says train, test, query or
    gallery of each embedding. `embedding_name` and `label_name` are other names of the array or column.
    `labels` overrides the labels of any format: .npy, or text with one label a line, which stays text (007 is not 7).
    Embeddings whose label is empty are left out, with a note.
    """
    path = Path(path)
    if path.suffix not in (".npz", ".npy", ".parquet"):
        raise ValueError(f"{path} ends in {path.suffix or 'nothing'!r}: expected .npz, .npy or .parquet")
    given_labels = None if labels is None else _read_labels(_existing(Path(labels)))
    _existing(path)
    if path.suffix == ".npz":
        file = _read_npz(path, embedding_name or "embeddings", label_name or "labels", given_labels)
    elif path.suffix == ".npy":
        if given_labels is None:
            raise ValueError(f"{path} holds embeddings only: name the file of their labels, with --labels (labels= in Python)")
        file = EmbeddingFile(read_npy(path), given_labels)
    else:
        file = _read_parquet(path, embedding_name or "embedding", label_name or "label", given_labels)
    for kind, vectors, names in (("embeddings", file.embeddings, file.labels), ("gallery", file.gallery, file.gallery_labels)):
        if vectors is not None and names is not None:
            _check(path, kind, vectors, names)
            _require_finite(path, kind, vectors)
    if file.parts is not None and file.parts.shape != (len(file.embeddings),):
        raise ValueError(f"{path} has {len(file.embeddings)} embeddings but a split of shape {file.parts.shape}: expected one word each")
    return _with_labels(replace(file, path=path), path)


def _require_finite(path: Path, kind: str, vectors: Array) -> None:
    unsound = np.flatnonzero(~np.isfinite(vectors).all(axis=1)) if vectors.dtype.kind == "f" else np.empty(0)
    if len(unsound):
        raise ValueError(f"{path}: {len(unsound):,} of {len(vectors):,} {kind} hold NaN or infinity, first row {unsound[0]}: repair them")


def _with_labels(file: EmbeddingFile, path: Path) -> EmbeddingFile:
    """The embeddings whose label is known."""
    if file.labels.dtype.kind != "U" or (file.labels != "").all():
        return file
    known = file.labels != ""
    if not known.any():
        raise ValueError(f"none of the {len(known):,} embeddings in {path} has a label: scores need to know which are of one class")
    parts = None if file.parts is None else file.parts[known]
    note = f"{(~known).sum():,} of {len(known):,} embeddings have no label; they are left out"
    return replace(file, embeddings=file.embeddings[known], labels=file.labels[known], parts=parts, notes=(note,))


def _existing(path: Path) -> Path:
    if not is_regular(path):
        raise ValueError(f"{path} is {'a folder' if path.is_dir() else 'no file' if path.exists() else 'not there'}: expected a file")
    return path


def _read_npz(path: Path, embedding_name: str, label_name: str, given_labels: Array | None) -> EmbeddingFile:
    with open_npz(path) as archive:
        without = " (images without classes can be embedded, not scored)" if "items" in archive and "labels" not in archive else ""
        has_gallery = "gallery" in archive or "gallery_labels" in archive
        wanted = [embedding_name] + ([label_name] if given_labels is None else []) + (["gallery", "gallery_labels"] if has_gallery else [])
        for name in wanted:
            if name not in archive:
                names = some_of(archive.names)
                raise ValueError(
                    f"{path} has no array {name!r}, it holds {names}: save with numpy.savez(file, embeddings=..., labels=...){without}"
                )
        headers = {name: archive.header(name) for name in wanted}  # whose shapes are compared before anything is unpacked
        _check(path, "embeddings", headers[embedding_name], headers[label_name] if given_labels is None else given_labels)
        labels = archive.array(label_name) if given_labels is None else given_labels
        if not has_gallery:
            parts = archive.array("split") if "split" in archive and label_name != "split" else None
            return EmbeddingFile(archive.array(embedding_name), labels, parts=parts)
        _check(path, "gallery", headers["gallery"], headers["gallery_labels"])
        gallery_labels = archive.array("gallery_labels")
        if given_labels is not None and given_labels.dtype.kind == "U" and gallery_labels.dtype.kind in "iu":
            gallery_labels = gallery_labels.astype(str)  # a text file's labels are text
        return EmbeddingFile(archive.array(embedding_name), labels, archive.array("gallery"), gallery_labels)


def _check(path: Path, kind: str, vectors: ArrayHeader | Array, names: ArrayHeader | Array) -> None:
    """A ValueError unless there are numbers (items, dim), and a label for each."""
    if len(vectors.shape) != 2 or vectors.dtype.kind not in "fiu":
        raise ValueError(f"{kind} in {path} are {vectors.dtype} of shape {vectors.shape}: expected numbers of shape (items, dim)")
    require_within("dim", vectors.shape[1], f"{path} has {kind} of dimensions:")
    if len(names.shape) != 1 or names.shape[0] != vectors.shape[0]:
        raise ValueError(f"{path} has {vectors.shape[0]} {kind} but labels of shape {names.shape}: expected one label an embedding")


def _read_labels(path: Path) -> Array:
    return read_npy(path) if path.suffix == ".npy" else read_text_labels(path)  # never as numbers: 007 and 7 are two labels


def _read_parquet(path: Path, embedding_name: str, label_name: str, given_labels: Array | None) -> EmbeddingFile:
    columns = parquet_columns(path)
    wanted = [embedding_name] + ([label_name] if given_labels is None else [])
    for name in wanted:
        if name not in columns:
            option = "--embedding-name" if name == embedding_name else "--label-name"
            raise ValueError(f"{path} has no column {name!r}, it holds {some_of(columns)}: name the right one with {option}")
    has_split = "split" in columns and "split" not in wanted
    table = read_parquet(path, [*wanted, "split"] if has_split else wanted)
    vectors = vector_column(table[embedding_name].combine_chunks(), f"column {embedding_name!r} of {path}")
    if given_labels is None:
        given_labels = _label_column(path, table[label_name], label_name)
    return EmbeddingFile(vectors, given_labels, parts=column_texts(path, table["split"], "split") if has_split else None)


def _label_column(path: Path, column: Any, name: str) -> Array:
    """Whole numbers as they are where none is missing, all else as text."""
    import pyarrow

    is_whole = pyarrow.types.is_integer(column.type) and not column.null_count
    return np.asarray(column.to_numpy()) if is_whole else column_texts(path, column, name)
