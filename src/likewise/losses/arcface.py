"""ArcFace loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from likewise.losses.class_softmax import class_softmax
from likewise.losses.loss import Loss, Meets, require_positive
from likewise.pairs import Pairs


@dataclass(frozen=True)
class ArcFace(Loss):
    """l = cross entropy of scale x cosine over class centres, the own one with cos(theta + margin)  (Deng et al. 2019).

    Where theta + margin passes pi, cos(theta) - margin sin(margin) goes on falling, as in the authors' code.
    """

    margin: float = 0.5  # radians
    scale: float = 64.0

    meets: ClassVar[Meets] = "proxies"

    def __post_init__(self) -> None:
        require_positive(self, "scale")

    def per_anchor(self, pairs: Pairs) -> Tensor:
        cosine = pairs.positives.similarity
        square = 1 - cosine.square()
        sine = torch.where(square > 0, square, 1.0).sqrt()  # its slope is infinite at cosine 1
        sine = torch.where(square > 0, sine, 0.0)
        turned = cosine * math.cos(self.margin) - sine * math.sin(self.margin)
        own = torch.where(cosine > -math.cos(self.margin), turned, cosine - self.margin * math.sin(self.margin))
        return class_softmax(pairs, self.scale * own, self.scale * pairs.negatives.similarity)
