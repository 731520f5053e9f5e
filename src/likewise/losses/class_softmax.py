"""Cross entropy over class logits given as an anchor's own logit and the others'."""

from __future__ import annotations

from torch import Tensor

from likewise.pairs import Pairs, log_sum_exp, masked_sum, softplus


def class_softmax(pairs: Pairs, own: Tensor, others: Tensor) -> Tensor:
    """-log(e^own / (e^own + sum_N e^others)) for own (a, k), of which the positive one counts, and others (a, r): (a,)"""
    own = masked_sum(own, pairs.positives.mask)
    return softplus(log_sum_exp(others, pairs.negatives.mask) - own).masked_fill(pairs.positives.empty, 0.0)
