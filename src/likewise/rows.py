"""Rows: all anchors of a batch with everything they are compared with, before any similarity is computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypedDict

import torch
from torch import Tensor

from likewise.pairs import Pairs, Side

RowFunction = Callable[[Pairs], Tensor]  # a block of rows -> (anchors, ...): one result a row
CountedFunction = Callable[[Pairs], tuple[Tensor, Tensor]]  # a block of rows -> two (anchors,): values, and 1 for rows that count

# What each reference is to each anchor, in [-1, 1]: a matrix (n, r), or a function of labels of some anchors and of references -> (a, r)
Relation = Tensor | Callable[[Tensor, Tensor], Tensor]


class BlockTensors(TypedDict):
    """What a block of rows is made of: plain tensors, so that a function of them can be compiled."""

    anchor_labels: Tensor  # (a,)
    reference_labels: Tensor  # (r,)
    anchor_items: Tensor | None  # (a,)
    reference_items: Tensor | None  # (r,)
    present: Tensor | None  # (r,)
    columns: Tensor | None  # (a, k)
    exists: Tensor | None  # (a, k)
    noise: Tensor | None  # (a, 1)
    weights: Tensor | None  # (a,)
    relation: Tensor | None  # (a, r)


@dataclass(frozen=True)
class Grouping:
    """Where the references of each class are, so that an anchor's positives are found without searching its row."""

    order: Tensor  # (r,) columns sorted by class
    start: Tensor  # (n,) where the anchor's class begins in `order`
    size: Tensor  # (n,) how many references its class has
    largest: int
    even: bool  # all classes are as large

    @staticmethod
    def of(anchor_labels: Tensor, reference_labels: Tensor) -> Grouping:
        ordered, order = torch.sort(reference_labels, stable=True)
        start = torch.searchsorted(ordered, anchor_labels)
        size = torch.searchsorted(ordered, anchor_labels, right=True) - start
        smallest, largest = map(int, size.aminmax())
        return Grouping(order=order, start=start, size=size, largest=max(1, largest), even=smallest == largest)

    def width(self, rows: slice) -> int:
        """How many columns these anchors' classes need."""
        return self.largest if self.even else max(1, int(self.size[rows].max()))

    def columns(self, rows: slice, width: int) -> tuple[Tensor, Tensor]:
        """Columns of the anchors' own class and which of them exist: two (a, width) tensors.

        A slot that does not exist repeats the first column of the class (or names any column, if the class has none).
        """
        slot = torch.arange(width, device=self.order.device)
        exists = slot < self.size[rows, None]
        position = (self.start[rows, None] + slot * exists).clamp_max_(self.order.shape[0] - 1)
        return self.order[position], exists


@dataclass(frozen=True)
class Rows:
    """Anchors (n, d) against references (r, d).

    A pair is positive when the labels are equal and the items differ, negative when the labels differ. Items are told
    apart by index (`anchor_items`, `reference_items`), never by value, so two equal vectors are still a pair.
    """

    anchors: Tensor  # (n, d)
    references: Tensor  # (r, d); the very same tensor as `anchors` when the batch is compared with itself
    anchor_labels: Tensor  # (n,)
    reference_labels: Tensor  # (r,)
    anchor_items: Tensor | None = None  # (n,) None: no reference is an anchor
    reference_items: Tensor | None = None  # (r,)
    present: Tensor | None = None  # (r,) bool: references that exist at all; None: all of them
    unit: bool = True  # all vectors have length 1
    grouping: Grouping | None = None
    noise: Tensor | None = None  # (n, 1)
    weights: Tensor | None = None  # (n,) of each anchor in the mean over them
    relation: Relation | None = None  # instead of equal labels: above 0 a positive, below 0 a negative, 0 no pair
    statistic: Tensor | None = None  # (r,)

    @property
    def num_anchors(self) -> int:
        return self.anchors.shape[0]

    @property
    def num_references(self) -> int:
        return self.references.shape[0]

    @property
    def symmetric(self) -> bool:
        return self.references is self.anchors

    @property
    def nothing_counts(self) -> bool:
        """Whether the labels alone show that no anchor has both a positive and a negative. Known where the rows are grouped."""
        if self.grouping is None:
            return False
        size, itself = self.grouping.size, 0 if self.anchor_items is None else 1
        return not bool(((size > itself) & (size < self.num_references)).any())

    def similarity(self) -> Tensor:  # (n, r)
        return self.anchors @ self.references.T

    def squared_norms(self) -> tuple[Tensor, Tensor] | None:
        """||x||^2 of anchors and references, where they are not all 1."""
        if self.unit:
            return None
        dtype = statistics_dtype(self.anchors)
        references = self.references.to(dtype).square().sum(-1)
        return references if self.symmetric else self.anchors.to(dtype).square().sum(-1), references

    def block(self, rows: slice = slice(None), width: int | None = None) -> BlockTensors:
        """What these rows are made of. `width`: how many columns of positives each has; None: as the largest class needs."""
        columns, exists = None, None
        if self.grouping is not None:
            columns, exists = self.grouping.columns(rows, self.grouping.largest if width is None else width)
        return {
            "anchor_labels": self.anchor_labels[rows],
            "reference_labels": self.reference_labels,
            "anchor_items": None if self.anchor_items is None else self.anchor_items[rows],
            "reference_items": self.reference_items,
            "present": self.present,
            "columns": columns,
            "exists": exists,
            "noise": None if self.noise is None else self.noise[rows],
            "weights": None if self.weights is None else self.weights[rows],
            "relation": None if self.relation is None else self._related(self.relation, rows),
        }

    def _related(self, relation: Relation, rows: slice) -> Tensor:
        """What the references are to these anchors: (a, r)."""
        if isinstance(relation, Tensor):
            return relation[rows]
        with torch.no_grad():
            related = relation(self.anchor_labels[rows], self.reference_labels)
        expected = (len(self.anchor_labels[rows]), self.num_references)
        if not isinstance(related, Tensor) or related.shape != expected or related.dtype == torch.bool:
            given = f"{related.dtype} {tuple(related.shape)}" if isinstance(related, Tensor) else type(related).__name__
            raise ValueError(
                f"the relation gave {given} for labels of {expected[0]} anchors and {expected[1]} references: expected numbers {expected}, "
                "1 for like, -1 for unlike, 0 for neither"
            )
        return related

    def of_references(self, noise: Tensor | None) -> Rows:
        """The references as anchors against themselves."""
        if self.symmetric:
            return self
        if isinstance(self.relation, Tensor):
            raise ValueError(
                "this loss looks at the references' own rows, which a matrix of anchors does not tell: give a function of labels"
            )
        items = self.reference_items
        if items is None:
            items = torch.arange(self.num_references, device=self.references.device)
        labels = self.reference_labels
        return replace(
            self,
            anchors=self.references,
            anchor_labels=labels,
            anchor_items=items,
            reference_items=items,
            grouping=None if self.grouping is None else Grouping.of(labels, labels),
            noise=noise,
            weights=None,
        )


