"""The charts of a comparison: which there are (`..._chart`), and what is drawn into the axes of each (`draw_...`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from likewise.comparison.results import Board, ComparisonResults, Estimate, MethodResult
from likewise.evaluation.certainty.verdict import Verdict
from likewise.reports.drawing import FAINT, INK, SMALL, Chart, MethodLine, one_line
from likewise.reports.method_curves import PairCurves
from likewise.reports.weight_curves import COLOURS, LINES, NEGATIVES, POSITIVES, TICKS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COST_TICKS = tuple(step * 10.0**decade for decade in range(-2, 6) for step in (1, 1.5, 2, 3, 5, 7))
LINE_WORDS: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "color": FAINT}
SEEDS = range(2, 21)  # of the power chart

Lines: TypeAlias = Mapping[str, MethodLine]


def recall_chart(board: Board, lines: Lines) -> list[Chart]:
    if len(recall_ks(board)) < 2:
        return []
    note = "share of queries with one of their class among the K nearest"
    return [Chart("R@K", lambda axis: draw_recall(axis, board, lines), f"R@K against K on {board.dataset}, a line for each method", note)]


def validation_chart(board: Board, lines: Lines) -> list[Chart]:
    if not any(len(curve.validation_steps) > 1 for method in board.methods for curve in method.curves):
        return []
    note = "on held-out training classes"
    label = f"MAP@R on held-out training classes of {board.dataset} against the step, a line for each method"
    return [Chart("Validation while training", lambda axis: draw_validation(axis, board, lines), label, note)]


def training_charts(board: Board, lines: Lines) -> list[Chart]:
    def chart(method: MethodResult) -> Chart:
        label = f"loss of {method.title} against the step, a line for each seed"
        return Chart(method.title, lambda axis: draw_training(axis, method, lines[method.name]), label, size=SMALL)

    return [chart(method) for method in board.methods if any(curve.steps for curve in method.curves)]


def cost_chart(board: Board, lines: Lines) -> list[Chart]:
    seconds = [method.mean_seconds for method in _with_cost(board)]
    if len(seconds) < 2 or max(seconds) < 1.05 * min(seconds):  # where time is equal there is nothing to see
        return []
    label = f"{board.leading} of each method on {board.dataset} against the time of its training, and which no faster method beats"
    note = f"{board.leading} against the seconds of a training; no method left of the line is as good"
    return [Chart("Cost against quality", lambda axis: draw_costs(axis, board, lines), label, note)]


def weight_charts(curves: Mapping[str, PairCurves | str], titles: Mapping[str, str]) -> list[Chart]:
    def chart(name: str, pairs: PairCurves) -> Chart:
        label = f"weight of a positive and of a negative pair against its similarity in {titles[name]}"
        return Chart(titles[name], lambda axis: draw_weights(axis, pairs), label, pairs.note, SMALL)

    return [chart(name, pairs) for name, pairs in curves.items() if isinstance(pairs, PairCurves)]


def critical_difference_chart(results: ComparisonResults, titles: Mapping[str, str], lines: Lines) -> list[Chart]:
    difference = results.critical_difference
    if difference is None or len(results.average_ranks) < 2:
        return []
    ranks = results.average_ranks
    height = 1.4 + 0.16 * len(ranks)

    def draw(axis: Axes) -> None:
        draw_critical_difference(axis, ranks, difference, titles=titles, lines=lines)

    return [Chart("", draw, "average rank of each method over the data sets, with the critical difference", size=(5.6, height))]


def power_chart(board: Board) -> list[Chart]:
    """Where the noise is known: what it would take to tell more apart."""
    verdict = board.verdict
    if not board.names_winner or verdict is None or not verdict.fewest_seeds or not math.isfinite(verdict.detectable(SEEDS[0])):
        return []
    label = f"lead that is told from noise four times in five on {board.dataset}, against the number of seeds"
    return [
        Chart(
            "What seeds tell apart",
            lambda axis: draw_power(axis, verdict),
            label,
            "a lead found four times in five, at this noise",
        )
    ]


def leaderboard_chart(board: Board, lines: Lines) -> list[Chart]:
    size = (6.4, 1.0 + 0.28 * len(board.methods))
    return [Chart("", lambda axis: draw_leaderboard(axis, board, lines), f"{board.leading} of each method on {board.dataset}", size=size)]


def draw_leaderboard(axis: Axes, board: Board, lines: Lines) -> None:
    """Mean and 95 % interval of the leading score, the best on top, its interval as a band across."""
    methods = [method for method in board.methods if not math.isnan(method.scores[board.leading].mean)]
    for place, method in enumerate(methods):
        estimate, line = method.scores[board.leading], lines[method.name]
        if estimate.low is not None and estimate.high is not None:
            axis.plot([100 * estimate.low, 100 * estimate.high], [place, place], color=line.colour, linewidth=2.2, solid_capstyle="round")
        axis.plot([100 * estimate.mean], [place], marker="D" if method.apart else "o", color=line.colour, markersize=5.5, linestyle="")
    if board.names_winner and board.best is not None and not math.isnan(board.best.scores[board.leading].mean):
        best = board.best.scores[board.leading]
        if best.low is not None and best.high is not None:
            axis.axvspan(100 * best.low, 100 * best.high, color=lines[board.best.name].colour, alpha=0.1, linewidth=0)
    marks = {"best": " ★", "leads": " ★", "equal for all purposes": " =", "within noise": " ≈"}
    names = [one_line(method.title) + marks.get(board.standing(method), " (apart)" if method.apart else "") for method in methods]
    axis.set_yticks(range(len(methods)), names)
    axis.set_ylim(len(methods) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)
    meaning = "  (★ highest, ≈ within noise of it)" if board.names_winner else ""
    axis.set_xlabel(f"{board.leading} in %, mean and 95 % interval{meaning}")
    axis.set_title(one_line(board.dataset))


def draw_power(axis: Axes, verdict: Verdict) -> None:
    """The lead that so many seeds would tell; a dot where this comparison stands, the smallest lead seen here as a line across."""
    leads = [100 * verdict.detectable(seeds) for seeds in SEEDS]
    here = verdict.fewest_seeds
    told = 100 * verdict.detectable(here)
    first, second = list(verdict.means.values())[:2]
    top = min(1.1 * leads[0], 2.5 * told)  # two seeds tell so little that nothing else could be seen
    axis.plot(SEEDS, leads, color=INK)
    axis.plot([here], [told], marker="o", color=INK)
    axis.annotate("here", (here, told), xytext=(6, 4), textcoords="offset points")
    if 100 * (first - second) < top:
        axis.axhline(100 * (first - second), color=FAINT, linestyle=":")
        axis.annotate("lead of the first over the second", (SEEDS[-1], 100 * (first - second)), xytext=(0, 3), **LINE_WORDS)
    axis.set_ylim(0, top)
    axis.set_xticks([seeds for seeds in SEEDS if seeds % 2 == 0])
    axis.set_xlabel("seeds of each method")
    axis.set_ylabel("lead in points of MAP@R")


def draw_recall(axis: Axes, board: Board, lines: Lines) -> None:
    """R@K against K, with the 95 % interval as a band."""
    ks = recall_ks(board)
    for method in board.methods:
        shown = [k for k in ks if f"R@{k}" in method.scores]
        estimates_line(axis, lines[method.name], shown, [method.scores[f"R@{k}"] for k in shown])
    axis.set_xscale("log", base=2)
    axis.set_xticks(ks, [str(k) for k in ks])
    axis.set_xticks([], minor=True)
    axis.set_xlabel("K")
    axis.set_ylabel("R@K in %")


def recall_ks(board: Board) -> list[int]:
    return sorted({int(name[2:]) for name in board.scores if name.startswith("R@")})


def draw_validation(axis: Axes, board: Board, lines: Lines) -> None:
    """MAP@R on held-out training classes while training, the mean over the curves of a method."""
    for method in board.methods:
        by_step: dict[int, list[float]] = {}
        for curve in method.curves:
            for step, score in zip(curve.validation_steps, curve.validation, strict=True):
                by_step.setdefault(step, []).append(score)
        steps = sorted(by_step)
        line = lines[method.name]
        means = [100 * float(np.mean(by_step[step])) for step in steps]
        axis.plot(steps, means, color=line.colour, linestyle=line.dashes, gid=line.mark)
    axis.set_xlabel("training step")
    axis.set_ylabel("MAP@R in %")


def draw_training(axis: Axes, method: MethodResult, line: MethodLine) -> None:
    """The loss of every seed: thin lines. Values of different losses cannot be compared, so each method has axes of its own."""
    for curve in method.curves:
        axis.plot(curve.steps, curve.losses, color=line.colour, linewidth=1.0, alpha=0.8)
    axis.locator_params(nbins=4)
    axis.set_xlabel("step")
    axis.set_ylabel("loss")


def draw_costs(axis: Axes, board: Board, lines: Lines) -> None:
    """Mean and 95 % interval of the leading score against the mean time of a training; the front's methods are named."""
    methods = _with_cost(board)
    for method in methods:
        estimate, line = method.scores[board.leading], lines[method.name]
        seconds, marker = method.mean_seconds, "D" if method.apart else "o"
        if estimate.low is not None and estimate.high is not None:
            axis.plot([seconds] * 2, [100 * estimate.low, 100 * estimate.high], color=line.colour, linewidth=1, alpha=0.5, gid=line.mark)
        axis.plot([seconds], [100 * estimate.mean], marker=marker, color=line.colour, markersize=5, linestyle="", gid=line.mark)
    front = cost_front([(method.mean_seconds, method.scores[board.leading].mean) for method in methods])
    corners = [(methods[i].mean_seconds, 100 * methods[i].scores[board.leading].mean) for i in front]
    axis.set_xscale("log")
    low, high = min(method.mean_seconds for method in methods), max(method.mean_seconds for method in methods)
    start, end = low / max(1.3, (high / low) ** 0.5), high * max(1.1, (high / low) ** 0.1)  # names stand left of their points
    axis.set_xlim(start, end)
    axis.step([x for x, _ in corners] + [end], [y for _, y in corners] + [corners[-1][1]], where="post", color=FAINT, linewidth=1, zorder=1)
    bottom, top = axis.get_ylim()
    above = math.inf  # of the last name, from the best down: names that would lie on another are left out
    for i, (seconds, score) in reversed(list(zip(front, corners, strict=True))):
        if above - score > 0.06 * (top - bottom):
            axis.annotate(
                one_line(methods[i].title), (seconds, score), (-6, 3), textcoords="offset points", ha="right", fontsize=8, color=INK
            )
            above = score
    ticks = [value for value in COST_TICKS if start <= value <= end]
    if ticks:
        axis.set_xticks(ticks, [f"{value:g}" for value in ticks])
        axis.set_xticks([], minor=True)
    axis.set_xlabel("seconds of a training")
    axis.set_ylabel(f"{board.leading} in %")


