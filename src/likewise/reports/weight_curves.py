"""Weight against similarity, one panel a loss (unified view, Figure 1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch

from likewise.losses import AnyLoss
from likewise.mining import Miner
from likewise.pair_weighting import weight_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIGURE_1 = ("contrastive", "triplet", "generalized_lifted", "binomial_deviance", "raw", "ranked_list", "nonlinear_rank")
POSITIVES = (0.8, 0.5)  # the anchor's row, beside the pair that is varied
NEGATIVES = (0.4, 0.1, -0.3)
EDGE = 0.98  # weights by distance are not defined at similarity 1, where the distance is 0
COLOURS = {"positive": "#1a7f37", "negative": "#1f5fbf"}
LINES: dict[str, Literal["-", ":"]] = {"positive": "-", "negative": ":"}
TICKS = (-100, -10, -1, 0, 0.5, 1, 3, 10, 30, 100, 300)


def weight_curves_figure(
    losses: Sequence[str | AnyLoss] = FIGURE_1,
    *,
    mining: str | Miner | None = None,
    positives: Sequence[float] = POSITIVES,
    negatives: Sequence[float] = NEGATIVES,
    path: str | Path | None = None,
) -> Figure:
    """Draws the weight of a positive pair (solid green) and of a negative pair (dotted blue) against its similarity, for each loss.

    The losses are names in `likewise.LOSSES` or loss objects, which are titled by their class.

    While a pair's similarity runs along the axis, the others of the anchor's row stay at `positives` and `negatives`, which are
    marked at the foot of each panel. Weights are drawn linear up to 1 and logarithmic beyond; those below 0 are drawn as they
    are (see `likewise.pair_weighting`). With `path` the figure is written there too.
    """
    if not losses:
        raise ValueError("losses is empty: give at least one loss")
    from matplotlib.figure import Figure  # here, because importing it takes longer than all of likewise

    columns = min(4, len(losses) + 1)  # one cell is left for the legend
    rows = math.ceil((len(losses) + 1) / columns)
    figure = Figure(figsize=(0.6 + 2.7 * columns, 0.5 + 2.3 * rows), facecolor="white", layout="constrained")
    axes = figure.subplots(rows, columns, sharex=True, squeeze=False).flatten()
    for loss, axis in zip(losses, axes, strict=False):
        _panel(axis, loss, mining, positives, negatives)
    for axis in axes[len(losses) :]:
        axis.set_axis_off()
    for axis in axes[max(0, len(losses) - columns) : len(losses)]:
        axis.tick_params(labelbottom=True)  # the lowest panel of its column
    _legend(axes[len(losses)], mining)
    figure.supxlabel("cosine similarity")
    figure.supylabel("weight")
    if path is not None:
        figure.savefig(path, dpi=110)
    return figure


def _panel(axis: Axes, loss: str | AnyLoss, mining: str | Miner | None, positives: Sequence[float], negatives: Sequence[float]) -> None:
    grid = torch.linspace(-EDGE, EDGE, 785, dtype=torch.float64)
    sides: tuple[Literal["positive", "negative"], ...] = ("positive", "negative")
    extremes = [0.0, 1.0]
    for side in sides:
        curve = weight_curve(loss, mining=mining, positives=positives, negatives=negatives, vary=side, similarities=grid)
        axis.plot(grid.numpy(), curve.weights.numpy(), color=COLOURS[side], linestyle=LINES[side], linewidth=2.2)
        extremes += [float(curve.weights.min()), float(curve.weights.max())]
    for side, context in (("positive", positives), ("negative", negatives)):
        axis.plot(
            context,
            [0.04] * len(context),
            transform=axis.get_xaxis_transform(),
            color=COLOURS[side],
            marker="^",
            markersize=6,
            linestyle="",
            alpha=0.7,
        )
    axis.axhline(0, color="#999999", linewidth=0.9, zorder=1)
    axis.set_title(loss.replace("_", " ") if isinstance(loss, str) else type(loss).__name__, fontsize=11)
    axis.set_xlim(-1, 1)
    axis.set_xticks([-1, -0.5, 0, 0.5, 1], ["-1", "", "0", "", "1"])
    axis.set_yscale("symlog", linthresh=1, linscale=1.5)
    low, high = min(extremes), max(extremes)
    low, high = low * 1.6 if low < -1 else low - 0.2, high * 1.4 if high > 1.1 else 1.1  # room for the marks at the foot
    ticks = [tick for tick in TICKS if low < tick < high]
    axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_yticks([], minor=True)
    axis.set_ylim(low, high)
    axis.grid(color="#e4e4e4", linewidth=0.7)
    axis.set_axisbelow(True)
    for edge in ("top", "right"):
        axis.spines[edge].set_visible(False)


def _legend(axis: Axes, mining: str | Miner | None) -> None:
    from matplotlib.lines import Line2D

    marks = [
        Line2D([], [], color=COLOURS[side], linestyle=LINES[side], linewidth=2.2, label=f"{side} pair") for side in ("positive", "negative")
    ]
    marks += [
        Line2D([], [], color=COLOURS[side], marker="^", linestyle="", alpha=0.7, label=f"other {side}s of the row")
        for side in ("positive", "negative")
    ]
    scale = "weights: linear up to 1,\nlogarithmic beyond"
    title = scale if mining is None else f"mining: {mining}\n{scale}"
    axis.legend(handles=marks, loc="center", frameon=False, fontsize=9.5, title=title, title_fontsize=9.5, alignment="left")
