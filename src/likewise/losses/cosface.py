"""CosFace loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from likewise.losses.class_softmax import class_softmax
from likewise.losses.loss import Loss, Meets, require_positive
from likewise.pairs import Pairs


@dataclass(frozen=True)
class CosFace(Loss):
    """l = cross entropy of scale x cosine over class centres, the own one with cosine - margin  (Wang et al. 2018)."""

    margin: float = 0.35
    scale: float = 64.0

    meets: ClassVar[Meets] = "proxies"

    def __post_init__(self) -> None:
        require_positive(self, "scale")

    def per_anchor(self, pairs: Pairs) -> Tensor:
        own = self.scale * (pairs.positives.similarity - self.margin)
        return class_softmax(pairs, own, self.scale * pairs.negatives.similarity)
