"""Every command meets bad values of every argument and option: a result, or exit code 2 with a message.

A new command fails until it is given a call here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from likewise.cli import app

from .bad_files import bad_files, sound
from .guard import LONGEST, limits_of_the_system

ABSENT = "nowhere/at all"
STOPPED = {0, 2}  # exit codes

# What each command is given besides the bad value: enough to work, or to end at data that are not there.
CALLS: dict[str, list[str]] = {
    "compare": ["raw", ABSENT, "--out", "out"],
    "adapt": [ABSENT, "--out", "out"],
    "train": ["raw", ABSENT, "--out", "out"],
    "discover": [ABSENT, "--out", "out"],
    "embed": [ABSENT, ABSENT, "--out", "out.npz"],
    "evaluate": ["sound.npz"],
    "calibrate": ["sound.npz"],
    "check": [ABSENT],
    "doctor": ["sound.csv"],
    "ledger": [],
    "reproduce": ["no such paper"],
    "search": [ABSENT, ABSENT],
    "serve": [ABSENT, "--port", "1"],
    "duplicates": [ABSENT],
    "cluster": [ABSENT],
    "explain": [ABSENT, ABSENT, ABSENT],
    "export": [ABSENT, "--out", "out"],
    "methods": [],
    "protocols": [],
    "index build": [ABSENT, ABSENT, "--out", "out"],
    "index add": [ABSENT, ABSENT],
    "index remove": [ABSENT, ABSENT],
    "index show": [ABSENT],
    "index feedback": [ABSENT],
    "weights get": ["no such weights"],
}
NOT_ASKED = {"help", "version", "list"}
TURNS = 4  # of its values an option meets every fourth, beginning with another than the one before
WORDS = ("", "\0", "no such thing", "-1", "nan", "x" * 3000, "a=1,b", "[[[[", "\x1b[2J", "\udcff")
TEXTS = (*WORDS, "pipe", "/dev/zero", "empty", "bad.npz", "bad.csv")
NUMBERS = ("-1", "0", "1e400", "nan", "x", "1" * 30, "")


def _leaves(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if hasattr(command, "commands"):
        for inner, each in command.commands.items():
            yield from _leaves(each, f"{name} {inner}".strip())
    else:
        yield name, command


COMMANDS = dict(_leaves(typer.main.get_command(app)))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("commands")
    (folder / "empty").mkdir()
    (folder / "sound.npz").write_bytes(sound("npz"))
    (folder / "sound.csv").write_text("path,label\nsound.png,a\nsound.png,b\n")
    os.mkfifo(folder / "pipe")
    for name in ("npz", "csv"):
        bad_files(name)["flipped"](folder / f"bad.{name}")
    return folder


@pytest.fixture(autouse=True)
def _here(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("no workers here")

    monkeypatch.chdir(place)
    monkeypatch.setattr("likewise.comparison.compare._runner", refuse)


def test_every_command_has_a_call() -> None:
    assert COMMANDS.keys() == CALLS.keys(), "a command without a call: add it"


def _values(parameter: Any) -> list[str]:
    if getattr(parameter, "is_flag", False):
        return []
    number = any(word in str(parameter.type_descriptor).lower() for word in ("integer", "int", "float"))
    return list(NUMBERS if number else TEXTS)


def _with(call: list[str], command: Any, parameter: Any, value: str) -> list[str]:
    """The call with the value in place of what it has there; an argument's place is that among the arguments."""
    if parameter.param_type_name == "option":
        return [*call, f"{parameter.opts[0]}={value}" if parameter.opts[0].startswith("--") else value]
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    number = arguments.index(parameter)
    positional = call[: next((i for i, word in enumerate(call) if word.startswith("--")), len(call))]
    rest = call[len(positional) :]
    positional += [ABSENT] * (number + 1 - len(positional))
    positional[number] = value
    return [*rest, "--", *positional]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_every_argument_of_a_command_meets_every_bad_value(name: str) -> None:
    command, faults = COMMANDS[name], []
    for number, parameter in enumerate(command.params):
        if parameter.name in NOT_ASKED:
            continue
        for value in _values(parameter)[number % TURNS :: TURNS]:
            arguments = [*name.split(), *_with(CALLS[name], command, parameter, value)]
            try:
                with limits_of_the_system():
                    ended = CliRunner().invoke(app, arguments)
            except BaseException as fault:  # all of them are told together
                faults.append(f"{parameter.name}={value[:30]!r}: {type(fault).__name__}: {str(fault)[:150]}")
                continue
            if ended.exit_code not in STOPPED or (ended.exception is not None and not isinstance(ended.exception, SystemExit)):
                faults.append(f"{parameter.name}={value[:30]!r}: exit code {ended.exit_code}, {ended.exception!r:.150}")
            elif ended.exit_code == 2:
                told = ended.stderr.strip()
                if (
                    not told
                    or "Traceback" in told
                    or (told.startswith("error: ") and len(told) - told.count(value or "-") * len(value) > LONGEST)
                ):
                    faults.append(f"{parameter.name}={value[:30]!r}: says {len(told)} letters {told[:100]!r}")
    assert not faults, "\n".join([f"{len(faults)} of {name}:", *faults])


def test_embeddings_that_a_command_is_given(tmp_path: Path) -> None:
    """Every bad .npz and .parquet through `likewise evaluate`, as whoever has such files would."""
    faults = []
    for name in ("npz", "parquet"):
        for words, make in bad_files(name).items():
            path = tmp_path / f"{words}.{name}"
            make(path)
            with limits_of_the_system():
                ended = CliRunner().invoke(app, ["evaluate", str(path), "--ks", "1", "--metrics", "R@K", "--json"])
            if ended.exit_code not in STOPPED or (ended.exit_code == 2 and path.name not in ended.stderr):
                faults.append(f"{path.name}: exit code {ended.exit_code}, {ended.exception!r:.150} {ended.stderr[:150]}")
    assert not faults, "\n".join(faults)
