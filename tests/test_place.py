"""Faults of the place: streams, limits, users, folders, clocks. A result, or one sentence and an exit code; nothing finished is lost."""

from __future__ import annotations

import json
import os
import pwd
import resource
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from PIL import Image
from typer.testing import CliRunner

from likewise.cli import app
from likewise.cli.faults import bugs_in_words, faults_in_words
from likewise.cli.interrupts import CpuTimeIsUp, hear_cpu_limit
from likewise.cli.streams import OutputFault
from likewise.data.dataset import Files
from likewise.data.packing.cache import pack
from likewise.data.readers import read
from likewise.sealing import Mended
from likewise.training.devices import Devices
from likewise.training.loop import Listener
from likewise.training.train import TrainingStopped, train

from .training.tiny import PROTOCOL, method, protocol_file, vectors, vectors_file

FULL = "/dev/full"


def command(*words: str | Path, shell: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, as a shell starts it: `shell` follows it there."""
    line = f'"$0" -m likewise "$@" {shell}'
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}", sys.executable, *map(str, words)],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=200,
    )


def invoke(*words: str | Path) -> tuple[int, str]:
    """Exit code and stderr of the command in this process."""
    result = CliRunner().invoke(app, [*map(str, words)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stderr


@contextmanager
def limited(what: int, soft: int) -> Iterator[None]:
    before = resource.getrlimit(what)
    resource.setrlimit(what, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(what, before)


@pytest.mark.parametrize(
    ("shell", "code", "said"),
    [
        (f"> {FULL}", 2, "error: the standard output cannot be written to (No space left on device)\n"),
        ("| true", 141, ""),
        (">&-", 0, ""),
        (">&- 2>&- <&-", 0, ""),
        (f"2> {FULL}", 0, ""),
    ],
)
def test_standard_streams_that_take_nothing(shell: str, code: int, said: str) -> None:
    ended = command("--help", shell=shell)
    assert (ended.returncode, ended.stderr) == (code, said)


def test_a_fault_is_told_by_its_exit_code_where_nothing_can_be_said() -> None:
    assert command("evaluate", "nothing.npz", shell=f"> {FULL} 2> {FULL}").returncode == 2


def test_a_training_that_cannot_say_it_has_ended_has_ended(tmp_path: Path) -> None:
    """Neither a full stdout nor letters that the terminal does not know are faults of what was trained."""
    words = ["train", "raw", vectors_file(tmp_path / "vectors.npz"), "--protocol", protocol_file(tmp_path, steps=2)]
    ended = command(*words, "--out", tmp_path / "run", shell=f"> {FULL}", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert ended.returncode == 0, ended.stderr
    assert "note: the standard output cannot be written to (No space left on device)" in ended.stderr
    assert (tmp_path / "run" / "scores.json").is_file()
    shown = command("evaluate", tmp_path / "run", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert shown.returncode == 0, shown.stderr
    assert "R@1" in shown.stdout
    assert shown.stdout.isascii()


def test_a_file_size_limit_is_told_and_the_run_goes_on(tmp_path: Path) -> None:
    words = [
        "train",
        "raw",
        vectors_file(tmp_path / "vectors.npz"),
        "--protocol",
        protocol_file(tmp_path, steps=2),
        "--out",
        tmp_path / "run",
    ]
    with limited(resource.RLIMIT_FSIZE, 4000):
        code, said = invoke(*words)
    assert code == 2
    assert f"{tmp_path / 'run' / 'embedder' / 'embedder.json'}: cannot be written (File too large)" in said
    assert said.endswith("with room there again, the same command with --resume goes on\n")
    code, said = invoke(*words, "--resume")
    assert code == 0, said
    assert (tmp_path / "run" / "scores.json").is_file()


def test_a_limit_of_open_files_is_told(tmp_path: Path) -> None:
    file = tmp_path / "vectors.npz"
    np.savez(file, embeddings=np.eye(4), labels=[0, 0, 1, 1])
    assert invoke("evaluate", file, "--intervals", "none")[0] == 0  # all that is imported is there
    with limited(resource.RLIMIT_NOFILE, 3):
        code, said = invoke("evaluate", file, "--intervals", "none")
    assert code == 2
    assert "Too many open files" in said


class CpuLimitAtStep(Listener):
    """The system's signal, twice, as it comes every second."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def step(self, step: int) -> None:
        if step == 3:
            signal.raise_signal(signal.SIGXCPU)
            signal.raise_signal(signal.SIGXCPU)

    def message(self, text: str) -> None:
        self.said.append(text)


def test_a_limit_of_processor_time_stops_a_training_that_goes_on(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGXCPU)
    listener = CpuLimitAtStep()
    settings = {
        "protocol": replace(PROTOCOL, backbone="identity", weights="random", pooling="avg", train_augmentation="none"),
        "device": "cpu",
    }
    with pytest.raises(TrainingStopped, match="stopped after step 4 of 6; the same command with --resume"):
        train(method("raw"), vectors(), out=tmp_path / "run", listener=listener, **settings)  # type: ignore[arg-type]
    assert signal.getsignal(signal.SIGXCPU) == before
    assert "ulimit -t" in "".join(listener.said)
    again = train(method("raw"), vectors(), out=tmp_path / "run", resume=True, **settings)  # type: ignore[arg-type]
    whole = train(method("raw"), vectors(), out=tmp_path / "whole", **settings)  # type: ignore[arg-type]
    assert again.scores == whole.scores


def test_a_limit_of_processor_time_ends_other_commands_in_words() -> None:
    script = """
import resource
from likewise.cli.faults import faults_in_words
from likewise.cli.interrupts import hear_cpu_limit
import typer
hear_cpu_limit()
try:
    with faults_in_words("go on"):
        resource.setrlimit(resource.RLIMIT_CPU, (1, 60))
        try:
            while True: sum(range(1000))
        except Exception: pass  # as whoever blames a method for its faults
except typer.Exit as end:
    raise SystemExit(end.exit_code)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100)
    assert (ended.returncode, ended.stderr) == (124, "the processor time that this process may take (ulimit -t) is used up: go on\n")


def test_the_limit_is_heard_once() -> None:
    before = signal.getsignal(signal.SIGXCPU)
    try:
        hear_cpu_limit()
        with pytest.raises(CpuTimeIsUp):
            signal.raise_signal(signal.SIGXCPU)
        signal.raise_signal(signal.SIGXCPU)  # while things are put in order
    finally:
        signal.signal(signal.SIGXCPU, before)


def nobody(number: int) -> pwd.struct_passwd:
    raise KeyError(f"getpwuid(): uid not found: {number}")


def test_a_user_without_a_name_and_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "USER", "LOGNAME", "LIKEWISE_CACHE", "LIKEWISE_STATE", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    protocol = protocol_file(tmp_path, steps=2)
    code, said = invoke("train", "raw", vectors_file(tmp_path / "vectors.npz"), "--protocol", protocol, "--out", tmp_path / "run")
    assert code == 0, said  # without the ledger, as its result notes
    assert any("LIKEWISE_STATE" in note for note in json.loads((tmp_path / "run" / "scores.json").read_text())["notes"])
    code, said = invoke("train", "raw", "~/photos", "--out", tmp_path / "run")
    assert (code, len(said.splitlines())) == (2, 1)
    assert "home" in said
    for command_ in ("methods", "protocols", "weights"):
        code, said = invoke(command_)
        assert code in (0, 2)
        assert "Traceback" not in said


def test_a_folder_that_was_removed_under_the_command(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    ended = subprocess.run(
        ["bash", "-c", 'cd "$1" && rmdir "$1" && "$0" -m likewise methods', sys.executable, str(tmp_path / "gone")],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ended.returncode == 2
    assert ended.stderr == "error: the folder in which this was started is gone: change to another one first\n"


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"WORLD_SIZE": "2"}, "there is no RANK, LOCAL_RANK, MASTER_ADDR and MASTER_PORT: start them with torchrun, or unset WORLD_SIZE"),
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE is 'two'"),
        (
            {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "9"},
            "do not meet at 127.0.0.1:9 within 1 seconds",
        ),
        (
            {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"},
            "do not meet at 127.0.0.1:0 within 1 seconds",
        ),
    ],
)
def test_ranks_that_do_not_come_are_not_waited_for(environment: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likewise.training.devices.MEETING", 1.0)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=said):
        Devices(PROTOCOL, device="cpu")


@pytest.mark.parametrize(
    ("words", "what"), [(("compare", "glyphs", "--methods", "raw"), "a comparison"), (("adapt", "glyphs"), "an adaptation")]
)
def test_ranks_that_nothing_shares_are_refused(words: tuple[str, ...], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or else each method would be blamed for the ranks that do not come."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    code, said = invoke(*words, "--out", tmp_path / "out")
    assert (code, (tmp_path / "out").exists()) == (2, False)
    assert f"{what} runs each of its trainings in one: start it without torchrun, or unset WORLD_SIZE" in said


@pytest.mark.parametrize("what", ["a folder", "a link to nothing", "a link to another file"])
def test_what_lies_in_the_place_of_a_packed_file(tmp_path: Path, what: str) -> None:
    """A folder is told, with what to do; a link is replaced, and what it leads to is left alone."""
    for label in "ab":
        (tmp_path / "photos" / label).mkdir(parents=True)
        for number in range(3):
            pixels = np.full((20, 20, 3), 40 * number, dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / label / f"{number}.png")
    dataset = read(str(tmp_path / "photos"))
    assert isinstance(dataset.items, Files)
    expected = pack(dataset, folder=tmp_path / "cache", workers=1).buffer.clone()
    place = next((tmp_path / "cache").glob("*.packed"))
    place.unlink()
    victim = tmp_path / "victim"
    if what == "a folder":
        place.mkdir()
        with pytest.raises((OSError, ValueError), match="packed"):
            pack(dataset, folder=tmp_path / "cache", workers=1)
        shutil.rmtree(place)
    else:
        if what == "a link to another file":
            victim.write_text("kept")
        place.symlink_to(victim)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Mended)
        assert torch.equal(pack(dataset, folder=tmp_path / "cache", workers=1).buffer, expected)
    assert not place.is_symlink()
    assert victim.read_text() == "kept" if what == "a link to another file" else not victim.exists()


def test_a_fault_of_our_own_is_told_to_be_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(SystemExit) as end, bugs_in_words(), faults_in_words():
        raise KeyError("postgresql://user:secret@host/db \x1b[31m")
    assert end.value.code == 70
    said = capsys.readouterr().err
    (kept,) = tmp_path.iterdir()
    assert "This is a fault of likewise and none of yours" in said
    assert str(kept) in said
    assert "Traceback" not in said
    assert "Traceback" in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "secret" not in said + kept.read_text()
    assert "\x1b" not in said
    monkeypatch.setenv("LIKEWISE_TRACEBACK", "1")
    with pytest.raises(SystemExit), bugs_in_words():
        raise KeyError("x")
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (MemoryError(), "there is not enough memory"),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:1] . DefaultCPUAllocator: can't allocate memory: you tried"), "not enough memory"),
        (RuntimeError("can't start new thread"), "ulimit -u"),
        (ImportError("libx.so: cannot open shared object file"), "install it again"),
        (OSError(24, "Too many open files", "some\x1b[31mfile"), "some\N{REPLACEMENT CHARACTER}[31mfile: Too many open files"),
    ],
)
def test_faults_of_the_machine_are_no_bugs(fault: Exception, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as end, faults_in_words():
        raise fault
    assert end.value.exit_code == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1


def test_output_that_is_lost_is_no_fault_of_a_file() -> None:
    """click would end with 1 for an OSError of a pipe."""
    assert not issubclass(OutputFault, OSError)
