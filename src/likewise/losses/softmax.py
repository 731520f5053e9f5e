"""Softmax cross entropy over classes."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from likewise.losses.class_softmax import class_softmax
from likewise.losses.loss import Loss, Meets
from likewise.pairs import Pairs


class Softmax(Loss, nn.Module):
    """l = cross entropy of w_c . x + b_c over all classes c: classification by a plain linear layer (NRA, section IV-B).

    The rows w_c are the proxies; neither they nor the embeddings are brought to length 1, and there is no temperature. With `num_classes`
    each class has a bias b_c, else there are none.
    """

    meets: ClassVar[Meets] = "proxies"
    normalize: ClassVar[bool] = False

    def __init__(self, num_classes: int | None = None) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.bias = nn.Parameter(torch.zeros(num_classes or 1), requires_grad=num_classes is not None)

    def per_anchor(self, pairs: Pairs) -> Tensor:
        pull, push = pairs.positives, pairs.negatives
        bias = self.bias.to(pairs.similarity.dtype).expand(pairs.similarity.shape[1])
        return class_softmax(pairs, pull.similarity + pull.per_column(bias), push.similarity + push.per_column(bias))
