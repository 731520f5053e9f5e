"""Embeddings by a finished run: to be scored, or written to a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from likewise.data.dataset import Dataset, Features, Files
from likewise.data.ledger import CountedLook, Occasion
from likewise.data.packed import left_out
from likewise.data.readers import read, read_to_embed
from likewise.data.splits import Split
from likewise.evaluation.embedding_file import EmbeddingFile, PartName
from likewise.files import write_whole
from likewise.models.backbones import Level
from likewise.models.embedder import Embedder
from likewise.models.pretrained import WEIGHTS
from likewise.progress import ProgressCallback
from likewise.training.run_folder import RunFolder
from likewise.training.train import PURPOSE, decision

OnNote = Callable[[str], None]  # told in a sentence what the user should know
Columns = Mapping[str, npt.NDArray[Any]]


def embeddings_to_score(
    run: Path,
    data: str,
    *,
    part: PartName | None = None,
    device: str = "cpu",
    on_progress: ProgressCallback | None = None,
    on_note: OnNote | None = None,
) -> tuple[EmbeddingFile, CountedLook | None]:
    """A run's embeddings of DATA with the parts they belong to, as far as `part` asks for them, and which look at the test items it was.

    All items of DATA and no parts, if it is not what the run was trained on. Otherwise its test items unless others are asked for: the
    same look as when the run ended, which the guard writes down.
    """
    embedder = Embedder.load(run, device=device)
    dataset = read(data)
    own = _own_split(run, embedder, dataset, on_note=on_note)
    if own is None:
        vectors, kept = _embedded(embedder, dataset, on_progress=on_progress, on_note=on_note)
        return EmbeddingFile(vectors, dataset.label_names()[kept]), None
    if not own.test.num_items and part in (None, "test"):
        raise ValueError(
            f"{run} was trained on every class of {dataset.name}, so that none of its items is a test item: give items of other classes, "
            "or --split train for those that it was trained on"
        )
    indices = own.train if part == "train" else np.arange(len(dataset))
    if part != "train" and own.test.num_items:
        occasion = _occasion(run, embedder)
        key = own.test.issue_key("likewise evaluate")
        opened = own.test.open(key, run=occasion.folder, purpose=PURPOSE, decided=occasion.decided, occasion=occasion)
        indices = opened.indices if part != "all" else indices
    vectors, kept = _embedded(embedder, dataset.subset(indices), on_progress=on_progress, on_note=on_note)
    chosen = indices[kept]
    return EmbeddingFile(vectors, dataset.label_names()[chosen], parts=own.item_parts(dataset)[chosen]), own.test.look


def write_embeddings(
    run: Path,
    data: str | Sequence[str],
    out: Path,
    *,
    device: str = "cpu",
    levels: tuple[Level, ...] | None = None,
    mirror: bool = False,
    on_progress: ProgressCallback | None = None,
    on_note: OnNote | None = None,
) -> tuple[int, int]:
    """Every item of DATA, one or several specs, as a row of a file: its embedding and name, its label where that is known, and, where the
    run was trained on these data, its part (`split`). run: also a name of `likewise weights`, for features without training.

    What only some items have is empty for the others. Gives the file's rows and their width. on_note: is told of images that were left
    out, and of data that is not the run's.
    """
    if out.suffix not in _WRITERS:
        raise ValueError(f"{out} ends in {out.suffix or 'nothing'!r}: expected {' or '.join(_WRITERS)}")
    is_name = not run.exists() and str(run) in WEIGHTS
    embedder = Embedder.pretrained(str(run), device=device) if is_name else Embedder.load(run, device=device)
    embedded, columns = [], []
    for dataset in read_to_embed([data] if isinstance(data, str) else data):
        if on_note is not None and isinstance(dataset.items, Files):
            for note in dataset.notes:
                on_note(note)
        vectors, kept = _embedded(embedder, dataset, levels=levels, mirror=mirror, on_progress=on_progress, on_note=on_note)
        items = [str(path) for path in dataset.items.paths] if isinstance(dataset.items, Files) else dataset.item_names()
        parts = _own_parts(run, embedder, dataset, on_note=on_note)
        embedded.append(vectors)
        columns.append({"labels": dataset.label_names()[kept], "items": np.array(items)[kept], "split": parts[kept]})
    vectors = np.concatenate(embedded)
    whole = {name: np.concatenate([column[name] for column in columns]) for name in columns[0]}
    known = {name: column for name, column in whole.items() if (column != "").any()}
    write_whole(out, lambda file: _WRITERS[out.suffix](file, vectors, known))
    return vectors.shape[0], vectors.shape[1]


def _own_parts(run: Path, embedder: Embedder, dataset: Dataset, *, on_note: OnNote | None) -> npt.NDArray[np.str_]:
    """(items,) the parts that they had when the embedder was trained, empty where that is not known. What has no class had none."""
    labelled = np.flatnonzero(dataset.is_labelled)
    parts = np.full(len(dataset), "", dtype="U7")
    if len(labelled):
        trained_on = dataset if len(labelled) == len(dataset) else dataset.subset(labelled)
        own = _own_split(run, embedder, trained_on, on_note=on_note)
        if own is not None:
            parts[labelled] = own.item_parts(trained_on)
    return parts


def _own_split(run: Path, embedder: Embedder, dataset: Dataset, *, on_note: OnNote | None) -> Split | None:
    """Which items of the data set the embedder was trained on; None if that is not known, as it was trained on others."""
    folder = RunFolder(run)
    stored = embedder.card.get("split") or folder.read_json("split.json")
    if stored is None:
        return None
    if stored["fingerprint"] != dataset.fingerprint():
        if on_note is not None:
            on_note(
                f"{dataset.name} is not what {run} was trained on, or was changed since: which of its items are test items is not known"
            )
        return None
    return Split.from_json(stored, dataset, record=None if folder.config() is None else folder.openings)


def _occasion(run: Path, embedder: Embedder) -> Occasion:
    """The look that scored the embedder first: its run's; or, of an embedder alone, as its card has it."""
    config = RunFolder(run).config()
    if config is None:
        return replace(Occasion(**embedder.card["occasion"]), what="evaluate")
    return Occasion("evaluate", str(run.resolve()), decided=decision(config, embedder.network))


