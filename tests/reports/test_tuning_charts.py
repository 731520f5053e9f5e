"""What the charts of tuning and of cost show."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from likewise.comparison.results import Board, Trial
from likewise.reports.charts import cost_chart, cost_front
from likewise.reports.drawing import Chart, drawing, method_lines, panels
from likewise.reports.tuning_charts import best_after_chart, is_rate_alone, rate_charts

from .made_up import made_up


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Board:
    return made_up(tmp_path_factory.mktemp("vectors"), num_classes=8).board("glyphs")


def lines_of(chart: Chart) -> list[np.ndarray]:
    """The points of every line that the chart draws."""
    with drawing():
        figure, (axis,) = panels(1, columns=1, size=chart.size)
        chart.draw(axis)
        figure.canvas.draw()
        return [np.asarray(line.get_xydata()) for line in axis.lines if len(line.get_xydata())]


def test_a_front_holds_what_nobody_beats() -> None:
    points = [(2.0, 0.5), (1.0, 0.3), (3.0, 0.4), (2.0, 0.2), (1.0, 0.3), (9.0, 0.9), (5.0, 0.5)]
    front = cost_front(points)
    assert front == [1, 0, 5]
    for i, (cost, score) in enumerate(points):
        beaten = any((c <= cost and s > score) or (c < cost and s >= score) for c, s in points)
        assert (points[i] in [points[j] for j in front]) == (not beaten)
    assert cost_front([]) == []


def test_cost_against_quality_has_every_trained_method(board: Board) -> None:
    lines = method_lines([method.name for method in board.methods])
    (chart,) = cost_chart(board, lines)
    drawn = lines_of(chart)
    dots = [points for points in drawn if len(points) == 1]
    expected = sorted((method.mean_seconds, 100 * method.scores["MAP@R"].mean) for method in board.methods)
    np.testing.assert_allclose(sorted(tuple(points[0]) for points in dots), expected)
    untrained = replace(board, equal=(replace(board.equal[0], seconds=(0.0,)), board.equal[1]), apart=())
    assert cost_chart(untrained, lines) == []


def test_score_against_rate(board: Board) -> None:
    lines = method_lines([method.name for method in board.methods])
    charts = rate_charts(board, lines)
    tuned = [method for method in board.methods if method.trials]
    assert [chart.title for chart in charts] == [method.title for method in tuned]
    first = tuned[0]
    joined = max(lines_of(charts[0]), key=len)
    scored = sorted((trial.settings["rates.base"], 100 * trial.first) for trial in first.trials if trial.first is not None)
    assert joined.tolist() == [list(point) for point in scored]
    assert len(scored) == len(first.trials) - 1  # one failed
    assert rate_charts(replace(board, equal=tuple(replace(method, trials=()) for method in board.equal), apart=()), lines) == []


def test_dots_are_joined_only_where_nothing_but_the_rate_differs() -> None:
    trials = [Trial(i, {"rates.base": rate, "loss.margin": 0.2}, 0.1, "complete", 0.1) for i, rate in enumerate((1.0, 3.0))]
    assert is_rate_alone(trials)
    assert not is_rate_alone([*trials, Trial(2, {"rates.base": 9.0, "loss.margin": 0.3}, 0.1, "complete", 0.1)])


def test_the_best_after_all_trials_is_the_best(board: Board) -> None:
    lines = method_lines([method.name for method in board.methods])
    (chart,) = best_after_chart(board, lines)
    tuned = [method for method in board.methods if method.trials]
    drawn = lines_of(chart)
    assert len(drawn) == len(tuned)
    for method, points in zip(tuned, drawn, strict=True):
        first = [100 * (trial.first or 0.0) for trial in method.trials]
        assert points[:, 0].tolist() == list(range(1, len(first) + 1))
        assert points[0, 1] == pytest.approx(np.mean(first))
        assert points[-1, 1] == pytest.approx(max(first))
        assert (np.diff(points[:, 1]) >= 0).all()
