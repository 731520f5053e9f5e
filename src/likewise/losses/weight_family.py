"""A family of pair weights, with the losses they come from: what `likewise discover` searches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from likewise.losses.loss import Loss, require_positive
from likewise.pairs import Pairs, Side, log1p_sum_exp, masked_sum, softplus

Shape = Literal["exponential", "sigmoid", "squared", "hinge"]
STEEPEST = 60.0  # e^60 is far beyond what a loss should be, and far below what float32 holds


@dataclass(frozen=True)
class WeightFamily(Loss):
    """The unified view read backwards: the weights are chosen, and the loss is the one that has them (Theorem 3.1).

    w_ij = g(x_ij) / (1 + sum_k G(x_ik))^relative,  x = sharpness (threshold - s) of a positive, sharpness (s - threshold) of a negative
    l_i  = B(sum_P G) / sharpness + B(sum_N G) / sharpness,  B(t) = ((1 + t)^(1 - relative) - 1) / (1 - relative), or log(1 + t) at 1

    | shape | G | weight g = G' |
    |---|---|---|
    | exponential | e^x | e^x |
    | sigmoid | log(1 + e^x) | 1 / (1 + e^-x) |
    | squared | [x]+^2 / 2 | [x]+ |
    | hinge | [x]+ | 1 where x > 0 |

    The sums run over the anchor's positives, or its negatives. relative 0: a pair's weight is its own alone (absolute); 1: it is shared
    with the others of its row. RAW is exponential with relative 1 on both sides; contrastive's push is hinge with 0.
    """

    pull: Shape = "exponential"  # of positives
    push: Shape = "exponential"  # of negatives
    pull_sharpness: float = 2.0
    push_sharpness: float = 50.0
    pull_threshold: float = 0.5
    push_threshold: float = 0.5
    pull_relative: float = 1.0
    push_relative: float = 1.0

    def __post_init__(self) -> None:
        require_positive(self, "pull_sharpness", "push_sharpness")
        for name in ("pull", "push"):
            if getattr(self, name) not in get_args(Shape):
                raise ValueError(f"WeightFamily {name}={getattr(self, name)!r}: expected one of {', '.join(get_args(Shape))}")
            if not 0 <= getattr(self, f"{name}_relative") <= 1:
                raise ValueError(f"WeightFamily {name}_relative={getattr(self, f'{name}_relative')!r}: expected a share from 0 to 1")

    def per_anchor(self, pairs: Pairs) -> Tensor:
        near, far = pairs.positives, pairs.negatives
        pulled = _side(near, self.pull_sharpness * (self.pull_threshold - near.similarity), self.pull, self.pull_relative)
        pushed = _side(far, self.push_sharpness * (far.similarity - self.push_threshold), self.push, self.push_relative)
        return pulled / self.pull_sharpness + pushed / self.push_sharpness


def _side(side: Side, x: Tensor, shape: Shape, relative: float) -> Tensor:
    """B of the sum of G over a row's side: (a,)."""
    if shape == "exponential":
        of_all = log1p_sum_exp(x, side.mask)  # log(1 + sum G)
    elif shape == "sigmoid":
        of_all = masked_sum(softplus(x), side.mask).log1p()
    else:
        hinge = torch.relu(x)
        of_all = masked_sum(hinge if shape == "hinge" else hinge.square() / 2, side.mask).log1p()
    absolute = 1 - relative
    if absolute == 0:
        return of_all
    exponent = absolute * of_all
    steep = (exponent - STEEPEST).clamp_min(0)  # goes on as a line
    grown: Tensor = torch.expm1(exponent.clamp_max(STEEPEST)) + steep * torch.e**STEEPEST
    return grown / absolute
