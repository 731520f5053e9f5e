"""Commands that show why: explain."""

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli.faults import faults_in_words
from likewise.cli.streams import work_first


def explain(
    model: Annotated[str, typer.Argument(help="A run, a comparison, a saved embedder, or a name that `likewise weights` lists.")],
    first: Annotated[Path, typer.Argument(metavar="A", help="An image.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write: .html or .png.")],
    pairs: Annotated[int, typer.Option(min=0, help="How many pairs of regions to show at most.")] = 5,
    occlusion: Annotated[
        bool, typer.Option("--occlusion/--no-occlusion", help="Also cover each image window by window, an independent check.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable to stdout, and nothing else.")] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: cuda where there is one.")] = "auto",
) -> None:
    """Show where the images A and B match: heat maps and regions, whose parts add up to the similarity exactly."""
    with faults_in_words(), work_first(unless=as_json):
        from likewise.terminal.commands.explain_command import run_explain

        run_explain(model, first, second, out, num_pairs=pairs, occlusion=occlusion, as_json=as_json, device=device)
