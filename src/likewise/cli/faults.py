"""Faults, stops and settings, as every command has them."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from likewise.cli.interrupts import STOPPED, was_pressed
from likewise.sealing import Mended

TIME_IS_UP = 124  # the exit code of what a time limit has ended, as timeout(1) has it
GOES_ON = "what was finished is kept, the same command goes on from there"


@contextmanager
def faults_in_words(if_stopped: str = "") -> Iterator[None]:
    """A fault of the user's (ValueError, OSError) as one message on stderr and exit code 2, without a traceback.

    if_stopped: what is said of Ctrl-C, besides that it was heard.
    """
    try:
        with _mending_in_words():
            yield
        if was_pressed():  # and what was pressed got lost on the way
            raise KeyboardInterrupt
    except typer.Exit:
        raise
    except (KeyboardInterrupt, Exception) as fault:
        if isinstance(fault, KeyboardInterrupt) or was_pressed():
            typer.echo(f"interrupted: {if_stopped}" if if_stopped else "interrupted", err=True)
            raise typer.Exit(STOPPED) from None
        if not isinstance(fault, ValueError | OSError):
            raise
        typer.secho("error: ", fg=typer.colors.RED, bold=True, nl=False, err=True)
        typer.echo(_in_words(fault), err=True)
        raise typer.Exit(2) from fault


@contextmanager
def _mending_in_words() -> Iterator[None]:
    """That something kept was damaged and made again: a line on stderr, without the place in the code."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", Mended)
        otherwise = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, Mended):
                typer.echo(f"note: {message}", err=True)
            else:
                otherwise(message, category, *place, **more)

        warnings.showwarning = show
        yield


def _in_words(fault: ValueError | OSError) -> str:
    """A fault of the system as its file and what is wrong with it, without its number."""
    if isinstance(fault, OSError) and fault.strerror and fault.filename is not None:
        return f"{os.fsdecode(fault.filename)}: {fault.strerror}"
    return str(fault)


@contextmanager
def stops_in_words(out: Path) -> Iterator[None]:
    """Ctrl-C and SIGTERM in a training with this folder, in words and with an exit code."""
    from likewise.training.train import TrainingStopped

    try:
        yield
    except TrainingStopped as stop:
        typer.echo(str(stop), err=True)
        raise typer.Exit(STOPPED) from None
    except KeyboardInterrupt:
        resumed = "the same command with --resume goes on from the last checkpoint"
        typer.echo(f"interrupted: {resumed if (out / 'config.json').is_file() else GOES_ON}", err=True)
        raise typer.Exit(STOPPED) from None
