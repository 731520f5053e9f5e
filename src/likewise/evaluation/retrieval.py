"""Retrieval scores of every query, all from the ranks of its positives."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from likewise.evaluation.binary import hamming_ranks
from likewise.evaluation.labels import Labels, class_codes
from likewise.evaluation.ranks import Duplicates, RankCounter, Ranks, Wanted
from likewise.evaluation.similarity import Embeddings, Scorer, full_float32

RETRIEVAL_METRICS = ("R@K", "RP", "MAP@R", "mAP")


@dataclass(frozen=True)
class PerQuery:
    """Scores of each query; those of a query without any match are 0 and left out of every mean."""

    scores: dict[str, Tensor]  # name -> (Q,) float64
    matched: Tensor  # (Q,) bool: the gallery holds an item of the query's class
    labels: Tensor  # (Q,) int64 class codes


def per_query(
    embeddings: Embeddings,
    labels: Labels,
    *,
    gallery: Embeddings | None = None,
    gallery_labels: Labels | None = None,
    ks: Sequence[int] = (1, 2, 4, 8),
    metrics: Sequence[str] = RETRIEVAL_METRICS,
    metric: str = "cosine",
    block: int | Literal["auto"] = "auto",
) -> PerQuery:
    """Retrieval scores of each query against the gallery, or against all other items without one.

    With R positives at ranks r_1 < ... < r_R of the query's whole ranking (ties by lower index, the query itself left out by index):

        R@K = [r_1 <= K]      RP = #{j : r_j <= R} / R      MAP@R = 1/R sum over r_j <= R of j / r_j      mAP = 1/R sum_j j / r_j

    metric: "cosine", "euclidean", or "hamming" for bits packed by `pack_bits`.
    """
    _check_metrics(metrics)
    if (gallery is None) != (gallery_labels is None):
        given, missing = ("gallery", "gallery_labels") if gallery_labels is None else ("gallery_labels", "gallery")
        raise ValueError(f"{given} without {missing}: expected both or neither")
    exclude_self = gallery is None
    items = embeddings if gallery is None else gallery
    query_codes, gallery_codes = class_codes(labels, gallery_labels, device=embeddings.device if isinstance(embeddings, Tensor) else "cpu")
    for name, codes, vectors in (("labels", query_codes, embeddings), ("gallery_labels", gallery_codes, items)):
        if len(codes) != len(vectors):
            raise ValueError(f"{len(codes)} {name} for {len(vectors)} embeddings: expected one label an embedding")
    if len(query_codes) == 0:
        raise ValueError("there are no queries: expected at least one embedding")
    wanted_ks = _check_ks(ks, len(items) - int(exclude_self), exclude_self) if "R@K" in metrics else []
    wanted = Wanted(best_cap=max(wanted_ks, default=0), others="RP" in metrics or "MAP@R" in metrics, all="mAP" in metrics)
    if metric == "hamming":
        all_ranks = hamming_ranks(embeddings, gallery, query_codes, gallery_codes, block)
    else:
        scorer = Scorer.of(embeddings, gallery, metric)
        counter = RankCounter(scorer, exclude_self, wanted, Duplicates.of(scorer.gallery), *_block_shape(block, scorer), symmetric=True)
        all_ranks = counter.ranks(query_codes, gallery_codes)
    names = [f"R@{k}" for k in wanted_ks] + [name for name in RETRIEVAL_METRICS if name != "R@K" and name in metrics]
    scores = {name: torch.zeros(len(query_codes), dtype=torch.float64, device=query_codes.device) for name in names}
    matched = torch.zeros(len(query_codes), dtype=torch.bool, device=query_codes.device)
    with full_float32():
        for ranks in all_ranks:
            matched[ranks.rows] = True
            for name in names:
                scores[name][ranks.rows] = _score(name, ranks)
    return PerQuery(scores, matched, query_codes)


def _score(name: str, ranks: Ranks) -> Tensor:
    """(n,) float64 score of each query from its ranks in rising order."""
    rank, count = ranks.rank, ranks.count
    if name.startswith("R@"):
        return (rank[:, 0] <= int(name[2:])).double()
    exists = torch.arange(rank.shape[1], device=rank.device) < count[:, None]
    hit = exists if name == "mAP" else exists & (rank <= count[:, None])
    if name == "RP":
        return hit.sum(dim=1).double() / count
    precision = torch.arange(1, rank.shape[1] + 1, dtype=torch.float64, device=rank.device) / rank
    return torch.where(hit, precision, 0.0).sum(dim=1) / count


def _check_metrics(metrics: Sequence[str]) -> None:
    unknown = [name for name in metrics if name not in RETRIEVAL_METRICS]
    if isinstance(metrics, str) or unknown or not metrics:
        raise ValueError(f"metrics are {metrics!r}: expected some of {RETRIEVAL_METRICS}")


def _check_ks(ks: Sequence[int], available: int, exclude_self: bool) -> list[int]:
    for k in ks:
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ValueError(f"ks hold {k!r}: expected whole numbers, 1 or more")
        if k > available:
            raise ValueError(
                f"R@{k} asks for {k} neighbours but the gallery has only {available} items{' besides the query' if exclude_self else ''}: "
                f"leave {k} out of ks"
            )
    if len(ks) == 0:
        raise ValueError("ks are empty: expected at least one K, or metrics without 'R@K'")
    return sorted(set(ks))


def _block_shape(block: int | str, scorer: Scorer) -> tuple[int, int]:
    if block == "auto":
        return (8192, 4096) if scorer.queries.is_cuda else (1024, 1024)
    if isinstance(block, bool) or not isinstance(block, int) or block < 1:
        raise ValueError(f"block is {block!r}: expected 'auto' or a whole number of rows, 1 or more")
    return block, block
