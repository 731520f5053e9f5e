"""The order of results: who is best, and who is put to work."""

from __future__ import annotations

import math
from dataclasses import replace

from likewise.comparison.results import ComparisonResults, Estimate, MethodResult, Standing

STANDINGS: tuple[Standing, ...] = ("leads", "within noise", "behind")


def result(name: str, score: float, *, apart: str = "", sweep: dict[str, int] | None = None) -> MethodResult:
    estimate = Estimate((score,), score, None, None, None, lacking="seeds")
    return MethodResult(
        name=name,
        title=name.title(),
        dataset="glyphs",
        apart=apart,
        dim=8,
        settings={},
        defaults={},
        scores={"MAP@R": estimate},
        seconds=(),
        memory_bytes=0,
        curves=(),
        sweep=sweep or {},
    )


def results_of(*methods: MethodResult) -> ComparisonResults:
    return ComparisonResults(
        "", "", "", {}, {}, num_seeds=1, num_trials=3, num_folds=1, methods=methods, items={}, guard_record=(), versions={}
    )


def test_the_untrained_network_never_wins_though_it_leads() -> None:
    """Random weights are nothing to put to work. Features as they are, which are judged with the methods, are."""
    untrained = result("untrained", 0.9, apart="no training")
    board = results_of(untrained, result("dreml", 0.3, apart="4 models"), result("bits", 0.2, apart="8 bits")).board("glyphs")
    assert board.methods[0] is untrained
    assert board.winner is not None
    assert board.winner.name == "dreml"
    leading = results_of(result("untrained", 0.9), result("raw", 0.4)).board("glyphs")
    assert leading.best is not None
    assert leading.best.name == "untrained"
    assert leading.winner is not None
    assert leading.winner.name == "untrained"
    assert results_of(untrained).board("glyphs").winner is None


def test_equal_conditions_come_before_any_score_apart() -> None:
    board = results_of(result("apart", 0.9, apart="4 models"), result("raw", 0.4), result("margin", 0.5)).board("glyphs")
    assert [method.name for method in board.methods] == ["margin", "raw", "apart"]
    assert board.winner is board.best is board.equal[0]


def test_a_training_that_came_to_nothing_is_last_and_equals_go_by_name() -> None:
    board = results_of(result("nothing", math.nan), result("b", 0.0), result("a", 0.0)).board("glyphs")
    assert [method.name for method in board.equal] == ["a", "b", "nothing"]


def test_where_all_is_a_sweep_the_board_is_at_its_largest_value() -> None:
    board = results_of(result("raw", 0.4, sweep={"dim": 64}), result("raw", 0.3, sweep={"dim": 128})).board("glyphs")
    assert board.point == {"dim": 128}
    assert [method.scores["MAP@R"].mean for method in board.equal] == [0.3]


def test_the_mean_time_of_a_training_that_was_none() -> None:
    assert math.isnan(result("untrained", 0.1).mean_seconds)
    assert results_of(result("a", 0.1)).datasets == ("glyphs",)
    assert [board.dataset for board in results_of(result("a", 0.1)).boards] == ["glyphs"]


def test_methods_apart_stand_nowhere() -> None:
    best, near, behind = (replace(result(name, 0.5), standing=standing) for name, standing in zip("abc", STANDINGS, strict=True))
    apart = replace(result("d", 0.9, apart="8 bits"), standing="within noise")
    board = results_of(near, best, behind, apart).board("glyphs")
    assert board.best is best
    assert [board.standing(method) for method in board.methods] == [*STANDINGS, ""]


def test_what_one_process_does_keeps_the_other_jobs_waiting() -> None:
    """By the clock it counts once; all jobs together have spent as many seconds as there are jobs."""
    before = replace(results_of(result("a", 0.1)), jobs=3, time_spent={"training": 6.0, "waiting": 3.0}, elapsed=3.0)
    after = before.with_time("report", 2.0)
    assert after.time_spent == {"training": 6.0, "report": 2.0, "waiting": 7.0}
    assert after.elapsed == 5.0
    assert sum(after.time_spent.values()) == after.jobs * after.elapsed
