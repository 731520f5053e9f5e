"""Charts of items, as the papers have them: rows beside each other, a score along an axis, curves of weights, the plane."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from likewise.comparison.results import Estimate
from likewise.formats.numpy_files import read_npy
from likewise.reports.charts import draw_weights
from likewise.reports.drawing import METHOD_COLOURS, MethodLine, one_line, panels
from likewise.reports.figures.plane import PlanePanel, plane_figure
from likewise.reports.figures.rank_curves import rank_curves_figure
from likewise.reports.method_curves import PairCurves, pair_curves
from likewise.reproductions.pages.side_by_side import SideBySide, is_over_parts, side_by_side
from likewise.reproductions.paper_item import PaperItem, PaperPart
from likewise.reproductions.reproduction import ItemResult, PartResult, RowResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OURS, PAPER = METHOD_COLOURS[0], METHOD_COLOURS[1]
WIDTH = 5.6  # inches: on a telephone letters shrink to two thirds


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure of an item: how it is made (within `drawing`), and what it says to those who cannot see it."""

    name: str
    title: str
    label: str
    note: str
    make: Callable[[], Figure]


def pictures(result: ItemResult) -> list[Picture]:
    """What of an item can be drawn from what there is."""
    item = result.item
    drawn = _ranks(item)
    if item.shape == "weights":
        drawn += _weights(item)
    elif item.shape == "plane":
        drawn += _planes(result)
    elif is_over_parts(item):
        drawn += _curves_over_parts(result)
    elif item.shape in ("curve", "table"):
        for part in item.parts:
            table = side_by_side(result, part)
            if table.has_ours:
                drawn += _of_table(result, table)
    return drawn


def _of_table(result: ItemResult, table: SideBySide) -> list[Picture]:
    item, part = result.item, table.part
    rows = result.parts[part.name].rows
    if item.shape == "curve" or (item.axis and sum(item.rows[name].x is not None for name in rows) > 1):
        return [_along_axis(item, table, rows)]
    if len(rows) < 2:
        return []
    shown = [line for line in table.lines if line.scores.get(table.score)]
    height = 0.9 + 0.26 * len(shown)
    apart = table.of_paper and not table.is_comparable
    words = f"{table.score} of each row, ours with 95 % intervals" + (", and the paper's" if table.of_paper else "")

    def make() -> Figure:
        figure, axes = panels(2 if apart else 1, columns=2, size=(WIDTH / (2 if apart else 1), height))
        if apart:
            _draw_rows(axes[0], table, ours=False)
            axes[0].set_title("the paper")
            _draw_rows(axes[1], table, paper=False)
            axes[1].set_yticklabels([])
            axes[1].set_title("ours")
        else:
            _draw_rows(axes[0], table)
            if table.of_paper:
                axes[0].legend(loc="best", fontsize=8)
        return figure

    note = "dots and lines: ours with 95 % intervals"
    if apart:
        note = f"left: the paper's figures, of {table.of_paper}; right: ours with 95 % intervals"
    elif table.of_paper:
        note += f"; diamonds: the paper's, of {table.of_paper}"
    return [Picture(part.name, part.title or part.name, words, note, make)]


def _draw_rows(axis: Axes, table: SideBySide, *, paper: bool = True, ours: bool = True) -> None:
    """Rows from top to bottom as in the table."""
    lines = [line for line in table.lines if line.scores.get(table.score)]
    places = range(len(lines))
    pairs = [line.scores[table.score] for line in lines]
    if ours:
        _intervals(axis, [(place, pair.ours) for place, pair in zip(places, pairs, strict=True) if pair.ours is not None])
    known = [(pair.published, place) for place, pair in zip(places, pairs, strict=True) if pair.published is not None]
    if paper and known:
        axis.plot(*zip(*known, strict=True), marker="D", markersize=5, linestyle="", color=PAPER, fillstyle="none", label="the paper's")
    axis.set_yticks(places, [one_line(line.title) for line in lines])
    axis.set_ylim(len(lines) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)
    axis.set_xlabel(f"{table.score} in %")


