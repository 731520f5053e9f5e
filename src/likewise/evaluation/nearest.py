"""Exact nearest neighbours by blocks, on whatever device the embeddings are."""

from typing import Literal

import torch
from torch import Tensor

from likewise.evaluation.score import Embeddings, Scorer, full_float32

# Candidates beyond k: as many near ties at the k-th place are settled without a second look at the row.
SPARE_CANDIDATES = 16
# Most columns of a block: two-level selection wants long rows, running merges keep memory bounded for any gallery.
MOST_COLUMNS = 1 << 16


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
    """The k gallery items nearest to each query: index (Q, k) int64, and similarity (cosine) or distance (Euclidean) (Q, k).

    Nearest first; of equals the lower gallery index first. The order is that of float64 scores that depend on the two vectors alone (see `score`), so it is the
    same for every block size and device, and copies of an item tie. `exclude_self` drops gallery row i for query i: by index, never by value.

    block: queries and gallery items at once (memory grows with its square); the result does not depend on it.
    ranking: "exact", or "fast": candidates by a coarser matrix product (TF32 on CUDA, int8 on the CPU), four times as many as asked for, re-scored exactly.
    """
    scorer = Scorer.of(queries, gallery, metric)
    num_queries, num_items = len(scorer.queries), len(scorer.gallery)
    if exclude_self and num_queries > num_items:
        raise ValueError(
            f"exclude_self with {num_queries} queries and {num_items} gallery items: expected query i to be gallery row i; pass the queries as gallery"
        )
    check_k(k, num_items - int(exclude_self), exclude_self)
    if ranking not in ("exact", "fast"):
        raise ValueError(f"ranking is {ranking!r}: expected 'exact' or 'fast'")
    rows, columns = block_shape(block, num_items, scorer.queries.is_cuda)
    index = torch.empty(num_queries, k, dtype=torch.int64, device=scorer.queries.device)
    similarity = torch.empty(num_queries, k, dtype=scorer.queries.dtype, device=scorer.queries.device)
    with full_float32():
        for part in torch.split(torch.arange(num_queries, device=index.device), rows):
            spare = SPARE_CANDIDATES if ranking == "exact" else 3 * k + 4 * SPARE_CANDIDATES
            while len(part):
                found, exact, is_settled = _nearest_block(scorer, part, k, spare, columns, exclude_self, ranking == "fast")
                index[part], similarity[part] = found, exact.to(similarity.dtype)
                part, spare = part[~is_settled], 4 * spare
    return index, similarity if metric == "cosine" else similarity.neg_().sqrt_()


def check_k(k: int, available: int, exclude_self: bool) -> None:
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ValueError(f"k is {k!r}: expected a whole number of neighbours, 1 or more")
    if k > available:
        raise ValueError(
            f"k is {k} but the gallery has only {available} items{' besides the query itself' if exclude_self else ''}: "
            f"ask for at most {available} neighbours or pass a larger gallery"
        )


def block_shape(block: int | str, num_items: int, is_cuda: bool) -> tuple[int, int]:
    """Queries and gallery items at once."""
    if block == "auto":
        columns = min(num_items, MOST_COLUMNS)
        return max(64, (1 << (29 if is_cuda else 26)) // columns) // 64 * 64, columns
    if isinstance(block, bool) or not isinstance(block, int) or block < 1:
        raise ValueError(f"block is {block!r}: expected 'auto' or a whole number of rows, 1 or more")
    return block, block


def _nearest_block(
    scorer: Scorer, rows: Tensor, k: int, spare: int, block_columns: int, exclude_self: bool, fast: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The k nearest of some queries, their exact scores, and whether no item left out could be among them."""
    num_items = len(scorer.gallery)
    available = num_items - int(exclude_self)
    num_candidates = min(k + spare, available)
    best = torch.empty(len(rows), 0, dtype=scorer.queries.dtype, device=rows.device)
    candidates = torch.empty(len(rows), 0, dtype=torch.int64, device=rows.device)
    for start in range(0, num_items, block_columns):
        columns = slice(start, min(start + block_columns, num_items))
        scores = scorer.block(rows, columns)
        if exclude_self:
            local = rows - start
            inside = ((local >= 0) & (local < scores.shape[1])).nonzero().flatten()
            scores[inside, local[inside]] = -torch.inf
        here, at = top(scores, min(num_candidates, scores.shape[1]))
        best, candidates = torch.cat([best, here], dim=1), torch.cat([candidates, at + start], dim=1)
        if best.shape[1] > num_candidates:
            best, at = best.topk(num_candidates, dim=1, sorted=False)
            candidates = candidates.gather(1, at)
    candidates = candidates.sort(dim=1).values  # by index first: the stable sort by score below then keeps the lower index first
    exact = scorer.exact(rows[:, None].expand_as(candidates).flatten(), candidates.flatten()).view_as(candidates)
    if exclude_self:
        exact.masked_fill_(candidates == rows[:, None], -torch.inf)
    exact, order = exact.sort(dim=1, descending=True, stable=True)
    is_settled = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
    if num_candidates < available and not fast:
        # What was left out scores at most the least candidate, so its true score is at most that plus the slack.
        bound = best.amin(dim=1).double() + scorer.slack(best.dtype)[rows]
        is_settled = scorer.exact_as_score(rows, exact[:, k - 1]) > bound
    return candidates.gather(1, order[:, :k]), exact[:, :k], is_settled


def top(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of every row, in no particular order.

    For long rows in two levels: the k largest lie in the k groups with the largest maxima, so one pass for the maxima and two short selections do.
    """
    num_rows, width = scores.shape
    size = int((width / k) ** 0.5)
    if size < 4:
        return scores.topk(k, dim=1, sorted=False)
    num_groups = width // size
    grouped = scores[:, : num_groups * size].unflatten(1, (size, num_groups))  # group j: columns j, j + num_groups, ...
    chosen = grouped.amax(dim=1).topk(k, dim=1, sorted=False).indices
    at = (chosen[:, None, :] + torch.arange(size, device=scores.device)[:, None] * num_groups).flatten(1)
    rest = torch.arange(num_groups * size, width, device=scores.device).expand(num_rows, -1)
    at = torch.cat([at, rest], dim=1)
    best, of = scores.gather(1, at).topk(k, dim=1, sorted=False)
    return best, at.gather(1, of)
