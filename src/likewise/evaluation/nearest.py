"""Exact nearest neighbours by blocks, on whatever device the embeddings are."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from likewise.argument_types import checked_arguments
from likewise.evaluation.binary import hamming_nearest
from likewise.evaluation.metrics import check_k
from likewise.evaluation.similarity import Embeddings, PairwiseSimilarity, coarse_float32, full_float32
from likewise.evaluation.threads import for_each

# Candidates beyond k: as many near ties at the k-th place are settled without a second look at the row.
SPARE_CANDIDATES = 16
# More neighbours than this, and only near ties are compared exactly: doing so for all would cost more than the matrix product.
MOST_COMPARED_EXACTLY = 32
# Side of the square blocks where each product serves both of its rows.
MIRRORED_SIDE = 4096
# Up to here all similarities of a self-search are one block of 256 MB: selection from whole rows is cheaper than merging.
MOST_AT_ONCE = 8192
# Most columns of a block: two-level selection wants long rows, running merges keep memory bounded for any gallery.
MOST_COLUMNS = 1 << 16

TakeNearest = Callable[[Tensor, Tensor, Tensor], None]  # queries (n,), gallery indices (n, k), values (n, k) on the scale of `exact`


@checked_arguments
def nearest(
    queries: Embeddings,
    gallery: Embeddings,
    k: int,
    *,
    metric: str = "cosine",
    exclude_self: bool = False,
    block: int | Literal["auto"] = "auto",
    ranking: Literal["exact", "fast"] = "exact",
) -> tuple[Tensor, Tensor]:
    """The k gallery items nearest to each query: index (Q, k) int64, and similarity (cosine) or distance (Euclidean, Hamming) (Q, k).

    Nearest first; of equals the lower gallery index first. The order is that of `PairwiseSimilarity.exact`, in float64, which depends on
    the two vectors alone: it is the same for every block size and device, and copies of an item tie. The similarities are these too up to
    k = 32; beyond, those without a near tie are float32 products, right to rounding. `exclude_self` drops gallery row i for query i: by
    index, never by value.

    metric: "cosine", "euclidean", or "hamming" for bits packed by `pack_bits`, whose distances are int64.
    block: queries and gallery items at once (memory grows with its square); the order does not depend on it.
    ranking: "exact", or "fast": four times as many candidates as asked for by a coarser matrix product (TF32 on CUDA, bfloat16 on
    CPUs that have it), compared again exactly.
    """
    if ranking not in ("exact", "fast"):
        raise ValueError(f"ranking is {ranking!r}: expected 'exact' or 'fast'")
    if metric == "hamming":  # as fast as it gets, and exact
        return hamming_nearest(queries, gallery, k, exclude_self=exclude_self, block=block)
    pairwise = PairwiseSimilarity.of(queries, gallery, metric)
    num_queries = len(pairwise.queries)
    check_k(k, num_queries, len(pairwise.gallery), exclude_self)
    index = torch.empty(num_queries, k, dtype=torch.int64, device=pairwise.queries.device)
    similarity = torch.empty(num_queries, k, dtype=pairwise.queries.dtype, device=pairwise.queries.device)

    def take(rows: Tensor, items: Tensor, values: Tensor) -> None:
        index[rows], similarity[rows] = items, values.to(similarity.dtype)

    search(pairwise, torch.arange(num_queries, device=index.device), k, exclude_self, take, block=block, is_fast=ranking == "fast")
    return index, similarity if metric == "cosine" else similarity.neg_().sqrt_()


def search(
    pairwise: PairwiseSimilarity,
    rows: Tensor,
    k: int,
    exclude_self: bool,
    take: TakeNearest,
    *,
    block: int | Literal["auto"] = "auto",
    is_fast: bool = False,
) -> None:
    """Hands the k nearest of some queries to `take`, some queries at a time, from several threads, and maybe with those of others."""
    num_rows, columns = block_shape(block, len(pairwise.gallery), k, pairwise.queries.is_cuda)
    is_mirrored = block == "auto" and pairwise.is_symmetric and not is_fast and len(rows) > 0.6 * len(pairwise.queries)
    with full_float32():
        if is_mirrored and worth_mirroring(pairwise, len(pairwise.queries), k):
            _search_mirrored(pairwise, k, columns, exclude_self, take)
            return
        find = _search_fast if is_fast else search_exact
        pairwise.prepare()
        with coarse_float32() if is_fast else full_float32():
            for_each(lambda part: take(part, *find(pairwise, part, k, columns, exclude_self)), torch.split(rows, num_rows), rows.device)


def block_shape(block: int | str, num_items: int, k: int, is_cuda: bool) -> tuple[int, int]:
    """Queries and gallery items at once."""
    if block == "auto":
        columns = min(num_items, MOST_COLUMNS)
        # 64 MB of similarities on the CPU, and as much again for k candidates of 8 bytes several times over; sixteen times that on CUDA.
        rows = min((1 << 24) // columns, (1 << 20) // k) * (16 if is_cuda else 1)
        return min(4096, max(min(64, (1 << 22) // k), rows, 1)), columns
    if isinstance(block, bool) or not isinstance(block, int) or block < 1:
        raise ValueError(f"block is {block!r}: expected 'auto' or a whole number of rows, 1 or more")
    return block, block


def search_exact(pairwise: PairwiseSimilarity, rows: Tensor, k: int, block_columns: int, exclude_self: bool) -> tuple[Tensor, Tensor]:
    """The k nearest of some queries (n, k) in exact order, and their similarities or negated squared distances in float64."""
    neighbours = torch.empty(len(rows), k, dtype=torch.int64, device=rows.device)
    value = torch.empty(len(rows), k, dtype=torch.float64, device=rows.device)
    left, spare = torch.arange(len(rows), device=rows.device), SPARE_CANDIDATES
    with_value = k <= MOST_COMPARED_EXACTLY or pairwise.metric == "euclidean"
    while len(left):
        num_candidates = min(k + spare, len(pairwise.gallery) - int(exclude_self))
        similarities, candidates = _candidates(pairwise, rows[left], num_candidates, block_columns, exclude_self)
        is_complete = num_candidates == len(pairwise.gallery) - int(exclude_self)
        index, exact, is_settled = order_candidates(pairwise, rows[left], similarities, candidates, k, is_complete, with_value)
        neighbours[left], value[left] = index, exact
        left, spare = left[~is_settled], 4 * spare
    return neighbours, value


def order_candidates(
    pairwise: PairwiseSimilarity, rows: Tensor, similarities: Tensor, candidates: Tensor, k: int, is_complete: bool, with_value: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The k best of some candidates in exact order, their values, and whether nothing that is not a candidate can be among them.

    Two similarities further apart than twice the slack are in their true order; only runs of nearer ones are compared exactly, and all k
    if `with_value`. Without it the values of the others are block similarities: right to rounding, while the order is exact in any case.
    """
    similarities, by = similarities.sort(dim=1, descending=True)
    candidates = candidates.gather(1, by)
    is_near = similarities[:, :-1] - similarities[:, 1:] <= (2 * pairwise.slack(similarities.dtype)[rows, None]).to(similarities.dtype)
    in_run = torch.nn.functional.pad(is_near, (0, 1)) | torch.nn.functional.pad(is_near, (1, 0))
    joins_kth = is_near[:, k - 1 :].cumprod(dim=1).bool()  # beyond the k-th: those in one run with it
    in_run[:, k:] &= joins_kth
    is_settled = torch.ones_like(rows, dtype=torch.bool) if is_complete else ~joins_kth[:, -1]
    to_score = in_run.clone()
    if with_value:
        to_score[:, :k] = True
    row, place = to_score.nonzero(as_tuple=True)
    value = pairwise.as_exact(rows, similarities)
    value[row, place] = pairwise.exact(rows[row], candidates[row, place])
    value[:, k:].masked_fill_(~joins_kth, -torch.inf)
    again = in_run.any(dim=1).nonzero().flatten()
    if len(again):
        sorted_index, by = candidates[again].sort(dim=1)  # by index first: the stable sort by value then keeps the lower one first
        sorted_value, order = value[again].gather(1, by).sort(dim=1, descending=True, stable=True)
        candidates[again], value[again] = sorted_index.gather(1, order), sorted_value
    return candidates[:, :k], value[:, :k], is_settled


