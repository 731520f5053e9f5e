"""Faults and stops, as every command has them: a sentence and an exit code."""

import errno
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from likewise.addresses import without_secrets
from likewise.cli.interrupts import STOPPED, CpuTimeIsUp, was_pressed
from likewise.cli.streams import READER_LEFT, OutputFault, flush_output
from likewise.sealing import Mended
from likewise.wording import printable_lines

FAULT = 2
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
BUG = 70  # EX_SOFTWARE of sysexits.h
TRACEBACK_VARIABLE = "LIKEWISE_TRACEBACK"
TIME_IS_UP = 124  # the exit code of what a time limit has ended, as timeout(1) has it
GOES_ON = "what was finished is kept, the same command goes on from there"


@contextmanager
def faults_in_words(if_stopped: str = "") -> Iterator[None]:
    """A fault of the user's (ValueError, OSError) or of the machine as one message on stderr and exit code 2, without a traceback.

    if_stopped: what is said of Ctrl-C, besides that it was heard.
    """
    try:
        _check_working_directory()
        with _mending_in_words():
            yield
        if was_pressed():  # and what was pressed got lost on the way
            raise KeyboardInterrupt
    except (typer.Exit, OutputFault):
        raise
    except CpuTimeIsUp as fault:
        _say(f"{fault}: {if_stopped or 'what was finished is kept'}")
        raise typer.Exit(TIME_IS_UP) from None
    except (KeyboardInterrupt, Exception) as fault:
        if isinstance(fault, KeyboardInterrupt) or was_pressed():
            _say(f"interrupted: {if_stopped}" if if_stopped else "interrupted")
            raise typer.Exit(STOPPED) from None
        words = _in_words(fault)
        if words is None:
            raise
        if os.environ.get(TRACEBACK_VARIABLE):
            _say(_traceback(fault))
        _say_error(words)
        raise typer.Exit(FAULT) from fault


@contextmanager
def _mending_in_words() -> Iterator[None]:
    """That something kept was damaged and made again: a line on stderr, without the place in the code."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", Mended)
        otherwise = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, Mended):
                _say(f"note: {message}")
            else:
                otherwise(message, category, *place, **more)

        warnings.showwarning = show
        yield


@contextmanager
def bugs_in_words() -> Iterator[None]:
    """Around all of a command: stdout that cannot be written to, and what nobody expected, as a sentence and an exit code."""
    try:
        try:
            yield
        except SystemExit:
            flush_output()
            raise
    except OutputFault as fault:
        if fault.is_reader_gone:
            sys.exit(READER_LEFT)
        _say_error(str(fault))
        sys.exit(FAULT)
    except Exception as fault:
        words = _in_words(fault)
        if os.environ.get(TRACEBACK_VARIABLE):
            _say(_traceback(fault))
        if words is not None:
            _say_error(words)
            sys.exit(FAULT)
        _say_error(f"{_kind(fault)}. This is a fault of likewise and none of yours: {_kept_traceback(fault)}")
        sys.exit(BUG)


def _say_error(words: str) -> None:
    typer.secho("error: ", fg=typer.colors.RED, bold=True, nl=False, err=True)
    _say(words)


def _say(words: str) -> None:
    typer.echo(printable_lines(without_secrets(words)), err=True)


def _in_words(fault: BaseException) -> str | None:
    """What is wrong with what was handed in, or with the machine; None where neither is to blame."""
    if isinstance(fault, OSError) and fault.strerror and fault.filename is not None:
        return f"{os.fsdecode(fault.filename)}: {fault.strerror}"  # the file and what is wrong with it, without a number
    if isinstance(fault, ValueError | OSError):
        return str(fault) or type(fault).__name__
    said = str(fault)
    if isinstance(fault, MemoryError) or any(sign in said for sign in OUT_OF_MEMORY) or "OutOfMemoryError" in type(fault).__name__:
        what = "take fewer items, a smaller batch or fewer --jobs, or end other programs"
        return f"there is not enough memory for this ({_kind(fault)}): {what}"
    for sign, words in OF_THE_MACHINE.items():
        if sign in said:
            return f"{words} ({said.splitlines()[0]})"
    if isinstance(fault, ImportError):
        return f"a package cannot be imported ({said}): install it again, or another version of it"
    rooms = {kind.__module__.partition(".")[0] for kind in type(fault).__mro__}
    return next((f"{words} ({_kind(fault)})" for room, words in OF_PACKAGES.items() if room in rooms), None)


# What the machine does not give, as Python and torch say it: RuntimeErrors without a kind of their own.
OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "bad_alloc", "Cannot allocate memory")
OF_THE_MACHINE = {
    "can't start new thread": "no further thread can be started: raise the limit (ulimit -u), or end other programs",
    "Could not determine home directory": "no such user, or one without a home folder: give the whole path",
    "No space left on device": "a disk is full: make room, or give another place",
    "unable to open shared memory": "shared memory cannot be had: raise its limit, or that of open files (ulimit -n)",
}
# Faults that packages raise as kinds of their own: of a file or a server, which likewise only passes on.
OF_PACKAGES = {
    "safetensors": "a file of weights cannot be read or written",
    "pyarrow": "a table cannot be read or written",
    "sqlalchemy": "the database does not do what it is asked",
    "sqlite3": "the database does not do what it is asked",
    "psycopg": "the database does not do what it is asked",
}


def _kind(fault: BaseException) -> str:
    """ "KeyError: 'x'", in one line."""
    said = next(iter(str(fault).strip().splitlines()), "")
    return without_secrets(f"{type(fault).__name__}: {said}" if said else type(fault).__name__)


def _traceback(fault: BaseException) -> str:
    return without_secrets("".join(traceback.format_exception(fault)))


def _kept_traceback(fault: BaseException) -> str:
    """Writes it where only this user reads it, and says where."""
    try:
        handle, path = tempfile.mkstemp(prefix="likewise-fault-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(_traceback(fault))
    except OSError:
        return f"please report it, with what {TRACEBACK_VARIABLE}=1 before the command shows"
    return f"please report it, with {path}; {TRACEBACK_VARIABLE}=1 before the command shows the same"


def _check_working_directory() -> None:
    """Before torch is imported, which dies of it."""
    try:
        os.getcwd()
    except OSError as fault:
        raise ValueError("the folder in which this was started is gone: change to another one first") from fault


@contextmanager
def stops_in_words(out: Path) -> Iterator[None]:
    """Ctrl-C, SIGTERM and a limit of processor time in a training with this folder, in words and with an exit code."""
    from likewise.training.train import TrainingStopped

    try:
        yield
    except TrainingStopped as stop:
        _say(str(stop))
        raise typer.Exit(STOPPED) from None
    except CpuTimeIsUp:
        raise
    except OSError as fault:
        if fault.errno not in FULL or not (out / "config.json").is_file():
            raise
        raise ValueError(f"{_in_words(fault)}; with room there again, the same command with --resume goes on") from fault
    except KeyboardInterrupt:
        resumed = "the same command with --resume goes on from the last checkpoint"
        _say(f"interrupted: {resumed if (out / 'config.json').is_file() else GOES_ON}")
        raise typer.Exit(STOPPED) from None