def _intervals(axis: Axes, estimates: Sequence[tuple[float, Estimate]]) -> None:
    for place, estimate in estimates:
        if estimate.low is not None and estimate.high is not None:
            axis.plot(
                [100 * estimate.low, 100 * estimate.high], [place, place], color=OURS, linewidth=2.2, solid_capstyle="round", alpha=0.6
            )
    means = [(100 * estimate.mean, place) for place, estimate in estimates]
    if means:
        axis.plot(*zip(*means, strict=True), marker="o", markersize=5, linestyle="", color=OURS, label="ours")


def _along_axis(item: PaperItem, table: SideBySide, rows: Mapping[str, RowResult]) -> Picture:
    """A score along the item's axis, ours seed by seed; of another data set each line less its own best, so that shapes can be compared."""
    scores = [table.score, *(name for name in table.others if name.startswith("R@"))] if item.shape == "curve" else [table.score]
    relative = bool(table.of_paper) and not table.is_comparable

    def make() -> Figure:
        figure, (axis,) = panels(1, columns=1, size=(WIDTH, 3.2))
        for number, score in enumerate(scores):
            points = sorted(
                (item.rows[name].x or 0.0, row.scores[score])
                for name, row in rows.items()
                if item.rows[name].x is not None and score in row.scores
            )
            _seeds(
                axis,
                points,
                METHOD_COLOURS[number],
                f"ours, {score}" if len(scores) > 1 else f"ours: {table.part.title}",
                relative=relative,
            )
        known = sorted(
            (item.rows[line.name].x or 0.0, pair.published)
            for line in table.lines
            if (pair := line.scores.get(table.score)) is not None and pair.published is not None
        )
        if known:
            xs, values = zip(*known, strict=True)
            best = max(values) if relative else 0.0
            axis.plot(
                xs,
                [value - best for value in values],
                color=PAPER,
                linestyle="--",
                marker="D",
                fillstyle="none",
                markersize=5,
                label=f"the paper: {table.of_paper}",
            )
        axis.set_xticks(sorted({item.rows[name].x or 0.0 for name in rows}))
        axis.set_xlabel(item.axis)
        axis.set_ylabel(
            f"{table.score} less the best, points" if relative else ("recall in %" if len(scores) > 1 else f"{table.score} in %")
        )
        axis.legend(loc="best", fontsize=8)
        return figure

    note = "small dots: single seeds" + ("; each line less its own best, since the data sets differ" if relative else "")
    label = f"{', '.join(scores)} against {item.axis}" + (", ours and the paper's" if table.of_paper else "")
    return Picture(table.part.name, table.part.title or table.part.name, label, note, make)


def _seeds(axis: Axes, points: Sequence[tuple[float, Estimate]], colour: str, label: str, *, relative: bool) -> None:
    if not points:
        return
    best = max(estimate.mean for _, estimate in points) if relative else 0.0
    axis.plot(
        [x for x, _ in points],
        [100 * (estimate.mean - best) for _, estimate in points],
        color=colour,
        marker="o",
        markersize=4,
        label=label,
    )
    for x, estimate in points:
        if len(estimate.values) > 1:
            axis.plot(
                [x] * len(estimate.values),
                [100 * (value - best) for value in estimate.values],
                color=colour,
                marker=".",
                markersize=3,
                alpha=0.5,
                linestyle="",
            )


def _curves_over_parts(result: ItemResult) -> list[Picture]:
    """One picture a series of parts: a line for each row."""
    item = result.item
    ran = [part for part in item.parts if part.name in result.parts and result.parts[part.name].rows]
    return [
        picture
        for series in dict.fromkeys(part.series for part in ran)
        for picture in _series(result, [part for part in ran if part.series == series], series)
    ]


