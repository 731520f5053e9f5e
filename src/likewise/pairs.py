"""Pairs: anchors' rows of similarities split into positives and negatives, and the masked reductions losses are written in.

A row is one anchor against everything it is compared with (its references). A loss sees a block of rows as `Pairs` and
returns one value a row; a miner maps `Pairs` to `Pairs` with narrower masks.

`pairs.positives` and `pairs.negatives` are two `Side`s of the same rows. The negatives always span the whole row; the
positives may be held compactly, as the few columns that can be positive at all, which is what makes the pull of a loss
nearly free in a large batch. A loss that reads `side.similarity`, `side.distance` and `side.mask` need not know which.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

# What a loss that compares every positive with the whole row holds at a time: numbers of (anchors, positives, references).
CPU_PART_NUMBERS = 2**20
CUDA_PART_NUMBERS = 2**27
VERY_LOW = -1e30  # stands in for minus infinity where the arithmetic that follows must stay finite


class NotPairsAloneError(ValueError):
    """The loss asked for something that is not a function of the pairs' similarities."""


@dataclass(frozen=True)
class Side:
    """The positives or the negatives of a block of rows."""

    similarity: Tensor  # (anchors, k)
    mask: Tensor  # (anchors, k) bool: which of them are on this side
    columns: Tensor | None = None  # (anchors, k) the reference each entry stands for; None: all references in order
    norms: Tensor | None = None  # (anchors, k) ||x||^2 + ||y||^2; None: unit vectors

    @property
    def squared_distance(self) -> Tensor:
        """d^2 = ||x||^2 + ||y||^2 - 2 s, 0 (with gradient 0) where it is below the round-off of that difference.

        That 0 is the type's smallest number, so that the slope of its root is finite, and the slope's slope too.
        """
        limits = torch.finfo(self.similarity.dtype)
        round_off, zero = 8 * limits.eps, limits.tiny
        if self.norms is None:
            return F.threshold(torch.rsub(self.similarity, 2.0, alpha=2), round_off, zero)
        squared = self.norms - 2 * self.similarity
        return torch.where(squared > round_off * self.norms.detach() / 2, squared, zero)

    @property
    def distance(self) -> Tensor:
        """d, with gradient 0 where d = 0: two equal vectors have no direction apart."""
        return self.squared_distance.sqrt()

    @property
    def count(self) -> Tensor:
        """How many entries are on this side. (anchors,)"""
        return masked_count(self.mask, self.similarity.dtype)

    @property
    def empty(self) -> Tensor:
        return ~any_of(self.mask)

    def per_column(self, values: Tensor) -> Tensor:
        """One value a reference (references,) laid out as this side's entries: (anchors, k) or broadcastable to it."""
        return values if self.columns is None else values[self.columns]


@dataclass(frozen=True)
class Pairs:
    """A block of anchors' rows against their references."""

    positives: Side
    negatives: Side
    anchor_labels: Tensor  # (anchors,)
    dim: int  # of the embedding space
    weights: Tensor | None = None  # (anchors,) of each anchor in the mean over them; None: all alike
    noise: Tensor | None = None  # (anchors, 1) one uniform number a row, for miners that draw
    statistic: Tensor | None = None  # (references,) the loss's own statistic of each reference's row
    between: Tensor | None = None  # (m, references) rows of some or all references against all, for losses that look there
    place: Tensor | None = None  # (anchors, k) which of those rows belongs to a positive; None: all rows are there, in order
    vectors: Tensor | None = None  # (references, d) instead of `between`, where that would be too much to hold

    @property
    def similarity(self) -> Tensor:  # (anchors, references)
        return self.negatives.similarity

    @property
    def negative(self) -> Tensor:  # (anchors, references) bool
        return self.negatives.mask

    @property
    def positive(self) -> Tensor:  # (anchors, references) bool
        side = self.positives
        if side.columns is None:
            return side.mask
        hits = torch.zeros(self.similarity.shape, dtype=torch.uint8, device=side.mask.device)
        return hits.scatter_add_(1, side.columns, side.mask.to(torch.uint8)) > 0

    @property
    def distance(self) -> Tensor:  # (anchors, references)
        return self.negatives.distance

    @property
    def valid(self) -> Tensor:
        """Anchors with at least one positive and one negative: those the batch loss averages over. (anchors,)"""
        return ~(self.positives.empty | self.negatives.empty)

    def narrow(self, *, positive: Tensor | None = None, negative: Tensor | None = None) -> Pairs:
        """The same rows, keeping only the positives and negatives for which the given (anchors, k) conditions hold."""
        pull, push = self.positives, self.negatives
        return replace(
            self,
            positives=pull if positive is None else replace(pull, mask=pull.mask & positive),
            negatives=push if negative is None else replace(push, mask=push.mask & negative),
        )

    def some_positives(self, some: slice) -> Pairs:
        """The same rows with only some columns of their positives."""
        side, place = self.positives, self.place
        every = torch.arange(self.similarity.shape[1], device=side.mask.device).expand_as(self.similarity)
        columns = every if side.columns is None else side.columns
        norms = None if side.norms is None else side.norms[:, some]
        return replace(
            self,
            positives=Side(side.similarity[:, some], side.mask[:, some], columns[:, some], norms),
            place=None if place is None else place[:, some],
        )

    def positives_against_references(self) -> Tensor:
        """The rows of an anchor's positives against all references: (anchors, k, references)."""
        columns = self.positives.columns
        if self.vectors is not None:
            of_positives = self.vectors.expand(self.similarity.shape[0], -1, -1) if columns is None else self.vectors[columns]
            return (of_positives @ self.vectors.T).to(self.similarity.dtype)
        if self.between is None:
            raise NotPairsAloneError("the similarities between references are not known here")
        if self.place is not None:
            return self.between[self.place]
        return self.between.expand(self.similarity.shape[0], -1, -1) if columns is None else self.between[columns]


