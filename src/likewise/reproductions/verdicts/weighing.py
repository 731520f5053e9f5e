"""Claims about weights: how a loss weighs a pair by its similarity, computed from the loss, so that no noise is in it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from likewise.methods import Method
from likewise.pair_weighting import weight_curve
from likewise.reproductions.paper_claims import Weighs
from likewise.reproductions.reproduction import ClaimVerdict

POINTS = 197
SAME = 1e-9  # of the largest weight: differences below are none
SHIFT = 0.1  # of the other pairs' similarities, to see whether a weight depends on them

Array = npt.NDArray[np.float64]


def judge_weight(claim: Weighs, method: Method) -> tuple[ClaimVerdict, str]:
    """Whether the curve has the shape that is claimed."""
    grid = torch.linspace(claim.low, claim.high, POINTS, dtype=torch.float64)
    positives, negatives = claim.positives, claim.negatives

    def curve(shift: float = 0.0) -> Array:
        others = ([value + shift for value in context] for context in (positives, negatives))
        beside = dict(zip(("positives", "negatives"), others, strict=True))
        found = weight_curve(method.make_loss(), mining=method.make_miner(), vary=claim.of, similarities=grid, **beside)
        return np.asarray(found.weights.detach().numpy(), dtype=np.float64)

    try:
        weights = curve()
        shifted = [curve(shift) for shift in (-SHIFT, SHIFT)]
    except ValueError as fault:  # in words: what has no such curve
        return "not run", str(fault)
    holds = has_shape(claim.shape, weights, shifted)
    beside = ", ".join(f"{value:g}" for value in (*positives, *negatives))
    runs = f"the weight of a {claim.of} pair goes from {weights[0]:.3g} at similarity {claim.low:g} to {weights[-1]:.3g} at {claim.high:g}"
    between = f"between {weights.min():.3g} and {weights.max():.3g}"
    depends = f"with the others {SHIFT:g} apart it changes by up to {max(np.abs(other - weights).max() for other in shifted):.3g}"
    return ("confirmed" if holds else "contradicted"), f"{runs}, {between}, beside others at {beside}; {depends}; computed"


def has_shape(shape: str, weights: Array, shifted: list[Array]) -> bool:
    """Of the weights along rising similarities; `shifted`: the same with the other pairs elsewhere."""
    same = SAME * max(1.0, float(np.abs(weights).max()))
    steps = np.diff(weights)
    change = max(float(np.abs(other - weights).max()) for other in shifted)
    return {
        "rising": bool((steps >= -same).all() and weights[-1] > weights[0] + same),
        "falling": bool((steps <= same).all() and weights[-1] < weights[0] - same),
        "constant": bool(np.ptp(weights) <= same),
        "zero": bool(np.abs(weights).max() <= same),
        "above zero": bool(weights.min() > 0),  # however small: a weight is there or not
        "not below zero": bool(weights.min() >= -same),
        "relative": change > same,
        "absolute": change <= same,
    }[shape]
