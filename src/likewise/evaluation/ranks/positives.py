"""The positives of every query: which gallery items share its class, and how near they are."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from likewise.evaluation.similarity import PairwiseSimilarity

# Pairs of one class at once, and rows that are gathered for the products of pairs, both in float64.
MOST_OF_A_CLASS = 1 << 20
MOST_ROWS = 1 << 14
HASHED_AT_ONCE = 1 << 12


@dataclass(frozen=True)
class Classes:
    """Members of every class among queries and gallery, as runs of two orderings."""

    query_order: Tensor  # (Q,) query indices, class by class
    gallery_order: Tensor  # (G,) gallery indices, class by class, rising within a class
    query_start: Tensor  # (classes,) where a class begins in query_order
    gallery_start: Tensor
    query_count: Tensor  # (classes,)
    gallery_count: Tensor

    @classmethod
    def of(cls, query_codes: Tensor, gallery_codes: Tensor) -> "Classes":
        num_classes = int(torch.max(query_codes.max(), gallery_codes.max())) + 1
        orders, starts, counts = [], [], []
        for codes in (query_codes, gallery_codes):
            orders.append(torch.argsort(codes, stable=True))
            counts.append(torch.bincount(codes, minlength=num_classes))
            starts.append(counts[-1].cumsum(0) - counts[-1])
        return cls(orders[0], orders[1], starts[0], starts[1], counts[0], counts[1])

    def groups(self, classes: Tensor, most_pairs: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Classes of one size together: query indices (classes, n_q) and gallery indices (classes, n_g), at most about `most_pairs`
        pairs at once. A class with more than `MOST_OF_A_CLASS` comes in parts of its queries, each with all its items.
        """
        sizes = torch.stack([self.query_count[classes], self.gallery_count[classes]], dim=1)
        kinds, kind_of = torch.unique(sizes, dim=0, return_inverse=True)
        by_kind = torch.argsort(kind_of, stable=True)
        members = torch.bincount(kind_of, minlength=len(kinds)).tolist()
        for (num_queries, num_items), of_kind in zip(kinds.tolist(), torch.split(classes[by_kind], members), strict=True):
            if num_queries == 0 or num_items == 0:
                continue
            at_once = min(most_pairs // (num_queries * num_items), MOST_ROWS // (num_queries + num_items))
            for chunk in torch.split(of_kind, max(1, at_once)):
                query_at = self.query_start[chunk][:, None] + torch.arange(num_queries, device=chunk.device)
                item_at = self.gallery_start[chunk][:, None] + torch.arange(num_items, device=chunk.device)
                items = self.gallery_order[item_at]
                for queries in torch.split(self.query_order[query_at], max(1, min(MOST_OF_A_CLASS // num_items, MOST_ROWS)), dim=1):
                    yield queries, items


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
        # Into room made beforehand: small results between large ones that come and go would keep the memory of these from being used again.
        hashes = torch.empty(num, dtype=torch.int64, device=device)
        for begin in range(0, num, HASHED_AT_ONCE):
            part = slice(begin, begin + HASHED_AT_ONCE)
            # + 0.0: minus zero is zero
            hashes[part] = ((gallery[part] + 0.0).view(torch.int32) * weights).sum(dim=1)
        inverse = torch.unique(hashes, return_inverse=True)[1]
        first = torch.full((num,), num, dtype=torch.int64, device=device)
        first.scatter_reduce_(0, inverse, torch.arange(num, device=device), "amin")
        code = first[inverse]
        same = torch.empty(num, dtype=torch.bool, device=device)
        for begin in range(0, num, HASHED_AT_ONCE):
            part = slice(begin, begin + HASHED_AT_ONCE)
            same[part] = (gallery[part] == gallery[code[part]]).all(dim=1)
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
    rank: Tensor  # (n, slots) int64; (1, slots) where all have the same


def without_negatives(rows: Tensor, num_positives: int) -> PositiveRanks:
    """Where every item is of the query's class there is nothing to compare."""
    rank = torch.arange(1, num_positives + 1, device=rows.device)[None]
    return PositiveRanks(rows, torch.full_like(rows, num_positives), rank)


@dataclass(frozen=True)
class Positives:
    """Positives of some queries, nearest first; missing ones have index -1 and similarity +inf."""

    rows: Tensor  # (n,) query indices
    count: Tensor  # (n,) R, the number of positives
    index: Tensor  # (slots, n) gallery indices
    similarity: Tensor  # (slots, n) float64 on the scale of PairwiseSimilarity.block, far more accurate than a float32 block

    @classmethod
    def of(cls, pairwise: PairwiseSimilarity, groups: list[tuple[Tensor, Tensor]], exclude_self: bool, best_only: bool) -> "Positives":
        width = max(items.shape[1] for _, items in groups)
        num = sum(queries.numel() for queries, _ in groups)
        device = pairwise.queries.device
        rows = torch.empty(num, dtype=torch.int64, device=device)
        count = torch.empty(num, dtype=torch.int64, device=device)
        index = torch.full((1 if best_only else width, num), -1, dtype=torch.int64, device=device)
        similarity = torch.full(index.shape, -torch.inf, dtype=torch.float64, device=device)
        done = 0
        for queries, items in groups:
            num_here, num_items = queries.numel(), items.shape[1]
            part = slice(done, done + num_here)
            done += num_here
            near = pairwise.of_classes(queries, items)  # (classes, n_q, n_g)
            if exclude_self:
                near.masked_fill_(queries[:, :, None] == items[:, None, :], -torch.inf)
            rows[part] = queries.flatten()
            count[part] = num_items - int(exclude_self)
            near, which = _best(pairwise, queries, items, near) if best_only else near.sort(dim=2, descending=True, stable=True)
            slots = near.shape[2]
            similarity[:slots, part] = near.reshape(num_here, slots).T
            index[:slots, part] = items[:, None, :].expand(-1, queries.shape[1], -1).gather(2, which).reshape(num_here, slots).T
        if exclude_self and not best_only:
            index, similarity = index[: width - 1], similarity[: width - 1]
        missing = similarity == -torch.inf
        return cls(rows, count, index.masked_fill_(missing, -1), similarity.masked_fill_(missing, torch.inf))

    def for_all_queries(self, num_queries: int) -> "Positives":
        """The same with a column for every query; those not held here have no positives."""
        count = self.count.new_zeros(num_queries)
        index = self.index.new_full((len(self.index), num_queries), -1)
        similarity = self.similarity.new_full(index.shape, torch.inf)
        count[self.rows], index[:, self.rows], similarity[:, self.rows] = self.count, self.index, self.similarity
        return Positives(torch.arange(num_queries, device=count.device), count, index, similarity)

    def most_first(self) -> "Positives":
        """The queries with the most positives first: those with more than s of them are then the first ones of any block."""
        order = self.count.argsort(descending=True, stable=True)
        return Positives(self.rows[order], self.count[order], self.index[:, order], self.similarity[:, order])


def _best(pairwise: PairwiseSimilarity, queries: Tensor, items: Tensor, near: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest positive of every query, the lower index among equals; `near` alone cannot tell these apart."""
    best, which = near.max(dim=2, keepdim=True)
    rivals = (near >= best - 2 * pairwise.slack(torch.float64)[queries][:, :, None]) & near.isfinite()
    of_class, of_query, slot = (rivals & (rivals.sum(dim=2, keepdim=True) > 1)).nonzero(as_tuple=True)
    if len(slot):
        exact = torch.full_like(near, -torch.inf)
        exact[of_class, of_query, slot] = pairwise.exact(queries[of_class, of_query], items[of_class, slot])
        top = exact.amax(dim=2, keepdim=True)
        first = (exact == top).int().argmax(dim=2, keepdim=True)  # items of a class are in rising order
        which = torch.where(top > -torch.inf, first, which)
    return best, which
