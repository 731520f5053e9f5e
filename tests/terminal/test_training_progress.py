"""What a terminal, and a file that nobody watches, show of a training."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from likewise.terminal.training_progress import TrainingProgress

ROW = {"step": 3.0, "loss": 0.1234, "seconds": 1.0, "images_per_second": 1234.5}
VALIDATED = ROW | {"R@1": 0.5, "MAP@R": 0.25}


def shown(*, terminal: bool) -> str:
    """A training of six steps, stopped after the third."""
    text = io.StringIO()
    progress = TrainingProgress(Console(file=text, force_terminal=terminal, width=120, color_system=None))
    progress.began(2, 6)
    progress.step(3)
    progress.row(ROW)
    progress.row(VALIDATED)
    progress.warning("the embeddings have collapsed")
    progress.message("finishing the step")
    progress.ended()
    return text.getvalue()


def test_a_bar_where_someone_watches() -> None:
    text = shown(terminal=True)
    last = [line for line in text.splitlines() if "training" in line][-1]
    assert "3/6 loss 0.123 · 1,234 images/s · held-out R@1 50.0% MAP@R 25.0%" in last
    assert "step 3:" not in text
    assert "warning: the embeddings have collapsed\n" in text


def test_lines_where_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a validation, and otherwise now and then."""
    clock = iter([0.0, 0.0, 20.0, 40.0])  # made, began, two rows
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    assert shown(terminal=False) == (
        "step 3: loss 0.123 · 1,234 images/s · held-out R@1 50.0% MAP@R 25.0% · about 2.0 min left\n"
        "warning: the embeddings have collapsed\nfinishing the step\n"
    )


def test_a_long_training_without_validations_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    text, now = io.StringIO(), 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    progress = TrainingProgress(Console(file=text, force_terminal=False, width=120))
    progress.began(10, 100)
    for step in range(11, 101):
        now += 1.0
        progress.row(ROW | {"step": float(step)})
    lines = text.getvalue().splitlines()
    assert [line.split(":")[0] for line in lines] == ["step 40", "step 70", "step 100"]
    assert lines[0].endswith("about 60.0 s left")
    assert "left" not in lines[2]
