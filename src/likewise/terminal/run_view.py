"""A run's result as the terminal shows it."""

from __future__ import annotations

from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from likewise.training.run_folder import RunFolder
from likewise.training.train import TrainingResult, result_of


def finished_run(path: Path) -> TrainingResult:
    """The result of the run in this folder, as it ended."""
    folder = RunFolder(path)
    content = folder.scores()
    if content is None:
        ended = "has not ended: go on with its command and --resume"
        what = ended if folder.config() is not None else "is a folder that holds no run: give a run, or a file of embeddings"
        raise ValueError(f"{path} {what}")
    return result_of(folder, content)


def result_view(result: TrainingResult) -> RenderableType:
    title = Text(f"test classes, scored once · step {result.best_step} · {result.seconds:.1f} s of training", style="italic")
    table = Table()
    for name in result.scores:
        table.add_column(name, justify="right")
    table.add_row(*(f"{value:.1%}" for value in result.scores.values()))
    held_out = (
        [] if result.validation is None else [Text(f"held-out training classes: MAP@R {result.validation['MAP@R']:.1%}", style="dim")]
    )
    notes = [Text(f"note: {note}", style="yellow") for note in result.notes]
    return Group(
        title, table if result.scores else Text("no scores: see the notes"), *held_out, *notes, Text(f"run: {result.folder}", style="dim")
    )