def _embedded(
    embedder: Embedder,
    dataset: Dataset,
    *,
    levels: tuple[Level, ...] | None = None,
    mirror: bool = False,
    on_progress: ProgressCallback | None,
    on_note: OnNote | None,
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Embeddings, and the numbers of the items they are of: all, but for images that cannot be decoded."""
    if isinstance(dataset.items, Features):
        return embedder.embed(dataset, levels=levels, mirror=mirror, on_progress=on_progress), np.arange(len(dataset))
    if embedder.preprocessing is None:
        raise ValueError(f"{dataset.name} holds images, but this run was trained on vectors: give a file of vectors")
    vectors, kept, skipped = embedder.embed_images(dataset, levels=levels, mirror=mirror, on_progress=on_progress)
    if skipped and on_note is not None:
        on_note(f"{dataset.name}: {left_out(skipped)}")
    return vectors, kept


def _write_npz(file: BinaryIO, vectors: npt.NDArray[Any], columns: Columns) -> None:
    np.savez(file, allow_pickle=False, embeddings=vectors, **columns)


def _write_parquet(file: BinaryIO, vectors: npt.NDArray[Any], columns: Columns) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as fault:
        raise ValueError('writing .parquet needs pyarrow: pip install "likewise[parquet]", or choose .npz') from fault
    flat = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), vectors.shape[1])
    names = {"labels": "label", "items": "item", "split": "split"}
    texts = {names[name]: pyarrow.array(column, mask=column == "") for name, column in columns.items()}
    table = pyarrow.table({"embedding": flat, **texts})
    pyarrow.parquet.write_table(table, file)


_WRITERS = {".npz": _write_npz, ".parquet": _write_parquet}
