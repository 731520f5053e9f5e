"""k-reciprocal re-ranking: two items are as near as the sets of those that are mutually near to them are alike (Zhong et al. 2017).

Each item's set has some tens of members of all items, so it is kept as a sparse row of weights, and sets that overlap are found through an
inverted index: nothing here has a place for every pair.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from likewise.evaluation.nearest import SPARE_CANDIDATES, drop_self, nearest, top
from likewise.evaluation.similarity import PairwiseSimilarity, full_float32
from likewise.evaluation.threads import for_each

# Sums and comparisons at once in a thread, of 8 bytes several times over.
AT_ONCE = 1 << 22
# Distances are multiples of this: sums of the same weights in another order are equal.
ROUNDED_TO = 2.0**-40
# The least share of the original distance: a float32 product cannot tell items apart by much less.
LEAST_WEIGHT = 0.01


@dataclass(frozen=True)
class KReciprocal:
    """k-reciprocal encoding (Zhong, Zheng, Cao and Li 2017), as the authors' code has it.

    Of all items, queries and gallery together; N(i, k) is i itself and its k nearest, d(i, j) = (1 - s_ij) / max_j (1 - s_ij), s cosine:

        R(i, k)  = {j in N(i, k) : i in N(j, k)}
        R*(i)    = R(i, k1) and every R(c, k1 / 2) of a c in R(i, k1) with more than 2/3 of its members in R(i, k1)
        V_ij     = exp(-d(i, j)) on R*(i), 0 elsewhere, divided by the sum of the row;  then V_i = mean of V_j over the k2 first of N(i)
        Jaccard  = 1 - sum_k min(V_ik, V_jk) / sum_k max(V_ik, V_jk)
        distance = (1 - lambda) Jaccard + lambda d

    rounded to 2^-40: sets with the same members have the same distance however their weights were summed. Of equal distances the larger s
    comes first, then the lower index. The similarity that is given back is 1 - distance.

    The paper's text does not divide d and V and asks for at least 2/3. As neighbours are looked for among the queries too, the list of a
    query depends on which queries come with it; one alone is compared with the gallery only.
    """

    k1: int = 20
    k2: int = 6
    original_weight: float = 0.3  # lambda

    def __post_init__(self) -> None:
        for name, value in (("k1", self.k1), ("k2", self.k2)):
            if isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} is {value}: expected 1 or more neighbours")
        if not LEAST_WEIGHT <= self.original_weight <= 1:
            raise ValueError(
                f"original_weight is {self.original_weight}: expected a share of the original distance, {LEAST_WEIGHT} to 1; "
                "without it all items whose sets do not meet the query's would tie"
            )

    def neighbours(self, queries: Tensor, gallery: Tensor | None, k: int) -> tuple[Tensor, Tensor]:
        first_item = 0 if gallery is None else len(queries)  # of the gallery, among all
        distances = _Distances.of(queries if gallery is None else torch.cat([queries, gallery]))
        vectors = distances.pairwise.queries
        near = nearest(vectors, vectors, min(self.k1, len(vectors) - 1), exclude_self=True)[0]
        lists = torch.cat([torch.arange(len(vectors), device=vectors.device)[:, None], near], dim=1)
        weights = _averaged(_weights(lists, round(self.k1 / 2), distances), lists[:, : self.k2])
        by_column = weights.part(first_item, len(vectors)).transposed()
        index = torch.empty(len(queries), k, dtype=torch.int64, device=vectors.device)
        similarity = torch.empty(len(queries), k, dtype=vectors.dtype, device=vectors.device)

        def one(part: slice) -> None:
            rows = torch.arange(part.start, part.stop, device=index.device)
            shared = _overlaps(weights, rows, by_column)
            index[part], distance = self._first(shared, rows, first_item, k, distances)
            similarity[part] = (1 - distance).to(similarity.dtype)

        entries_met = torch.zeros(len(vectors), dtype=torch.int64, device=index.device)
        entries_met.index_add_(0, weights.rows(), by_column.counts()[weights.column])
        with full_float32():
            for_each(one, _runs(entries_met[: len(queries)] + len(vectors) - first_item, AT_ONCE), index.device)
        return index, similarity

    def _first(self, shared: Tensor, rows: Tensor, first_item: int, k: int, distances: "_Distances") -> tuple[Tensor, Tensor]:
        """Items and distances (n, k) of the first k for some queries, whose sets share (n, items) with those of the items.

        A matrix product proposes, exact similarities decide: no item but the candidates is as near as the k-th of them.
        """
        nearness, slack = distances.nearness(shared, rows, first_item, self.original_weight)
        available = shared.shape[1]
        if first_item == 0:
            drop_self(nearness, rows, 0)
            available -= 1
        index = torch.empty(len(rows), k, dtype=torch.int64, device=rows.device)
        distance = torch.empty(len(rows), k, dtype=torch.float64, device=rows.device)
        left, spare = torch.arange(len(rows), device=rows.device), SPARE_CANDIDATES
        while len(left):
            num = min(k + spare, available)
            proposed, item = top(nearness[left], num)
            overlap = shared[left[:, None], item]
            original, similarity = distances.of_pairs(rows[left].repeat_interleave(num), first_item + item.flatten())
            mixed = (1 - self.original_weight) * _jaccard(overlap) + self.original_weight * original.view_as(item)
            mixed = (mixed / ROUNDED_TO).round_() * ROUNDED_TO
            order = item.argsort(dim=1)
            for key, descending in ((similarity.view_as(item), True), (mixed, False)):
                order = order.gather(1, key.gather(1, order).sort(dim=1, stable=True, descending=descending).indices)
            order = order[:, :k]
            index[left], distance[left] = item.gather(1, order), mixed.gather(1, order)
            beyond = distances.from_nearness(proposed.amin(dim=1), rows[left], self.original_weight) - slack[left]
            is_settled = (distance[left, -1] < beyond - ROUNDED_TO) | (num == available)
            left, spare = left[~is_settled], 4 * spare
        return index, distance


def _overlaps(weights: "_SparseRows", rows: Tensor, by_column: "_SparseRows") -> Tensor:
    """(n, items) float64: sum_k min(V_ik, V_jk) of some rows i with every item j, in rising order of k."""
    owner, at = weights.entries(rows)
    of_entry, other = by_column.entries(weights.column[at])
    least = torch.minimum(weights.value[at][of_entry], by_column.value[other])
    num_items = by_column.num_columns
    return torch.bincount(owner[of_entry] * num_items + by_column.column[other], least, len(rows) * num_items).view(-1, num_items)


def _jaccard(overlap: Tensor) -> Tensor:
    """1 - sum min / sum max of two rows that sum to 1 each, from their sum of minima."""
    return 1 - overlap / (2 - overlap)


@dataclass(frozen=True)
class _Distances:
    """d(i, j) = (1 - s_ij) / max_j (1 - s_ij)."""

    pairwise: PairwiseSimilarity
    largest: Tensor  # (items,) float64: max_j (1 - s_ij); 1 where all are copies

    @classmethod
    def of(cls, vectors: Tensor) -> "_Distances":
        pairwise = PairwiseSimilarity.of(vectors, None, "cosine")
        farthest = nearest(-vectors, vectors, 1)[0][:, 0]
        largest = 1 - pairwise.exact(torch.arange(len(farthest), device=farthest.device), farthest)
        pairwise.prepare()
        return cls(pairwise, torch.where(largest > 0, largest, 1.0))

    def of_pairs(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Distance and cosine similarity, both (pairs,) float64."""
        similarity = self.pairwise.exact(first, second)
        return (1 - similarity) / self.largest[first], similarity

    def nearness(self, shared: Tensor, rows: Tensor, first_item: int, weight: float) -> tuple[Tensor, Tensor]:
        """(n, items) (1 - weight) (1 - Jaccard) + weight s / largest by one matrix product, and (n,) a bound on its error."""
        factor = self.pairwise.query_factor
        scale = weight / self.largest[rows]
        overlap = shared.to(factor.dtype)
        scaled = factor[rows] * scale.to(factor.dtype)[:, None]
        nearness = torch.addmm(overlap / (2 - overlap), scaled, factor[first_item:].T, beta=1 - weight)
        return nearness, scale * self.pairwise.slack(factor.dtype)[rows] + 4 * torch.finfo(factor.dtype).eps * (1 + scale)

    def from_nearness(self, nearness: Tensor, rows: Tensor, weight: float) -> Tensor:
        """The mixed distance of an item as near to each row as said."""
        return 1 - weight + weight / self.largest[rows] - nearness.double()


