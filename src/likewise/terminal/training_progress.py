"""Progress of a training on the terminal: a bar with loss, images a second and time left; plain lines where nobody watches."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress


class Progress:
    """A bar on stderr, or nothing at all where it is not `shown`."""

    def __init__(self, steps: int, *, first: int, shown: bool) -> None:
        self.console = Console(stderr=True, quiet=not shown)
        self.bar = RichProgress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("[dim]{task.description}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not shown or not self.console.is_terminal,
        )
        self.task = self.bar.add_task("", total=steps, completed=first)
        self.shown = shown

    def __enter__(self) -> Progress:
        self.bar.start()
        return self

    def __exit__(self, *fault: Any) -> None:
        self.bar.stop()

    def step(self, step: int) -> None:
        self.bar.update(self.task, completed=step)

    def row(self, row: dict[str, float]) -> None:
        said = f"loss {row['loss']:.3f} · {row['images_per_second']:,.0f} images/s"
        if "MAP@R" in row:
            said += f" · held-out R@1 {row['R@1']:.1%} MAP@R {row['MAP@R']:.1%}"
        if self.shown and not self.console.is_terminal and "MAP@R" in row:
            self.console.print(f"step {row['step']:.0f}: {said}", highlight=False)
        self.bar.update(self.task, description=said)

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True)
