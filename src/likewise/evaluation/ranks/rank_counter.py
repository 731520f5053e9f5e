"""The rank of every positive in the whole ranking of its query, without sorting it.

    rank(q, p) = 1 + #{g : s(q, g) > s(q, p)} + #{g < p : s(q, g) = s(q, p)}        (g over the gallery without q itself)

R@K, R-precision, MAP@R and mAP all follow from these ranks, so one pass of counting over blocks of similarities serves them all. A block's
similarity is within `slack` of the truth: what lies above the band s(q, p) +- slack is counted, and what lies in it beside p is listed and
decided by exact similarities. Queries with too many of these (collapsed embeddings), and those with many positives, have their whole row
sorted instead: see `whole_rows`.

Nothing here has a place for every pair of a class, however large: tables of positives, candidates and rows come in parts of a size that is
fixed below, and the ranks of a few queries at a time go to whoever asked.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

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
    search,
    search_exact,
    worth_mirroring,
)
from likewise.evaluation.ranks.band_counts import BandCounts
from likewise.evaluation.ranks.positives import Classes, Duplicates, PositiveRanks, Positives, without_negatives
from likewise.evaluation.ranks.whole_rows import Take, WholeRows
from likewise.evaluation.similarity import PairwiseSimilarity
from likewise.evaluation.threads import for_each

# More positives than this a query, and sorting a row is cheaper than one comparison of the row for each.
MOST_COUNTED = 40
# More than this, and where only ranks up to R matter the R nearest are cheaper.
FEW_POSITIVES = 12
# Beyond so many neighbours, finding them costs more than sorting whole rows.
MOST_NEIGHBOURS = 256
# Where only the best positive matters: in a class of more items it is looked for among the nearest of all.
MOST_COMPARED = 1024
# Positives of all queries at once, and candidates for neighbours: each some 100 and 30 bytes.
MOST_ENTRIES_CPU, MOST_ENTRIES_CUDA = 1 << 21, 1 << 26


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
class RankCounter:
    pairwise: PairwiseSimilarity
    exclude_self: bool
    wanted: Wanted
    duplicates: Duplicates
    block_rows: int
    block_columns: int
    symmetric: bool

    def each(self, query_codes: Tensor, gallery_codes: Tensor, take: Take) -> None:
        """Hands the ranks of the positives of all queries that have any to `take`, some queries at a time, and from several threads."""
        classes = Classes.of(query_codes, gallery_codes)
        rows = WholeRows(self.pairwise, self.exclude_self, self.duplicates, classes, query_codes)
        best_only = not (self.wanted.others or self.wanted.all)
        num_positives = classes.gallery_count - int(self.exclude_self)
        is_left = (classes.query_count > 0) & (num_positives > 0)
        is_all_there_is = is_left & (classes.gallery_count == len(self.pairwise.gallery))
        if bool(is_all_there_is.any()):
            take(without_negatives(is_all_there_is[query_codes].nonzero().flatten(), int(num_positives.max())))
            return
        by_neighbours = not self.wanted.all and len(self.pairwise.gallery) <= MOST_COLUMNS
        few = num_positives <= FEW_POSITIVES
        mostly_few = float((classes.query_count * (is_left & few)).sum()) > 0.6 * float((classes.query_count * is_left).sum())
        most = MOST_COMPARED if best_only else FEW_POSITIVES if by_neighbours and not mostly_few else MOST_COUNTED
        for groups in self._parts(classes, is_left & (num_positives <= most), 1 if best_only else None):
            self._count(Positives.of(self.pairwise, groups, self.exclude_self, best_only), rows, take)
        is_left &= num_positives > most
        if best_only and self.wanted.best_cap <= MOST_NEIGHBOURS:
            self._by_search(is_left, num_positives, query_codes, gallery_codes, take)
            return
        if by_neighbours:
            for groups in self._parts(classes, is_left & (num_positives <= MOST_NEIGHBOURS), None):
                best = Positives.of(self.pairwise, groups, self.exclude_self, True)
                self._by_neighbours(best, query_codes, gallery_codes, rows, take)
            is_left &= num_positives > MOST_NEIGHBOURS
        left = is_left[query_codes].nonzero().flatten()
        if len(left):
            rows.each(left, take)

    def _parts(self, classes: Classes, chosen: Tensor, slots: int | None) -> Iterator[list[tuple[Tensor, Tensor]]]:
        """Queries of some classes with their items, in parts whose tables of `slots` a query (None: its positives) have a bounded size."""
        is_cuda = self.pairwise.queries.is_cuda
        most = MOST_ENTRIES_CUDA if is_cuda else MOST_ENTRIES_CPU
        part: list[tuple[Tensor, Tensor]] = []
        num = width = 0
        for queries, items in classes.groups(chosen.nonzero().flatten(), 1 << (20 if is_cuda else 15)):
            wider = max(width, slots or items.shape[1])
            if part and (num + queries.numel()) * wider > most:
                yield part
                part, num, wider = [], 0, slots or items.shape[1]
            part.append((queries, items))
            num, width = num + queries.numel(), wider
        if part:
            yield part

    def _by_search(self, is_left: Tensor, num_positives: Tensor, query_codes: Tensor, gallery_codes: Tensor, take: Take) -> None:
        """The rank of the best positive, as far as it is of interest, from the nearest of all items."""
        num_items = len(self.pairwise.gallery)
        k = min(max(1, self.wanted.best_cap), num_items - int(self.exclude_self))
        wanted = is_left[query_codes]

        def take_nearest(rows: Tensor, neighbours: Tensor, _: Tensor) -> None:
            rows, neighbours = rows[wanted[rows]], neighbours[wanted[rows]]
            is_hit = gallery_codes[neighbours] == query_codes[rows][:, None]
            first = torch.where(is_hit.any(dim=1), is_hit.int().argmax(dim=1) + 1, num_items + 1)
            take(PositiveRanks(rows, num_positives[query_codes[rows]], first[:, None]))

        rows = wanted.nonzero().flatten()
        if len(rows):
            search(self.pairwise, rows, k, self.exclude_self, take_nearest)

    def _by_neighbours(self, best: Positives, query_codes: Tensor, gallery_codes: Tensor, whole: WholeRows, take: Take) -> None:
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

        def add(rows: slice, columns: slice, similarities: Tensor) -> None:
            counts.add(similarities, rows, columns.start)
            candidates[rows.start].add(similarities, columns.start)

        if at_once:
            of_all = all_similarities(pairwise.query_factor[best.rows], True)
            for_each(lambda rows: add(rows, slice(0, num_items), of_all[rows]), blocks, of_all.device)
            del of_all
        elif mirrored:
            mirrored_blocks(self._rows_in_order(best.rows), num_items, side, True, add)
        else:
            pairwise.prepare()
            for_each(lambda rows: add(rows, slice(0, num_items), self._whole_row_similarities(best.rows[rows])), blocks, best.rows.device)
        first = self._resolve(best, counts, caps, mirrored, whole)[0]
        first = torch.where((first <= self.wanted.best_cap) & (best.count > 0), first, num_items + 1)

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
            take(PositiveRanks(index[matched], count[matched], rank[matched]))

        for_each(finish, [block for block in zip(blocks, most, strict=True) if block[1]], best.rows.device)

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

    def _rows_in_order(self, order: Tensor) -> Callable[[slice], Tensor]:
        """Rows of the factor, queries and gallery being one, by their places in an order."""
        if self.pairwise.keeps(self.pairwise.queries):
            factor = self.pairwise.query_factor[order]
            return lambda part: factor[part]
        return lambda part: self.pairwise.query_rows(order[part])

    def _count(self, positives: Positives, whole: WholeRows, take: Take) -> None:
        """Counting in the embeddings' own precision, near ties by exact similarities, whole rows for the queries with too many of these."""
        mirrored = self._is_mirrored(positives)
        positives = (positives.for_all_queries(len(self.pairwise.queries)) if mirrored else positives).most_first()
        caps = self.wanted.caps(self.pairwise, positives)
        counts = self._band(positives, positives.count, caps, mirrored)
        if mirrored:
            mirrored_blocks(
                self._rows_in_order(positives.rows),
                len(positives.rows),
                self.block_columns,
                True,
                lambda rows, columns, similarities: counts.add(similarities, rows, columns.start),
            )
        else:
            self._count_all(counts, positives)
        rank = self._resolve(positives, counts, caps, mirrored, whole)
        part = positives.count.nonzero().flatten()
        take(self._finish(positives, caps, part, rank[:, part]))

    def _resolve(self, positives: Positives, counts: BandCounts, caps: Tensor | None, mirrored: bool, whole: WholeRows) -> Tensor:
        """(slots, n) ranks from the counts."""
        rank, undecided = self._decide(positives, counts.above, counts.reach, caps)
        slot, row, item = counts.all_listed()
        item = positives.rows[item] if mirrored else item
        better, listed = self._count_better(positives, slot, row, item)
        is_listed = undecided & (listed == (counts.reach - counts.above).long() - 1)
        rank = torch.where(is_listed, counts.above.long() + 1 + better, rank)
        again = (undecided & ~is_listed).any(dim=0).nonzero().flatten()
        if len(again):
            column = torch.empty(len(self.pairwise.queries), dtype=torch.int64, device=rank.device)
            column[positives.rows[again]] = again

            def write(ranks: PositiveRanks) -> None:
                slots = min(len(rank), ranks.rank.shape[1])
                rank[:slots, column[ranks.rows]] = ranks.rank[:, :slots].T

            whole.each(positives.rows[again], write)
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
            buffer = pairwise.gallery.new_empty(len(index) * self.block_columns)
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

    def _decide(self, positives: Positives, above: Tensor, reach: Tensor, caps: Tensor | None) -> tuple[Tensor, Tensor]:
        """Ranks where the band holds nothing but the positive and its copies, and where it may hold more."""
        exists = positives.index >= 0
        item = positives.index.clamp(min=0)
        copies, before = self.duplicates.size[item], self.duplicates.before[item]
        if self.exclude_self:
            rows = positives.rows.expand_as(item)
            is_copy = self.duplicates.code[rows] == self.duplicates.code[item]
            copies, before = copies - is_copy.long(), before - (is_copy & (rows < item)).long()
        undecided = exists & ((reach - above).long() != copies)
        if caps is not None:
            undecided &= above + 1 <= caps
        return above.long() + 1 + before, undecided

    def _whole_rows(self) -> int:
        """Whole rows at once: as many as keep the similarities near 32 MB on the CPU, 1 GB on CUDA."""
        return max(1, min(self.block_rows, (1 << (28 if self.pairwise.queries.is_cuda else 23)) // len(self.pairwise.gallery)))


def _blocks(num: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, num)) for start in range(0, num, size)]
