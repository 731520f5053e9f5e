"""Recall target: how hard an approximate search has to try, measured against exact search among the same items.

Recall at k is the share of the k items it finds that belong to the true k nearest. Items as near as the true k-th count as such: copies of
an image may stand for each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from likewise.search.vector_store import Ids, Vectors
from likewise.wording import percent

RECALL_AT = 10
NUM_QUERIES = 1000  # which tell a recall of 0.95 to about 0.004
ONE_SIDED = 1.64  # standard errors: other queries fall short of the target in one case of twenty
ROUNDING = 4e-6  # of a similarity in float32
Similarities = npt.NDArray[np.float32]


@dataclass(frozen=True)
class ReachedRecall:
    """What was asked for, the effort that reached it (efSearch, nprobe) or the largest there is, and the recall it has."""

    target: float
    reached: float
    effort: int
    num_items: int  # when it was measured
    num_queries: int

    @property
    def words(self) -> str:
        found = f"finds {percent(self.reached, digits=1)} % of the {RECALL_AT} nearest"
        asked = f"{percent(self.target, digits=1)} % {'were' if self.reached >= self.target else 'NOT reached, though'} asked for"
        return f"{found} ({asked}; measured with {self.num_queries:,} held-out items against exact search among {self.num_items:,} items)"


def checked_target(recall: float) -> float:
    if not 0 < recall <= 1:
        raise ValueError(f"recall is {recall}: expected a share above 0 and at most 1, such as 0.95")
    return float(recall)


def drawn_queries(ids: Ids) -> Ids:
    """Some of the ids, the same ones every time, counting up. They are to be left out of the index that is measured with them: it finds the
    neighbours of what is in it more easily than those of a new image.
    """
    drawn = np.random.default_rng(0).choice(len(ids), size=min(NUM_QUERIES, len(ids) // 10), replace=False)
    return ids[np.sort(drawn)]


def kth_similarities(blocks: Iterable[Vectors], queries: Vectors, k: int = RECALL_AT) -> Similarities:
    """(Q,): the similarity of the k-th nearest of all vectors to each query."""
    best = np.full((len(queries), k), -np.inf, dtype=np.float32)
    for vectors in blocks:
        joined = np.concatenate([best, unit(queries) @ unit(vectors).T], axis=1)
        best = np.partition(joined, joined.shape[1] - k, axis=1)[:, -k:]
    return np.asarray(best.min(axis=1))


def unit(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def recalls(found: Similarities, kth: Similarities) -> npt.NDArray[np.float64]:
    """(Q,): of each query the share of the found (Q, k) that are as near as the true k-th."""
    return np.asarray((found >= kth[:, None] - ROUNDING).mean(axis=1))


def reach_recall(
    target: float, efforts: Iterable[int], found_with: Callable[[int], Similarities], kth: Similarities, num_items: int
) -> ReachedRecall:
    """The first of the efforts, which count up, whose search reaches the target; else the last of them.

    Reached is a target by the lower end of the interval for other queries.
    """
    effort, reached = 0, 0.0
    for effort in efforts:
        of_queries = recalls(found_with(effort), kth)
        reached = float(of_queries.mean())
        if reached - ONE_SIDED * of_queries.std() / math.sqrt(len(of_queries)) >= target:
            break
    return ReachedRecall(target, reached, effort, num_items, len(kth))
