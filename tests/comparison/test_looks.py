"""Looks at the test classes: counted over all comparisons, and on record in a way that other hands cannot quietly change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from likewise.chained_lines import ChainedLines
from likewise.cli import app
from likewise.comparison.folder import OPENINGS
from likewise.comparison.results import ComparisonResults
from likewise.data.ledger import read_ledger
from likewise.data.readers import read

from .tiny import DATA, openings_of, table_of, tiny_compare


def short(out: Path, **changes: Any) -> ComparisonResults:
    return tiny_compare(out, **{"methods": ["contrastive"], "trials": 0, "seeds": 1, **changes})


def test_two_comparisons_on_one_test_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first = short(tmp_path / "runs" / "one", seeds=2)
    second = short(tmp_path / "runs" / "two", methods=["raw_vthm"])
    assert first.looks["glyphs"].in_words == "first look at these test classes"
    (entered, other) = read_ledger().looks  # one look each, for five and three openings
    assert openings_of(first).count("opened") == 5
    assert second.looks["glyphs"].in_words == f"second look at these test classes, after runs/one ({entered.time[:10]})"
    assert second.looks["glyphs"].before == (entered,)
    assert (entered.what, entered.folder, entered.data, entered.num_items) == ("compare", str(tmp_path / "runs" / "one"), "glyphs", 48)
    assert entered.decided != other.decided
    again = short(tmp_path / "runs" / "one", seeds=2)
    assert again.looks == first.looks  # a look is not counted twice, nor does a later one change it
    assert len(read_ledger().looks) == 2
    assert not any("ledger" in note for note in second.notes)


def test_the_same_command_in_another_folder_is_another_look(tmp_path: Path) -> None:
    """Another process's code may differ though every setting is the same."""
    short(tmp_path / "one")
    assert short(tmp_path / "two").looks["glyphs"].number == 2


def test_several_workers_are_one_look(tmp_path: Path) -> None:
    found = short(tmp_path / "out", seeds=2, jobs=2)
    (entered,) = read_ledger().looks
    assert found.looks["glyphs"].look == entered


def test_a_ledger_that_is_lost_makes_no_second_look_a_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short(tmp_path / "one")
    second = short(tmp_path / "two")
    monkeypatch.setenv("LIKEWISE_STATE", str(tmp_path / "another users"))
    assert short(tmp_path / "two").looks == second.looks
    assert len(read_ledger().looks) == 1  # that user has seen it now, too


def test_a_place_that_cannot_be_written_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    undisturbed = short(tmp_path / "undisturbed")
    (tmp_path / "taken").write_text("")
    with monkeypatch.context() as patched:
        patched.setenv("LIKEWISE_STATE", str(tmp_path / "taken"))
        found = short(tmp_path / "out")
    assert table_of(found) == table_of(undisturbed)
    (note,) = [note for note in found.notes if "ledger" in note]
    assert note.startswith("glyphs: this look at the test classes could not be entered in the ledger")
    assert str(tmp_path / "out") in note
    assert openings_of(found).count("opened") == 3  # on record all the same
    entered = short(tmp_path / "out")  # "the same command then enters it"
    assert entered.looks["glyphs"].number == 2
    assert not any("ledger" in note for note in entered.notes)
    assert [look.folder for look in read_ledger().looks] == [str(tmp_path / "undisturbed"), str(tmp_path / "out")]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(str(short(tmp_path_factory.mktemp("recorded") / "out").folder))


def edited(record: bytes) -> bytes:
    return record.replace(b"seed 0", b"seed 9", 1)


@pytest.mark.parametrize(
    "change",
    [lambda record: None, edited, lambda record: record[record.index(b"\n") + 1 :], lambda record: b"", lambda record: record[:-20]],
    ids=["deleted", "edited", "a line taken out", "emptied", "cut short"],
)
def test_a_record_in_other_hands_is_noticed(recorded: Path, change: Any) -> None:
    record = recorded / OPENINGS
    before = record.read_bytes()
    try:
        changed = change(before)
        if changed is None:
            record.unlink()
        else:
            record.write_bytes(changed)
        found = short(recorded, report=True)
    finally:
        record.write_bytes(before)
    words = "test_openings.jsonl) was deleted or edited after scores were stored"
    assert words in found.record_fault
    assert found.record_fault in found.notes
    assert found.report is not None
    page = found.report.read_text()
    assert words in page
    assert "never opened" not in page


def test_a_record_that_grew_is_as_it_was_written(recorded: Path) -> None:
    """Requests that come later belong there."""
    found = short(recorded)
    assert found.record_fault == ""
    ChainedLines(recorded / OPENINGS).append({"event": "refused"})
    assert short(recorded).record_fault == ""
    with (recorded / OPENINGS).open("ab") as file:
        file.write(b'{"event": "refused"}\n')  # by other hands
    assert "was deleted or edited" in short(recorded).record_fault


def test_the_best_of_a_comparison_knows_its_split_and_its_look(tmp_path: Path) -> None:
    found = short(tmp_path / "out")
    common = (DATA, "--ks", "1,2", "--metrics", "R@K,MAP@R", "--json")
    told = json.loads(CliRunner().invoke(app, ["evaluate", str(found.best["glyphs"]), *common]).stdout)
    winner = found.board("glyphs").winner
    assert winner is not None
    assert (told["split"], told["num_items"]) == ("test", 48)
    for name, score in told["scores"].items():
        assert score == pytest.approx(winner.scores[name].values[0])
    assert told["look"] == found.looks["glyphs"].as_json()  # what the comparison saw, and nothing new
    assert len(read_ledger().looks) == 1
    assert short(tmp_path / "out").record_fault == ""
    embedded = CliRunner().invoke(app, ["embed", str(found.best["glyphs"]), DATA, "-o", str(tmp_path / "vectors.npz")])
    assert embedded.exit_code == 0, embedded.output
    with np.load(tmp_path / "vectors.npz") as file:
        assert (file["split"] == read(DATA).parts).all()
