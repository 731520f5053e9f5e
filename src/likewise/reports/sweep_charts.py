"""The charts of sweeps: a score against what was varied, as lines over numbers and side by side for words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from likewise.comparison.results import Board, ComparisonResults, MethodResult
from likewise.comparison.sweeping.sweeps import TOGETHER, as_written
from likewise.reports.charts import estimates_line
from likewise.reports.drawing import Chart, MethodLine, one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDE_SPAN = 8.0  # numbers that span more than this factor stand on a logarithmic axis
SWEPT = {"dim": "dimensions of the embedding", "batch": "items a batch", "steps": "training steps", "learning_rate": "learning rate"}
SPREAD = 0.6  # of the room between two words is what the dots of all methods take


def sweep_charts(results: ComparisonResults, board: Board, lines: Mapping[str, MethodLine]) -> list[Chart]:
    """A chart for each score of each sweep in which one thing varies; what varies together is shown as a table alone."""
    swept = [method for method in results.methods if method.dataset == board.dataset and method.sweep]
    scores = list(dict.fromkeys([score for score in ("R@1", board.leading) if score in board.scores]))
    charts = []
    for sweep in dict.fromkeys(TOGETHER.join(method.sweep) for method in swept):
        methods = [method for method in swept if TOGETHER.join(method.sweep) == sweep]
        varied = [name for name in methods[0].sweep if len({as_written(method.sweep[name]) for method in methods}) > 1]
        if len(varied) == 1:
            charts += [_chart(board, methods, varied[0], score, lines) for score in scores]
    return charts


def _chart(board: Board, methods: Sequence[MethodResult], name: str, score: str, lines: Mapping[str, MethodLine]) -> Chart:
    beside = [f"{other} {as_written(value)}" for other, value in methods[0].sweep.items() if other != name]
    title = ", ".join([f"{score} against {name}", *beside])
    draw = draw_sweep if all(is_number(method.sweep[name]) for method in methods) else draw_words
    label = f"{title} on {board.dataset}, a line for each method"
    return Chart(title, lambda axis: draw(axis, methods, swept=name, score=score, lines=lines), label)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def draw_sweep(axis: Axes, methods: Sequence[MethodResult], *, swept: str, score: str, lines: Mapping[str, MethodLine]) -> None:
    """A score against numbers, with the 95 % interval as a band."""
    values = sorted({method.sweep[swept] for method in methods})
    for name in dict.fromkeys(method.name for method in methods):
        places = sorted((method.sweep[swept], i) for i, method in enumerate(methods) if method.name == name and score in method.scores)
        estimates_line(axis, lines[name], [value for value, _ in places], [methods[i].scores[score] for _, i in places])
    if values[0] > 0 and values[-1] > WIDE_SPAN * values[0]:
        axis.set_xscale("log", base=2)
    axis.set_xticks(values, [f"{value:,}" if isinstance(value, int) else f"{value:g}" for value in values])
    axis.set_xticks([], minor=True)
    axis.set_xlabel(SWEPT.get(swept, one_line(swept)))
    axis.set_ylabel(f"{score} in %")


def draw_words(axis: Axes, methods: Sequence[MethodResult], *, swept: str, score: str, lines: Mapping[str, MethodLine]) -> None:
    """A score at each of a few words, the methods side by side, each with its 95 % interval."""
    words = list(dict.fromkeys(as_written(method.sweep[swept]) for method in methods))
    names = list(dict.fromkeys(method.name for method in methods))
    for method in methods:
        if score in method.scores:
            estimate, line = method.scores[score], lines[method.name]
            place = words.index(as_written(method.sweep[swept])) + SPREAD * ((names.index(method.name) + 0.5) / len(names) - 0.5)
            if estimate.low is not None and estimate.high is not None:
                axis.plot([place] * 2, [100 * estimate.low, 100 * estimate.high], color=line.colour, linewidth=1, gid=line.mark)
            axis.plot([place], [100 * estimate.mean], marker="o", color=line.colour, markersize=5, linestyle="", gid=line.mark)
    axis.set_xticks(range(len(words)), [one_line(word) for word in words])
    axis.set_xlim(-0.5, len(words) - 0.5)
    axis.grid(axis="x", visible=False)
    axis.set_xlabel(one_line(swept))
    axis.set_ylabel(f"{score} in %")
