"""The charts of tuning: a method's score against its learning rate, and what further trials could be expected to bring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from likewise.comparison.results import Board, MethodResult, Trial
from likewise.comparison.tuning import expected_best
from likewise.methods import RATE
from likewise.reports.drawing import FAINT, SMALL, Chart, MethodLine

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    Limits = tuple[float, float]


def rate_charts(board: Board, lines: Mapping[str, MethodLine]) -> list[Chart]:
    """One a method that was tuned, all with the same axes."""
    tuned = [method for method in board.methods if any(RATE in trial.settings for trial in method.trials)]
    trials = [trial for method in tuned for trial in method.trials if RATE in trial.settings]
    if not trials:
        return []
    rates = sorted({trial.settings[RATE] for trial in trials})
    highest = max([100 * trial.first for trial in trials if trial.first is not None], default=1.0) or 1.0

    def chart(method: MethodResult) -> Chart:
        label = f"score of {method.title} on held-out training classes against the learning rate"
        return Chart(
            method.title, lambda axis: draw_rates(axis, method, lines[method.name], rates=rates, top=1.08 * highest), label, size=SMALL
        )

    return [chart(method) for method in tuned]


def best_after_chart(board: Board, lines: Mapping[str, MethodLine]) -> list[Chart]:
    """One for all methods: whose lead hangs on how many trials it had."""
    if max((len(method.trials) for method in board.methods), default=0) < 2:
        return []
    label = f"expected best score on held-out training classes of {board.dataset} after so many trials, a line for each method"
    note = "expected best of so many of the trials, in any order (Dodge et al. 2019)"
    return [Chart("Best after k trials", lambda axis: draw_best_after(axis, board, lines), label, note)]


def draw_rates(axis: Axes, method: MethodResult, line: MethodLine, *, rates: Sequence[float], top: float) -> None:
    """Each set of values by its rate; joined where nothing else differs; the chosen one filled; crosses at the foot gave no score."""
    scored = sorted((trial.settings[RATE], 100 * trial.first, trial) for trial in method.trials if trial.first is not None)
    if is_rate_alone(method.trials):
        axis.plot([rate for rate, _, _ in scored], [score for _, score, _ in scored], color=line.colour, linewidth=1.2)
    for rate, score, trial in scored:
        chosen = trial.settings == method.settings
        face = line.colour if chosen else "none"
        axis.plot([rate], [score], marker="o", markersize=6 if chosen else 4, color=line.colour, markerfacecolor=face, linestyle="")
    failed = [trial.settings[RATE] for trial in method.trials if trial.first is None]
    foot = axis.get_xaxis_transform()
    axis.plot(failed, [0.05] * len(failed), marker="x", markersize=4, linestyle="", color=FAINT, transform=foot, clip_on=False)
    axis.set_xscale("log")
    axis.set_xlim(rates[0] / 1.5, rates[-1] * 1.5)
    axis.set_ylim(0, top)
    shown = [rate for rate in rates if f"{rate:g}".strip("0.") in ("1", "3")] or rates
    axis.set_xticks(shown, [f"{rate:g}" for rate in shown])
    axis.set_xticks([], minor=True)
    axis.locator_params(axis="y", nbins=4)
    axis.set_xlabel("rate, times the protocol's")
    axis.set_ylabel("MAP@R in %")


def draw_best_after(axis: Axes, board: Board, lines: Mapping[str, MethodLine]) -> None:
    from matplotlib.ticker import MaxNLocator

    for method in board.methods:
        if method.trials:
            line = lines[method.name]
            expected = expected_best([100 * (trial.first or 0.0) for trial in method.trials])
            axis.plot(
                range(1, len(expected) + 1), expected, color=line.colour, linestyle=line.dashes, marker="o", markersize=3, gid=line.mark
            )
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set_xlabel("trials")
    axis.set_ylabel("MAP@R in %")


def is_rate_alone(trials: Sequence[Trial]) -> bool:
    """Whether the trials differ in nothing but the rate."""
    return len({tuple((name, value) for name, value in trial.settings.items() if name != RATE) for trial in trials}) == 1
