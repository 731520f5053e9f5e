"""Embeddings of two dimensions as they are: the plane itself, one panel a method (NRA, Figure 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from likewise.comparison.results import ComparisonResults, MethodResult
from likewise.formats.numpy_files import read_npy
from likewise.reports.drawing import FAINT, METHOD_COLOURS, drawing, one_line, panels, save_figure
from likewise.wording import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ITEMS = 5000  # as the paper draws
SIDE = 2.9  # inches of a panel
# After the colours of methods, which the colour-blind can tell apart, two more; beyond ten classes they come again with another mark.
COLOURS = (*METHOD_COLOURS, "#e69f00", "#b5b5b5")
MARKS = ("o", "^", "s", "x")
SCORE = "mAP"


@dataclass(frozen=True, eq=False)
class PlanePanel:
    """One method's embeddings of labelled items."""

    title: str
    coordinates: npt.NDArray[np.float32]  # (items, 2), as the network gives them: not brought to length 1
    labels: npt.NDArray[np.int64]  # (items,) places in class_names
    class_names: Sequence[str]
    score: str = ""  # beside the title: "mAP 97.3"

    def __post_init__(self) -> None:
        if self.coordinates.ndim != 2 or self.coordinates.shape[1] != 2 or len(self.coordinates) != len(self.labels):
            raise ValueError(
                f"{self.title}: coordinates of shape {self.coordinates.shape} for {len(self.labels):,} labels: expected (items, 2), "
                "of an embedding of 2 dimensions"
            )


def plane_figure(shown: Sequence[PlanePanel], *, most_items: int = MOST_ITEMS, path: Path | None = None) -> Figure:
    """One panel a method, the same items in each, both axes on one scale; with `path` also written there, as .png and .svg.

    Of more than `most_items` so many are drawn at random, always the same ones.
    """
    if not shown:
        raise ValueError("there is no panel to draw: give at least one embedding of 2 dimensions")
    with drawing():
        figure, axes = panels(len(shown), columns=2, size=(SIDE * 1.1, SIDE * 1.15))
        for panel, axis in zip(shown, axes, strict=True):
            _draw(axis, panel, most_items)
        _legend(figure, shown)
        if path is not None:
            save_figure(figure, path)
    return figure


def planes_of(results: ComparisonResults, dataset: str) -> list[PlanePanel]:
    """The methods of a comparison whose embeddings have 2 dimensions, as its board has them, each by its first seed."""
    items = results.items.get(dataset)
    if items is None:
        return []
    board = results.board(dataset)
    return [
        PlanePanel(method.title, read_npy(method.planes[0]), items.labels, items.class_names, score_in_words(method))
        for method in board.methods
        if method.planes
    ]


def score_in_words(method: MethodResult) -> str:
    """ "mAP 97.3", as panels are titled; empty where the protocol does not ask for it."""
    return f"{SCORE} {percent(method.scores[SCORE].mean, digits=1)}" if SCORE in method.scores else ""


def _draw(axis: Axes, panel: PlanePanel, most_items: int) -> None:
    drawn = np.arange(len(panel.labels))
    if len(drawn) > most_items:
        drawn = np.sort(np.random.default_rng(0).permutation(drawn)[:most_items])
    places, labels = panel.coordinates[drawn], panel.labels[drawn]
    finite = np.isfinite(places).all(axis=1)
    for label in np.unique(panel.labels).tolist():
        chosen = places[finite & (labels == label)]
        colour, mark = _look(label)
        axis.scatter(chosen[:, 0], chosen[:, 1], s=3.0, color=colour, marker=mark, linewidths=0.3, alpha=0.7, rasterized=True)
    axis.set_title(", ".join(filter(None, (one_line(panel.title), panel.score))))
    axis.set_aspect("equal", adjustable="datalim")
    axis.tick_params(labelsize=7, colors=FAINT)


def _legend(figure: Figure, shown: Sequence[PlanePanel]) -> None:
    from matplotlib.lines import Line2D

    panel = shown[0]
    labels = np.unique(panel.labels).tolist()
    if len(labels) > len(COLOURS) * len(MARKS):
        return  # no colour would say which class it is
    handles = []
    for label in labels:
        colour, mark = _look(label)
        handles.append(Line2D([], [], color=colour, marker=mark, linestyle="", markersize=5, label=one_line(panel.class_names[label])))
    figure.legend(handles=handles, loc="outside lower center", ncols=min(10, len(handles)), fontsize=8, handletextpad=0.1)


def _look(label: int) -> tuple[str, str]:
    return COLOURS[label % len(COLOURS)], MARKS[label // len(COLOURS) % len(MARKS)]
