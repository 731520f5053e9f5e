"""Retrieval scores of every query, all from the ranks of its positives."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from likewise.evaluation.binary import check_packed
from likewise.evaluation.labels import Labels, class_codes
from likewise.evaluation.metrics import RETRIEVAL_METRICS, check_metrics, fitting_ks
from likewise.evaluation.ranks.hamming_rows import HammingRows
from likewise.evaluation.ranks.positives import Duplicates, PositiveRanks
from likewise.evaluation.ranks.rank_counter import RankCounter, Wanted
from likewise.evaluation.similarity import Embeddings, PairwiseSimilarity, full_float32

SAME_MEAN = 1e-12  # the sum of a mean may be taken in another order


@dataclass(frozen=True)
class PerQuery:
    """Scores of each query; those of a query without any match are 0 and left out of every mean."""

    scores: dict[str, Tensor]  # name -> (Q,) float64
    matched: Tensor  # (Q,) bool: the gallery holds an item of the query's class
    labels: Tensor  # (Q,) int64 class codes
    left_out: tuple[str, ...] = ()  # what was asked for and is not among the scores, in words

    @property
    def means(self) -> dict[str, float]:
        """Over the queries that have a match; none where none has."""
        if not bool(self.matched.any()):
            return {}
        return {name: float(values[self.matched].mean()) for name, values in self.scores.items()}

    def unlike(self, means: Mapping[str, float]) -> str:
        """The first of these means that is not that of the queries, in words; empty if none. Means of other kinds are passed over."""
        return next(
            (
                f"{name} is {means[name]:.6f} there, and {mean:.6f} by its queries"
                for name, mean in self.means.items()
                if name in means and not abs(means[name] - mean) <= SAME_MEAN
            ),
            "",
        )

    def to_bytes(self) -> bytes:
        """Scores, matches and labels; `from_bytes` reads them."""
        file = io.BytesIO()
        arrays: dict[str, Any] = {f"score {name}": values.cpu().numpy() for name, values in self.scores.items()}
        np.savez_compressed(file, matched=self.matched.cpu().numpy(), labels=self.labels.cpu().numpy(), **arrays)
        return file.getvalue()

    @staticmethod
    def from_bytes(packed: bytes) -> "PerQuery":
        with np.load(io.BytesIO(packed), allow_pickle=False) as file:
            scores = {name.removeprefix("score "): torch.from_numpy(file[name]) for name in file.files if name.startswith("score ")}
            return PerQuery(scores, torch.from_numpy(file["matched"]), torch.from_numpy(file["labels"]))


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

    A K larger than the gallery is left out. metric: "cosine", "euclidean", or "hamming" for bits packed by `pack_bits`.
    """
    check_metrics(metrics, RETRIEVAL_METRICS)
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
    num_candidates = len(items) - int(exclude_self)
    wanted_ks, left_out = fitting_ks(ks, num_candidates, exclude_self=exclude_self) if "R@K" in metrics else ([], ())
    wanted = Wanted(best_cap=max(wanted_ks, default=0), others="RP" in metrics or "MAP@R" in metrics, all="mAP" in metrics)
    names = [f"R@{k}" for k in wanted_ks] + [name for name in RETRIEVAL_METRICS if name != "R@K" and name in metrics]
    scores = {name: torch.zeros(len(query_codes), dtype=torch.float64, device=query_codes.device) for name in names}
    matched = torch.zeros(len(query_codes), dtype=torch.bool, device=query_codes.device)

    def take(ranks: PositiveRanks) -> None:
        matched[ranks.rows] = True
        for name in names:
            scores[name][ranks.rows] = score_of_ranks(name, ranks)

    if metric == "hamming":
        query_bits, gallery_bits = check_packed(embeddings, items)
        num_rows = None if block == "auto" else _block_shape(block, query_bits)[0]
        best_only = not (wanted.others or wanted.all)
        HammingRows(query_bits, gallery_bits, exclude_self, best_only, num_rows).each(query_codes, gallery_codes, take)
    else:
        pairwise = PairwiseSimilarity.of(embeddings, gallery, metric)
        with full_float32():
            rank_counter(pairwise, exclude_self, wanted, block).each(query_codes, gallery_codes, take)
    return PerQuery(scores, matched, query_codes, left_out)


def rank_counter(pairwise: PairwiseSimilarity, exclude_self: bool, wanted: Wanted, block: int | str = "auto") -> RankCounter:
    """What finds the ranks of the positives in the order of the embedding."""
    return RankCounter(
        pairwise, exclude_self, wanted, Duplicates.of(pairwise.gallery), *_block_shape(block, pairwise.queries), symmetric=True
    )


def score_of_ranks(name: str, ranks: PositiveRanks) -> Tensor:
    """(n,) float64 score of each query from its ranks in rising order; (1,) where all have the same."""
    rank, count = ranks.rank, ranks.count[: len(ranks.rank)]
    if name.startswith("R@"):
        return (rank[:, 0] <= int(name[2:])).double()
    exists = torch.arange(rank.shape[1], device=rank.device) < count[:, None]
    hit = exists if name == "mAP" else exists & (rank <= count[:, None])
    if name == "RP":
        return hit.sum(dim=1).double() / count
    precision = torch.arange(1, rank.shape[1] + 1, dtype=torch.float64, device=rank.device) / rank
    return torch.where(hit, precision, 0.0).sum(dim=1) / count


def _block_shape(block: int | str, queries: Tensor) -> tuple[int, int]:
    if block == "auto":
        return (8192, 4096) if queries.is_cuda else (1024, 1024)
    if isinstance(block, bool) or not isinstance(block, int) or block < 1:
        raise ValueError(f"block is {block!r}: expected 'auto' or a whole number of rows, 1 or more")
    return block, block
