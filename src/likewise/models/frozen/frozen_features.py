"""Frozen features: the pooled features of a network that is not trained, computed once for every image and kept.

Kept are rows (feature_rows.py), in a folder named by what makes a feature: weights, backbone, pooling, packed size, augmentation. A row
is found by its file's path, box, size and time of change, or by the pixels themselves. So labels, order and part do not matter, a
changed file is computed again, and what was computed before an interruption stays. Images are decoded and run by as many threads as
there are cores, each a few images at a time; nothing but rows is held.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from likewise.data.augmentation import Augmentation, named_augmentation
from likewise.data.dataset import Dataset
from likewise.data.packing.cache import cache_folder, file_name_of
from likewise.data.packing.packed import Problem
from likewise.data.packing.thumbnails import Thumbnails, make_thumbnail
from likewise.files import locked_telling, remove_unfinished
from likewise.models.embedder import Preprocessing
from likewise.models.frozen.feature_rows import Outcome, read_rows, write_rows
from likewise.models.frozen.streaming import Streamed, batch_on, make_run, streamed
from likewise.models.images import DatasetImage, Unreadable, images_of, pixels_a_side
from likewise.models.network import NetworkSpec, make_network
from likewise.models.weights.pretrained import find_weights
from likewise.progress import ProgressCallback

FORMAT_VERSION = 1
FILE_ROWS = 256  # what a kill may cost, and a fraction of a second to write
VIEW_SCALE = (0.5, 1.0)  # of the area, of the third view on

Outcomes = Generator[Outcome, None, None]


@dataclass(frozen=True, eq=False)
class FrozenFeatures:
    """Features of the images of a data set that can be decoded."""

    views: Tensor  # float32 (images, views, channels)
    indices: npt.NDArray[np.int64]  # (images,) their numbers in the data set
    skipped: tuple[Problem, ...]
    thumbnails: Thumbnails

    @property
    def vectors(self) -> Tensor:
        """float32 (images, channels): of the test view."""
        return self.views[:, 0]


def frozen_features(
    dataset: Dataset,
    *,
    backbone: str,
    weights: str | Path,
    pooling: str = "avg",
    augmentation: str | Augmentation = "centre224",
    side: int | Literal["auto"] | None = "auto",
    views: int = 1,
    device: torch.device | str = "cpu",
    folder: Path | str | None = None,
    workers: int | None = None,
    on_progress: ProgressCallback | None = None,
) -> FrozenFeatures:
    """The pooled features of every image under a network with these weights, from the cache as far as they are in it.

    weights       a name that `likewise weights` lists, or a file.
    augmentation  how images are tested; nothing in it may be random.
    side          shorter side before it is cut; "auto": 256 for files, their own for images in memory; None: their own.
    views         1: as tested. 2: the mirror image too. More: also crops of half the area or more, perhaps mirrored, the same every time.
    device        on a CPU onnxruntime runs the network where it is installed, else torch.
    folder        where rows lie; `features` in cache_folder() unless given.
    workers       threads; None: one for each core.
    on_progress   is told how many of the images that are not in the cache are done; None: silent.
    """
    if views < 1:
        raise ValueError(f"views={views}: expected at least 1, the test view")
    if workers is not None and workers < 1:
        raise ValueError(f"workers={workers}: expected at least 1, or None for one a core")
    tested = Preprocessing(side, named_augmentation(augmentation)).augmentation
    images = images_of(dataset, side)
    file = find_weights(weights)
    home = Path(folder) if folder is not None else cache_folder() / "features"
    spec, where = NetworkSpec(backbone, pooling=pooling, head="none"), torch.device(device)
    of_views: list[Mapping[bytes, Outcome]] = []
    for view in range(views):
        seen = _view(tested, view)
        made_of = (FORMAT_VERSION, file.digest, backbone, pooling, pixels_a_side(dataset, side), sorted(asdict(seen).items()), view)
        place = home / f"{file_name_of(dataset.name)}-{hashlib.sha256(repr(made_of).encode()).hexdigest()[:24]}"
        what = f"features of {dataset.name}" + (f", view {view + 1} of {views}" if views > 1 else "")
        compute = partial(_computed, spec=spec, weights=file.path, augmentation=seen, view=view, device=where, workers=workers)
        of_views.append(_rows(images, place, compute, batch_on(where), what, on_progress))
    return _gathered(dataset.name, images, of_views)


def _view(augmentation: Augmentation, view: int) -> Augmentation:
    """As tested; mirrored; then crops, which the view's number and the image's key decide."""
    if view == 0:
        return augmentation
    if view == 1:
        return replace(augmentation, mirror=1.0)
    return replace(augmentation, crop="resized", cut=None, scale=VIEW_SCALE, mirror=0.5)


def _computed(
    images: Sequence[DatasetImage],
    *,
    spec: NetworkSpec,
    weights: Path,
    augmentation: Augmentation,
    view: int,
    device: torch.device,
    workers: int | None,
) -> Outcomes:
    network = nn.Sequential(make_network(spec, seed=0, weights=weights).members[0], _Only()).eval()
    network = network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    run = make_run(network, size=augmentation.size, device=device)
    thumbnail = make_thumbnail if view == 0 else None
    return streamed(images, run, augmentation, device=device, draw=view, thumbnail=thumbnail, num_threads=workers)


class _Only(nn.Module):
    """The one level that a member without a head gives."""

    def forward(self, levels: tuple[Tensor, ...]) -> Tensor:
        (only,) = levels
        return only


def _rows(
    images: Sequence[DatasetImage],
    place: Path,
    compute: Callable[[Sequence[DatasetImage]], Outcomes],
    batch: int,
    what: str,
    on_progress: ProgressCallback | None,
) -> dict[bytes, Outcome]:
    """The rows of all images: those that lie in the place, the others computed and put there."""
    wanted = {image.key for image in images if not image.fault}
    rows = read_rows(place, wanted)
    if len(rows) == len(wanted):
        return rows
    with _alone(place, what, on_progress):
        rows = read_rows(place, wanted)  # another process may have computed them meanwhile
        missing = list({image.key: image for image in images if not image.fault and image.key not in rows}.values())
        if missing:
            remove_unfinished(place)
            if on_progress is not None:
                on_progress(what, 0, len(missing))
            fresh: dict[bytes, Outcome] = {}
            with closing(compute(missing)) as outcomes, _kept(place, fresh):
                for done, (image, outcome) in enumerate(zip(missing, outcomes, strict=True), 1):
                    fresh[image.key] = rows[image.key] = outcome
                    if len(fresh) == FILE_ROWS:
                        _write(place, fresh)
                    if on_progress is not None and (done % batch == 0 or done == len(missing)):
                        on_progress(what, done, len(missing))
    return rows


@contextmanager
def _alone(place: Path, what: str, on_progress: ProgressCallback | None) -> Iterator[None]:
    with ExitStack() as held:
        try:
            place.mkdir(parents=True, exist_ok=True)
            held.enter_context(locked_telling(place / "lock", f"waiting for another process that computes {what}", on_progress))
        except OSError as fault:
            hint = "give another folder, or set LIKEWISE_CACHE"
            raise OSError(fault.errno, f"no features can be kept here ({fault.strerror}): {hint}", str(place.parent)) from fault
        yield


@contextmanager
def _kept(place: Path, fresh: dict[bytes, Outcome]) -> Iterator[None]:
    """What is fresh in the end is written, also after Ctrl-C or a fault."""
    try:
        yield
    finally:
        if fresh:
            _write(place, fresh)


def _write(place: Path, fresh: dict[bytes, Outcome]) -> None:
    """Rows into a file, and then they are not fresh any more. A file that cannot be read now has no row: it may be readable soon."""
    try:
        kept = {key: row for key, row in fresh.items() if not isinstance(row, Unreadable)}
        fresh.clear()
        if kept:
            write_rows(place, kept)
    except OSError as fault:
        if fault.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        hint = "free some space, or set LIKEWISE_CACHE to a folder on a larger disk; what was written before is kept"
        raise OSError(fault.errno, f"{os.strerror(fault.errno)} for features: {hint}", str(place.parent)) from fault


def _gathered(name: str, images: Sequence[DatasetImage], of_views: Sequence[Mapping[bytes, Outcome]]) -> FrozenFeatures:
    """The rows in the order of the images; an image that any view lacks is left out."""
    indices, jpegs, skipped = [], [], []
    vectors: list[list[npt.NDArray[np.float32]]] = []
    for number, image in enumerate(images):
        outcomes = [image.fault] if image.fault else [rows[image.key] for rows in of_views]
        kept = [outcome for outcome in outcomes if isinstance(outcome, Streamed)]
        if len(kept) == len(of_views):
            indices.append(number)
            jpegs.append(kept[0].thumbnail)
            vectors.append([row.vector for row in kept])
        else:
            skipped.append(Problem(image.path, next(str(outcome) for outcome in outcomes if isinstance(outcome, str))))
    if not indices:
        raise ValueError(f"{name}: none of {len(images)} images can be decoded; the first: {skipped[0]}")
    views = torch.from_numpy(np.array(vectors))
    return FrozenFeatures(views, np.array(indices, dtype=np.int64), tuple(skipped), Thumbnails(tuple(jpegs)))
