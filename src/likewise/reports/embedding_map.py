"""A map of the test embeddings: the same items for every method, in two dimensions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy.linalg import orthogonal_procrustes
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn

from likewise.comparison.results import MethodResult, Vectors
from likewise.evaluation.threads import for_each
from likewise.formats.numpy_files import read_npy

MOST_ITEMS, MOST_OF_A_CLASS, FEWEST_FOR_TSNE = 600, 20, 20
MOST_PLACES, FEWEST_ITEMS = 4000, 100  # items times methods: t-SNE takes about a millisecond for each
ITERATIONS, ANGLE = 400, 0.8  # of t-SNE: at this size the same picture as 1,000 and 0.5, in a third of the time
PLANE = "plane"  # of EmbeddingMap.kind
MOST_IN_PLANE = 1200  # items: nothing has to be computed for them, but the page holds the pictures of all
GRID = 1000  # places along each side: finer than a screen shows


@dataclass(frozen=True, eq=False)
class EmbeddingMap:
    kind: str  # "t-SNE", "PCA", or PLANE: embeddings of two dimensions as they are
    items: npt.NDArray[np.int64]
    places: dict[str, npt.NDArray[np.int64]]  # by method: (items, 2) in 0 .. GRID


def choose_items(labels: npt.NDArray[np.int64], *, num_methods: int = 1, seed: int = 0) -> npt.NDArray[np.int64]:
    """Whole classes, drawn at random, up to MOST_ITEMS items in all and MOST_OF_A_CLASS of each; fewer of both for many methods.

    Few classes with all their items show more than all classes with an item each: what a map tells is whether like lies by like.
    """
    random = np.random.default_rng(seed)
    chosen: list[npt.NDArray[np.int64]] = []
    room = min(MOST_ITEMS, max(FEWEST_ITEMS, MOST_PLACES // num_methods))
    most_of_a_class = MOST_OF_A_CLASS if 2 * room >= MOST_ITEMS else MOST_OF_A_CLASS // 2
    for label in random.permutation(np.unique(labels)).tolist():
        members = random.permutation(np.flatnonzero(labels == label))[:most_of_a_class]
        if len(members) > room:
            break
        chosen.append(members)
        room -= len(members)
    return np.sort(np.concatenate(chosen))


def embedding_map(methods: list[MethodResult], vectors: Vectors, labels: npt.NDArray[np.int64]) -> EmbeddingMap:
    """One map a method. The later ones are turned and mirrored to lie as the first one does, which changes no distance in them.

    Each by one thread: t-SNE's sums depend on the number of threads, and the same results must give the same page.
    """
    if all(method.planes for method in methods):
        return _plane_map(methods, labels)
    items = choose_items(labels, num_methods=len(methods))
    kind = "t-SNE" if len(items) >= FEWEST_FOR_TSNE else "PCA"
    places: dict[str, npt.NDArray[np.int64]] = {}
    first: npt.NDArray[np.float64] | None = None
    flats: dict[str, npt.NDArray[np.float64]] = {}

    def flatten(method: MethodResult) -> None:
        with threadpool_limits(1, user_api="openmp"):  # OpenMP's number of threads is each thread's own
            flats[method.name] = _flat(vectors[method.name][items], kind)

    with threadpool_limits(1):
        for_each(flatten, methods, torch.device("cpu"))
    for method in methods:
        flat = flats[method.name] - flats[method.name].mean(axis=0)
        if first is None:
            first = flat
        else:
            flat = flat @ orthogonal_procrustes(flat, first)[0]
        places[method.name] = _on_grid(flat)
    return EmbeddingMap(kind, items, places)


def _plane_map(methods: list[MethodResult], labels: npt.NDArray[np.int64]) -> EmbeddingMap:
    """What the networks give, neither turned nor brought to length 1: the same items, drawn at random, for every method."""
    room = min(MOST_IN_PLANE, max(FEWEST_ITEMS, MOST_PLACES // len(methods)))
    items = np.sort(np.random.default_rng(0).permutation(len(labels))[:room])
    planes = {method.name: read_npy(method.planes[0])[items] for method in methods}
    return EmbeddingMap(PLANE, items, {name: _on_grid(np.nan_to_num(flat).astype(np.float64)) for name, flat in planes.items()})


def _flat(vectors: npt.NDArray[np.float32], kind: str) -> npt.NDArray[np.float64]:
    if not np.ptp(vectors, axis=0).any():  # a collapsed embedding is one point
        return np.zeros((len(vectors), 2))
    if kind == "PCA":
        flat = PCA(min(2, *vectors.shape), svd_solver="full").fit_transform(vectors)
        return np.pad(flat, ((0, 0), (0, 2 - flat.shape[1]))).astype(np.float64)
    if vectors.shape[1] > 50:
        vectors = PCA(min(50, len(vectors)), svd_solver="full").fit_transform(vectors)
    initial = "pca" if vectors.shape[1] >= 2 else "random"
    perplexity = min(20.0, (len(vectors) - 1) / 3)
    flat = TSNE(init=initial, perplexity=perplexity, max_iter=ITERATIONS, angle=ANGLE, random_state=0, n_jobs=1).fit_transform(vectors)
    return np.asarray(flat, dtype=np.float64)


def _on_grid(flat: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Both axes on one scale, in the middle of the square."""
    low, high = flat.min(axis=0), flat.max(axis=0)
    span = max(float((high - low).max()), 1e-12)
    places: npt.NDArray[np.int64] = np.rint(GRID * ((flat - (low + high) / 2) / span + 0.5)).clip(0, GRID).astype(np.int64)
    return places