@dataclass
class Candidates:
    """The `num` best gallery items of some queries so far by block similarity, in no particular order."""

    num: int
    similarities: Tensor | None = None  # (n, num)
    index: Tensor | None = None
    guard: threading.Lock = field(default_factory=threading.Lock)

    def add(self, similarities: Tensor, start: int) -> None:
        """Takes in a block: column j holds gallery item start + j."""
        best, index = top(similarities, min(self.num, similarities.shape[1]))
        index += start
        with self.guard:
            if self.similarities is not None and self.index is not None:
                best, index = torch.cat([self.similarities, best], dim=1), torch.cat([self.index, index], dim=1)
                if best.shape[1] > self.num:
                    best, at = best.topk(self.num, dim=1, sorted=False)
                    index = index.gather(1, at)
            self.similarities, self.index = best, index

    def kept(self) -> tuple[Tensor, Tensor]:
        assert self.similarities is not None
        assert self.index is not None
        return self.similarities, self.index


def _candidates(pairwise: PairwiseSimilarity, rows: Tensor, num: int, block_columns: int, exclude_self: bool) -> tuple[Tensor, Tensor]:
    candidates = Candidates(num)
    for start in range(0, len(pairwise.gallery), block_columns):
        similarities = pairwise.block(rows, slice(start, min(start + block_columns, len(pairwise.gallery))))
        if exclude_self:
            drop_self(similarities, rows, start)
        candidates.add(similarities, start)
    return candidates.kept()


