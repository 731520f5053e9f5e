"""The command that makes a model run elsewhere: export."""

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli.faults import faults_in_words
from likewise.cli.streams import work_first


def export(
    model: Annotated[
        str, typer.Argument(help="A run's folder, a comparison's, a saved embedder, or a name that `likewise weights` lists.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write; an export that is there is replaced.")],
    int8: Annotated[
        str | None, typer.Option(metavar="IMAGES", help="Also in 8 bits; IMAGES with classes say what that costs in R@1.")
    ] = None,
    browser: Annotated[
        Path | None, typer.Option(metavar="INDEX", help="Also a page that searches this index in any browser, without a network.")
    ] = None,
    one_file: Annotated[bool, typer.Option("--one-file", help="That page as one file instead of a folder.")] = False,
    runtime: Annotated[Path | None, typer.Option(help="A folder with onnxruntime-web for it; else node_modules, or npm.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable to stdout, and nothing else.")] = False,
) -> None:
    """Write MODEL as ONNX, image in and unit vector out, with its card and examples in Python and JavaScript."""
    with faults_in_words(), work_first(unless=as_json):
        from likewise.terminal.commands.export_command import run_export

        run_export(model, out, int8=int8, browser=browser, one_file=one_file, runtime=runtime, as_json=as_json)