@dataclass(frozen=True)
class _SparseRows:
    """Rows of which most entries are 0."""

    start: Tensor  # (rows + 1,) where each row's entries begin
    column: Tensor  # (entries,) rising within a row
    value: Tensor  # (entries,) float64
    num_columns: int

    @classmethod
    def of_sorted(cls, row: Tensor, column: Tensor, value: Tensor, shape: tuple[int, int]) -> "_SparseRows":
        count = torch.bincount(row, minlength=shape[0])
        return cls(torch.nn.functional.pad(count.cumsum(0), (1, 0)), column, value, shape[1])

    @property
    def num_rows(self) -> int:
        return len(self.start) - 1

    def counts(self) -> Tensor:
        return self.start.diff()

    def rows(self) -> Tensor:
        """(entries,) the row of each entry."""
        return torch.repeat_interleave(self.counts())

    def part(self, first: int, last: int) -> "_SparseRows":
        entries = slice(int(self.start[first]), int(self.start[last]))
        return _SparseRows(self.start[first : last + 1] - entries.start, self.column[entries], self.value[entries], self.num_columns)

    def transposed(self) -> "_SparseRows":
        order = self.column.argsort(stable=True)
        return _SparseRows.of_sorted(self.column[order], self.rows()[order], self.value[order], (self.num_columns, self.num_rows))

    def entries(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The entries of some rows one after the other: which of `rows` each belongs to, and where it is."""
        count = self.start[rows + 1] - self.start[rows]
        owner = torch.repeat_interleave(count)
        skipped = self.start[rows] - (count.cumsum(0) - count)
        return owner, torch.arange(len(owner), device=owner.device) + skipped[owner]


def _weights(lists: Tensor, half: int, distances: _Distances) -> _SparseRows:
    """V before averaging: normalised exp(-d) on the expanded k-reciprocal sets of lists (items, 1 + k1), each item first in its own."""
    num_items, width = lists.shape
    shorter = lists[:, : half + 1]
    is_mutual, is_mutual_shorter = _mutual(lists), _mutual(shorter)
    rows: list[slice] = _blocks(num_items, max(1, AT_ONCE // (width * width * shorter.shape[1])))
    pieces: dict[int, tuple[Tensor, Tensor, Tensor]] = {}

    def one(part: slice) -> None:
        members = torch.where(is_mutual[part], lists[part], -1)  # (n, width)
        of_member = members.clamp(min=0)
        others = torch.where(is_mutual_shorter[of_member], shorter[of_member], -2)  # (n, width, 1 + half)
        is_shared = (others[..., None] == members[:, None, None]).any(dim=3)
        is_taken = is_mutual[part] & (3 * is_shared.sum(dim=2) > 2 * (others >= 0).sum(dim=2))
        others = torch.where(is_taken[..., None], others, -2)
        everyone = torch.cat([members, others.flatten(1)], dim=1).sort(dim=1).values
        is_new = torch.nn.functional.pad(everyone.diff(dim=1) > 0, (1, 0), value=True) & (everyone >= 0)
        row, at = is_new.nonzero(as_tuple=True)
        column = everyone[row, at]
        value = distances.of_pairs(part.start + row, column)[0].neg_().exp_()
        value /= torch.bincount(row, weights=value, minlength=len(members))[row]
        pieces[part.start] = (part.start + row, column, value)

    for_each(one, rows, lists.device)
    row, column, value = (torch.cat([pieces[part.start][place] for part in rows]) for place in range(3))
    return _SparseRows.of_sorted(row, column, value, (num_items, num_items))


def _mutual(lists: Tensor) -> Tensor:
    """(items, width) whether the one who lists is listed by the listed."""
    is_mutual = torch.empty_like(lists, dtype=torch.bool)
    for part in _blocks(len(lists), max(1, AT_ONCE // lists.shape[1] ** 2)):
        itself = torch.arange(part.start, part.stop, device=lists.device)
        is_mutual[part] = (lists[lists[part]] == itself[:, None, None]).any(dim=2)
    return is_mutual


def _averaged(weights: _SparseRows, lists: Tensor) -> _SparseRows:
    """V_i = mean of V_j over the items j of row i of `lists`."""
    num_items, width = lists.shape
    pieces: dict[int, tuple[Tensor, Tensor, Tensor]] = {}

    def one(part: slice) -> None:
        owner, at = weights.entries(lists[part].flatten())
        key, of = torch.unique((owner // width) * num_items + weights.column[at], return_inverse=True)
        value = torch.bincount(of, weights=weights.value[at], minlength=len(key)) / width
        pieces[part.start] = (part.start + key // num_items, key % num_items, value)

    runs = _runs(weights.counts()[lists].sum(dim=1), AT_ONCE)
    for_each(one, runs, lists.device)
    row, column, value = (torch.cat([pieces[part.start][place] for part in runs]) for place in range(3))
    return _SparseRows.of_sorted(row, column, value, (num_items, num_items))


def _runs(work: Tensor, most: int) -> list[slice]:
    """Consecutive rows together as long as their work stays near `most`."""
    run = (work.cumsum(0) - 1) // most
    ends = torch.unique_consecutive(run, return_counts=True)[1].cumsum(0).tolist()
    return [slice(first, last) for first, last in zip([0, *ends], ends, strict=False)]


def _blocks(num: int, size: int) -> list[slice]:
    return [slice(first, min(first + size, num)) for first in range(0, num, size)]