def worth_mirroring(pairwise: PairwiseSimilarity, num_queries: int, k: int) -> bool:
    """Whether half the products outweigh candidates kept for all queries at once: 12 bytes each, and selected from shorter rows."""
    entries = num_queries * (k + SPARE_CANDIDATES)
    if len(pairwise.gallery) <= MOST_AT_ONCE and entries <= 1 << 24:
        return True
    return k <= 128 and entries <= (1 << (28 if pairwise.queries.is_cuda else 24))


def mirrored_blocks(
    factor: Callable[[slice], Tensor], num: int, side: int, exclude_self: bool, work: Callable[[slice, slice, Tensor], None]
) -> None:
    """Hands rows, columns and similarities of every block of F F^T to `work`, in threads; `factor` gives some of the `num` rows of F.

    Each product is taken once, and those below the diagonal are transposed views of the ones above.
    """
    blocks = [slice(start, min(start + side, num)) for start in range(0, num, side)]
    room = threading.local()
    device = factor(slice(0, 1)).device

    def one(pair: tuple[slice, slice]) -> None:
        rows, columns = pair
        left = factor(rows)
        right = left if rows == columns else factor(columns)
        if not hasattr(room, "buffer"):
            room.buffer = left.new_empty(min(side, num) ** 2)
        similarities = room.buffer[: len(left) * len(right)].view(len(left), -1)
        for square in _squares(len(left), len(right), rows == columns, max(side, 1) if left.is_cuda else 512):
            _product(left, right, square, rows == columns, similarities)
        if rows == columns and exclude_self:
            similarities.fill_diagonal_(-torch.inf)
        work(rows, columns, similarities)
        if rows != columns:
            work(columns, rows, similarities.T)

    for_each(one, [(rows, columns) for i, rows in enumerate(blocks) for columns in blocks[i:]], device)


def all_similarities(factor: Tensor, exclude_self: bool) -> Tensor:
    """factor factor^T for up to MOST_AT_ONCE rows."""
    num = len(factor)
    similarities = factor.new_empty(num, num)
    for_each(
        lambda square: _product(factor, factor, square, True, similarities),
        _squares(num, num, True, num if factor.is_cuda else 512),
        factor.device,
    )
    return similarities.fill_diagonal_(-torch.inf) if exclude_self else similarities


def _squares(num_rows: int, num_columns: int, is_diagonal: bool, side: int) -> list[tuple[slice, slice]]:
    """A block in small squares, which stay in the CPU's cache; of one on the diagonal only the upper ones."""
    return [
        (slice(row, min(row + side, num_rows)), slice(column, min(column + side, num_columns)))
        for row in range(0, num_rows, side)
        for column in range(row if is_diagonal else 0, num_columns, side)
    ]


