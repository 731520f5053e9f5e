"""Embeddings with labels from a file: .npz, .npy or .parquet. Nothing pickled is ever loaded."""

import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

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
            raise ValueError(f"the split beside the embeddings: {fault} (--split all scores them all)") from None
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
        file = EmbeddingFile(_load(path), given_labels)
    else:
        file = _read_parquet(path, embedding_name or "embedding", label_name or "label", given_labels)
    for kind, vectors, names in (("embeddings", file.embeddings, file.labels), ("gallery", file.gallery, file.gallery_labels)):
        if vectors is None or names is None:
            continue
        if vectors.ndim != 2 or vectors.dtype.kind not in "fiu":
            raise ValueError(f"{kind} in {path} are {vectors.dtype} of shape {vectors.shape}: expected numbers of shape (items, dim)")
        if names.ndim != 1 or len(names) != len(vectors):
            raise ValueError(f"{path} has {len(vectors)} {kind} but labels of shape {names.shape}: expected one label an embedding")
    if file.parts is not None and file.parts.shape != (len(file.embeddings),):
        raise ValueError(f"{path} has {len(file.embeddings)} embeddings but a split of shape {file.parts.shape}: expected one word each")
    return _with_labels(file, path)


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
    if not path.is_file():
        raise ValueError(f"{path} is {'a folder' if path.is_dir() else 'not there'}: expected a file")
    return path


def _load(path: Path) -> Any:
    """An array (.npy) or an open archive of arrays (.npz)."""
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, EOFError, zipfile.BadZipFile) as fault:
        raise ValueError(
            f"{path} is not a readable numpy file ({fault}): expected what numpy.save or numpy.savez writes for numbers or strings"
        ) from fault


def _read_npz(path: Path, embedding_name: str, label_name: str, given_labels: Array | None) -> EmbeddingFile:
    with _load(path) as archive:
        without = " (images without classes can be embedded, not scored)" if "items" in archive and "labels" not in archive else ""

        def array(name: str) -> Array:
            if name not in archive:
                names = ", ".join(archive) or "nothing"
                raise ValueError(
                    f"{path} has no array {name!r}, it holds {names}: save with numpy.savez(file, embeddings=..., labels=...){without}"
                )
            try:
                loaded: Array = archive[name]
            except (ValueError, zipfile.BadZipFile) as fault:
                raise ValueError(f"array {name!r} in {path} cannot be read ({fault}): save labels as integers or str") from fault
            return loaded

        embeddings = array(embedding_name)
        labels = array(label_name) if given_labels is None else given_labels
        if "gallery" not in archive and "gallery_labels" not in archive:
            return EmbeddingFile(embeddings, labels, parts=array("split") if "split" in archive and label_name != "split" else None)
        gallery_labels = array("gallery_labels")
        if given_labels is not None and given_labels.dtype.kind == "U" and gallery_labels.dtype.kind in "iu":
            gallery_labels = gallery_labels.astype(str)  # a text file's labels are text
        return EmbeddingFile(embeddings, labels, array("gallery"), gallery_labels)


def _read_labels(path: Path) -> Array:
    if path.suffix == ".npy":
        loaded: Array = _load(path)
        return loaded
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as fault:
        raise ValueError(f"{path} is not text: expected one label a line, or a .npy file") from fault
    while lines and not lines[-1].strip():
        lines.pop()
    return np.array([line.strip() for line in lines], dtype=str)  # never as numbers: 007 and 7 are two labels


def _read_parquet(path: Path, embedding_name: str, label_name: str, given_labels: Array | None) -> EmbeddingFile:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as fault:
        raise ValueError(f'reading {path} needs pyarrow: pip install "likewise[parquet]"') from fault
    from likewise.data.readers.features import vector_column  # here, as the readers bring image libraries along

    try:
        columns = pyarrow.parquet.read_schema(path).names
        wanted = [embedding_name] + ([label_name] if given_labels is None else [])
        for name in wanted:
            if name not in columns:
                option = "--embedding-name" if name == embedding_name else "--label-name"
                raise ValueError(f"{path} has no column {name!r}, it holds {', '.join(columns)}: name the right one with {option}")
        if "split" in columns and "split" not in wanted:
            wanted.append("split")
        table = pyarrow.parquet.read_table(path, columns=wanted)
    except pyarrow.ArrowInvalid as fault:
        raise ValueError(f"{path} is not a readable Parquet file ({fault})") from fault
    if table[embedding_name].null_count:
        raise ValueError(f"column {embedding_name!r} of {path} has {table[embedding_name].null_count} empty entries: drop these rows")
    if given_labels is None:
        labels = table[label_name]
        given_labels = np.asarray((labels.cast(pyarrow.string()).fill_null("") if labels.null_count else labels).to_numpy())
        given_labels = given_labels.astype(str) if given_labels.dtype.kind == "O" else given_labels
    parts = np.asarray(table["split"].fill_null("").to_numpy()).astype(str) if wanted[-1] == "split" and label_name != "split" else None
    vectors = vector_column(table[embedding_name].combine_chunks(), f"column {embedding_name!r} of {path}")
    return EmbeddingFile(vectors, given_labels, parts=parts)
