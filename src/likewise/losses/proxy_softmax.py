"""Proxy-softmax loss (normalised softmax)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from likewise.losses.class_softmax import class_softmax
from likewise.losses.loss import Loss, Meets, require_positive
from likewise.pairs import Pairs, masked_sum


@dataclass(frozen=True)
class ProxySoftmax(Loss):
    """l = cross entropy of cosine / temperature over all proxies  (unbiased evaluation, eq. 15).

    label_smoothing e moves e of the target from the own class to all C classes evenly, as the authors train it.
    """

    temperature: float = 0.05
    label_smoothing: float = 0.0

    meets: ClassVar[Meets] = "proxies"

    def __post_init__(self) -> None:
        require_positive(self, "temperature")

    def per_anchor(self, pairs: Pairs) -> Tensor:
        pull, push = pairs.positives, pairs.negatives
        own, others = pull.similarity / self.temperature, push.similarity / self.temperature
        hard = class_softmax(pairs, own, others)
        if self.label_smoothing == 0:
            return hard
        # -(1-e) log p_own - e/C sum_c log p_c = hard + e (own - mean over classes)
        own_logit = masked_sum(own, pull.mask)
        mean = (own_logit + masked_sum(others, push.mask)) / (1 + push.count)
        return hard + self.label_smoothing * (own_logit - mean).masked_fill(pull.empty, 0.0)
