"""Average linkage at a threshold: groups of vectors that are joined while they are, in the mean over their pairs, alike enough.

Two groups A and B are as alike as the mean cosine similarity of their pairs, s(A, B) = m_A . m_B with m the mean of a group's unit vectors.
The two that are most alike are joined, again and again, while s >= the threshold (UPGMA; Sokal and Michener, 1958). Unlike connected
components this does not chain: what joins two groups is all of both, not two items that happen to be near.

No matrix of all pairs is held. Two facts make that exact and quick:
- s(A + B, C) <= max(s(A, C), s(B, C)). So two groups that are each other's nearest will be joined whatever happens elsewhere, and all such
  pairs are joined at once; and a group whose nearest is below the threshold is finished.
- For the same reason a group's nearest is among the few that were nearest to it when all were last looked at, and those made since: each
  group keeps such a list, and a bound for what is not on it. All are looked at again only if the best that is left is below the bound.
"""

from __future__ import annotations

import torch
from torch import Tensor

from likewise.evaluation.similarity import full_float32
from likewise.progress import ProgressCallback

LISTED = 8  # nearest groups that are kept for each
BLOCK = 1 << 24  # similarities at once


def average_linkage(vectors: Tensor, threshold: float, *, on_progress: ProgressCallback | None = None) -> Tensor:
    """(items,) int64: the group of each unit vector (items, width), numbered by their first items. On the vectors' device."""
    if len(vectors) == 0:
        return torch.zeros(0, dtype=torch.int64)
    distinct, copy_of = _distinct(vectors)
    with full_float32():
        joined = _Joining(vectors[distinct].float(), torch.bincount(copy_of), threshold).run(on_progress)
    groups: Tensor = torch.unique(joined[copy_of], return_inverse=True)[1]  # joined to first items, so that numbers are in their order
    return groups


