"""The rank of every positive in the whole ranking of its query, without sorting it.

    rank(q, p) = 1 + #{g : s(q, g) > s(q, p)} + #{g < p : s(q, g) = s(q, p)}        (g over the gallery without q itself)

R@K, R-precision, MAP@R and mAP all follow from these ranks, so one pass of counting over blocks of similarities serves them all. A block's
similarity is within `slack` of the truth: what lies above the band s(q, p) +- slack is counted, and what lies in it beside p is listed and
decided by exact similarities. Queries with too many of these (collapsed embeddings) are compared again in float64.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from likewise.evaluation.nearest import (
    MIRRORED_SIDE,
    MOST_AT_ONCE,
    MOST_COLUMNS,
    SPARE_CANDIDATES,
    Candidates,
    all_similarities,
    drop_self,
    mirrored_blocks,
    order_candidates,
    search_exact,
    worth_mirroring,
)
from likewise.evaluation.ranks.band_counts import BandCounts
from likewise.evaluation.ranks.positives import Classes, Positives
from likewise.evaluation.similarity import PairwiseSimilarity
from likewise.evaluation.threads import for_each

# More positives than this a query, and sorting a row is cheaper than one comparison of the row for each.
MOST_COUNTED = 64
# More than this, and where only ranks up to R matter the R nearest are cheaper.
FEW_POSITIVES = 12


@dataclass(frozen=True)
class Wanted:
    """Which ranks have to be exact: that of the best positive up to best_cap, those of the others up to R, or all."""

    best_cap: int
    others: bool
    all: bool

    def caps(self, pairwise: PairwiseSimilarity, positives: Positives) -> Tensor | None:
        """(slots, n) largest rank of interest; None: every rank."""
        if self.all:
            return None
        caps = (positives.count * int(self.others)).expand(len(positives.index), -1)
        tie = 2 * pairwise.slack(torch.float64)[positives.rows]
        may_be_best = (positives.similarity >= positives.similarity[0] - tie) & (positives.index >= 0)
        return torch.where(may_be_best, caps.clamp(min=self.best_cap), caps)


@dataclass(frozen=True)
class Duplicates:
    """Exact copies within the gallery: they tie with each other for every query, so their order is known without any similarity."""

    code: Tensor  # (G,) the lowest index with the same row
    size: Tensor  # (G,) how many such rows there are
    before: Tensor  # (G,) how many of them have a lower index

    @classmethod
    def of(cls, gallery: Tensor) -> "Duplicates":
        num, device = len(gallery), gallery.device
        generator = torch.Generator().manual_seed(0)
        words = gallery.shape[1] * gallery.element_size() // 4
        weights = torch.randint(-(2**62), 2**62, (words,), generator=generator).to(device)
        # + 0.0: minus zero is zero
        hashes = torch.cat([((part + 0.0).view(torch.int32) * weights).sum(dim=1) for part in torch.split(gallery, 1 << 12)])
        inverse = torch.unique(hashes, return_inverse=True)[1]
        first = torch.full((num,), num, dtype=torch.int64, device=device)
        first.scatter_reduce_(0, inverse, torch.arange(num, device=device), "amin")
        code = first[inverse]
        same = torch.cat(
            [(a == gallery[b]).all(dim=1) for a, b in zip(torch.split(gallery, 1 << 12), torch.split(code, 1 << 12), strict=True)]
        )
        code = torch.where(same, code, torch.arange(num, device=device))  # equal hashes of unequal rows
        size = torch.bincount(code, minlength=num)[code]
        order = torch.argsort(code, stable=True)
        start = torch.searchsorted(code[order], code)
        before = torch.empty_like(code)
        before[order] = torch.arange(num, device=device)
        return cls(code, size, before - start)


@dataclass(frozen=True)
class PositiveRanks:
    """Ranks of the positives of some queries, in rising order; missing ones and those beyond interest are larger than any of interest."""

    rows: Tensor  # (n,) query indices
    count: Tensor  # (n,) R
    rank: Tensor  # (n, slots) int64


@dataclass(frozen=True)
class RankCounter:
    pairwise: PairwiseSimilarity
    exclude_self: bool
    wanted: Wanted
    duplicates: Duplicates
    block_rows: int
    block_columns: int
    symmetric: bool

    def ranks(self, query_codes: Tensor, gallery_codes: Tensor) -> Iterator[PositiveRanks]:
        classes = Classes.of(query_codes, gallery_codes)
        best_only = not (self.wanted.others or self.wanted.all)
        num_positives = classes.gallery_count - int(self.exclude_self)
        has_some = (classes.query_count > 0) & (num_positives > 0)
        by_neighbours = not self.wanted.all and len(self.pairwise.gallery) <= MOST_COLUMNS
        few = num_positives <= FEW_POSITIVES
        mostly_few = float((classes.query_count * (has_some & few)).sum()) > 0.6 * float((classes.query_count * has_some).sum())
        is_counted = num_positives <= (FEW_POSITIVES if by_neighbours and not mostly_few else MOST_COUNTED)
        if best_only:
            is_counted = torch.ones_like(has_some)
        most_pairs = 1 << (20 if self.pairwise.queries.is_cuda else 15)
        counted = list(classes.groups((has_some & is_counted).nonzero().flatten(), most_pairs))
        if counted:
            yield self._count(Positives.of(self.pairwise, counted, self.exclude_self, best_only))
        if by_neighbours:
            many = list(classes.groups((has_some & ~is_counted).nonzero().flatten(), most_pairs))
            if many:
                yield from self._by_neighbours(Positives.of(self.pairwise, many, self.exclude_self, True), query_codes, gallery_codes)
            return
        for group in classes.groups((has_some & ~is_counted).nonzero().flatten(), 4 * self.block_rows * MOST_COUNTED):
            positives = Positives.of(self.pairwise, [group], self.exclude_self, best_only)
            caps = self.wanted.caps(self.pairwise, positives)
            for part in torch.split(torch.arange(len(positives.rows), device=positives.rows.device), self._rows_in_float64()):
                yield self._finish(positives, caps, part, self._in_float64(positives, caps, part))

    def _by_neighbours(self, best: Positives, query_codes: Tensor, gallery_codes: Tensor) -> Iterator[PositiveRanks]:
        """Ranks up to R from the R nearest, that of the best positive by counting: for many positives, of which only these ranks matter."""
        pairwise, num_items = self.pairwise, len(self.pairwise.gallery)
        available = num_items - int(self.exclude_self)
        mirrored = self._is_mirrored(best) and worth_mirroring(pairwise, len(pairwise.queries), int(best.count.max()))
        best = (best.for_all_queries(len(pairwise.queries)) if mirrored else best).most_first()
        caps = self.wanted.caps(pairwise, best)
        counts = self._band(best, best.count.clamp(max=1), caps, mirrored)
        at_once = mirrored and num_items <= MOST_AT_ONCE and self.block_columns >= 1024
        side = self.block_rows if self.block_rows < 1024 else MIRRORED_SIDE
        blocks = _blocks(len(best.rows), self._whole_rows() if at_once or not mirrored else side)
        most = [int(best.count[rows].max()) for rows in blocks]
        candidates = {rows.start: Candidates(min(num + SPARE_CANDIDATES, available)) for rows, num in zip(blocks, most, strict=True)}

        def take(rows: slice, columns: slice, similarities: Tensor) -> None:
            counts.add(similarities, rows, columns.start)
            candidates[rows.start].add(similarities, columns.start)

        if at_once:
            of_all = all_similarities(pairwise.query_factor[best.rows], True)
            for_each(lambda rows: take(rows, slice(0, num_items), of_all[rows]), blocks, of_all.device)
        elif mirrored:
            mirrored_blocks(pairwise.query_factor[best.rows], side, True, take)
        else:
            pairwise.prepare()
            for_each(lambda rows: take(rows, slice(0, num_items), self._whole_row_similarities(best.rows[rows])), blocks, best.rows.device)
        first = self._resolve(best, counts, caps, mirrored)[0]
        first = torch.where((first <= self.wanted.best_cap) & (best.count > 0), first, num_items + 1)
        found_ranks: list[PositiveRanks] = []

        def finish(block: tuple[slice, int]) -> None:
            rows, num = block
            index, count, some = best.rows[rows], best.count[rows], candidates[rows.start]
            near, at = some.kept()
            neighbours, _, is_settled = order_candidates(
                pairwise, index, near, best.rows[at] if mirrored else at, num, some.num == available, False
            )
            again = (~is_settled).nonzero().flatten()
            if len(again):
                neighbours[again] = search_exact(pairwise, index[again], num, num_items, self.exclude_self)[0]
            place = torch.arange(1, num + 1, device=index.device)
            is_hit = (gallery_codes[neighbours] == query_codes[index][:, None]) & (place <= count[:, None])
            rank = torch.where(is_hit, place, num_items + 1).sort(dim=1).values
            rank[:, 0] = torch.minimum(rank[:, 0], first[rows])
            matched = count.nonzero().flatten()
            found_ranks.append(PositiveRanks(index[matched], count[matched], rank[matched]))

        for_each(finish, [block for block in zip(blocks, most, strict=True) if block[1]], best.rows.device)
        yield from found_ranks

    def _whole_row_similarities(self, rows: Tensor) -> Tensor:
        similarities = self.pairwise.block(rows, slice(0, len(self.pairwise.gallery)))
        if self.exclude_self:
            drop_self(similarities, rows, 0)
        return similarities

    def _finish(self, positives: Positives, caps: Tensor | None, part: Tensor, rank: Tensor) -> PositiveRanks:
        of_interest = positives.index[:, part] >= 0
        if caps is not None:
            of_interest &= rank <= caps[:, part]  # beyond its cap a rank is only known to be beyond it
        rank = torch.where(of_interest, rank, len(self.pairwise.gallery) + 1)
        return PositiveRanks(positives.rows[part], positives.count[part], rank.T.contiguous().sort(dim=1).values)

    def _count(self, positives: Positives) -> PositiveRanks:
        """Counting in the embeddings' own precision, near ties by exact similarities, float64 for the queries with too many of these."""
        mirrored = self._is_mirrored(positives)
        positives = (positives.for_all_queries(len(self.pairwise.queries)) if mirrored else positives).most_first()
        caps = self.wanted.caps(self.pairwise, positives)
        counts = self._band(positives, positives.count, caps, mirrored)
        if mirrored:
            factor = self.pairwise.query_factor[positives.rows]
            mirrored_blocks(
                factor, self.block_columns, True, lambda rows, columns, similarities: counts.add(similarities, rows, columns.start)
            )
        else:
            self._count_all(counts, positives)
        rank = self._resolve(positives, counts, caps, mirrored)
        part = positives.count.nonzero().flatten()
        return self._finish(positives, caps, part, rank[:, part])

    def _resolve(self, positives: Positives, counts: BandCounts, caps: Tensor | None, mirrored: bool) -> Tensor:
        """(slots, n) ranks from the counts."""
        rank, undecided = self._decide(positives, slice(None), counts.above, counts.reach, caps)
        slot, row, item = counts.all_listed()
        item = positives.rows[item] if mirrored else item
        better, listed = self._count_better(positives, slot, row, item)
        is_listed = undecided & (listed == (counts.reach - counts.above).long() - 1)
        rank = torch.where(is_listed, counts.above.long() + 1 + better, rank)
        again = (undecided & ~is_listed).any(dim=0).nonzero().flatten()
        for part in torch.split(again, self._rows_in_float64()) if len(again) else ():
            rank[:, part] = self._in_float64(positives, caps, part)
        return rank

    def _count_better(self, positives: Positives, slot: Tensor, row: Tensor, item: Tensor) -> tuple[Tensor, Tensor]:
        """(slots, n) how many of the listed items come before the positive, and how many are listed."""
        num = len(positives.rows)
        pair, of = torch.unique(slot * num + row, return_inverse=True)
        positive = positives.index.flatten()[pair]
        threshold = self.pairwise.exact(positives.rows[pair % num], positive)[of]
        exact = self.pairwise.exact(positives.rows[row], item)
        is_better = (exact > threshold) | ((exact == threshold) & (item < positive[of]))
        listed = torch.zeros(positives.index.numel(), dtype=torch.int64, device=item.device)
        better = torch.zeros_like(listed)
        listed[pair] = torch.bincount(of, minlength=len(pair))
        better[pair] = torch.bincount(of[is_better], minlength=len(pair))
        return better.view_as(positives.index), listed.view_as(positives.index)

    def _count_all(self, counts: BandCounts, positives: Positives) -> None:
        """Every query against every block of the gallery."""
        pairwise = self.pairwise
        pairwise.prepare()

        def one(rows: slice) -> None:
            index = positives.rows[rows]
            buffer = pairwise.gallery_factor.new_empty(len(index) * self.block_columns)
            for columns in _blocks(len(pairwise.gallery), self.block_columns):
                out = buffer[: len(index) * (columns.stop - columns.start)].view(len(index), -1)
                similarities = pairwise.block(index, columns, out=out)
                if self.exclude_self:
                    drop_self(similarities, index, columns.start)
                counts.add(similarities, rows, columns.start)

        for_each(one, _blocks(len(positives.rows), self.block_rows), pairwise.queries.device)

    def _is_mirrored(self, positives: Positives) -> bool:
        """Half the products, but for all queries: worth it if most of them are to be counted."""
        return (
            self.symmetric and self.exclude_self and self.pairwise.is_symmetric and len(positives.rows) > 0.6 * len(self.pairwise.queries)
        )

    def _band(self, positives: Positives, count: Tensor, caps: Tensor | None, mirrored: bool) -> BandCounts:
        """Nothing counted yet. Mirrored, the gallery is in the order of `positives` too."""
        dtype = self.pairwise.queries.dtype
        slack = (self.pairwise.slack(dtype) + self.pairwise.slack(torch.float64))[positives.rows]
        high, low = (positives.similarity + slack).to(dtype), (positives.similarity - slack).to(dtype)
        return BandCounts(high, low, self._places(positives) if mirrored else positives.index, count, caps)

    def _places(self, positives: Positives) -> Tensor:
        """Where each positive stands in the order of the queries; -1 where there is none."""
        place = torch.empty_like(positives.rows)
        place[positives.rows] = torch.arange(len(place), device=place.device)
        return torch.where(positives.index >= 0, place[positives.index.clamp(min=0)], -1)

    def _in_float64(self, positives: Positives, caps: Tensor | None, part: Tensor) -> Tensor:
        """(slots, n) ranks of some of the queries from float64 similarities of whole rows, near ties by exact similarities."""
        pairwise = self.pairwise
        rows = positives.rows[part]
        similarity = positives.similarity[:, part]
        slack = 2 * pairwise.slack(torch.float64)[rows]  # twice: the positives' own similarities are as inexact
        caps = None if caps is None else caps[:, part]
        high, low = similarity + slack, similarity - slack
        similarities = torch.empty(len(rows), len(pairwise.gallery), dtype=torch.float64, device=rows.device)
        for columns in _blocks(len(pairwise.gallery), self.block_columns):
            similarities[:, columns] = pairwise.block(rows, columns, dtype=torch.float64)
        if self.exclude_self:
            drop_self(similarities, rows, 0)
        if len(similarity) <= MOST_COUNTED:
            counts = BandCounts(high, low, positives.index[:, part], positives.count[part], caps, lists=False)
            counts.add(similarities, slice(0, len(rows)), 0)
            above, reach = counts.above, counts.reach
        else:
            rising = _sorted_rows(similarities)
            above = (len(pairwise.gallery) - torch.searchsorted(rising, high.T.contiguous(), right=True)).T.double()
            reach = (len(pairwise.gallery) - torch.searchsorted(rising, low.T.contiguous())).T.double()
        rank, undecided = self._decide(positives, part, above, reach, caps)
        slots, queries = undecided.nonzero(as_tuple=True)
        for some in torch.split(torch.arange(len(slots), device=rows.device), max(1, (1 << 22) // len(pairwise.gallery))):
            slot, query = slots[some], queries[some]
            near = similarities[query]
            pair, item = ((near >= low[slot, query][:, None]) & (near <= high[slot, query][:, None])).nonzero(as_tuple=True)
            positive = positives.index[slot, part[query]]
            threshold = pairwise.exact(rows[query], positive)[pair]
            exact = pairwise.exact(rows[query][pair], item)
            better = (exact > threshold) | ((exact == threshold) & (item < positive[pair]))
            rank[slot, query] = above[slot, query].long() + 1 + torch.bincount(pair[better], minlength=len(some))
        return rank

    def _decide(
        self, positives: Positives, part: slice | Tensor, above: Tensor, reach: Tensor, caps: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Ranks where the band holds nothing but the positive and its copies, and where it may hold more."""
        index = positives.index[:, part]
        exists = index >= 0
        item = index.clamp(min=0)
        copies, before = self.duplicates.size[item], self.duplicates.before[item]
        if self.exclude_self:
            rows = positives.rows[part].expand_as(item)
            is_copy = self.duplicates.code[rows] == self.duplicates.code[item]
            copies, before = copies - is_copy.long(), before - (is_copy & (rows < item)).long()
        undecided = exists & ((reach - above).long() != copies)
        if caps is not None:
            undecided &= above + 1 <= caps
        return above.long() + 1 + before, undecided

    def _whole_rows(self) -> int:
        """Whole rows at once: as many as keep the similarities near 32 MB on the CPU, 1 GB on CUDA."""
        return max(1, min(self.block_rows, (1 << (28 if self.pairwise.queries.is_cuda else 23)) // len(self.pairwise.gallery)))

    def _rows_in_float64(self) -> int:
        """Whole rows at once: as many as keep the float64 similarities near 128 MB."""
        return max(1, min(self.block_rows, (1 << (27 if self.pairwise.queries.is_cuda else 24)) // len(self.pairwise.gallery)))


def _blocks(num: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, num)) for start in range(0, num, size)]


def _sorted_rows(similarities: Tensor) -> Tensor:
    """Every row in rising order; on the CPU by numpy in threads, which sorts with vector instructions where torch does not."""
    if similarities.is_cuda:
        return similarities.sort(dim=1).values
    rising = similarities.numpy().copy()
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        list(pool.map(lambda part: part.sort(axis=1), np.array_split(rising, torch.get_num_threads())))
    return torch.from_numpy(rising)
