"""Ranked lists: the same queries for every method, typical ones first, then those on which the methods differ most, then the worst."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from likewise.comparison.results import TestItems, Vectors
from likewise.evaluation import nearest, per_query

Array = npt.NDArray[np.int64]
NUM_OF_A_KIND, NUM_NEIGHBOURS = 6, 8
MOST_SCORED = 10_000  # items among which queries are chosen


@dataclass(frozen=True, eq=False)
class RankedLists:
    queries: Array  # (queries,) items
    kinds: dict[str, int]  # "typical", "most disputed", "worst": how many of each there are, in the order of the queries
    precision: npt.NDArray[np.float64]  # (queries,) average precision, the mean over methods
    neighbours: dict[str, Array]  # by method: (queries, NUM_NEIGHBOURS) items, the nearest first
    num_scored: int  # the queries they were chosen from


def ranked_lists(vectors: Vectors, items: TestItems, *, metric: str = "cosine") -> RankedLists | None:
    """Queries by their average precision, the mean over methods: nearest to the median, with the largest deviation, and lowest.

    Of each kind one a class. What is usual comes first; where methods differ they can be told apart; the worst are often hopeless. None if
    no query has a match. In test sets beyond MOST_SCORED items they are chosen among whole classes of that many items in all. The lists
    themselves are always those of the whole test set. metric: how the protocol compares.
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
            metric=metric,
        )
        precisions.append(precision.scores["mAP"].numpy())
        matched &= precision.matched.numpy()
    if not matched.any():
        return None
    mean, deviation = np.mean(precisions, axis=0), np.std(precisions, axis=0)
    orders = {"typical": np.abs(mean - np.median(mean[matched])), "most disputed": -deviation, "worst": mean}
    chosen: list[int] = []
    kinds: dict[str, int] = {}
    for kind, order in orders.items():
        places = _one_a_class([place for place in np.argsort(order, kind="stable").tolist() if matched[place]], labels[scored])
        found = [place for place in places if place not in chosen and (kind != "most disputed" or deviation[place] > 0)][:NUM_OF_A_KIND]
        kinds |= {kind: len(found)} if found else {}
        chosen += found
    queries = scored[chosen]
    # nearest leaves out gallery row i for query i, so the queries stand first in the gallery they belong to
    searched = gallery if separate else np.concatenate([queries, np.setdiff1d(gallery, queries)])
    most = min(NUM_NEIGHBOURS, len(searched) - (not separate))
    neighbours = {}
    for name, rows in vectors.items():
        index, _ = nearest(
            torch.from_numpy(rows[queries]), torch.from_numpy(rows[searched]), most, metric=metric, exclude_self=not separate
        )
        neighbours[name] = searched[index.numpy()]
    return RankedLists(queries, kinds, mean[chosen], neighbours, len(scored))


def _whole_classes(labels: Array, items: Array) -> Array:
    """These items; of too many, those of the first classes in an order that chance, always the same, has made."""
    if len(items) <= MOST_SCORED:
        return items
    order = np.random.default_rng(0).permutation(int(labels.max()) + 1)
    place = np.argsort(order)[labels[items]]
    return np.sort(items[np.argsort(place, kind="stable")[:MOST_SCORED]])


def _one_a_class(places: list[int], labels: Array) -> list[int]:
    """One query of each class in their order, then the others: a class that is hard as a whole shall not fill the page."""
    _, first = np.unique(labels[places], return_index=True)
    leading = np.sort(first).tolist()
    return [places[place] for place in [*leading, *np.setdiff1d(np.arange(len(places)), leading).tolist()]]
