"""What a terminal, and a file that nobody watches, show of a training."""

from __future__ import annotations

import io

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


def test_lines_where_nobody_watches() -> None:
    assert shown(terminal=False) == (
        "step 3: loss 0.123 · 1,234 images/s · held-out R@1 50.0% MAP@R 25.0%\nwarning: the embeddings have collapsed\nfinishing the step\n"
    )
