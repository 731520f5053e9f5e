"""Sweeps in the report: lines over numbers, dots for words, a table for everything, and sentences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from likewise.comparison.results import ComparisonResults, MethodResult
from likewise.reports.drawing import method_lines
from likewise.reports.page.sweeps_html import sweeps_section
from likewise.reports.sentences import swept_in_words
from likewise.reports.sweep_charts import draw_sweep, draw_words, sweep_charts
from likewise.reports.tables import markdown_table, point_standing

from .made_up import made_up


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> ComparisonResults:
    return made_up(tmp_path_factory.mktemp("swept"), sweep=True, num_classes=8)


def drawn(methods: list[MethodResult], values: list[Any], draw: Any) -> Any:
    at_values = [replace(methods[i % len(methods)], sweep={"loss.alpha": value}) for i, value in enumerate(values)]
    axis = Figure().subplots()
    draw(axis, at_values, swept="loss.alpha", score="MAP@R", lines=method_lines([method.name for method in methods]))
    return axis


@pytest.mark.parametrize(
    ("values", "scale", "ticks"),
    [
        ([1.0, 1.2, 1.4], "linear", ["1", "1.2", "1.4"]),
        ([64, 128, 512], "linear", ["64", "128", "512"]),
        ([64, 1024], "log", ["64", "1,024"]),
        ([0.001, 0.01], "log", ["0.001", "0.01"]),
        ([0.0, 10.0], "linear", ["0", "10"]),
        ([-1.0, 10.0], "linear", ["-1", "10"]),
    ],
)
def test_numbers_far_apart_stand_on_a_logarithmic_axis(
    results: ComparisonResults, values: list[float], scale: str, ticks: list[str]
) -> None:
    axis = drawn([results.methods[0]], values, draw_sweep)
    assert axis.get_xscale() == scale
    assert [label.get_text() for label in axis.get_xticklabels()] == ticks
    (line,) = axis.lines
    assert list(line.get_xdata()) == sorted(values)
    assert line.get_gid() == "method-0"


def test_words_stand_side_by_side(results: ComparisonResults) -> None:
    methods = list({method.name: method for method in results.methods}.values())[:2]
    axis = drawn(methods, ["avg", "avg", "max", True], draw_words)
    assert [label.get_text() for label in axis.get_xticklabels()] == ["avg", "max", "true"]
    dots = [line for line in axis.lines if line.get_marker() == "o"]
    assert len(dots) == 4
    first, second = (float(dot.get_xdata()[0]) for dot in dots[:2])
    assert -0.5 < first < 0 < second < 0.5


def test_charts_of_what_varies_alone(results: ComparisonResults) -> None:
    board = results.boards[0]
    lines = method_lines([method.name for method in results.methods])
    titles = [chart.title for chart in sweep_charts(results, board, lines)]
    assert titles == ["R@1 against dim", "MAP@R against dim", "R@1 against pooling", "MAP@R against pooling"]
    together = [replace(method, sweep={"dim": number, "batch": number % 2}) for number, method in enumerate(results.methods[:4])]
    assert sweep_charts(replace(results, methods=(*results.methods[:1], *together)), board, lines) == []
    fixed = [replace(method, sweep={"batch": 8 * number + 8, "steps": 600}) for number, method in enumerate(results.methods[:4])]
    titles = [chart.title for chart in sweep_charts(replace(results, methods=tuple(fixed)), board, lines)]
    assert titles == ["R@1 against batch, steps 600", "MAP@R against batch, steps 600"]


def test_the_page_and_the_tables_say_it(results: ComparisonResults, tmp_path: Path) -> None:
    board = results.boards[0]
    section = sweeps_section(results, board, method_lines([method.name for method in results.methods]))
    assert "&lt;i&gt;it cannot be&lt;/i&gt;" in section
    assert "<i>" not in section
    assert "★" in section
    assert "not at none: " in section
    for entry in results.swept:
        assert entry.verdict is not None
        words = swept_in_words(entry)
        assert words.startswith(f"{entry.verdict.best.partition('=')[2]} ")
        at_point = [method for method in results.methods if method.name == entry.method and entry.sweep in method.sweep]
        assert [point_standing(results, method) for method in at_point] == [entry.standing(point) for point in entry.points]
    assert "- RAW + VTHM, dim: " in markdown_table(results, results.boards)
