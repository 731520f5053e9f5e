"""How a method weighs pairs: its curves in the unified view, or why it has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from likewise.losses.loss import Traits, traits_of
from likewise.methods import Method
from likewise.pair_weighting import weight_curve
from likewise.reports.weight_curves import EDGE, NEGATIVES, POSITIVES

GRID = 197


@dataclass(frozen=True, eq=False)
class PairCurves:
    """Weights of a positive and of a negative pair while its similarity runs over the grid."""

    similarities: npt.NDArray[np.float64]
    positive: npt.NDArray[np.float64]
    negative: npt.NDArray[np.float64]
    note: str  # how the method differs from what is drawn


def pair_curves(method: Method) -> PairCurves | str:
    """The curves, or a sentence that says why there are none."""
    loss = method.make_loss()
    traits = traits_of(loss)
    if traits.meets == "prototypes":
        return "it compares with class means, which move with their members: not a function of pairs alone"
    mining = method.make_miner()
    grid = torch.linspace(-EDGE, EDGE, GRID, dtype=torch.float64)
    weights: dict[str, npt.NDArray[np.float64]] = {}
    sides: tuple[Literal["positive", "negative"], ...] = ("positive", "negative")
    try:
        for side in sides:
            positives, negatives = _context(traits, side)
            curve = weight_curve(loss, mining=mining, positives=positives, negatives=negatives, vary=side, similarities=grid)
            weights[side] = curve.weights.detach().numpy()
    except ValueError as error:  # weight_curve says in words what it cannot draw
        return str(error)
    note = ""
    if method.norm is not None:
        note = f"drawn for vectors of length 1; the method trains with length {method.norm:g}"
    elif method.normalize is False:
        note = "drawn for vectors of length 1; the method trains without normalising"
    return PairCurves(grid.numpy(), weights["positive"], weights["negative"], note)


def _context(traits: Traits, vary: Literal["positive", "negative"]) -> tuple[Sequence[float], Sequence[float]]:
    """The other pairs of the anchor's row: as many as the loss has proxies of a class, where it meets proxies."""
    if traits.meets != "proxies" or traits.proxies_are_anchors:
        return POSITIVES, NEGATIVES
    positives = np.linspace(0.8, 0.5, traits.proxies_per_class)
    negatives = np.linspace(0.4, -0.3, 3 * traits.proxies_per_class)
    return positives[vary == "positive" :].tolist(), negatives[vary == "negative" :].tolist()
