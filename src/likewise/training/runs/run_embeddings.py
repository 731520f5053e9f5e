"""Embeddings by a finished run: to be scored, or written to a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from likewise.data.dataset import Dataset, Features, Files
from likewise.data.guard import TestPart
from likewise.data.ledger import CountedLook, Occasion
from likewise.data.packing.packed import left_out
from likewise.data.readers import read, read_to_embed
from likewise.data.splits import Split
from likewise.environment import checked_device
from likewise.evaluation.embedding_file import EmbeddingFile, PartName
from likewise.files import check_output, write_whole
from likewise.models.backbones import Level
from likewise.models.embedder import Embedder
from likewise.models.opening import open_model
from likewise.models.ray_embedding import RayEmbedder
from likewise.progress import ProgressCallback
from likewise.ray_session import RaySession
from likewise.training.runs.run_folder import RunFolder
from likewise.training.train import PURPOSE, decision
from likewise.wording import printable

OnNote = Callable[[str], None]  # told in a sentence what the user should know
Columns = Mapping[str, npt.NDArray[Any]]
Levels = tuple[Level, ...]
Embedded = tuple[npt.NDArray[Any], npt.NDArray[np.int64]]  # rows, and the numbers of the items that they are of


def embeddings_to_score(
    run: Path,
    data: str,
    *,
    part: PartName | None = None,
    levels: Levels | None = None,
    device: str = "cpu",
    on_progress: ProgressCallback | None = None,
    on_note: OnNote | None = None,
) -> tuple[EmbeddingFile, CountedLook | None]:
    """A run's embeddings of DATA with the parts they belong to, as far as `part` asks for them, and which look at the test items it was.

    All items of DATA and no parts, if it is not what the run was trained on. Otherwise its test items unless others are asked for: the
    same look as when the run ended, which the guard writes down. levels: only these of a multilevel embedding.
    """
    embedder = open_model(run, device)

    def embed(items: Dataset) -> Embedded:
        return _embedded(embedder, items, levels=levels, on_progress=on_progress, on_note=on_note)

    return _to_score(run, read(data), embedder, embed, part=part, on_note=on_note)


def levels_to_score(
    run: Path,
    data: str,
    *,
    part: PartName | None = None,
    device: str = "cpu",
    on_progress: ProgressCallback | None = None,
    on_note: OnNote | None = None,
) -> tuple[dict[Levels, EmbeddingFile], CountedLook | None]:
    """The same with every combination of the levels of a run, the single ones first and all together last, from one pass and one look."""
    embedder = open_model(run, device)

    def embed(items: Dataset) -> Embedded:
        return _embedded(embedder, items, normalize=False, on_progress=on_progress, on_note=on_note)

    outputs, look = _to_score(run, read(data), embedder, embed, part=part, on_note=on_note)
    return {levels: replace(outputs, embeddings=rows) for levels, rows in embedder.of_levels(outputs.embeddings).items()}, look


def _to_score(
    run: Path,
    dataset: Dataset,
    embedder: Embedder,
    embed: Callable[[Dataset], Embedded],
    *,
    part: PartName | None,
    on_note: OnNote | None,
) -> tuple[EmbeddingFile, CountedLook | None]:
    trained = embedder.card.get("protocol") or embedder.card.get("config", {}).get("protocol", {})
    if on_note is not None and trained.get("compared_by") == "euclidean":
        on_note(f"protocol {trained['name']} compares by distance, before rows are brought to length 1; here they have length 1")
    own = own_split(run, embedder, dataset, on_note=on_note)
    if own is None:
        vectors, kept = embed(dataset)
        return EmbeddingFile(vectors, dataset.label_names()[kept]), None
    if not own.test.num_items and part in (None, "test"):
        raise ValueError(
            f"{run} was trained on every class of {dataset.name}, so that none of its items is a test item: give items of other classes, "
            "or --split train for those that it was trained on"
        )
    indices = own.train if part == "train" else np.arange(len(dataset))
    if part != "train" and own.test.num_items:
        opened = open_again(run, embedder, own)
        indices = opened.indices if part != "all" else indices
    vectors, kept = embed(dataset.subset(indices))
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
    ray: str | None = None,
    on_progress: ProgressCallback | None = None,
    on_note: OnNote | None = None,
) -> tuple[int, int]:
    """Every item of DATA, one or several specs, as a row of a file: its embedding and name, its label where that is known, and, where the
    run was trained on these data, its part (`split`). run: also a name of `likewise weights`, for features without training.

    ray: the address of a Ray cluster whose machines embed, or "local"; they find the images at the same paths.
    What only some items have is empty for the others. Gives the file's rows and their width. on_note: is told of images that were left
    out, and of data that is not the run's.
    """
    if out.suffix not in _WRITERS:
        raise ValueError(f"{out} ends in {out.suffix or 'nothing'!r}: expected {' or '.join(_WRITERS)}")
    check_output(out)
    datasets = read_to_embed([data] if isinstance(data, str) else data)
    if out.suffix == ".parquet":
        _check_parquet(datasets)
    embedder = open_model(run, checked_device(device) if ray is None else "cpu")
    embedded, columns = [], []
    with nullcontext() if ray is None else RaySession(ray) as session:
        cluster = None if session is None else RayEmbedder(embedder, session, device)
        for dataset in datasets:
            if on_note is not None and isinstance(dataset.items, Files):
                for note in dataset.notes:
                    on_note(note)
            vectors, kept = _embedded(
                embedder, dataset, cluster=cluster, levels=levels, mirror=mirror, on_progress=on_progress, on_note=on_note
            )
            items = _names(dataset)
            parts = _own_parts(run, embedder, dataset, on_note=on_note)
            embedded.append(vectors)
            columns.append({"labels": dataset.label_names()[kept], "items": np.array(items)[kept], "split": parts[kept]})
    vectors = np.concatenate(embedded)
    whole = {name: np.concatenate([column[name] for column in columns]) for name in columns[0]}
    known = {name: column for name, column in whole.items() if (column != "").any()}
    write_whole(out, lambda file: _WRITERS[out.suffix](file, vectors, known))
    return vectors.shape[0], vectors.shape[1]


def _names(dataset: Dataset) -> list[str]:
    """Of its items, as a file of embeddings has them."""
    return [str(path) for path in dataset.items.paths] if isinstance(dataset.items, Files) else dataset.item_names()


def _check_parquet(datasets: Sequence[Dataset]) -> None:
    """A ValueError for what could not be written in the end."""
    _import_pyarrow()
    for dataset in datasets:
        for name in (*_names(dataset), *dataset.class_names):
            if any("\ud800" <= letter <= "\udfff" for letter in name):
                raise ValueError(f"{printable(name)!r} is a name that is no UTF-8, which .parquet cannot hold: choose .npz, or rename it")


def _own_parts(run: Path, embedder: Embedder, dataset: Dataset, *, on_note: OnNote | None) -> npt.NDArray[np.str_]:
    """(items,) the parts that they had when the embedder was trained, empty where that is not known. What has no class had none."""
    labelled = np.flatnonzero(dataset.is_labelled)
    parts = np.full(len(dataset), "", dtype="U7")
    if len(labelled):
        trained_on = dataset if len(labelled) == len(dataset) else dataset.subset(labelled)
        own = own_split(run, embedder, trained_on, on_note=on_note)
        if own is not None:
            parts[labelled] = own.item_parts(trained_on)
    return parts


def own_split(run: Path, embedder: Embedder, dataset: Dataset, *, on_note: OnNote | None = None) -> Split | None:
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


def open_again(run: Path, embedder: Embedder, split: Split) -> TestPart:
    """The test items of the embedder's own split: the same look as when it was scored first, which the guard writes down."""
    occasion = _occasion(run, embedder)
    key = split.test.issue_key("likewise evaluate")
    return split.test.open(key, run=occasion.folder, purpose=PURPOSE, decided=occasion.decided, occasion=occasion)


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
    cluster: RayEmbedder | None = None,
    levels: tuple[Level, ...] | None = None,
    mirror: bool = False,
    normalize: bool = True,
    on_progress: ProgressCallback | None,
    on_note: OnNote | None,
) -> Embedded:
    """Embeddings, and the numbers of the items they are of: all, but for images that cannot be decoded."""
    if isinstance(dataset.items, Features):
        rows = embedder.embed(dataset, levels=levels, mirror=mirror, normalize=normalize, on_progress=on_progress)
        return rows, np.arange(len(dataset))
    if embedder.preprocessing is None:
        raise ValueError(f"{dataset.name} holds images, but this run was trained on vectors: give a file of vectors")
    if cluster is None:
        vectors, kept, skipped = embedder.embed_images(dataset, levels=levels, mirror=mirror, normalize=normalize, on_progress=on_progress)
    else:
        vectors, kept, skipped = cluster.embed_images(dataset, levels=levels, mirror=mirror, on_progress=on_progress)
    if skipped and on_note is not None:
        on_note(f"{dataset.name}: {left_out(skipped)}")
    return vectors, kept


def _write_npz(file: BinaryIO, vectors: npt.NDArray[Any], columns: Columns) -> None:
    np.savez(file, allow_pickle=False, embeddings=vectors, **columns)


def _write_parquet(file: BinaryIO, vectors: npt.NDArray[Any], columns: Columns) -> None:
    pyarrow = _import_pyarrow()
    flat = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), vectors.shape[1])
    names = {"labels": "label", "items": "item", "split": "split"}
    texts = {names[name]: pyarrow.array(column, mask=column == "") for name, column in columns.items()}
    table = pyarrow.table({"embedding": flat, **texts})
    pyarrow.parquet.write_table(table, file)


def _import_pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as fault:
        raise ValueError('writing .parquet needs pyarrow: pip install "likewise[parquet]", or choose .npz') from fault
    return pyarrow


_WRITERS = {".npz": _write_npz, ".parquet": _write_parquet}
