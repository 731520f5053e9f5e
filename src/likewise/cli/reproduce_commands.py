"""The command that asks the papers: reproduce."""

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli.faults import GOES_ON, faults_in_words
from likewise.cli.learning import settings_of
from likewise.cli.streams import work_first


def reproduce(
    items: Annotated[
        list[str] | None, typer.Argument(metavar="[PAPER[/ITEM]]...", help="Such as rll/table-3, or rll for all of a paper; none: all.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Only list the tables and figures, and what they need.")] = False,
    data: Annotated[list[str] | None, typer.Option(help="Where a data set is, such as cub:/data/CUB_200_2011; again for others.")] = None,
    weights: Annotated[list[str] | None, typer.Option(help="Pretrained weights: names of `likewise weights`, or files.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Trainings of every row; else 3. One leaves every claim open.")] = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help="key=value of every protocol, such as steps=1000.")] = None,
    minutes: Annotated[float | None, typer.Option(min=0, help="Begin nothing new after these, and write what there is.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="On a few drawn characters: whether it runs, not what is true.")] = False,
    out: Annotated[Path | None, typer.Option(help="The folder; what is there goes on. Else runs/reproduce.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Trainings at once; else one a core, or one on a GPU.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: cuda where there is one.")] = "auto",
) -> None:
    """Run tables and figures of the papers beside what was published, and judge what the papers claim by them."""
    with faults_in_words(GOES_ON), work_first(unless=list_):
        from likewise.terminal.reproduction_view import list_items, run_reproduce

        if list_:
            list_items(items or [])
            return
        run_reproduce(
            items or [],
            data=data or [],
            weights=weights or [],
            seeds=seeds,
            settings=settings_of(changes or []),
            minutes=minutes,
            quick=quick,
            out=out,
            jobs=jobs,
            device=device,
        )
