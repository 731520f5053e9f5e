"""A progress bar on stderr: one for packing, embedding, examining and scoring, whatever tells how far it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from likewise.progress import ProgressCallback
from likewise.terminal.screen import Screen


@contextmanager
def progress_bar(console: Console | None = None) -> Iterator[ProgressCallback | None]:
    """What to tell of progress; None where nobody is looking."""
    console = console or Screen(stderr=True)
    if not console.is_terminal:
        yield None
        return
    bar = _Bar(console)
    try:
        yield bar
    finally:
        bar.stop()


class _Bar:
    """Shown while something is under way: a line of its own only between its first item and its last, so that others may draw after it."""

    def __init__(self, console: Console) -> None:
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[counts]}"))
        self._rich = Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True)
        self._task = self._rich.add_task("", counts="")
        self._what = ""

    def __call__(self, what: str, done: int, total: int) -> None:
        if what != self._what:
            self._what = what
            self._rich.reset(self._task, description=what, total=total or None)
        self._rich.update(self._task, completed=done, counts=f"{done:,}/{total:,}" if total else "")
        if 0 < total <= done:
            self.stop()
        else:
            self._rich.start()

    def stop(self) -> None:
        self._rich.stop()
        self._what = ""
