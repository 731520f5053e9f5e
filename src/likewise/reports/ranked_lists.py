"""Ranked lists: the same queries for every method, the worst first, then those on which the methods differ most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from likewise.comparison.results import TestItems, Vectors
from likewise.evaluation import nearest, per_query

Array = npt.NDArray[np.int64]
NUM_WORST, NUM_DISPUTED, NUM_NEIGHBOURS = 12, 6, 8
MOST_SCORED = 10_000  # items among which the worst queries are looked for


@dataclass(frozen=True, eq=False)
class RankedLists:
    queries: Array  # (queries,) items
    num_worst: int  # the first of them, the worst first; the others are the most disputed
    precision: npt.NDArray[np.float64]  # (queries,) average precision, the mean over methods
    neighbours: dict[str, Array]  # by method: (queries, NUM_NEIGHBOURS) items, the nearest first
    num_scored: int  # the queries the worst were taken from


def ranked_lists(vectors: Vectors, items: TestItems) -> RankedLists | None:
    """Queries with the lowest average precision, the mean over methods, and with the largest deviation between them, one of each class.

    The worst are often hopeless; where methods differ they can be told apart. None if no query has a match.
    In test sets beyond MOST_SCORED items both are looked for among whole classes of that many items in all. The lists themselves
    are always those of the whole test set.
    """
    labels, separate = items.labels, items.query is not None and items.gallery is not None
    query = items.query if items.query is not None else np.arange(len(labels))
    gallery = items.gallery if items.gallery is not None else np.arange(len(labels))
    scored, among = _whole_classes(labels, query), _whole_classes(labels, gallery)
    precisions, matched = [], np.ones(len(scored), dtype=bool)
    for rows in vectors.values():
        precision = per_query(
            torch.from_numpy(rows[scored]),
            torch.from_numpy(labels[scored]),
            gallery=torch.from_numpy(rows[among]) if separate else None,
            gallery_labels=torch.from_numpy(labels[among]) if separate else None,
            metrics=("mAP",),
        )
        precisions.append(precision.scores["mAP"].numpy())
        matched &= precision.matched.numpy()
    if not matched.any():
        return None
    mean, deviation = np.mean(precisions, axis=0), np.std(precisions, axis=0)
    worst, disputed = (
        _one_a_class([place for place in np.argsort(worth, kind="stable").tolist() if matched[place]], labels[scored])
        for worth in (mean, -deviation)
    )
    worst = worst[:NUM_WORST]
    chosen = worst + [place for place in disputed if place not in worst and deviation[place] > 0][:NUM_DISPUTED]
    queries = scored[chosen]
    # nearest leaves out gallery row i for query i, so the queries stand first in the gallery they belong to
    order = gallery if separate else np.concatenate([queries, np.setdiff1d(gallery, queries)])
    most = min(NUM_NEIGHBOURS, len(order) - (not separate))
    neighbours = {}
    for name, rows in vectors.items():
        index, _ = nearest(torch.from_numpy(rows[queries]), torch.from_numpy(rows[order]), most, exclude_self=not separate)
        neighbours[name] = order[index.numpy()]
    return RankedLists(queries, len(worst), mean[chosen], neighbours, len(scored))


def _whole_classes(labels: Array, items: Array) -> Array:
    """These items; of too many, those of the first classes in an order that chance, always the same, has made."""
    if len(items) <= MOST_SCORED:
        return items
    order = np.random.default_rng(0).permutation(int(labels.max()) + 1)
    place = np.argsort(order)[labels[items]]
    return np.sort(items[np.argsort(place, kind="stable")[:MOST_SCORED]])


def _one_a_class(worst: list[int], labels: Array) -> list[int]:
    """One query of each class in their order, then the others: a class that is hard as a whole shall not fill the page."""
    _, first = np.unique(labels[worst], return_index=True)
    leading = np.sort(first).tolist()
    return [worst[place] for place in [*leading, *np.setdiff1d(np.arange(len(worst)), leading).tolist()]]
