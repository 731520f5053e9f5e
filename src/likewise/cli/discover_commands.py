"""The command that searches a loss: discover."""

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli.faults import GOES_ON, TIME_IS_UP, faults_in_words
from likewise.cli.learning import settings_of
from likewise.cli.streams import work_first


def discover(
    data: Annotated[str, typer.Argument(help="A folder of class folders, a table, a data set such as cub:/path, glyphs, vectors.npz.")],
    against: Annotated[
        str | None, typer.Option(help="Known methods, tuned as much: names or .toml files, with commas between; else five of them.")
    ] = None,
    trials: Annotated[int, typer.Option(min=2, help="Sets of values that are tried, for each method.")] = 24,
    folds: Annotated[int, typer.Option(min=1, help="Folds of the training classes that they are tried on.")] = 2,
    seeds: Annotated[int, typer.Option(min=1, help="Final trainings of each method.")] = 3,
    protocol: Annotated[str | None, typer.Option(help="The conditions: see `likewise protocols`. Else what suits DATA.")] = None,
    weights: Annotated[str | None, typer.Option(help="Pretrained weights: a name of `likewise weights`, or a file.")] = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help="key=value of the protocol, such as steps=100.")] = None,
    out: Annotated[Path | None, typer.Option(help="The folder; what is there goes on. Else runs/discover-...")] = None,
    minutes: Annotated[float | None, typer.Option(min=0, help="Begin nothing new after these; the same command goes on.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Trainings at once; else one a core, or one on a GPU.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: cuda where there is one.")] = "auto",
) -> None:
    """Search a loss for DATA: weights of pairs, tuned on training classes beside known methods, and written as a formula."""
    with faults_in_words(GOES_ON), work_first():
        from likewise.discovery.weight_search import KNOWN
        from likewise.terminal.commands.comparison_command import named_methods
        from likewise.terminal.commands.discover_command import run_discover

        is_complete = run_discover(
            data,
            against=named_methods(against) or list(KNOWN),
            trials=trials,
            folds=folds,
            seeds=seeds,
            protocol=protocol,
            settings=settings_of(changes or []),
            weights=weights,
            jobs=jobs,
            out=out,
            device=device,
            minutes=minutes,
        )
        if not is_complete:
            raise typer.Exit(TIME_IS_UP)
