"""The command `likewise`. Commands are thin: they parse, call one function, and print; what is heavy is imported inside."""

import logging
import sys
from typing import Annotated

import typer

from likewise.addresses import hide_in_process_list
from likewise.cli import (
    discover_commands,
    explain_commands,
    export_commands,
    group_commands,
    judging,
    learning,
    listing_commands,
    reproduce_commands,
    search_commands,
    serve_commands,
)
from likewise.cli.faults import bugs_in_words
from likewise.cli.interrupts import CtrlC, hear_cpu_limit
from likewise.cli.streams import open_streams

# What `likewise --help` lists, in this order.
COMMANDS = {
    "Learn": (learning.compare, learning.adapt, learning.train, discover_commands.discover),
    "Judge": (
        judging.embed,
        judging.evaluate,
        judging.calibrate,
        judging.doctor,
        judging.check,
        judging.ledger,
        reproduce_commands.reproduce,
    ),
    "At work": (
        search_commands.search,
        serve_commands.serve,
        group_commands.duplicates,
        group_commands.cluster,
        explain_commands.explain,
        export_commands.export,
    ),
    "List": (listing_commands.methods, listing_commands.protocols),
}

app = typer.Typer(
    name="likewise",
    help="Deep metric learning: learn embeddings in which like things lie close, and find out fairly which method does that best.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(search_commands.index_commands, name="index", rich_help_panel="At work")
for _heading, _commands in COMMANDS.items():
    for _command in _commands:
        app.command(rich_help_panel=_heading)(_command)
app.add_typer(listing_commands.weights_commands, name="weights", rich_help_panel="List")


def main() -> None:
    """Entry point of the command."""
    hide_in_process_list(sys.argv[1:])
    open_streams()
    hear_cpu_limit()
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # which would tell that it caches elsewhere where there is no home
    with CtrlC(), bugs_in_words():
        app()


def _show_version(wanted: bool) -> None:
    if wanted:
        import likewise

        typer.echo(f"likewise {likewise.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")] = False,
) -> None:
    pass
