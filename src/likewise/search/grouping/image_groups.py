"""Image groups: the images of an index in groups that are alike, by k-means or by average linkage at a threshold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from sklearn.metrics import normalized_mutual_info_score

from likewise.evaluation.clustering import adjusted_mutual_information
from likewise.evaluation.kmeans import kmeans
from likewise.evaluation.linkage import average_linkage
from likewise.progress import ProgressCallback
from likewise.search.grouping.near_copies import GroupedImage, grouped_images
from likewise.search.index import Index, Where
from likewise.search.vector_store import Ids, Vectors
from likewise.wording import count_of

RESTARTS = 3


@dataclass(frozen=True)
class ImageGroup:
    """Images that are alike, the most typical first. An image's similarity is that to the middle of the group."""

    images: tuple[GroupedImage, ...]
    similarity: float  # the mean over its pairs; 1 for a single image

    @property
    def labels(self) -> dict[str, int]:
        """Classes of its images and how many are of each, the most first; without those that have none."""
        counts: dict[str, int] = {}
        for image in self.images:
            if image.label is not None:
                counts[image.label] = counts.get(image.label, 0) + 1
        return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


@dataclass(frozen=True)
class ImageGroups:
    """Made by `group_images`, the largest first."""

    groups: tuple[ImageGroup, ...]
    num_images: int
    threshold: float | None  # of linkage; None: k-means
    scores: dict[str, float]  # NMI and AMI with the classes, where there are some
    notes: tuple[str, ...]

    @property
    def num_single(self) -> int:
        """Images that are alone in their group."""
        return sum(len(group.images) == 1 for group in self.groups)


def group_images(
    index: Index,
    *,
    k: int | None = None,
    similarity: float | None = None,
    where: Where = (),
    seed: int = 0,
    on_progress: ProgressCallback | None = None,
) -> ImageGroups:
    """The images of the index that fulfil the conditions, in groups.

    k           so many groups, by k-means.
    similarity  else by average linkage (see evaluation/linkage.py): groups are joined while their images are this alike in the mean. None:
                the threshold for "one class" of the model's calibration.
    """
    if k is not None and similarity is not None:
        raise ValueError(f"k is {k} and similarity is {similarity}: give one of them; k is for k-means, similarity for linkage")
    if similarity is not None and not -1 <= similarity <= 1:
        raise ValueError(f"similarity is {similarity}: expected a number from -1 to 1, such as 0.6")
    notes = []
    if k is None and similarity is None:
        if index.calibration is None:
            raise ValueError(
                "the model of this index is not calibrated, so that it is not known from where on images are of one class: give a "
                "similarity, or k for k-means, or run `likewise calibrate` first"
            )
        similarity = index.calibration.same.value
        notes.append(f"images are joined from a mean similarity of {similarity:.3f} on, from where the model takes two for one class")
    index.store.refresh()
    parts = list(index.store.blocks(where=index.filter(where)))
    if not parts:
        raise ValueError("no image fulfils the conditions: there is nothing to group")
    ids, vectors = np.concatenate([ids for ids, _ in parts]), np.concatenate([vectors for _, vectors in parts])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
    rows = torch.from_numpy(vectors).to(index.device)
    if k is not None:
        if not 1 <= k <= len(ids):
            raise ValueError(f"k is {k}: expected from 1 to {len(ids):,}, the number of images")
        found = kmeans(rows, k, seed=seed, restarts=RESTARTS, on_restart=_restarts(on_progress)).assignment
    else:
        assert similarity is not None
        found = average_linkage(rows, similarity, on_progress=on_progress)
    groups = found.cpu().numpy()
    items = index.store.items(ids.tolist())
    named = [(item.path, item.label) for item in items]
    scores, lacking = _scores(groups, [item.label for item in items])
    return ImageGroups(_sorted(groups, ids, vectors, named), len(ids), similarity, scores, (*notes, *lacking))


def _restarts(on_progress: ProgressCallback | None) -> Callable[[int], None] | None:
    return None if on_progress is None else lambda done: on_progress("k-means", done, RESTARTS)


def _sorted(groups: npt.NDArray[np.int64], ids: Ids, vectors: Vectors, named: list[tuple[str, str | None]]) -> tuple[ImageGroup, ...]:
    """The largest first, and in each the most typical image first."""
    order = np.argsort(groups, kind="stable")
    found = []
    for members in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        total = vectors[members].astype(np.float64).sum(axis=0)
        length = float(np.linalg.norm(total))
        to_middle = np.asarray(vectors[members] @ (total / max(length, 1e-12)).astype(np.float32))
        typical = members[np.argsort(-to_middle, kind="stable")]
        to_middle = np.minimum(np.sort(to_middle)[::-1], 1.0)
        count = len(members)
        within = (length**2 - count) / (count * (count - 1)) if count > 1 else 1.0
        found.append(ImageGroup(grouped_images(ids[typical], [named[place] for place in typical.tolist()], to_middle), within))
    return tuple(sorted(found, key=lambda group: (-len(group.images), group.images[0].id)))


def _scores(groups: npt.NDArray[np.int64], labels: list[str | None]) -> tuple[dict[str, float], list[str]]:
    """How well the groups are the classes, of the images that have one."""
    has_one = np.array([label is not None for label in labels])
    if not has_one.any():
        return {}, []
    codes = np.unique(np.array([label for label in labels if label is not None]), return_inverse=True)[1]
    if codes.max() == 0:
        return {}, ["all labelled images are of one class: there is nothing to compare the groups with"]
    found = groups[has_one]
    scores = {"NMI": float(normalized_mutual_info_score(codes, found)), "AMI": adjusted_mutual_information(codes, found)}
    lacking = int((~has_one).sum())
    return scores, [f"{count_of(lacking, 'image has', 'images have')} no class and are left out of NMI and AMI"] if lacking else []