def _product(left: Tensor, right: Tensor, square: tuple[slice, slice], is_diagonal: bool, out: Tensor) -> None:
    """Writes one square of a block, and within a block on the diagonal its mirror image."""
    rows, columns = square
    torch.mm(left[rows], right[columns].T, out=out[rows, columns])
    if is_diagonal and rows != columns:
        out[columns, rows] = out[rows, columns].T


def _search_mirrored(pairwise: PairwiseSimilarity, k: int, block_columns: int, exclude_self: bool, take: TakeNearest) -> None:
    """As search_exact for all queries, where these are the gallery: every block above the diagonal serves its mirror image too."""
    available = len(pairwise.gallery) - int(exclude_self)
    side = 1024 if len(pairwise.gallery) <= MOST_AT_ONCE else MIRRORED_SIDE
    candidates = {start: Candidates(min(k + SPARE_CANDIDATES, available)) for start in range(0, len(pairwise.gallery), side)}
    if len(pairwise.gallery) <= MOST_AT_ONCE:
        similarities = all_similarities(pairwise.query_factor, exclude_self)
        for_each(lambda start: candidates[start].add(similarities[start : start + side], 0), list(candidates), similarities.device)
    else:
        pairwise.prepare()
        mirrored_blocks(
            pairwise.query_rows,
            len(pairwise.queries),
            side,
            exclude_self,
            lambda rows, columns, similarities: candidates[rows.start].add(similarities, columns.start),
        )

    def finish(start: int) -> None:
        some = candidates.pop(start)
        near, index = some.kept()
        rows = torch.arange(start, start + len(near), device=near.device)
        neighbours, value, is_settled = order_candidates(pairwise, rows, near, index, k, some.num == available, k <= MOST_COMPARED_EXACTLY)
        again = (~is_settled).nonzero().flatten()
        if len(again):
            neighbours[again], value[again] = search_exact(pairwise, rows[again], k, block_columns, exclude_self)
        take(rows, neighbours, value)

    for_each(finish, list(candidates), pairwise.queries.device)


def drop_self(similarities: Tensor, rows: Tensor, start: int) -> None:
    """Takes each query out of its own row: column j holds gallery item start + j."""
    local = rows - start
    inside = ((local >= 0) & (local < similarities.shape[1])).nonzero().flatten()
    similarities[inside, local[inside]] = -torch.inf


def _search_fast(pairwise: PairwiseSimilarity, rows: Tensor, k: int, block_columns: int, exclude_self: bool) -> tuple[Tensor, Tensor]:
    """As search_exact, but only among candidates; call within coarse_float32."""
    num = min(4 * k + 4 * SPARE_CANDIDATES, len(pairwise.gallery) - int(exclude_self))
    _, candidates = _candidates(pairwise, rows, num, block_columns, exclude_self)
    candidates = candidates.sort(dim=1).values
    exact = pairwise.exact(rows.repeat_interleave(num), candidates.flatten()).view_as(candidates)
    exact, order = exact.sort(dim=1, descending=True, stable=True)
    return candidates.gather(1, order[:, :k]), exact[:, :k]


def top(similarities: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of every row, in no particular order.

    For long rows in two levels: the k largest lie in the k groups with the largest maxima, so one pass for the maxima and two short
    selections do.
    """
    num_rows, width = similarities.shape
    size = int((width / k) ** 0.5)
    if size < 4:
        return similarities.topk(k, dim=1, sorted=False)
    num_groups = width // size  # group j: columns j, j + num_groups, ...
    if similarities.stride(1) == 1:
        maxima = similarities[:, : num_groups * size].reshape(num_rows, size, num_groups).amax(dim=1)
    else:  # a transposed view: the same without copying it
        maxima = similarities.T[: num_groups * size].view(size, num_groups, num_rows).amax(dim=0).T.contiguous()
    chosen = maxima.topk(k, dim=1, sorted=False).indices
    at = (chosen[:, None, :] + torch.arange(size, device=similarities.device)[:, None] * num_groups).flatten(1)
    rest = torch.arange(num_groups * size, width, device=similarities.device).expand(num_rows, -1)
    at = torch.cat([at, rest], dim=1)
    best, of = similarities.gather(1, at).topk(k, dim=1, sorted=False)
    return best, at.gather(1, of)
