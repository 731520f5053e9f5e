"""Index: images under the vectors of a model, to be searched by images."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from PIL import Image

from likewise.argument_types import checked_arguments
from likewise.checks import close_name, known_name
from likewise.data.dataset import Dataset, Files
from likewise.data.packing.packed import Problem
from likewise.environment import checked_device, num_cores
from likewise.evaluation.calibration import Calibration
from likewise.files import write_folder
from likewise.models.bundle import read_bundle, write_calibration
from likewise.models.embedder import Embedder
from likewise.models.opening import open_model
from likewise.models.ray_embedding import RayEmbedder
from likewise.progress import ProgressCallback
from likewise.ray_session import RaySession
from likewise.search.adding import Added, add_images, vectors_of
from likewise.search.filters import Condition, Filter, parse_condition
from likewise.search.hits import Hit, Hits
from likewise.search.index_digests import write_digests
from likewise.search.index_folder import (
    DESCRIPTION,
    MODEL,
    STORE,
    create_index_folder,
    is_index,
    model_digest,
    only_writer,
    open_store,
    read_description,
)
from likewise.search.intake import Images, read_images
from likewise.search.likeness import in_words, is_known, probability_of
from likewise.search.stores import STORES
from likewise.search.vector_store import Vectors

if TYPE_CHECKING:
    from likewise.search.grouping.image_groups import ImageGroups
    from likewise.search.grouping.near_copies import Copies

Query = str | Path | Image.Image | npt.NDArray[np.uint8]  # an array is (height, width, 3) or (height, width)
Where = str | Condition | Sequence[str | Condition]

TRIES = 5  # where another process removes what was found before it can be read


class Index:
    """A folder with images' vectors and what is known of the images, and with the model that makes vectors of queries.

    index = likewise.Index.build("efficientnet_lite0", "photos", out="photos.index")
    index.search("query.jpg", k=5, where="year>=2010")
    """

    def __init__(self, folder: str | Path, device: str = "auto") -> None:
        """Opens the index in the folder, see `load`."""
        self.folder = Path(folder)
        self.device = checked_device(device)
        self.description = read_description(self.folder)
        self.store = open_store(self.folder, self.description)
        self._discard: weakref.finalize[..., Self] | None = None  # of a temporary folder

    @classmethod
    @checked_arguments
    def build(
        cls,
        model: Embedder | str | Path,
        images: Images,
        *,
        out: str | Path | None = None,
        store: str = "exact",
        device: str = "auto",
        ray: str | None = None,
        on_progress: ProgressCallback | None = None,
        **options: Any,
    ) -> Self:
        """An index of the images. model: a run, a comparison or its best, a saved embedder, a name of `likewise weights`, an Embedder.

        images   files, folders with or without class folders, tables (.csv, .parquet) whose further columns become metadata, lists (.txt);
                 one or several.
        out      the folder; one that is there already, of the same model, is gone on with: what is in it is not embedded again. None: a
                 temporary folder, until `save`.
        store    "exact", "faiss" or "postgresql", with its options.
        ray      the address of a Ray cluster that embeds, or "local": its machines find the images at the same paths, and need no store.
        """
        datasets = read_images(images)
        index = cls.create(model, out=out, store=store, device=device, **options)
        index.add(datasets, ray=ray, on_progress=on_progress)
        return index

    @classmethod
    @checked_arguments
    def create(
        cls, model: Embedder | str | Path, *, out: str | Path | None = None, store: str = "exact", device: str = "auto", **options: Any
    ) -> Self:
        """As `build`, without images yet."""
        embedder = open_model(model, checked_device(device))
        folder = Path(tempfile.mkdtemp(prefix="likewise-index-") if out is None else out)
        if is_index(folder):
            index = cls(folder, device)
            index._check_same(embedder, store, options)
            return index
        try:
            create_index_folder(folder, embedder, store, options)
        except BaseException:
            if out is None:
                folder.rmdir()
            raise
        index = cls(folder, device)
        if out is None:
            index._discard = weakref.finalize(index, shutil.rmtree, folder, ignore_errors=True)
        return index

    @classmethod
    @checked_arguments
    def load(cls, folder: str | Path, device: str = "auto") -> Self:
        """The index that `build` or `save` wrote."""
        return cls(folder, device)

    def __len__(self) -> int:
        return len(self.store)

    @cached_property
    def embedder(self) -> Embedder:
        """What makes vectors of images here; loaded when it is first needed."""
        return Embedder.load(self.folder / MODEL, self.device)

    @cached_property
    def calibration(self) -> Calibration | None:
        """What similarities mean, where the model was calibrated: see docs/calibration.md."""
        stored = read_bundle(self.folder / MODEL).calibration
        return None if stored is None else Calibration.from_stored(stored)

    @property
    def card(self) -> dict[str, Any]:
        """Where the model comes from."""
        return read_bundle(self.folder / MODEL).card

    @checked_arguments
    def add(self, images: Images, *, prune: bool = False, ray: str | None = None, on_progress: ProgressCallback | None = None) -> Added:
        """Adds images, see `build`, and gives how many. What is there already is embedded again only if the file's digest has changed.

        prune: then removes images from the index whose files are gone.
        """
        datasets = read_images(images)
        with only_writer(self.folder), nullcontext() if ray is None else RaySession(ray) as session:
            self.store.refresh()
            cluster = None if session is None else RayEmbedder(self.embedder, session)
            result = add_images(self.store, lambda: self.embedder, datasets, on_progress, cluster)
            if prune:
                ids = self.store.ids().tolist()
                gone = [id for id, item in zip(ids, self.store.items(ids), strict=True) if not os.path.exists(item.path)]
                result = replace(result, removed=self.store.remove(gone))
            self.store.prepare(on_progress=on_progress)
        return result

    @checked_arguments
    def remove(self, paths: str | Path | Sequence[str | Path] = (), *, where: Where = ()) -> int:
        """Removes the images of these paths, a folder standing for all below it, that fulfil the conditions; gives how many."""
        given = [paths] if isinstance(paths, str | Path) else list(paths)
        conditions = self.filter(where)
        if not given and not conditions:
            raise ValueError("nothing to remove: give paths, conditions, or both")
        with only_writer(self.folder):
            self.store.refresh()
            ids = set(self.store.ids(conditions).tolist())
            if given:
                ids &= {id for path in given for id in self._ids_at(os.path.abspath(path))}
            return self.store.remove(sorted(ids))

    @checked_arguments
    def search(self, image: Query, k: int = 10, where: Where = ()) -> Hits:
        """The k images that are most like this one, the nearest first; fewer where the index holds fewer that fulfil the conditions."""
        return self.search_many([image], k, where)[0]

    @checked_arguments
    def search_many(self, images: Sequence[Query], k: int = 10, where: Where = ()) -> list[Hits]:
        """For each of several images."""
        return self.search_vectors(self.embed(images), k, where)

    @checked_arguments
    def search_vectors(self, vectors: Vectors, k: int = 10, where: Where = ()) -> list[Hits]:
        """For each of several vectors of this index's model (queries, width)."""
        self.store.refresh()
        if not len(self):
            raise ValueError(f"{self.folder} holds no images: add some with `likewise index add`")
        conditions = self.filter(where)
        most = min(k, len(self)) if isinstance(k, int) else k  # stores make room for as many as they are asked for
        for _ in range(TRIES):
            ids, similarities = self.store.search(vectors, most, where=conditions)
            try:
                return [self._hits(*found) for found in zip(ids.tolist(), similarities.tolist(), strict=True)]
            except KeyError:  # another process removed one meanwhile
                self.store.refresh()
        raise ValueError(f"{self.folder} changes faster than it can be read: try again later")

    @checked_arguments
    def duplicates(self, similarity: float | None = None, where: Where = (), *, on_progress: ProgressCallback | None = None) -> Copies:
        """Groups of images that are the same file, or nearly the same picture: see search/grouping/near_copies.py."""
        from likewise.search.grouping.near_copies import find_copies

        return find_copies(self, similarity=similarity, where=where, on_progress=on_progress)

    @checked_arguments
    def cluster(
        self,
        k: int | None = None,
        similarity: float | None = None,
        where: Where = (),
        *,
        seed: int = 0,
        on_progress: ProgressCallback | None = None,
    ) -> ImageGroups:
        """Groups of images that are alike, by k-means or by linkage: see search/grouping/image_groups.py."""
        from likewise.search.grouping.image_groups import group_images

        return group_images(self, k=k, similarity=similarity, where=where, seed=seed, on_progress=on_progress)

    @checked_arguments
    def embed(self, images: Sequence[Query]) -> Vectors:
        """The vectors of images by this index's model (images, width)."""
        pictures = [Image.fromarray(image) if isinstance(image, np.ndarray) else image for image in images]
        return vectors_of(self.embedder, self.embedder.embed(pictures))

    @checked_arguments
    def embed_files(self, paths: Sequence[str | Path]) -> tuple[Vectors, list[int], tuple[Problem, ...]]:
        """The vectors of those files that can be decoded, which they are, and the others with the reasons; a ValueError where none can."""
        files = Dataset("the queries", Files(tuple(map(Path, paths))), np.zeros(len(paths), np.int64), ("",))
        rows, kept, problems = self.embedder.embed_images(files, num_threads=num_cores())
        return vectors_of(self.embedder, rows), kept.tolist(), problems

    def filter(self, where: Where) -> Filter:
        """Conditions as stores take them; a ValueError names a column that no image has."""
        given = [where] if isinstance(where, str | Condition) else where
        conditions = tuple(parse_condition(one) if isinstance(one, str) else one for one in given)
        columns = ["path", "label", *self.store.columns()] if conditions else []
        for condition in conditions:
            if condition.column not in columns:
                close = close_name(condition.column, columns)
                hint = f"did you mean {close!r}? " if close else ""
                raise ValueError(f"no image has a column {condition.column!r}: {hint}there are {', '.join(columns)}")
        return conditions

    @checked_arguments
    def save(self, folder: str | Path) -> None:
        """Writes a copy of the index; one that is there is replaced, anything else is refused."""
        target = Path(folder)
        if target.exists() and target.resolve() == self.folder.resolve():
            return
        with only_writer(self.folder), write_folder(target, known_by=DESCRIPTION, what="an index") as unfinished:
            shutil.copytree(self.folder / MODEL, unfinished / MODEL)
            self.store.copy(unfinished / STORE)
            shutil.copy(self.folder / DESCRIPTION, unfinished / DESCRIPTION)
            write_digests(unfinished, unfinished / STORE, {})

    def close(self) -> None:
        """Lets go of files and connections; an index that was not saved is gone."""
        self.store.close()
        if self._discard is not None:
            self._discard()

    def _hits(self, ids: list[int], similarities: list[float]) -> Hits:
        count, calibration = sum(id >= 0 for id in ids), self.calibration
        hits = []
        for id, similarity, item in zip(ids[:count], similarities[:count], self.store.items(ids[:count]), strict=True):
            probability = None if calibration is None else probability_of(similarity, calibration)
            words = None if calibration is None else in_words(similarity, calibration)
            hits.append(Hit(item.path, similarity, item.label, id, item.metadata, probability, words))
        return Hits(hits, is_known=is_known(similarities[0], calibration) if hits and calibration is not None else None)

    def _ids_at(self, path: str) -> list[int]:
        """Of the image of this path, or of all below it; a ValueError where there are none."""
        found = list(self.store.find([path]).values())
        if not found:
            near = self.store.ids((Condition("path", "~", path),)).tolist()
            below = os.path.join(path, "")
            found = [id for id, item in zip(near, self.store.items(near), strict=True) if item.path.startswith(below)]
        if not found:
            raise ValueError(f"{path} is not in {self.folder}: expected the path of an image in it, or of a folder that holds some")
        return found

    def _check_same(self, embedder: Embedder, store: str, options: dict[str, Any]) -> None:
        """A ValueError where an index that is to be gone on with is of another model or store; takes over a new calibration."""
        with tempfile.TemporaryDirectory() as folder:
            embedder.save(Path(folder) / MODEL)
            digest = model_digest(Path(folder) / MODEL)
        if digest != self.description.model:
            raise ValueError(f"{self.folder} is an index by another model: give another folder, or delete it")
        kept = STORES[known_name("store", store, STORES)].kept_options(options)
        if (store, kept) != (self.description.store, self.description.options):
            raise ValueError(
                f"{self.folder} is an index with the store {self.description.store} {self.description.options or ''}, not {store} "
                f"{kept or ''}: give another folder, or delete it"
            )
        if embedder.calibration is not None and embedder.calibration != self.calibration:
            write_calibration(self.folder / MODEL, embedder.calibration.as_table())
            del self.calibration
