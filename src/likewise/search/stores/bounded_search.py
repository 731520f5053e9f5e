"""Bounded search: a first look at all rows gives upper bounds of their similarities; those with the highest are compared exactly.

Where the k-th of them is more alike than the bound of any row that was left out, nothing nearer can have been: the k are the nearest. Else
four times as many are compared.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from likewise.evaluation.nearest import Candidates
from likewise.evaluation.similarity import PairwiseSimilarity, full_float32
from likewise.evaluation.threads import for_each
from likewise.search.stores.row_file import Rows
from likewise.search.stores.row_kinds import RowKind

Ids = npt.NDArray[np.int64]

BLOCK = 1 << 14  # rows at once
WORTH_THREADS = 1 << 25  # multiplications from which on blocks go to threads; fewer are done before these have started
COMPARED = 1024  # pairs that a thread compares at once
GATHERED_BELOW = 0.25  # of the rows: so few are taken out and compared alone; else all are compared, and the others dropped


def nearest_rows(kind: RowKind, parts: Mapping[str, Rows], live: Ids, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k rows nearest to each query (queries, k), only of those in `live`, and their similarities in float64.

    Nearest first, of equals the lower row first; the order is that of `PairwiseSimilarity.exact`. queries: float32. k: at most the number
    of live rows.
    """
    found, similarity = torch.empty(len(queries), k, dtype=torch.int64), torch.empty(len(queries), k, dtype=torch.float64)
    unit = torch.nn.functional.normalize(queries)
    left, num = torch.arange(len(queries)), kind.num_candidates(k)
    with full_float32():
        while len(left):
            num = min(num, len(live))
            bounds, rows = _best_by_bound(kind, parts, live, unit[left], num)
            exact, rows = _compared(parts[kind.exact], queries[left], rows)
            found[left], similarity[left] = rows[:, :k], exact[:, :k]
            if num == len(live) or not kind.is_bounded:
                break
            left, num = left[exact[:, k - 1] <= bounds.amin(dim=1)], 4 * num
    return found, similarity


def _best_by_bound(kind: RowKind, parts: Mapping[str, Rows], live: Ids, queries: Tensor, num: int) -> tuple[Tensor, Tensor]:
    """The `num` live rows with the highest bounds: these, and which rows they are."""
    looked_at = {name: rows for name, rows in parts.items() if name != kind.exact or len(parts) == 1}
    num_rows = len(parts[kind.exact])
    is_gathered = len(live) < GATHERED_BELOW * num_rows
    is_dead = None if len(live) == num_rows or is_gathered else _others(num_rows, live)
    candidates = Candidates(num)

    def look(start: int) -> None:
        if is_gathered:
            some = live[start : start + BLOCK]
            block = {name: rows[some] for name, rows in looked_at.items()}
        else:
            block = {name: rows[start : start + BLOCK] for name, rows in looked_at.items()}
        bounds = kind.bounds(queries, block)
        if is_dead is not None:
            bounds.masked_fill_(is_dead[start : start + BLOCK], -torch.inf)
        candidates.add(bounds, start)

    starts = range(0, len(live) if is_gathered else num_rows, BLOCK)
    if len(queries) * starts.stop * queries.shape[1] < WORTH_THREADS:
        for start in starts:
            look(start)
    else:
        for_each(look, starts, queries.device)
    bounds, index = candidates.kept()
    return bounds, torch.from_numpy(live)[index] if is_gathered else index


def _others(num_rows: int, live: Ids) -> Tensor:
    """(rows,) which of them are not live."""
    is_dead = torch.ones(num_rows, dtype=torch.bool)
    is_dead[torch.from_numpy(live)] = False
    return is_dead


def _compared(exact: Rows, queries: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Similarities of each query with its candidates, and these, the most alike first."""
    similarity, ordered = torch.empty(rows.shape, dtype=torch.float64), torch.empty_like(rows)

    def compare(part: Tensor) -> None:
        some = rows[part].sort(dim=1).values  # by number first: the stable sort by similarity then keeps the lower one first
        gathered = torch.from_numpy(exact[some.flatten().numpy()]).float()
        pairs = torch.arange(some.numel())
        values = PairwiseSimilarity(queries[part], gathered, "cosine").exact(pairs // some.shape[1], pairs).view_as(some)
        similarity[part], order = values.sort(dim=1, descending=True, stable=True)
        ordered[part] = some.gather(1, order)

    for_each(compare, torch.arange(len(queries)).split(max(1, COMPARED // rows.shape[1])), queries.device)
    return similarity, ordered