def _distinct(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """The first of each set of equal vectors, and for each vector which of these it equals: equal ones tie with each other endlessly."""
    first: dict[bytes, int] = {}
    copy_of = [first.setdefault(row.tobytes(), len(first)) for row in vectors.cpu().numpy()]
    of = torch.tensor(copy_of, device=vectors.device)
    distinct = torch.full((len(first),), len(vectors), dtype=torch.int64, device=vectors.device)
    return distinct.scatter_reduce(0, of, torch.arange(len(vectors), device=vectors.device), "amin"), of


class _Joining:
    """Groups, each under the number of its first vector."""

    def __init__(self, means: Tensor, sizes: Tensor, threshold: float) -> None:
        count = len(means)
        self.means, self.sizes, self.threshold = means, sizes.to(means), threshold
        self.is_open = torch.ones(count, dtype=torch.bool, device=means.device)  # neither joined to another nor finished
        self.version = torch.zeros(count, dtype=torch.int64, device=means.device)  # goes up when the group grows
        self.parent = torch.arange(count, device=means.device)
        listed = min(LISTED, max(1, count - 1))
        self.near = torch.zeros(count, listed, dtype=torch.int64, device=means.device)
        self.near_version = torch.full_like(self.near, -1)
        self.similarity = torch.full_like(self.near, -torch.inf, dtype=torch.float32)
        self.bound = torch.full((count,), -torch.inf, device=means.device)  # no group that is not on the list is nearer

    def run(self, on_progress: ProgressCallback | None) -> Tensor:
        """(groups at first,): the number of the group that each is part of in the end."""
        total = len(self.means)
        self._look(torch.arange(total, device=self.means.device), on_progress)
        while bool(self.is_open.any()):
            best, nearest = self._nearest()
            self.is_open &= best >= self.threshold
            pairs = self._mutual(best, nearest)
            if pairs is not None:
                self._join(*pairs)
            if on_progress is not None:
                on_progress("joining groups", total - int(self.is_open.sum()), total)
        while bool((self.parent[self.parent] != self.parent).any()):
            self.parent = self.parent[self.parent]
        return self.parent

    def _nearest(self) -> tuple[Tensor, Tensor]:
        """The similarity of each open group to its nearest, and which that is; -inf where none reaches the threshold."""
        while True:
            is_there = self.is_open[self.near] & (self.version[self.near] == self.near_version)
            best, at = self.similarity.masked_fill(~is_there, -torch.inf).max(dim=1)
            unsure = (self.is_open & (best < self.bound) & (self.bound >= self.threshold)).nonzero().flatten()
            if not len(unsure):
                return best.masked_fill(~self.is_open, -torch.inf), self.near.gather(1, at[:, None])[:, 0]
            self._look(unsure, None)

    def _mutual(self, best: Tensor, nearest: Tensor) -> tuple[Tensor, Tensor] | None:
        """Pairs that are each other's nearest, the lower number first; None where nothing is open any more."""
        number = torch.arange(len(best), device=best.device)
        first = (self.is_open & self.is_open[nearest] & (nearest[nearest] == number) & (number < nearest)).nonzero().flatten()
        if len(first):
            return first, nearest[first]
        if not bool(self.is_open.any()):
            return None
        most = best.argmax()[None]  # rounding made a ring of equals: the most alike of all are a pair
        return torch.minimum(most, nearest[most]), torch.maximum(most, nearest[most])

    def _join(self, first: Tensor, second: Tensor) -> None:
        sizes = self.sizes[first] + self.sizes[second]
        sums = self.means[first] * self.sizes[first, None] + self.means[second] * self.sizes[second, None]
        self.means[first], self.sizes[first] = sums / sizes[:, None], sizes
        self.parent[second] = first
        self.is_open[second] = False
        self.version[first] += 1
        for part in first.split(max(1, BLOCK // len(self.means))):
            similarities = self._similarities(part)
            self._list(part, similarities)
            self._tell(part, similarities)

    def _similarities(self, groups: Tensor) -> Tensor:
        """(groups, all), -inf to itself and to what is not open."""
        similarities = self.means[groups] @ self.means.T
        similarities[:, ~self.is_open] = -torch.inf
        similarities[torch.arange(len(groups), device=groups.device), groups] = -torch.inf
        return similarities

    def _look(self, groups: Tensor, on_progress: ProgressCallback | None) -> None:
        """Lists the nearest of these groups anew, among all."""
        done = 0
        for part in groups.split(max(1, BLOCK // len(self.means))):
            self._list(part, self._similarities(part))
            done += len(part)
            if on_progress is not None:
                on_progress("comparing", done, len(groups))

    def _list(self, groups: Tensor, similarities: Tensor) -> None:
        self.similarity[groups], self.near[groups] = similarities.topk(self.near.shape[1], dim=1)
        self.near_version[groups] = self.version[self.near[groups]]
        self.bound[groups] = self.similarity[groups, -1]

    def _tell(self, made: Tensor, similarities: Tensor) -> None:
        """Puts groups just made, (made, all) alike, on the lists of those that they are near to."""
        nearest = similarities.max(dim=0).values
        told = (self.is_open & (nearest >= self.bound) & (nearest >= self.threshold)).nonzero().flatten()
        listed = self.near.shape[1]
        for part in told.split(max(1, BLOCK // (listed + len(made)))):
            is_there = self.is_open[self.near[part]] & (self.version[self.near[part]] == self.near_version[part])
            known = self.similarity[part].masked_fill(~is_there, -torch.inf)
            both = torch.cat([known, similarities[:, part].T], dim=1)
            near = torch.cat([self.near[part], made.expand(len(part), -1)], dim=1)
            best, at = both.topk(listed + 1, dim=1)
            self.similarity[part], self.near[part] = best[:, :-1], near.gather(1, at[:, :-1])
            self.near_version[part] = self.version[self.near[part]]
            self.bound[part] = torch.maximum(self.bound[part], best[:, -1])
