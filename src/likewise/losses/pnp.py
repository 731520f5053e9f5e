"""PNP: only negatives before positives are penalised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from torch import Tensor

from likewise.losses.loss import Loss, require_positive
from likewise.losses.soft_rank import items_before
from likewise.pairs import Pairs, masked_mean

Variant = Literal["O", "Iu", "Ib", "Ds", "Dq"]


@dataclass(frozen=True)
class PNP(Loss):
    """l = mean over p of f(R_p), R_p = sum_N sigmoid((s_n - s_p) / temperature), the negatives before p  (Li et al. 2022).

    | variant | f(R) | its slope |
    |---|---|---|
    | O | R | the same everywhere |
    | Iu, Ib | (1 + R) log(1 + R), (b R - log(1 + b R)) / b^2 | grows with R, without and with a bound |
    | Ds, Dq | log(1 + R), 1 - (1 + R)^-alpha | falls with R: a positive far behind many negatives may be noise |
    """

    variant: Variant = "Dq"
    temperature: float = 0.01
    alpha: float = 1.0
    b: float = 2.0

    expands_positives: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_positive(self, "temperature", "alpha", "b")
        if self.variant not in get_args(Variant):
            raise ValueError(f"PNP variant={self.variant!r}: expected one of {', '.join(get_args(Variant))}")

    def per_anchor(self, pairs: Pairs) -> Tensor:
        before = items_before(pairs, pairs.negatives, temperature=self.temperature)  # (a, positives)
        if self.variant == "Iu":
            penalty = (1 + before) * before.log1p()
        elif self.variant == "Ib":
            penalty = (self.b * before - (self.b * before).log1p()) / self.b**2
        elif self.variant == "Ds":
            penalty = before.log1p()
        else:
            penalty = before if self.variant == "O" else 1 - (1 + before).pow(-self.alpha)
        return masked_mean(penalty, pairs.positives.mask)
