"""A run's result as the terminal shows it."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from likewise.data.ledger import CountedLook
from likewise.training.runs.run_folder import TrainingResult


def look_line(look: CountedLook) -> Text:
    """Which look at the test classes it was; any after the first stands out."""
    return Text(look.in_words, style="dim" if look.number == 1 else "yellow")


def result_view(result: TrainingResult) -> RenderableType:
    scored = "test classes, scored once" if result.num_test_items else "trained on every class, no score"
    title = Text(f"{scored} · step {result.best_step} · {result.seconds:.1f} s of training", style="italic")
    table = Table()
    for name in result.scores:
        table.add_column(name, justify="right")
    table.add_row(*(f"{value:.1%}" for value in result.scores.values()))
    look = [] if result.look is None else [look_line(result.look)]
    held_out = (
        [] if result.validation is None else [Text(f"held-out training classes: MAP@R {result.validation['MAP@R']:.1%}", style="dim")]
    )
    notes = [Text(f"note: {note}", style="yellow") for note in result.notes]
    return Group(
        title,
        table if result.scores else Text("no scores: see the notes"),
        *look,
        *held_out,
        *notes,
        Text(f"run: {result.folder}", style="dim"),
    )
