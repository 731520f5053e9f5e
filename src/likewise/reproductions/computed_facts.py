"""Facts about formulas of the papers, found by computing them: no training, no noise. `FACTS` names them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from likewise.losses.nonlinear_rank import NonlinearRank
from likewise.pair_weighting import weight_curve
from likewise.reports.weight_curves import EDGE, NEGATIVES, POSITIVES

ALPHAS = (2.0, 3.0, 4.0, 5.0, 6.0)  # of NRA, Figure 3, beside 1
RANKS = (torch.arange(1000, dtype=torch.float64) + 0.5) / 1000  # one half itself is left out: the curve has a corner there
SHIFT = 0.1  # of all similarities of an anchor
SAME = 1e-9  # weights that differ by less are the same


@dataclass(frozen=True)
class Finding:
    """Whether a fact holds, and the figures that show it."""

    holds: bool
    evidence: str


@dataclass(frozen=True)
class Fact:
    """What a formula is said to do, how that is found, and what would refute it."""

    find: Callable[[], Finding]
    refuted_by: str


def transfer(alpha: float) -> tuple[Tensor, Tensor]:
    """w(r) of NRA, eq. 10, over RANKS, and its slope."""
    ranks = RANKS.clone().requires_grad_()
    values = NonlinearRank(alpha=alpha).transfer(ranks)
    (slope,) = torch.autograd.grad(values.sum(), [ranks])
    return values.detach(), slope


def loss_part(alpha: float, eps: float = 1e-4) -> tuple[Tensor, Tensor]:
    """-log(1 - w(r) + eps) of NRA, eq. 13, over RANKS, and its slope."""
    values, slope = transfer(alpha)
    return -torch.log(1 - values + eps), slope / (1 - values + eps)


def _straight() -> Finding:
    off = float((transfer(1.0)[0] - RANKS).abs().max())
    return Finding(off < SAME, f"w(r; 1) is r at {len(RANKS):,} ranks, to within {max(off, 1e-16):.0e}")


def _flatter_at_the_ends() -> Finding:
    ends, middle = (RANKS <= 0.05) | (RANKS >= 0.95), (RANKS - 0.5).abs() <= 0.05
    slopes = {alpha: transfer(alpha)[1] for alpha in (1.0, *ALPHAS)}
    pairs = list(zip((1.0, *ALPHAS), ALPHAS, strict=False))
    flatter = all(bool((slopes[high][ends] < slopes[low][ends]).all()) for low, high in pairs)
    steeper = all(bool((slopes[high][middle] > slopes[low][middle]).all()) for low, high in pairs)
    at = {rank: ", ".join(f"{slopes[alpha][_place(rank)]:.2g}" for alpha in (1.0, *ALPHAS)) for rank in (0.1, 0.5)}
    return Finding(flatter and steeper, f"slopes for alpha = 1 to 6: {at[0.1]} at ranks .1 and .9; {at[0.5]} at one half")


def _higher_above_half() -> Finding:
    above = (RANKS > 0.5) & (RANKS < 1)
    plain = loss_part(1.0)[0]
    gaps = [float((loss_part(alpha)[0] - plain)[above].min()) for alpha in ALPHAS]
    at = f"{plain[_place(0.75)]:.2f} for alpha = 1, {loss_part(4.0)[0][_place(0.75)]:.2f} for 4"
    return Finding(min(gaps) > 0, f"higher than for alpha = 1 at every rank between one half and 1, for alpha = 2 to 6; at .75: {at}")


def _flatter_below_half() -> Finding:
    below = RANKS < 0.5
    plain, steep = loss_part(1.0)[1], loss_part(4.0)[1]
    lower = (steep < plain) & below
    turn = float(RANKS[lower].max())
    end = int(below.sum()) - 1
    evidence = (
        f"for alpha = 4 the slope is lower than for alpha = 1 up to rank {turn:.2f} and higher from there: "
        f"{steep[end]:.1f} against {plain[end]:.1f} just below one half"
    )
    return Finding(bool(lower.sum() == below.sum()), evidence)


def _place(rank: float) -> int:
    """Of the last of RANKS that is not above this one."""
    return max(0, int((rank >= RANKS).sum()) - 1)


def _weights(loss: str, shift: float, others: float = 0.0) -> Tensor:
    """Weights of a negative pair in an anchor's row: all similarities moved by `shift`, the other pairs' by `others` besides."""
    grid = torch.linspace(-EDGE + SHIFT, EDGE - SHIFT, 197, dtype=torch.float64)
    positives, negatives = ([similarity + shift + others for similarity in row] for row in (POSITIVES, NEGATIVES))
    return weight_curve(loss, positives=positives, negatives=negatives, vary="negative", similarities=grid + shift).weights


def _lifted_by_differences() -> Finding:
    plain, moved = _weights("generalized_lifted", 0.0), _weights("generalized_lifted", SHIFT)
    most = float((moved - plain).abs().max())
    return Finding(
        most < SAME, f"all similarities of an anchor moved by {SHIFT:g}: no weight of a negative pair changes by more than {most:.0e}"
    )


def _raw_by_both() -> Finding:
    plain = _weights("raw", 0.0)
    absolute, relative = (float((_weights("raw", *moved) - plain).abs().max()) for moved in ((SHIFT, 0.0), (0.0, SHIFT)))
    evidence = (
        f"weights of a negative pair change by up to {absolute:.2f} when all similarities of the anchor move by {SHIFT:g}, "
        f"and by up to {relative:.2f} when only the others' do"
    )
    return Finding(min(absolute, relative) > SAME, evidence)


FACTS: dict[str, Fact] = {
    "transfer_is_straight_at_1": Fact(_straight, "any rank r with w(r; 1) other than r"),
    "transfer_is_flatter_at_the_ends": Fact(_flatter_at_the_ends, "an end that gets steeper or a middle that gets flatter as alpha grows"),
    "loss_is_higher_above_half": Fact(_higher_above_half, "any rank above one half where it is lower than for alpha = 1"),
    "loss_is_flatter_below_half": Fact(_flatter_below_half, "any rank below one half where it is steeper than for alpha = 1"),
    "lifted_ignores_absolute_similarity": Fact(
        _lifted_by_differences, "any weight that changes when all similarities of an anchor move together"
    ),
    "raw_looks_at_both": Fact(_raw_by_both, "weights that do not change when all similarities move together, or when only the others do"),
}
