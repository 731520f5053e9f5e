"""The charts of a comparison as files and as pieces of the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from likewise.comparison.results import Board, ComparisonResults, MethodResult
from likewise.reports.charts import (
    draw_critical_difference,
    draw_leaderboard,
    draw_recall,
    draw_sweep,
    draw_training,
    draw_trials,
    draw_validation,
    draw_weights,
    recall_ks,
)
from likewise.reports.drawing import MethodLine, drawing, inline_svg, panels, said, save_figure
from likewise.reports.markup import Markup
from likewise.reports.method_curves import PairCurves

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SWEPT = {"dim": "embedding size", "batch": "batch size"}
WIDE, SMALL = (5.2, 3.3), (2.9, 2.0)  # inches


@dataclass(frozen=True)
class Chart:
    """One chart: how it is drawn and what it says to those who cannot see it."""

    title: str
    draw: Callable[[Axes], None]
    label: str
    note: str = ""
    size: tuple[float, float] = WIDE


def recall_chart(board: Board, lines: Mapping[str, MethodLine]) -> list[Chart]:
    if len(recall_ks(board)) < 2:
        return []
    note = "share of queries with one of their class among the K nearest"
    return [Chart("R@K", lambda axis: draw_recall(axis, board, lines), f"R@K against K on {board.dataset}, a line for each method", note)]


def validation_chart(board: Board, lines: Mapping[str, MethodLine]) -> list[Chart]:
    if not any(curve.validation_steps for method in board.methods for curve in method.curves):
        return []
    note = "on held-out training classes"
    label = f"MAP@R on held-out training classes of {board.dataset} against the step, a line for each method"
    return [Chart("Validation while training", lambda axis: draw_validation(axis, board, lines), label, note)]


def training_charts(board: Board, lines: Mapping[str, MethodLine]) -> list[Chart]:
    def chart(method: MethodResult) -> Chart:
        label = f"loss of {method.title} against the step, a line for each seed"
        return Chart(method.title, lambda axis: draw_training(axis, method, lines[method.name]), label, size=SMALL)

    return [chart(method) for method in board.methods if any(curve.steps for curve in method.curves)]


def trial_charts(board: Board, lines: Mapping[str, MethodLine]) -> list[Chart]:
    def chart(method: MethodResult) -> Chart:
        label = f"score of the tuning trials of {method.title}, one after the other"
        return Chart(method.title, lambda axis: draw_trials(axis, method.trials, lines[method.name]), label, size=SMALL)

    return [chart(method) for method in board.methods if method.trials]


def sweep_charts(results: ComparisonResults, board: Board, lines: Mapping[str, MethodLine]) -> list[Chart]:
    swept = [method for method in results.methods if method.dataset == board.dataset and method.sweep]

    def chart(name: str, score: str) -> Chart:
        methods = [method for method in swept if name in method.sweep]
        label = f"{score} against {name} on {board.dataset}, a line for each method"
        return Chart(
            f"{score} against {SWEPT.get(name, name)}", lambda axis: draw_sweep(axis, methods, swept=name, score=score, lines=lines), label
        )

    names = dict.fromkeys(name for method in swept for name in method.sweep)
    scores = list(dict.fromkeys([score for score in ("R@1", board.leading) if score in board.scores]))
    return [chart(name, score) for name in names for score in scores]


def weight_charts(curves: Mapping[str, PairCurves | str], titles: Mapping[str, str]) -> list[Chart]:
    def chart(name: str, found: PairCurves) -> Chart:
        label = f"weight of a positive and of a negative pair against its similarity in {titles[name]}"
        return Chart(titles[name], lambda axis: draw_weights(axis, found), label, found.note, SMALL)

    return [chart(name, found) for name, found in curves.items() if isinstance(found, PairCurves)]


def critical_difference_chart(results: ComparisonResults, titles: Mapping[str, str], lines: Mapping[str, MethodLine]) -> list[Chart]:
    difference = results.critical_difference
    if difference is None or len(results.average_ranks) < 2:
        return []
    ranks = results.average_ranks
    height = 1.4 + 0.16 * len(ranks)

    def draw(axis: Axes) -> None:
        draw_critical_difference(axis, ranks, difference, titles=titles, lines=lines)

    return [Chart("", draw, "average rank of each method over the data sets, with the critical difference", size=(5.6, height))]


def leaderboard_chart(board: Board, lines: Mapping[str, MethodLine]) -> list[Chart]:
    size = (6.4, 1.0 + 0.28 * len(board.methods))
    return [Chart("", lambda axis: draw_leaderboard(axis, board, lines), f"{board.leading} of each method on {board.dataset}", size=size)]


def inline(chart: Chart, *, name: str) -> Markup:
    """For the page, which writes the title itself."""
    with drawing():
        figure, (axis,) = panels(1, columns=1, size=chart.size, fixed=chart.size == SMALL)
        chart.draw(axis)
        return inline_svg(figure, name=name, label=chart.label)


def write_picture(charts: Sequence[Chart], path: Path, *, lines: Mapping[str, MethodLine], titles: Mapping[str, str], legend: bool) -> None:
    """All charts of a kind in one figure, as PNG and SVG; with `legend` it names the methods' lines."""
    from matplotlib.lines import Line2D

    with drawing():
        figure, axes = panels(len(charts), columns=2 if legend else 4, size=charts[0].size, fixed=charts[0].size == SMALL)
        for chart, axis in zip(charts, axes, strict=True):
            chart.draw(axis)
            if chart.title:
                axis.set_title(said(chart.title), y=1.0)  # where it is anyway: left to itself it measures every tick
        if legend:
            handles = [Line2D([], [], color=line.colour, linestyle=line.dashes, label=said(titles[name])) for name, line in lines.items()]
            figure.legend(handles=handles, loc="outside lower center", ncols=min(3, len(handles)), fontsize=8)
        save_figure(figure, path)
