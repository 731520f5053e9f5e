"""Commands that list what there is: methods, protocols, weights."""

from typing import Annotated

import typer

from likewise.cli.faults import faults_in_words
from likewise.cli.streams import work_first


def methods(
    as_json: Annotated[bool, typer.Option("--json", help="All settings, machine-readable to stdout.")] = False,
) -> None:
    """List the methods: what is compared."""
    with faults_in_words():
        from likewise.terminal.catalogue import methods_view, settings_of_methods

        _print_listing(settings_of_methods() if as_json else methods_view())


def protocols(
    as_json: Annotated[bool, typer.Option("--json", help="All conditions, machine-readable to stdout.")] = False,
) -> None:
    """List the protocols: what is equal for every method."""
    with faults_in_words():
        from likewise.terminal.catalogue import protocols_view, settings_of_protocols

        _print_listing(settings_of_protocols() if as_json else protocols_view())


weights_commands = typer.Typer(help="List pretrained weights and whether they are here, or get them.")


@weights_commands.callback(invoke_without_command=True)
def weights(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable to stdout, and nothing else.")] = False,
) -> None:
    if context.invoked_subcommand is None:
        with faults_in_words():
            from likewise.terminal.commands.weights_command import run_weights

            run_weights(as_json=as_json)


@weights_commands.command()
def get(
    name: Annotated[str, typer.Argument(help="A name that `likewise weights` lists, timm:NAME, or hf:OWNER/REPO[/FILE].")],
) -> None:
    """Fetch the weights NAME, or go on with what was broken off."""
    with faults_in_words("what came is kept, the same command goes on from there"), work_first():
        from likewise.terminal.commands.weights_command import run_weights_get

        run_weights_get(name)


def _print_listing(listing: object) -> None:
    """Settings as JSON, a table as the terminal shows it."""
    if isinstance(listing, dict):
        import json

        typer.echo(json.dumps(listing, indent=2, allow_nan=False))
        return
    from likewise.terminal.screen import Screen

    Screen().print(listing)
