"""The report of a comparison: one HTML file, tables and plots."""

from __future__ import annotations

from pathlib import Path

from likewise.comparison.folder import REPORT
from likewise.comparison.pieces import UNTRAINED
from likewise.comparison.results import ComparisonResults
from likewise.configuration import with_settings
from likewise.files import write_whole
from likewise.methods import METHODS, load_method
from likewise.reports.drawing import method_lines
from likewise.reports.method_curves import PairCurves, pair_curves
from likewise.reports.page import Shared, report_page
from likewise.reports.pictures import (
    critical_difference_chart,
    leaderboard_chart,
    recall_chart,
    sweep_charts,
    training_charts,
    trial_charts,
    validation_chart,
    weight_charts,
    write_picture,
)
from likewise.reports.tables import csv_table, latex_table, markdown_table


def write_report(results: ComparisonResults, folder: Path) -> Path:
    """Writes report.html, leaderboard.csv, .md and .tex and plots/ into the folder; gives the path of report.html.

    The same results give the same report.html, byte for byte.
    """
    if not results.methods:
        raise ValueError("the comparison has no results to report: expected at least one finished method; run it to the end first")
    titles = {method.name: method.title for method in results.methods}
    lines = method_lines(list(titles))
    boards = results.boards
    curves: dict[str, PairCurves | str] = {}
    own = {method.name: method for method in results.used}
    for name in titles:
        if name != UNTRAINED and (name in own or name in METHODS):
            settings = next(result.settings for result in results.methods if result.name == name)
            curves[name] = pair_curves(with_settings(own.get(name) or load_method(name), settings))
    shared = Shared(results, lines, titles, curves)

    plots = folder / "plots"
    plots.mkdir(parents=True, exist_ok=True)
    charts = {"critical_difference": critical_difference_chart(results, titles, lines), "weights": weight_charts(curves, titles)}
    for number, board in enumerate(boards):
        ending = f"_{number + 1}" if len(boards) > 1 else ""  # names of data sets may be no names of files
        charts |= {
            f"leaderboard{ending}": leaderboard_chart(board, lines),
            f"recall{ending}": recall_chart(board, lines),
            f"validation{ending}": validation_chart(board, lines),
            f"training{ending}": training_charts(board, lines),
            f"trials{ending}": trial_charts(board, lines),
            f"sweeps{ending}": sweep_charts(results, board, lines),
        }
    for name, drawn in charts.items():
        if drawn:
            legend = name.startswith(("recall", "validation", "sweeps"))
            write_picture(drawn, plots / name, lines=lines, titles=titles, legend=legend)
    for name, text in (
        ("leaderboard.csv", csv_table(results)),
        ("leaderboard.md", markdown_table(results, boards)),
        ("leaderboard.tex", latex_table(results, boards)),
        (REPORT, report_page(shared, boards)),
    ):
        write_whole(folder / name, text.encode())
    return folder / REPORT