def _series(result: ItemResult, parts: Sequence[PaperPart], series: str) -> list[Picture]:
    item = result.item
    if len(parts) < 2:
        return []
    ordered = sorted(parts, key=lambda part: part.x or 0.0)

    def make() -> Figure:
        figure, (axis,) = panels(1, columns=1, size=(WIDTH, 4.6))
        for number, (name, row) in enumerate(item.rows.items()):
            line = MethodLine(number)
            points = [
                (part.x or 0.0, result.parts[part.name].rows[name].scores[item.score].mean)
                for part in ordered
                if name in result.parts[part.name].rows and item.score in result.parts[part.name].rows[name].scores
            ]
            if points:
                axis.plot(
                    [x for x, _ in points],
                    [100 * mean for _, mean in points],
                    color=line.colour,
                    linestyle=line.dashes,
                    marker="o",
                    markersize=3.5,
                    label=one_line(row.title or name),
                )
        axis.set_xscale("log", base=2)
        values = [part.x or 0.0 for part in ordered]
        axis.set_xticks(values, [f"{value:g}" for value in values])
        axis.set_xticks([], minor=True)
        axis.set_xlabel(item.axis)
        axis.set_ylabel(f"{item.score} in %")
        figure.legend(loc="outside lower center", ncols=3, fontsize=8, handlelength=3)
        return figure

    label = f"{item.score} against {item.axis}, a line for each method, {series}"
    return [Picture(series or "curves", series, label, "means over seeds", make)]


def _weights(item: PaperItem) -> list[Picture]:
    curves = {name: pair_curves(row.under("")) for name, row in item.rows.items() if row.method}
    known = {name: drawn for name, drawn in curves.items() if isinstance(drawn, PairCurves)}

    def make() -> Figure:
        figure, axes = panels(len(known), columns=3, size=(WIDTH / 2.6, 1.9))
        for axis, (name, drawn) in zip(axes, known.items(), strict=True):
            draw_weights(axis, drawn)
            axis.set_title(one_line(item.rows[name].title or name))
            axis.set_ylabel("")
        return figure

    label = "weight of a positive (solid) and of a negative pair (dotted) against its similarity, one panel a loss"
    return [
        Picture(
            "weights",
            "Weights of pairs",
            label,
            "solid green: positive pairs; dotted blue: negative pairs; linear up to 1, logarithmic beyond",
            make,
        )
    ]


def _ranks(item: PaperItem) -> list[Picture]:
    """Of an item that tries one setting of NRA: the curves that it changes, which are computed (NRA, Figure 3, left and centre)."""
    if item.shape != "curve" or {row.method for row in item.rows.values()} != {"nonlinear_rank"}:
        return []
    alphas = [row.x for row in item.rows.values() if row.x is not None]
    label = f"transfer function and loss of a positive against its rank, a line for each {item.axis}"
    return [Picture("ranks", "The curves themselves", label, "computed", lambda: rank_curves_figure(alphas, marked=4.0))]


def _planes(result: ItemResult) -> list[Picture]:
    """One picture a part: a panel a row, by its first seed."""
    item = result.item
    drawn = []
    for part in item.parts:
        ran = result.parts.get(part.name)
        if ran is None or ran.labels is None or not any(row.planes for row in ran.rows.values()):
            continue
        shown = [_panel(item, name, ran) for name, row in ran.rows.items() if row.planes]
        label = f"test items of {part.title or part.name} in the plane, coloured by class, one panel a row"
        drawn.append(
            Picture(part.name, part.title or part.name, label, "embeddings as they are, of the first seed", partial(plane_figure, shown))
        )
    return drawn


def _panel(item: PaperItem, name: str, ran: PartResult) -> PlanePanel:
    assert ran.labels is not None
    row = ran.rows[name]
    score = f"{item.score} {100 * row.scores[item.score].mean:.1f}" if item.score in row.scores else ""
    return PlanePanel(item.rows[name].title or name, read_npy(row.planes[0]), ran.labels, ran.class_names, score)
