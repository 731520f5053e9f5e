"""Ranks of all positives of a query at once, by sorting its row: for queries with many positives, however many these are.

A row holds how far every gallery item is, in float64, with the items class by class, so that the positives are one run of columns. The
lowest bit of each number says whether it is a positive; one sort of plain numbers then gives the ranks, and nothing has to be carried
along. Positives and negatives that lie nearer to each other than rounding allows are put into order by exact similarities, in a second
look at these rows. What is held at once is some rows, never a place for every pair of a class.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from likewise.evaluation.ranks.positives import Classes, Duplicates, PositiveRanks
from likewise.evaluation.similarity import PairwiseSimilarity
from likewise.evaluation.threads import for_each

# Numbers of 8 bytes at once in each thread: of rows, and of the part of them that is sorted and scored while it is in the cache.
ROWS_AT_ONCE_CPU, ROWS_AT_ONCE_CUDA = 1 << 22, 1 << 26
SORTED_AT_ONCE_CPU, SORTED_AT_ONCE_CUDA = 1 << 18, 1 << 24

Take = Callable[[PositiveRanks], None]


@dataclass(frozen=True)
class WholeRows:
    pairwise: PairwiseSimilarity
    exclude_self: bool
    duplicates: Duplicates
    classes: Classes
    query_codes: Tensor  # (Q,)

    def each(self, rows: Tensor, take: Take) -> None:
        """Hands over the ranks of the positives of some queries, a few queries at a time and in threads; all have a positive."""
        rows = rows[self.query_codes[rows].argsort(stable=True)]
        at_once = max(1, (ROWS_AT_ONCE_CUDA if rows.is_cuda else ROWS_AT_ONCE_CPU) // len(self.pairwise.gallery))
        _ = self._place, self.pairwise.slack(torch.float64)  # made now, not by each thread
        for_each(lambda part: self._sorted(part, take), torch.split(rows, at_once), rows.device)

    def _sorted(self, rows: Tensor, take: Take) -> None:
        """Queries in the order of their classes."""
        unclear = []
        farness = self._farness(rows)
        most = max(1, (SORTED_AT_ONCE_CUDA if rows.is_cuda else SORTED_AT_ONCE_CPU) // farness.shape[1])
        codes, counts = torch.unique_consecutive(self.query_codes[rows], return_counts=True)
        of_classes = zip(codes.tolist(), torch.split(rows, counts.tolist()), torch.split(farness, counts.tolist()), strict=True)
        for code, of_class, their_farness in of_classes:
            for some, part in zip(torch.split(of_class, most), torch.split(their_farness, most), strict=True):
                is_positive = self._sort(some, part, code)
                rank = is_positive.nonzero()[:, 1].view(len(some), -1) + 1
                is_near = part.diff(dim=1) <= self._nearer_than(some)[:, None]
                is_unclear = (is_near & (is_positive[:, 1:] != is_positive[:, :-1])).any(dim=1)
                if bool(is_unclear.any()):
                    unclear.append(some[is_unclear])
                    some, rank = some[~is_unclear], rank[~is_unclear]
                if len(some):
                    take(PositiveRanks(some, torch.full_like(some, rank.shape[1]), rank))
        del farness, of_classes
        if unclear:
            again = torch.cat(unclear)
            for row, farness_of_row in zip(again, self._farness(again), strict=True):
                rank = self._settled(row, farness_of_row)
                take(PositiveRanks(row[None], torch.full_like(row[None], len(rank)), rank[None]))

    def _farness(self, rows: Tensor) -> Tensor:
        """(n, G) float64: the gallery class by class, nearer is smaller, the query itself at infinity."""
        farness = self.pairwise.block(rows, self.classes.gallery_order, dtype=torch.float64).neg_()
        if self.exclude_self:
            farness[torch.arange(len(rows), device=rows.device), self._place[rows]] = torch.inf
        return farness

    @cached_property
    def _place(self) -> Tensor:
        """(G,) the column of each gallery item."""
        place = torch.empty_like(self.classes.gallery_order)
        place[self.classes.gallery_order] = torch.arange(len(place), device=place.device)
        return place

    def _columns(self, code: int) -> slice:
        start = int(self.classes.gallery_start[code])
        return slice(start, start + int(self.classes.gallery_count[code]))

    def _nearer_than(self, rows: Tensor) -> Tensor:
        """(n,) what rounding may have put into the wrong order: both products, and the bit that was taken from either."""
        return 2.25 * self.pairwise.slack(torch.float64)[rows]

    def _sort(self, rows: Tensor, farness: Tensor, code: int) -> Tensor:
        """Sorts every row in place; (n, G) whether what is there now is a positive."""
        columns = self._columns(code)
        bits = farness.view(torch.int64)
        bits.bitwise_and_(-2)
        bits[:, columns].bitwise_or_(1)
        if self.exclude_self:
            farness[torch.arange(len(rows), device=rows.device), self._place[rows]] = torch.inf
        sort_rows(farness)
        return bits.bitwise_and(1).bool()

    def _settled(self, row: Tensor, farness: Tensor) -> Tensor:
        """(R,) ranks of one query's positives: items in runs of near ties that hold positives and negatives are compared exactly."""
        order = order_of(farness)
        item = self.classes.gallery_order[order]
        columns = self._columns(int(self.query_codes[row]))
        is_positive = (order >= columns.start) & (order < columns.stop)
        if self.exclude_self:
            is_positive &= item != row
        is_far = farness[order].diff() > self._nearer_than(row[None])
        run = torch.nn.functional.pad(is_far.cumsum(0), (1, 0))
        positives = torch.bincount(run[is_positive], minlength=int(run[-1]) + 1)
        is_mixed = (positives > 0) & (positives < torch.bincount(run))
        at = is_mixed[run].nonzero().flatten()
        item, run, mixed = item[at], run[at], is_positive[at]
        vector, of = torch.unique(self.duplicates.code[item], return_inverse=True)
        similarity = self.pairwise.exact(row.expand(len(vector)), vector)[of]
        by = item.argsort()
        by = by[similarity[by].sort(descending=True, stable=True).indices]
        by = by[run[by].sort(stable=True).indices]
        is_positive[at] = mixed[by]
        ranks: Tensor = is_positive.nonzero().flatten() + 1
        return ranks


def sort_rows(numbers: Tensor) -> None:
    """Every row in rising order, in place; on the CPU by numpy, which sorts with vector instructions where torch does not."""
    if numbers.is_cuda:
        numbers.copy_(numbers.sort(dim=1).values)
    else:
        numbers.numpy().sort(axis=1)


def order_of(numbers: Tensor) -> Tensor:
    """(n,) what sorts one row."""
    return numbers.argsort() if numbers.is_cuda else torch.from_numpy(numbers.numpy().argsort())