def cost_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Of (cost, score) those that no other point beats, with no more cost and a better score, or less cost and no worse one; by cost."""
    front: list[int] = []
    for i in sorted(range(len(points)), key=lambda i: (points[i][0], -points[i][1])):
        if not front or points[i][1] > points[front[-1]][1]:
            front.append(i)
    return front


def _with_cost(board: Board) -> list[MethodResult]:
    """The methods that were trained to some end."""
    return [method for method in board.methods if method.mean_seconds > 0 and not math.isnan(method.scores[board.leading].mean)]


def draw_weights(axis: Axes, curves: PairCurves) -> None:
    """Weight of a positive and of a negative pair against its similarity; linear up to 1, logarithmic beyond."""
    extremes = [0.0, 1.0]
    for side, weights in (("positive", curves.positive), ("negative", curves.negative)):
        axis.plot(curves.similarities, weights, color=COLOURS[side], linestyle=LINES[side])
        extremes += [float(weights.min()), float(weights.max())]
    low, high = min(extremes), max(extremes)
    axis.set_yscale("symlog", linthresh=1, linscale=1.5)
    ticks = [tick for tick in TICKS if 1.2 * low <= tick <= 1.2 * high]
    axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_yticks([], minor=True)
    axis.set_ylim(low * 1.4 if low < -1 else low - 0.12, high * 1.4 if high > 1.1 else 1.1)
    axis.set_xlim(-1, 1)
    axis.set_xlabel("cosine similarity")
    axis.set_ylabel("weight")


def weights_note() -> str:
    positives, negatives = (", ".join(f"{value:g}" for value in row) for row in (POSITIVES, NEGATIVES))
    return f"The anchor's other positives lie at similarity {positives}, its other negatives at {negatives}."


def draw_critical_difference(axis: Axes, ranks: Mapping[str, float], difference: float, *, titles: Mapping[str, str], lines: Lines) -> None:
    """Average ranks on a line, the best left; a bar joins methods whose ranks differ by less than the critical difference."""
    order = sorted(ranks, key=lambda name: (ranks[name], name))
    most = max(len(order), math.ceil(max(ranks.values())))
    groups = rank_groups([ranks[name] for name in order], difference)
    half = math.ceil(len(order) / 2)
    first = -0.7 - 0.3 * len(groups)
    for place, name in enumerate(order):
        left = place < half
        height = first - 0.55 * (place if left else len(order) - 1 - place)
        edge = 0.75 if left else most + 0.25
        line = lines[name]
        axis.plot([ranks[name], ranks[name], edge], [0, height, height], color=line.colour, linewidth=1.2, gid=line.mark)
        words = f"{one_line(titles[name])}  {ranks[name]:.2f}" if left else f"{ranks[name]:.2f}  {one_line(titles[name])}"
        axis.text(edge - 0.08 if left else edge + 0.08, height, words, ha="right" if left else "left", va="center")
    for row, (start, end) in enumerate(groups):
        height = -0.35 - 0.3 * row
        span = [ranks[order[start]] - 0.04, ranks[order[end]] + 0.04]
        axis.plot(span, [height, height], color=INK, linewidth=3.5, solid_capstyle="round")
    axis.plot([1, most], [0, 0], color=FAINT, linewidth=1)
    for rank in range(1, most + 1):
        axis.plot([rank, rank], [0, 0.12], color=FAINT, linewidth=1)
        axis.text(rank, 0.2, str(rank), ha="center", va="bottom")
    axis.plot([1, 1 + difference], [1.1, 1.1], color=FAINT, linewidth=1.6, marker="|", markersize=7)
    axis.text(1 + difference / 2, 1.2, f"critical difference {difference:.2f}", ha="center", va="bottom", color=FAINT)
    axis.set_axis_off()
    axis.set_xlim(1 - 0.4 * most, most + 0.4 * most)
    axis.set_ylim(first - 0.55 * half, 1.8)


def rank_groups(ranks: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """First and last place of each largest run of rising ranks that lie less than the critical difference apart."""
    groups: list[tuple[int, int]] = []
    for start in range(len(ranks)):
        end = max(i for i in range(start, len(ranks)) if ranks[i] - ranks[start] < difference or i == start)
        if end > start and (not groups or end > groups[-1][1]):
            groups.append((start, end))
    return groups


def estimates_line(axis: Axes, line: MethodLine, places: Sequence[float], estimates: Sequence[Estimate]) -> None:
    """Means joined by a line, with the 95 % intervals as a band."""
    mean = [100 * estimate.mean for estimate in estimates]
    low, high = ([math.nan if limit is None else 100 * limit for limit in limits] for limits in _limits(estimates))
    axis.fill_between(places, low, high, color=line.colour, alpha=0.12, linewidth=0, gid=line.mark)
    axis.plot(places, mean, color=line.colour, linestyle=line.dashes, marker="o", markersize=3.5, gid=line.mark)


def _limits(estimates: Sequence[Estimate]) -> tuple[list[float | None], list[float | None]]:
    return [estimate.low for estimate in estimates], [estimate.high for estimate in estimates]
