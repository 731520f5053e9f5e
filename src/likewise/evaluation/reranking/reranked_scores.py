"""Retrieval scores after re-ranking.

Of each list the first `depth` items are re-ranked; after these come all others as the embedding itself orders them. R@K, R-precision,
MAP@R and mAP are those of this whole list. So R@K is the re-ranker's own for K up to the depth, R-precision and MAP@R are for queries with
up to so many positives, and mAP is moved by the head of the list alone.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from likewise.evaluation.certainty.uncertainty import PairedResult, Unit, paired_test
from likewise.evaluation.labels import Labels, class_codes
from likewise.evaluation.ranks.positives import Classes, PositiveRanks
from likewise.evaluation.ranks.rank_counter import Wanted
from likewise.evaluation.ranks.whole_rows import Take
from likewise.evaluation.reranking import Reranker, make_reranker
from likewise.evaluation.retrieval import PerQuery, rank_counter, score_of_ranks
from likewise.evaluation.similarity import Embeddings, PairwiseSimilarity, full_float32

# As many of each list are re-ranked as the largest K or class asks for; for a class at most, and for all at least, so many.
LEAST_DEPTH, MOST_DEPTH = 100, 500
# Items put into order at once, several times 8 bytes each.
ORDERED_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class RerankedScores:
    depth: int  # so many of each list were re-ranked
    means: dict[str, float]  # over the matched queries
    per_query: PerQuery
    differences: dict[str, PairedResult] = field(default_factory=dict)  # to the scores before, where asked for and more than one class


def score_reranked(
    embeddings: Embeddings,
    labels: Labels,
    how: str | Reranker,
    before: PerQuery,
    *,
    gallery: Embeddings | None = None,
    gallery_labels: Labels | None = None,
    unit: Unit | None = None,
    seed: int = 0,
) -> RerankedScores:
    """The scores that `before` holds of these embeddings, after re-ranking; unit: what is drawn for intervals of the differences."""
    pairwise = PairwiseSimilarity.of(embeddings, gallery, "cosine")
    query_codes, gallery_codes = class_codes(labels, gallery_labels, device=pairwise.queries.device)
    classes = Classes.of(query_codes, gallery_codes)
    num_positives = (classes.gallery_count - int(gallery is None))[query_codes].clamp(min=0)
    depth = rerank_depth(before.scores, int(num_positives.max()), len(pairwise.gallery) - int(gallery is None))
    head = make_reranker(how).neighbours(pairwise.queries, None if gallery is None else pairwise.gallery, depth)[0]
    lists = _SplicedLists(pairwise, gallery is None, query_codes, gallery_codes, classes, head)
    to_the_end = "mAP" in before.scores or int(num_positives.max()) > depth
    scores = {name: torch.zeros_like(values) for name, values in before.scores.items()}

    def take(ranks: PositiveRanks) -> None:
        for name in scores:
            scores[name][ranks.rows] = score_of_ranks(name, ranks)

    if to_the_end:
        lists.each_rank(take)
    else:
        lists.each_in_head(num_positives, take)
    after = PerQuery(scores, before.matched, before.labels)
    means = {name: float(values[after.matched].mean()) for name, values in scores.items()}
    differences = {} if unit is None else paired_test(before, after, unit=unit, samples=2000, seed=seed)
    return RerankedScores(depth, means, after, {name: paired for name, paired in differences.items() if math.isfinite(paired.low)})


def rerank_depth(names: Iterable[str], most_positives: int, available: int) -> int:
    largest_k = max((int(name[2:]) for name in names if name.startswith("R@")), default=1)
    return min(available, max(largest_k, min(most_positives, MOST_DEPTH), LEAST_DEPTH))


@dataclass(frozen=True)
class _SplicedLists:
    """Every query's whole list: a head that is given, then all others by similarity and index."""

    pairwise: PairwiseSimilarity
    exclude_self: bool
    query_codes: Tensor  # (Q,)
    gallery_codes: Tensor  # (G,)
    classes: Classes
    head: Tensor  # (Q, depth) gallery indices

    def each_in_head(self, num_positives: Tensor, take: Take) -> None:
        """Ranks up to the depth; larger ones are only known to be larger."""
        place = torch.arange(1, self.head.shape[1] + 1, device=self.head.device)
        for rows in torch.split(num_positives.nonzero().flatten(), max(1, ORDERED_AT_ONCE // len(place))):
            is_hit = self.gallery_codes[self.head[rows]] == self.query_codes[rows][:, None]
            rank = torch.where(is_hit, place, len(self.gallery_codes) + 1).sort(dim=1).values
            take(PositiveRanks(rows, num_positives[rows], rank))

    def each_rank(self, take: Take) -> None:
        """All ranks, from those in the order of the embedding."""

        def splice(ranks: PositiveRanks) -> None:
            width = ranks.rank.shape[1] + self.head.shape[1]
            of_all = ranks.rank.expand(len(ranks.rows), -1)
            for part in torch.split(torch.arange(len(ranks.rows), device=ranks.rows.device), max(1, ORDERED_AT_ONCE // width)):
                take(self._spliced(PositiveRanks(ranks.rows[part], ranks.count[part], of_all[part])))

        counter = rank_counter(self.pairwise, self.exclude_self, Wanted(best_cap=0, others=True, all=True))
        with full_float32():
            counter.each(self.query_codes, self.gallery_codes, splice)

    def _spliced(self, ranks: PositiveRanks) -> PositiveRanks:
        """In the head a positive's rank is its place; outside, its rank before and one more for each item of the head that it preceded.

        Head and positives are put into the embedding's order together. Those that are both come twice, next to each other, the one of the
        head first.
        """
        head, positives = self.head[ranks.rows], self._positives(ranks)
        item = torch.cat([head, positives], dim=1)
        place = torch.nn.functional.pad(torch.arange(1, head.shape[1] + 1, device=item.device), (0, positives.shape[1])).expand_as(item)
        similarity = torch.full(item.shape, -torch.inf, dtype=torch.float64, device=item.device)
        row, at = (item < len(self.gallery_codes)).nonzero(as_tuple=True)
        similarity[row, at] = self.pairwise.exact(ranks.rows[row], item[row, at])
        order = item.argsort(dim=1, stable=True)
        order = order.gather(1, similarity.gather(1, order).sort(dim=1, descending=True, stable=True).indices)
        item, place = item.gather(1, order), place.gather(1, order)
        is_positive = (place == 0) & (item < len(self.gallery_codes))
        before = ranks.rank.gather(1, (is_positive.cumsum(dim=1) - 1).clamp(min=0, max=ranks.rank.shape[1] - 1))
        preceded = head.shape[1] - (place > 0).cumsum(dim=1)
        place_of_last, last = torch.nn.functional.pad(place, (1, 0))[:, :-1], torch.nn.functional.pad(item, (1, 0), value=-1)[:, :-1]
        rank = torch.where(last == item, place_of_last, before + preceded)
        rank = torch.where(is_positive, rank, len(self.gallery_codes) + 1)
        return PositiveRanks(ranks.rows, ranks.count, rank.sort(dim=1).values[:, : ranks.rank.shape[1]])

    def _positives(self, ranks: PositiveRanks) -> Tensor:
        """(n, slots) gallery indices of the positives, in any order; missing ones are beyond the gallery."""
        code = self.query_codes[ranks.rows]
        slot = torch.arange(int(ranks.count.max()) + int(self.exclude_self), device=code.device)
        exists = slot < self.classes.gallery_count[code][:, None]
        at = (self.classes.gallery_start[code][:, None] + slot).clamp(max=len(self.gallery_codes) - 1)
        item = self.classes.gallery_order[at]
        if self.exclude_self:
            exists &= item != ranks.rows[:, None]
        return torch.where(exists, item, len(self.gallery_codes))
