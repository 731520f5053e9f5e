"""Commands that put an index before people: serve, and what they said about its answers."""

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli.faults import faults_in_words
from likewise.cli.search_commands import Device, Index, index_commands
from likewise.cli.streams import work_first

TOKEN_VARIABLE = "LIKEWISE_TOKEN"


def serve(
    index: Index,
    host: Annotated[str, typer.Option(help="The address to listen on. Any but this machine's own needs a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: any that is free.", min=0, max=65535)] = 8000,
    token: Annotated[
        str | None,
        typer.Option(envvar=TOKEN_VARIABLE, help="What clients must show. Better in the environment, as others see command lines."),
    ] = None,
    marks: Annotated[bool, typer.Option("--marks/--no-marks", help="Whether people may mark results as right or wrong.")] = True,
    upload: Annotated[float, typer.Option(max=1e6, help="Megabytes of a picture, at most.")] = 20,
    megapixels: Annotated[float, typer.Option(max=1e6, help="Of a picture, at most.")] = 100,
    rate: Annotated[float, typer.Option(help="Searches a minute and client, at most; 0: any number.")] = 600,
    threads: Annotated[int, typer.Option(help="That embed and search.", min=1)] = 2,
    queue: Annotated[int, typer.Option(help="Requests that may wait for them; further ones are told to come back.", min=0)] = 64,
    seconds: Annotated[float, typer.Option(help="For an upload to come in, and for its answer.")] = 30,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="Clients' addresses are those that a proxy on this machine forwards.")
    ] = False,
    device: Device = "auto",
) -> None:
    """Answer searches of INDEX on a page and through a JSON interface, until Ctrl-C."""
    with faults_in_words(), work_first():
        from likewise.terminal.commands.serve_command import run_serve

        run_serve(
            index,
            host=host,
            port=port,
            token=token,
            marks=marks,
            limits={
                "upload_bytes": round(upload * 1e6),
                "pixels": round(megapixels * 1e6),
                "rate": rate,
                "threads": threads,
                "queue": queue,
                "seconds": seconds,
            },
            behind_proxy=behind_proxy,
            device=device,
        )


@index_commands.command()
def feedback(
    index: Index,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write them to this .csv.")] = None,
    classes: Annotated[
        bool, typer.Option("--classes", help="Not the pairs, but the classes they amount to: a table to train on, path and label.")
    ] = False,
) -> None:
    """Show, or write to a table, which results of INDEX people marked as right or wrong."""
    with faults_in_words():
        from likewise.terminal.commands.serve_command import run_feedback

        run_feedback(index, out=out, classes=classes)
