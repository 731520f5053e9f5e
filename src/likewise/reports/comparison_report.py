"""The report of a comparison, one HTML file with tables and plots beside it; and `likewise.compare`: a comparison with its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from likewise.argument_types import checked_arguments
from likewise.comparison.compare import run_comparison
from likewise.comparison.folder import REPORT, seal_folder, unseal_folder
from likewise.comparison.plan_progress import OnProgress
from likewise.comparison.request import DataAsked, MethodsAsked, Request
from likewise.comparison.results import ComparisonResults
from likewise.comparison.running.database import storage_faults_explained
from likewise.comparison.running.workshop import Stopwatch
from likewise.files import write_whole
from likewise.progress import ProgressCallback
from likewise.protocols import Equal, Protocol, Tune
from likewise.reports.charts import (
    cost_chart,
    critical_difference_chart,
    leaderboard_chart,
    power_chart,
    recall_chart,
    training_charts,
    validation_chart,
    weight_charts,
)
from likewise.reports.drawing import write_picture
from likewise.reports.figures.plane import plane_figure, planes_of
from likewise.reports.page import Shared, report_page
from likewise.reports.sweep_charts import sweep_charts
from likewise.reports.tables import csv_table, latex_table, markdown_table
from likewise.reports.tuning_charts import best_after_chart, rate_charts


@checked_arguments
def compare(
    methods: MethodsAsked | None = None,
    data: DataAsked = "glyphs",
    *,
    protocol: str | Path | Protocol | None = None,
    settings: Mapping[str, Any] | None = None,
    equal: Equal | None = None,
    tune: Tune | None = None,
    trials: int | None = None,
    folds: int | None = None,
    seeds: int | None = None,
    sweeps: Mapping[str, Sequence[Any]] | None = None,
    levels: bool = False,
    weights: str | Path | None = None,
    jobs: int | None = None,
    out: str | Path | None = None,
    store: str | None = None,
    ray: str | None = None,
    gpu_share: float = 1.0,
    device: str = "auto",
    indifferent: float | None = None,
    keep_networks: bool = False,
    keep_items: bool = True,
    minutes: float | None = None,
    command: str | None = None,
    report: bool = True,
    on_progress: OnProgress = lambda progress: None,
) -> ComparisonResults:
    """Trains every method under the same protocol, tuned with the same budget, and scores them on classes that none has seen.

    What can be asked for is documented with `likewise.comparison.request.Request`, which has a field of each name. Beside these:
    report: False for none (results.report).  on_progress: is called with the Progress now and then. With `minutes` it may end in
    `likewise.comparison.compare.TimeIsUp`: the same call goes on.
    """
    request = Request(
        methods=methods,
        data=data,
        protocol=protocol,
        settings=settings or {},
        equal=equal,
        tune=tune,
        trials=trials,
        folds=folds,
        seeds=seeds,
        sweeps=sweeps or {},
        levels=levels,
        weights=weights,
        jobs=jobs,
        out=out,
        store=store,
        ray=ray,
        gpu_share=gpu_share,
        device=device,
        indifferent=indifferent,
        keep_networks=keep_networks,
        keep_items=keep_items,
        minutes=minutes,
        command=command,
    )
    return compare_and_report(request, on_progress=on_progress) if report else run_comparison(request, on_progress=on_progress)


def compare_and_report(
    request: Request, *, on_progress: OnProgress = lambda progress: None, on_preparing: ProgressCallback | None = None
) -> ComparisonResults:
    """The results of a comparison, after its report is written."""
    results = run_comparison(request, on_progress=on_progress, on_preparing=on_preparing)
    assert results.folder is not None
    watch = Stopwatch()
    with storage_faults_explained(results.folder), watch.measures("report"):
        unseal_folder(results.folder)
        page = write_report(results, results.folder)
        seal_folder(results.folder)
    return replace(results, report=page).with_time("report", watch.seconds["report"])


def write_report(results: ComparisonResults, folder: Path) -> Path:
    """Writes report.html, leaderboard.csv, .md and .tex and plots/ into the folder; gives the path of report.html.

    The same results give the same report.html, byte for byte.
    """
    shared = Shared.of(results)
    boards, lines, titles = results.boards, shared.lines, shared.titles
    plots = folder / "plots"
    plots.mkdir(parents=True, exist_ok=True)
    charts = {"critical_difference": critical_difference_chart(results, titles, lines), "weights": weight_charts(shared.curves, titles)}
    for number, board in enumerate(boards):
        ending = f"_{number + 1}" if len(boards) > 1 else ""  # names of data sets may be no names of files
        charts |= {
            f"leaderboard{ending}": leaderboard_chart(board, lines),
            f"power{ending}": power_chart(board),
            f"recall{ending}": recall_chart(board, lines),
            f"validation{ending}": validation_chart(board, lines),
            f"training{ending}": training_charts(board, lines),
            f"cost{ending}": cost_chart(board, lines),
            f"rates{ending}": rate_charts(board, lines),
            f"best_after{ending}": best_after_chart(board, lines),
            f"sweeps{ending}": sweep_charts(results, board, lines),
        }
    for name, drawn in charts.items():
        if drawn:
            legend = name.startswith(("recall", "validation", "sweeps", "cost", "best_after"))
            write_picture(drawn, plots / name, lines=lines, titles=titles, legend=legend)
    for number, board in enumerate(boards):
        if drawn_planes := planes_of(results, board.dataset):
            plane_figure(drawn_planes, path=plots / (f"plane_{number + 1}" if len(boards) > 1 else "plane"))
    for name, text in (
        ("leaderboard.csv", csv_table(results)),
        ("leaderboard.md", markdown_table(results, boards)),
        ("leaderboard.tex", latex_table(results, boards)),
        (REPORT, report_page(shared)),
    ):
        write_whole(folder / name, text.encode())
    return folder / REPORT
