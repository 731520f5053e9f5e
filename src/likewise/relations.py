"""Relations: which pairs are alike, where that is more than equal labels. For `objective(embeddings, labels, relation=...)`.

A relation is called with the labels of some anchors and of all references, a block of rows at a time, and gives 1 for like, -1 for
unlike and 0 for neither. Two views of an image need none of these: their labels are the images' numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class SharedLabels:
    """Items with several labels each, (N, labels) of 0 and 1: alike with at least `like` labels in common, unlike with none."""

    like: int = 1

    def __post_init__(self) -> None:
        if self.like < 1:
            raise ValueError(f"SharedLabels like={self.like!r}: expected a number of labels of at least 1")

    def __call__(self, anchors: Tensor, references: Tensor) -> Tensor:
        shared = anchors.to(torch.float32) @ references.to(torch.float32).T
        return (shared >= self.like).to(torch.int8) - (shared == 0).to(torch.int8)


@dataclass(frozen=True)
class SharedPath:
    """Items in a tree of classes, (N, levels) of whole numbers from the root's branches down: a class at each level.

    Alike where the first `like` levels agree, unlike where they part within the first `unlike`, and neither in between: with like=2 and
    unlike=1 two species of one genus, at levels (family, genus, species), are alike, and two genera of one family neither.
    """

    like: int
    unlike: int

    def __post_init__(self) -> None:
        if not 1 <= self.unlike <= self.like:
            raise ValueError(f"SharedPath like={self.like!r}, unlike={self.unlike!r}: expected 1 <= unlike <= like")

    def __call__(self, anchors: Tensor, references: Tensor) -> Tensor:
        if anchors.ndim != 2 or anchors.shape[1] < self.like:
            raise ValueError(f"labels of shape {tuple(anchors.shape)}: expected (items, levels), of at least {self.like} levels")
        agrees = torch.ones(len(anchors), len(references), dtype=torch.bool, device=anchors.device)
        parts_early = ~agrees
        for level in range(self.like):
            agrees &= anchors[:, level, None] == references[:, level]
            if level + 1 == self.unlike:
                parts_early = ~agrees
        return agrees.to(torch.int8) - parts_early.to(torch.int8)


def explicit_pairs(number: int, like: Tensor, unlike: Tensor) -> Tensor:
    """The matrix (number, number) of pairs told one by one: `like` and `unlike` hold two places in the batch a row, in either order.

    Triplets (anchor, positive, negative) are the pairs of their first two and of their first and last. All other pairs are neither.
    """
    relation = torch.zeros(number, number, dtype=torch.int8, device=like.device)
    for name, pairs, value in (("like", like, 1), ("unlike", unlike, -1)):
        if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.is_floating_point() or bool(((pairs < 0) | (pairs >= number)).any()):
            raise ValueError(f"{name} of shape {tuple(pairs.shape)}: expected two places from 0 to {number - 1} a row, (pairs, 2)")
        first, second = pairs.long().unbind(1)
        if value < 0 and bool((relation[first, second] > 0).any()):
            raise ValueError("a pair is in like and in unlike: leave it out of one")
        relation[first, second] = relation[second, first] = value
    return relation
