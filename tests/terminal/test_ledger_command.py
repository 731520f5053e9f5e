"""likewise ledger."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from likewise.cli import app
from likewise.data.ledger import FILE, Occasion, enter_look, state_folder
from likewise.data.readers import read
from likewise.data.splits import SPLIT_SEED, split


def ledger(*arguments: str | Path, width: int = 160) -> Result:
    return CliRunner().invoke(app, ["ledger", *map(str, arguments)], env={"COLUMNS": str(width)})


def shown(*arguments: str | Path) -> str:
    result = ledger(*arguments)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def look(folder: str, *, test: str = "a" * 64, data: str = "birds") -> None:
    enter_look(Occasion("train", folder, "", "x"), test=test, data=data, num_items=8, purpose="final")


def vectors(path: Path, *, offset: float = 0.0) -> Path:
    rows = np.arange(24, dtype=np.float32).reshape(12, 2) + offset
    np.savez(path, features=rows, labels=np.repeat(np.arange(6), 2))
    return path


def test_looks_are_shown_by_test_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    look(f"{tmp_path}/runs/one")
    look("/elsewhere", test="b" * 64, data="fish")
    look(f"{tmp_path}/runs/two")
    head, first, second, other, total = shown().splitlines()
    assert head.split() == ["test", "set", "look", "when", "(UTC)", "what", "folder"]
    assert first.startswith("birds aaaaaaaa, 8 items")
    assert first.split()[4] == "1"
    assert first.split()[-2:] == ["train", "runs/one"]
    assert second.split()[0] == "2"
    assert second.split()[-1] == "runs/two"
    assert other.startswith("fish bbbbbbbb, 8 items")
    assert total == f"3 looks in all, in {state_folder() / FILE}"


def test_the_looks_at_one_data_set(tmp_path: Path) -> None:
    mine, others = vectors(tmp_path / "mine.npz"), vectors(tmp_path / "others.npz", offset=1.0)
    guard = split(read(mine), seed=SPLIT_SEED).test
    guard.open(guard.issue_key("final"), run="raw-0", purpose="final", decided="x")
    look("/elsewhere")
    assert "mine" in shown(mine)
    assert "/elsewhere" not in shown(mine)
    assert [entry["run"] for entry in json.loads(shown(mine, "--json"))["looks"]] == ["raw-0"]
    assert shown(others).splitlines()[0] == "no look at the test classes of others is on record"
    (tmp_path / "deep").mkdir()
    assert "raw-0" in shown(vectors(tmp_path / "deep" / "copy.npz"))  # the same items, wherever they lie


def test_json_has_all_of_it() -> None:
    look("/runs/one")
    told = json.loads(shown("--json"))
    assert told["file"] == str(state_folder() / FILE)
    assert (told["damaged"], told["changed"]) == ([], [])
    (entry,) = told["looks"]
    assert (entry["number"], entry["what"], entry["folder"], entry["data"], entry["test"]) == (1, "train", "/runs/one", "birds", "a" * 64)
    assert (entry["decided"], entry["purpose"], entry["num_items"]) == ("x", "final", 8)


def test_an_empty_ledger() -> None:
    assert shown().splitlines() == ["no look at the test classes is on record", f"0 looks in all, in {state_folder() / FILE}"]
    assert json.loads(shown("--json"))["looks"] == []


def test_damage_and_other_hands_are_said() -> None:
    for folder in ("/runs/one", "/runs/two", "/runs/three"):
        look(folder)
    file = state_folder() / FILE
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], lines[2], '{"number": 4']))
    told = shown()
    assert '! line 3 is damaged and was skipped: {"number": 4' in told
    assert "! between lines 1 and 2 a line was edited or taken out" in told
    assert "! looks may be missing, so that a count of them is a lower bound" in told
    assert "/runs/three" in told


def test_a_narrow_terminal_and_names_meant_to_do_harm() -> None:
    look("/runs/[red]\x1b[31m" + "x" * 80, data="[bold]birds\x07")
    told = ledger(width=60)
    assert told.exit_code == 0
    assert "\x1b" not in told.stdout
    assert "\x07" not in told.stdout
    assert "[bold]" in told.stdout
    assert told.stdout.count("x") >= 80  # folded, not cut


def test_a_place_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv("LIKEWISE_STATE", str(tmp_path / "taken"))
    told = ledger()
    assert told.exit_code == 2
    assert "the ledger cannot be read" in told.stderr
    assert "set LIKEWISE_STATE to the folder that it is in" in " ".join(told.stderr.split())


def test_data_that_is_not_there() -> None:
    told = ledger("nowhere")
    assert told.exit_code == 2
    assert "nowhere" in told.stderr
