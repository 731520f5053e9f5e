"""likewise reproduce: the list, the summary of claims, slices of time, and Ctrl-C."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from likewise.cli import app
from likewise.reproductions.paper_item import ITEMS, PAPERS
from likewise.terminal import reproduction_view


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)], env={"COLUMNS": "200"})


def test_the_list_has_every_item() -> None:
    output = invoke("--list").output
    for name in ITEMS:
        assert f"{name} " in output
    for paper in PAPERS.values():
        assert paper.title in output
    assert "sop is Stanford Online Products" in output
    of_one = invoke("nra", "--list").output
    assert "nra/table-1" in of_one
    assert "rll/table-1" not in of_one


def test_what_is_unknown_is_told() -> None:
    result = invoke("rll/tabel-3")
    assert result.exit_code == 2
    assert "did you mean 'rll/table-3'" in result.output


def test_a_stand_in_and_its_summary(tmp_path: Path) -> None:
    first = invoke("rll/table-3", "--quick", "--minutes", 0, "--out", tmp_path, "--device", "cpu", "--jobs", 1)
    assert first.exit_code == 0, first.output
    assert re.search(r"the time is up: \d+ trainings are left; the same command goes on", first.output)
    result = invoke("rll/table-3", "--quick", "--out", tmp_path, "--device", "cpu", "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert "a stand-in on drawn characters" in result.output
    assert "2 claims: 2 not run" in result.output
    assert f"figures: {tmp_path / 'figures.csv'}" in result.output
    assert "the time is up" not in result.output


def test_what_is_lacking_is_in_the_summary(tmp_path: Path) -> None:
    result = invoke("unified/figure-1", "rll/table-3", "--out", tmp_path, "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert "not run, it needs Stanford Online Products: give --data sop:PATH" in result.output
    assert "confirmed" in result.output
    assert "computed" in result.output


def test_lines_where_nobody_looks(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduction_view, "BETWEEN_LINES", 0.0)
    with reproduction_view.reproduction_progress() as tell:
        tell("rll/table-3, cub, seed 1 of 3", 0, 9)
        tell("rll/table-3, cub, seed 1 of 3", 3, 9)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("rll/table-3, cub, seed 1 of 3: 0/9 trainings, ")
    assert "left" not in first
    assert " left" in second


def test_ctrl_c_keeps_what_is_done(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "likewise", "reproduce", "rll/table-3", "--quick", "--seeds", "8"]
    command += ["--out", str(tmp_path), "--device", "cpu", "--jobs", "1"]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 200
    while not list(tmp_path.glob("benches/*/comparison.json")) and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(1.0)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=100)
    assert running.returncode == 130, said
    assert "interrupted: what was finished is kept, the same command goes on from there" in said
    result = invoke("rll/table-3", "--quick", "--seeds", 1, "--out", tmp_path, "--device", "cpu", "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert "trainings are left" not in result.output
