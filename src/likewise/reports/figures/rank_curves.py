"""How ranks become a loss: the transfer function and the loss of a positive for several alpha (NRA, Figure 3, left and centre)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from likewise.losses.nonlinear_rank import NonlinearRank
from likewise.reports.drawing import DASHES, METHOD_COLOURS, drawing, panels, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALPHAS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)  # as section IV-A tries them
GRID = 401
Array = npt.NDArray[np.float64]


def rank_curves(alpha: float, eps: float = NonlinearRank.eps, *, num: int = GRID) -> tuple[Array, Array, Array]:
    """Ranks r from 0 to 1, the loss's transfer function w(r; alpha), and what a positive at that rank costs: -log(1 - w(r) + eps)."""
    loss = NonlinearRank(alpha=alpha, eps=eps)
    ranks = torch.linspace(0, 1, num, dtype=torch.float64)
    transferred = loss.transfer(ranks)
    return ranks.numpy(), transferred.numpy(), (-torch.log(1 - transferred + eps)).numpy()


def rank_curves_figure(
    alphas: Sequence[float] = ALPHAS, eps: float = NonlinearRank.eps, *, marked: float | None = None, path: Path | None = None
) -> Figure:
    """Both against the normalised rank, a line for each alpha (`marked`: one drawn thicker); with `path` also as .png and .svg there."""
    if not alphas:
        raise ValueError("alphas is empty: give at least one, such as 4.0")
    with drawing():
        figure, (left, right) = panels(2, columns=2, size=(3.4, 3.0))
        for number, alpha in enumerate(alphas):
            ranks, transferred, lost = rank_curves(alpha, eps)
            look: dict[str, Any] = {
                "color": METHOD_COLOURS[number % len(METHOD_COLOURS)],
                "linestyle": DASHES[number // len(METHOD_COLOURS) % len(DASHES)],
                "linewidth": 2.8 if alpha == marked else 1.4,
            }
            left.plot(ranks, transferred, label=f"{alpha:g}", **look)
            right.plot(ranks, lost, **look)
        left.set_title("transfer function w(r)")
        right.set_title(f"loss of a positive, -log(1 - w(r) + {eps:g})")
        for axis in (left, right):
            axis.set_xlabel("normalised rank r")
            axis.set_xlim(0, 1)
        left.legend(title="alpha", fontsize=8, title_fontsize=8)
        if path is not None:
            save_figure(figure, path)
    return figure
