"""Progress of a training on the terminal: a bar with loss, images a second and time left; plain lines where nobody watches."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from likewise.terminal.screen import Screen
from likewise.training.loop import Listener, Row
from likewise.wording import seconds_in_words

BETWEEN_LINES = 30.0  # seconds, where nobody watches a bar and nothing is validated


class TrainingProgress(Listener):
    """On stderr, unless another console is given."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Screen(stderr=True)
        self.bar = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("[dim]{task.description}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.task = self.bar.add_task("")
        self.first, self.steps = 0, 0
        self.began_at = self.last_line = time.monotonic()

    def began(self, step: int, steps: int) -> None:
        self.first, self.steps = step, steps
        self.began_at = self.last_line = time.monotonic()
        self.bar.update(self.task, total=steps, completed=step)
        self.bar.start()

    def ended(self) -> None:
        self.bar.stop()

    def step(self, step: int) -> None:
        self.bar.update(self.task, completed=step)

    def row(self, row: Row) -> None:
        said = f"loss {row['loss']:.3f} · {row['images_per_second']:,.0f} images/s"
        if "MAP@R" in row:
            said += f" · held-out R@1 {row['R@1']:.1%} MAP@R {row['MAP@R']:.1%}"
        now = time.monotonic()
        if not self.console.is_terminal and ("MAP@R" in row or now - self.last_line >= BETWEEN_LINES):
            self.last_line = now
            self.console.print(f"step {row['step']:.0f}: {said}{self._left(row, now)}", highlight=False)
        self.bar.update(self.task, description=said)

    def _left(self, row: Row, now: float) -> str:
        """By the time that the steps of this run took, validations and checkpoints too."""
        taken, left = row["step"] - self.first, self.steps - row["step"]
        return f" · about {seconds_in_words(left * (now - self.began_at) / taken)} left" if taken > 0 < left else ""

    def warning(self, text: str) -> None:
        self.message(f"warning: {text}")

    def message(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True)