def of_each_positive(function: Callable[[Pairs], Tensor], pairs: Pairs) -> Tensor:
    """The function's result for each positive, (anchors, k), where it holds a number for every reference of each.

    It is called with a few columns of the positives at a time, and gives a result for each of those: however many items a class
    has, no more than a part of (anchors, k, references) numbers is alive. The gradient evaluates each part once more.
    """
    most = CPU_PART_NUMBERS if pairs.similarity.is_cpu else CUDA_PART_NUMBERS
    width, step = pairs.positives.mask.shape[1], max(1, most // pairs.similarity.numel())
    if width <= step:
        return function(pairs)
    parts = [pairs.some_positives(slice(start, min(start + step, width))) for start in range(0, width, step)]
    return torch.cat([checkpoint(function, part, use_reentrant=False, preserve_rng_state=False) for part in parts], 1)


def as_number(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """1 where the mask holds, 0 elsewhere. Through bytes, because that conversion is vectorised on a CPU."""
    return mask.view(torch.uint8).to(dtype) if _eager_on_cpu(mask) else mask.to(dtype)


def any_of(mask: Tensor) -> Tensor:
    """Whether the mask holds anywhere in each row. (a,) Through bytes, as above."""
    return mask.view(torch.uint8).amax(-1).view(torch.bool) if _eager_on_cpu(mask) else mask.any(-1)


def _eager_on_cpu(mask: Tensor) -> bool:
    """Where arithmetic with numbers costs a fifth of torch.where; a GPU, or a fused kernel, is better off with the latter."""
    return mask.is_cpu and not torch.compiler.is_compiling()


def _only(values: Tensor, mask: Tensor) -> Tensor:
    """The values where the mask holds, about VERY_LOW elsewhere."""
    if _eager_on_cpu(mask):
        return torch.add(values, as_number(mask, values.dtype) - 1, alpha=-VERY_LOW)
    return torch.where(mask, values, VERY_LOW)


def masked_sum(values: Tensor, mask: Tensor) -> Tensor:
    """Sum over the mask; 0 where it is empty. The values must be finite outside of the mask too."""
    kept = values * as_number(mask, values.dtype) if _eager_on_cpu(mask) else torch.where(mask, values, 0.0)
    return kept.sum(-1)


def masked_count(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """How many entries the mask holds for, as a number to calculate with."""
    return as_number(mask, dtype).sum(-1)


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the mask; 0 where it is empty."""
    return masked_sum(values, mask) / masked_count(mask, values.dtype).clamp_min(1)


def masked_max(values: Tensor, mask: Tensor, *, empty: float = -torch.inf) -> Tensor:
    """Largest over the mask; `empty`, without gradient, where it is empty."""
    top = _only(values, mask).amax(-1)
    return torch.where(top > VERY_LOW / 2, top, empty)


def masked_min(values: Tensor, mask: Tensor, *, empty: float = torch.inf) -> Tensor:
    """Smallest over the mask; `empty`, without gradient, where it is empty."""
    return -masked_max(-values, mask, empty=-empty)


def softplus(values: Tensor) -> Tensor:
    """log(1 + e^x). torch's own is x itself beyond 20, which is off by 2e-9."""
    return F.softplus(values, threshold=40.0)


def log_sum_exp(values: Tensor, mask: Tensor, *, empty: float = -torch.inf) -> Tensor:
    """log sum exp over the mask; `empty`, without gradient, where it is empty."""
    values = _only(values, mask)
    top = values.detach().amax(-1, keepdim=True).clamp_min(VERY_LOW / 2)  # so that an empty row sums to 0
    total = (values - top).exp().sum(-1)
    nothing = total == 0  # the largest term is exp(0): a sum of 0 has no terms
    return torch.where(nothing, empty, torch.where(nothing, 1.0, total).log() + top.squeeze(-1))


def log1p_sum_exp(values: Tensor, mask: Tensor) -> Tensor:
    """log(1 + sum exp) over the mask; 0 where it is empty."""
    values = _only(values, mask)
    top = values.detach().amax(-1, keepdim=True).clamp_min(0.0)
    return (torch.exp(-top.squeeze(-1)) + (values - top).exp().sum(-1)).log() + top.squeeze(-1)


def semihard_negative(positive: Tensor, pull: Side, negative: Tensor, push: Side) -> Tensor:
    """For every positive the distance of its semi-hard negative: (a, k).

    That is the nearest negative strictly farther than the positive, or the farthest negative if none is farther. Positives
    are sorted, each negative is put between two of them, and only the nearest negative of each gap is kept.
    """
    limits, order = torch.where(pull.mask, positive.detach(), torch.inf).sort(-1)
    gap = torch.searchsorted(limits, negative.detach().contiguous())  # positives strictly nearer than the negative
    nearest = torch.full((*limits.shape[:-1], limits.shape[-1] + 1), torch.inf, dtype=negative.dtype, device=negative.device)
    nearest = nearest.scatter_reduce(-1, gap, torch.where(push.mask, negative, torch.inf), "amin")
    beyond = nearest[..., 1:].flip(-1).cummin(-1).values.flip(-1)  # nearest negative in any later gap
    beyond = torch.empty_like(beyond).scatter(-1, order, beyond)
    farthest = masked_max(negative, push.mask, empty=0.0)
    return torch.where(beyond.isinf(), farthest[..., None], beyond)
