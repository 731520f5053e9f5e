"""What is shown of a comparison that is under way."""

from __future__ import annotations

import io
import time
from dataclasses import replace

import pytest
from rich.console import Console

from likewise.comparison.plan import Claim, Piece, Plan
from likewise.comparison.plan_progress import Progress
from likewise.comparison.running.store import Owner
from likewise.terminal import comparison_progress
from likewise.terminal.comparison_progress import clock, live_progress

from ..comparison.test_plan import plan_of


@pytest.mark.parametrize(
    ("seconds", "shown"), [(-3.0, "0:00"), (0.2, "0:01"), (59.9, "1:00"), (725.0, "12:05"), (3600.0, "1:00:00"), (3723.0, "1:02:03")]
)
def test_the_clock(seconds: float, shown: str) -> None:
    assert clock(seconds) == shown


def half_done() -> Progress:
    """Ten seconds a training; one of two is done, by this process, and the untrained networks."""
    plan = plan_of(trials=0, seeds=1)
    owner, now = Owner.here().name, time.time()
    trained = Piece("final", "glyphs", "", "contrastive")
    untrained = replace(trained, method="untrained")
    claims = {
        trained.key: Claim(trained, owner, 0, now - 10.5, now - 0.5, None, None),
        untrained.key: Claim(untrained, owner, 0, now - 0.5, now, None, None),
    }
    return Progress(plan, claims)


def replace_plan(progress: Progress, plan: Plan) -> Progress:
    return Progress(plan, progress.claims)


def test_lines_where_nobody_watches(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison_progress, "BETWEEN_LINES", 0.0)
    plan = replace(plan_of(trials=0, seeds=1), notes=("these are photographs",))
    with live_progress() as (show, prepare):
        show(Progress(plan, {}))
        prepare("features of birds", 1200, 11788)
        show(half_done())
        show(replace_plan(half_done(), plan))
    note, first, prepared, second, _ = capsys.readouterr().err.splitlines()
    assert note == "! these are photographs"  # before any work, and once
    assert first == "training, 0/7 pieces"
    assert prepared == "features of birds, 1,200/11,788"
    assert second == "training, 2/7 pieces, about 0:23 left"  # a training, three scores of four seconds, and pictures


def test_the_bar_counts_down(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=140, color_system=None)
    monkeypatch.setattr(comparison_progress, "Screen", lambda stderr: console)
    with live_progress() as (show, _):
        show(half_done())
    assert "2/7 pieces" in text.getvalue()
    assert "0:23 left" in text.getvalue()
    with live_progress() as (_, prepare):
        prepare("features of [birds]", 0, 4000)
        monkeypatch.setattr(comparison_progress.time, "monotonic", lambda now=time.monotonic: now() + 60)
        prepare("features of [birds]", 1000, 4000)
    assert "features of [birds]" in text.getvalue()
    assert "1,000/4,000" in text.getvalue()
    assert "3:00 left" in text.getvalue()  # the first quarter took a minute
