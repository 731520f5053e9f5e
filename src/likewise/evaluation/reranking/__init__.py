"""Re-ranking: the neighbours of a query put into a better order by what is near to them, without labels and without training.

Two ways change the vectors and search again; the third, `KReciprocal`, changes the distances. All are exact: each list is that of the
formula over the whole gallery, found in blocks and without a matrix of all pairs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from likewise.argument_types import checked_arguments
from likewise.checks import known_name, require_frozen
from likewise.configuration import from_table, value_of
from likewise.evaluation.metrics import check_k
from likewise.evaluation.nearest import nearest
from likewise.evaluation.reranking.k_reciprocal import KReciprocal
from likewise.evaluation.similarity import Embeddings, PairwiseSimilarity
from likewise.evaluation.threads import for_each

# Numbers of neighbours' vectors gathered at once, in float64.
GATHERED_ELEMENTS = 1 << 21


@runtime_checkable
class Reranker(Protocol):
    """A way to re-rank: a frozen dataclass with its settings."""

    def neighbours(self, queries: Tensor, gallery: Tensor | None, k: int) -> tuple[Tensor, Tensor]:
        """Index (Q, k) int64 of the k items that come first for each query, and their similarity (Q, k), larger is nearer.

        Without a gallery every query is compared with all others: it is left out of its own list by index. Ties go to the lower index.
        """
        ...


@dataclass(frozen=True)
class AlphaQueryExpansion:
    """Alpha query expansion (Radenovic, Tolias and Chum 2018, section 3.5): search again with the query and its neighbours together.

        q' = q + sum over the n nearest g of max(s(q, g), 0)^alpha g,   then the nearest to q'

    of unit vectors, with cosine similarity s. alpha = 0 is average query expansion, a large alpha leaves the query as it is.
    """

    alpha: float = 3.0
    num_neighbours: int = 10  # n; all there are where these are fewer

    def __post_init__(self) -> None:
        _check_expansion(self.alpha, self.num_neighbours)

    def neighbours(self, queries: Tensor, gallery: Tensor | None, k: int) -> tuple[Tensor, Tensor]:
        expanded = _expanded(queries, gallery, self.alpha, self.num_neighbours)
        return nearest(expanded, queries if gallery is None else gallery, k, exclude_self=gallery is None)


@dataclass(frozen=True)
class DatabaseAugmentation:
    """Database-side augmentation (Turcot and Lowe 2009; Arandjelovic and Zisserman 2012), weighted as alpha query expansion is.

        g' = g + sum over the n nearest other gallery items h of max(s(g, h), 0)^alpha h,   then the g' nearest to the query

    The gallery can be augmented before there is any query. Without a gallery of its own, an item's augmented vector may hold the query.
    """

    alpha: float = 3.0
    num_neighbours: int = 10  # n
    with_queries: bool = True  # the query too is searched with its n nearest gallery items, as alpha query expansion does

    def __post_init__(self) -> None:
        _check_expansion(self.alpha, self.num_neighbours)

    def neighbours(self, queries: Tensor, gallery: Tensor | None, k: int) -> tuple[Tensor, Tensor]:
        augmented = _expanded(queries if gallery is None else gallery, None, self.alpha, self.num_neighbours)
        if not self.with_queries:
            return nearest(queries, augmented, k, exclude_self=gallery is None)
        if gallery is None:
            return nearest(augmented, augmented, k, exclude_self=True)
        return nearest(_expanded(queries, gallery, self.alpha, self.num_neighbours), augmented, k)


RERANKERS: Mapping[str, Callable[..., Reranker]] = {
    "alpha_qe": AlphaQueryExpansion,
    "database_augmentation": DatabaseAugmentation,
    "k_reciprocal": KReciprocal,
}


@checked_arguments
def rerank(
    queries: Embeddings, gallery: Embeddings | None = None, k: int = 10, *, how: str | Reranker = "k_reciprocal"
) -> tuple[Tensor, Tensor]:
    """The k gallery items that come first for each query after re-ranking: index (Q, k) int64, and similarity (Q, k), larger is nearer.

    Without a gallery every item queries all others. how: a name in `RERANKERS`, with settings if need be ("k_reciprocal:k1=30:k2=8"), or a
    re-ranker with its own: KReciprocal(k1=30). The similarity is that of the changed vectors, or for "k_reciprocal" 1 less its distance.
    """
    pairwise = PairwiseSimilarity.of(queries, gallery, "cosine")
    check_k(k, len(pairwise.queries), len(pairwise.gallery), gallery is None)
    return make_reranker(how).neighbours(pairwise.queries, None if gallery is None else pairwise.gallery, k)


def make_reranker(how: str | Reranker) -> Reranker:
    """The re-ranker that "name" or "name:setting=value:setting=value" asks for, or the object itself after a look at it."""
    if not isinstance(how, str):
        if isinstance(how, type) or not isinstance(how, Reranker):
            raise ValueError(f"how is {how!r}: expected one of {', '.join(RERANKERS)}, or a re-ranker such as KReciprocal(k1=30)")
        require_frozen("re-ranker", how)
        return how
    name, *changes = how.split(":")
    kind = RERANKERS[known_name("re-ranker", name, RERANKERS)]
    settings = {}
    for change in changes:
        setting, is_given, value = change.partition("=")
        if not is_given:
            raise ValueError(f"{how!r} has {change!r}: expected setting=value, such as k_reciprocal:k1=30")
        settings[setting] = value_of(value)
    return from_table(kind, settings, where=name)  # type: ignore[arg-type]


def _expanded(queries: Tensor, gallery: Tensor | None, alpha: float, num_neighbours: int) -> Tensor:
    """(Q, dim) unit vectors q + sum over the nearest of max(s, 0)^alpha g, summed in float64."""
    pairwise = PairwiseSimilarity.of(queries, gallery, "cosine")
    num = min(num_neighbours, len(pairwise.gallery) - int(gallery is None))
    unit_query = _unit_rows(pairwise.queries, pairwise.query_square_norms)
    unit_item = _unit_rows(pairwise.gallery, pairwise.gallery_square_norms)
    expanded = torch.empty_like(pairwise.queries)
    if num == 0:
        index = torch.empty(len(queries), 0, dtype=torch.int64, device=expanded.device)
    else:
        index = nearest(pairwise.queries, pairwise.gallery, num, exclude_self=gallery is None)[0]

    def one(rows: Tensor) -> None:
        near = index[rows]
        weight = pairwise.exact(rows.repeat_interleave(num), near.flatten()).view_as(near).clamp_(min=0).pow_(alpha)
        total = torch.baddbmm(unit_query(rows)[:, None], weight[:, None], unit_item(near.flatten()).view(len(rows), num, -1))[:, 0]
        expanded[rows] = torch.nn.functional.normalize(total, dim=1).to(expanded.dtype)

    at_once = max(1, GATHERED_ELEMENTS // ((num + 1) * queries.shape[1]))
    for_each(one, torch.split(torch.arange(len(queries), device=expanded.device), at_once), expanded.device)
    return expanded


def _unit_rows(vectors: Tensor, square_norms: Tensor) -> Callable[[Tensor], Tensor]:
    """Some of the vectors at length 1 in float64; zero vectors stay."""
    lengths = torch.where(square_norms > 0, square_norms, 1.0).sqrt()
    return lambda rows: vectors[rows].double() / lengths[rows, None]


def _check_expansion(alpha: float, num_neighbours: int) -> None:
    if not 0 <= alpha < float("inf"):
        raise ValueError(f"alpha is {alpha}: expected 0 or more; 0 weighs all neighbours alike, 3 is usual")
    if isinstance(num_neighbours, bool) or num_neighbours < 1:
        raise ValueError(f"num_neighbours is {num_neighbours}: expected 1 or more")
