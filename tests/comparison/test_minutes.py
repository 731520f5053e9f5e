"""A comparison in slices of time: nothing new is begun after the end, and all slices together find what one run does."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from likewise.cli.faults import TIME_IS_UP
from likewise.comparison.compare import TimeIsUp
from likewise.comparison.folder import EMBEDDINGS, ITEMS, find_folder
from likewise.comparison.results import ComparisonResults
from likewise.comparison.running.workers import Orders
from likewise.terminal.commands.comparison_command import Request, run_compare

from .tiny import DATA, METHODS, table_of, tiny_compare, tiny_protocol


def finished_pieces(folder: Path) -> int:
    comparison = find_folder(folder)
    assert comparison is not None
    store = comparison.store()
    try:
        return sum(claim.finished is not None for claim in store.claims().values())
    finally:
        store.close()


def test_slices_find_what_one_run_does(tmp_path: Path, finished: ComparisonResults, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock strikes at the ninth look at it, which is before the ninth piece of a slice, and from then on."""
    looks: Counter[float] = Counter()

    def are_over(orders: Orders) -> bool:
        assert orders.until is not None
        looks[orders.until] += 1
        return looks[orders.until] >= 9

    monkeypatch.setattr(Orders, "are_over", property(are_over))
    done, results = [0], None
    while results is None:
        try:
            results = tiny_compare(tmp_path / "out", minutes=1.0)
        except TimeIsUp:
            done.append(finished_pieces(tmp_path / "out"))
    assert [after - before for before, after in pairwise(done)] == [8] * (len(done) - 1)
    assert len(done) > 3
    assert table_of(results) == table_of(finished)


@pytest.mark.parametrize("jobs", [1, 2])
def test_no_time_is_no_piece(tmp_path: Path, jobs: int) -> None:
    with pytest.raises(TimeIsUp, match=r"the time is up: 0 of .* the same command goes on"):
        tiny_compare(tmp_path / "out", minutes=0.0, jobs=jobs)
    assert finished_pieces(tmp_path / "out") == 0


def test_the_command_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = Request(
        methods=METHODS, data=DATA, protocol=tiny_protocol(), seeds=1, jobs=1, device="cpu", out=tmp_path / "out", minutes=0.0
    )
    assert not run_compare(request, profile=False)
    assert "the time is up" in capsys.readouterr().out
    assert TIME_IS_UP == 124


def test_minutes_below_zero_are_refused() -> None:
    with pytest.raises(ValueError, match="minutes=-1: expected a number not below 0"):
        Request(minutes=-1)


def test_what_the_report_shows_need_not_be_kept(tmp_path: Path, finished: ComparisonResults) -> None:
    from likewise.comparison.compare import run_comparison

    request = Request(
        methods=METHODS, data=DATA, protocol=tiny_protocol(), seeds=2, jobs=1, device="cpu", out=tmp_path / "out", keep_items=False
    )
    results = run_comparison(request)
    assert table_of(results) == table_of(finished)
    assert all(method.embeddings is None for method in results.methods)
    assert not (tmp_path / "out" / EMBEDDINGS).exists()
    assert not (tmp_path / "out" / ITEMS).exists()
