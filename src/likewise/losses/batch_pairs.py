"""All pairs of a batch at once, for losses of vectors that compare them in more than one way."""

from __future__ import annotations

import torch
from torch import Tensor

from likewise.pairs import Pairs
from likewise.references import batch_rows
from likewise.rows import pairs_of


def batch_pairs(vectors: Tensor, labels: Tensor) -> Pairs:
    """Every unit vector of a batch as an anchor against all others."""
    rows = batch_rows(vectors, labels, unit=True)
    return pairs_of(rows.similarity(), rows.block(), dim=vectors.shape[1])


def mean_over_anchors(values: Tensor, pairs: Pairs) -> Tensor:
    """The mean of the rows' values (a,) over the anchors that have a positive and a negative; 0 if there are none. ()"""
    return torch.where(pairs.valid, values, 0.0).sum() / pairs.valid.sum().clamp_min(1)