def statistics_dtype(vectors: Tensor) -> torch.dtype:
    """Similarities are products in the vectors' own type; everything after them is at least float32."""
    return torch.promote_types(vectors.dtype, torch.float32)


def pairs_of(
    similarity: Tensor,
    block: BlockTensors,
    *,
    dim: int,
    positive_similarity: Tensor | None = None,
    anchor_square: Tensor | None = None,
    reference_square: Tensor | None = None,
    statistic: Tensor | None = None,
    between: Tensor | None = None,
    place: Tensor | None = None,
    vectors: Tensor | None = None,
) -> Pairs:
    """The Pairs of a block of rows with the given similarities (a, r).

    `positive_similarity` (a, k) stands in for the similarities at the block's columns, so that the two sides can be
    differentiated apart.
    """
    labels, columns, present = block["anchor_labels"], block["columns"], block["present"]
    dtype = statistics_dtype(similarity)
    mask: Tensor
    at_columns: Tensor | slice = slice(None) if columns is None else columns
    relation = block["relation"]
    if relation is not None:
        mask, negative = relation > 0, relation < 0
    elif columns is None:
        mask = labels[:, None] == block["reference_labels"]
        negative = ~mask
    else:
        assert block["exists"] is not None
        mask = block["exists"]
        if torch.compiler.is_compiling():
            negative = labels[:, None] != block["reference_labels"]
        else:  # all but the class's columns: far cheaper on a CPU than comparing every label
            negative = torch.ones(similarity.shape, dtype=torch.bool, device=similarity.device)
            negative = negative.scatter_(1, columns, ~mask[:, :1].expand_as(columns))
    anchor_items, reference_items = block["anchor_items"], block["reference_items"]
    if anchor_items is not None and reference_items is not None:
        others = reference_items[at_columns] != anchor_items[:, None]
        mask = mask & others
        if relation is not None:  # which may call an item unlike itself
            negative = negative & others
    if present is not None:
        negative = negative & present
        mask = mask & present[at_columns]
    similarity = similarity.to(dtype)
    if positive_similarity is None:
        positive_similarity = similarity if columns is None else similarity.gather(1, columns)
    positive_norms = negative_norms = None
    if anchor_square is not None and reference_square is not None:
        negative_norms = anchor_square[:, None] + reference_square
        positive_norms = negative_norms if columns is None else anchor_square[:, None] + reference_square[columns]
    return Pairs(
        positives=Side(positive_similarity.to(dtype), mask, columns, positive_norms),
        negatives=Side(similarity, negative, None, negative_norms),
        anchor_labels=labels,
        dim=dim,
        noise=block["noise"],
        weights=block["weights"],
        statistic=statistic,
        between=None if between is None else between.to(dtype),
        place=place,
        vectors=vectors,
    )
