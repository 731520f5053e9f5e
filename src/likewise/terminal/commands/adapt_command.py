"""The command `likewise adapt`: from words on a command line to the ladder, its answer and where the embedder is."""

from __future__ import annotations

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from likewise.adaptation.adapt import Adaptation, adapt
from likewise.adaptation.card import COLUMNS, rows, what_the_columns_are
from likewise.adaptation.rungs import FEATURES
from likewise.reports.sentences import how_to_embed
from likewise.terminal.progress_bar import progress_bar
from likewise.terminal.run_view import look_line
from likewise.terminal.screen import Screen
from likewise.training.train import Trains
from likewise.wording import percent, seconds_in_words

SHOWN = ("R@1", "MAP@R")  # of the test scores


def run_adapt(data: str, *, out: Path, minutes: float, weights: str | None, method: str, split: Trains, device: str) -> None:
    with progress_bar() as on_progress:
        result = adapt(data, out=out, minutes=minutes, weights=weights, method=method, split=split, device=device, on_progress=on_progress)
    console = Screen()
    console.print(ladder_view(result))
    console.print(f"  {how_to_embed(result.folder, vectors=result.of_vectors)}", soft_wrap=True, highlight=False)


def ladder_view(result: Adaptation) -> RenderableType:
    title = f"{what_the_columns_are(result.ladder.steps)}. It took {seconds_in_words(result.seconds)}"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in COLUMNS:
        table.add_column(name, justify="left" if name in (COLUMNS[0], COLUMNS[-1]) else "right")
    for step, row in zip(result.ladder.steps, rows(result.ladder.steps), strict=True):
        table.add_row(*row, style="bold" if step.rung == result.ladder.chosen else "")
    test = [Text(scores_line(result))] if result.scores else []
    return Group(
        table,
        Text(f"{result.sentence[:1].upper()}{result.sentence[1:]}"),
        *test,
        *([] if result.look is None else [look_line(result.look)]),
        *(Text(f"note: {note}", style="yellow") for note in result.notes),
        Text(f"embedder: {result.folder}; use it with", style="dim"),
    )


def scores_line(result: Adaptation) -> str:
    """ "test classes, scored once: R@1 59.3 (as they are 57.4), MAP@R 18.2 (as they are 17.0)"."""

    def beside(name: str) -> str:
        return "" if result.ladder.chosen == FEATURES else f" (as they are {percent(result.as_they_are[name], digits=1)})"

    shown = [f"{name} {percent(result.scores[name], digits=1)}{beside(name)}" for name in SHOWN if name in result.scores]
    return f"test classes, scored once: {', '.join(shown)}"
