"""The ledger: every look at a test set counted once, whatever happens to the file or to the place where it lies."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from likewise import chained_lines, files
from likewise.data import ledger
from likewise.data.dataset import Dataset, Features
from likewise.data.guard import TestGuard
from likewise.data.ledger import CountedLook, Occasion, enter_look, looks_at, read_ledger, state_folder
from likewise.data.readers import read
from likewise.data.splits import split

TEST = "a" * 64


def look(folder: str = "/runs/one", *, decided: str = "x", test: str = TEST) -> CountedLook:
    return enter_look(Occasion("compare", folder, "", decided), test=test, data="birds", num_items=8, purpose="final scores")


def file() -> Path:
    return state_folder() / ledger.FILE


def edit(change: Callable[[list[bytes]], list[bytes]]) -> None:
    """The lines of the file after somebody had their hands on them."""
    file().write_bytes(b"".join(line + b"\n" for line in change(file().read_bytes().splitlines())))


def test_looks_are_counted_by_test_set() -> None:
    first, other, second = look("/runs/one"), look("/runs/one", test="b" * 64), look("/runs/two")
    assert [first.number, other.number, second.number] == [1, 1, 2]
    assert second.before == (first.look,)
    assert looks_at(TEST) == (first.look, second.look)
    assert read_ledger().looks == (first.look, other.look, second.look)
    assert not first.notes + second.notes


def test_one_occasion_is_one_look() -> None:
    """A comparison opens the test part once a network, and again after a kill; `evaluate` of a run sees what `train` saw."""
    first = look()
    look("/runs/two")
    assert look() == first
    again = enter_look(Occasion("evaluate", "/runs/one", "", "x"), test=TEST, data="birds", num_items=8, purpose="again")
    assert again == first
    assert look(decided="more seeds").number == 3
    assert len(read_ledger().looks) == 3


def test_the_words_of_a_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert look(f"{tmp_path}/runs/x").in_words == "first look at these test classes"
    day = looks_at(TEST)[0].time[:10]
    assert look("/elsewhere/y").in_words == f"second look at these test classes, after runs/x ({day})"
    assert look("/runs/z").in_words == f"third look at these test classes, after /elsewhere/y ({day}) and runs/x ({day})"
    for number in range(4, 14):
        last = look(f"/runs/{number}")
    named = ", ".join(f"/runs/{number} ({day})" for number in (12, 11, 10))
    assert last.in_words == f"13th look at these test classes, after {named} and 9 others"


def test_a_look_in_python_is_named_by_its_run() -> None:
    said = enter_look(Occasion("python", "", "raw-0", "x"), test=TEST, data="birds", num_items=8, purpose="final")
    assert said.look.place == "raw-0"
    assert look().in_words.startswith("second look at these test classes, after raw-0 (")


def test_it_is_stored_and_read_again_as_json() -> None:
    look()
    counted = look("/runs/two")
    assert CountedLook.from_json(json.loads(json.dumps(counted.as_json()))) == counted


def test_the_file_is_readable_and_only_grows() -> None:
    look()
    before = file().read_bytes()
    look("/runs/two")
    assert file().read_bytes().startswith(before)
    line = json.loads(file().read_text().splitlines()[1])
    assert (line["number"], line["what"], line["folder"], line["data"], line["test"]) == (2, "compare", "/runs/two", "birds", TEST)
    assert (line["decided"], line["purpose"], line["num_items"]) == ("x", "final scores", 8)
    assert line["time"].endswith("+00:00")


def swap_folders(lines: list[bytes]) -> list[bytes]:
    return [line.replace(b"/runs/two", b"/runs/2wo") for line in lines]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (swap_folders, ["line 2 was edited after it was written", "between lines 2 and 3 a line was edited or taken out"]),
        (lambda lines: [lines[0], lines[2]], ["between lines 1 and 2 a line was edited or taken out"]),
        (lambda lines: lines[1:], ["before line 1 a line was edited or taken out"]),
        (lambda lines: lines[:2], ["the last line that was written is not there any more"]),
        (lambda lines: [], ["all lines were taken out"]),
        (lambda lines: [*lines[:2], lines[2].replace(b"compare", b"python")], ["line 3 was edited after it was written"]),
    ],
    ids=["edited", "taken out", "first taken out", "last taken out", "emptied", "last edited"],
)
def test_other_hands_are_noticed(change: Callable[[list[bytes]], list[bytes]], said: list[str]) -> None:
    for folder in ("/runs/one", "/runs/two", "/runs/three"):
        look(folder)
    assert read_ledger().changed == ()
    edit(change)
    assert list(read_ledger().changed[: len(said)]) == said
    counted = look("/runs/four")  # work goes on, and what was done stays to be seen
    assert counted.is_entered
    assert "the ledger of looks at test classes was changed by other hands" in counted.notes[0]
    assert read_ledger().changed
    look("/runs/five")
    assert read_ledger().changed


def test_a_deleted_file_is_noticed_ever_after() -> None:
    look()
    file().unlink()
    assert read_ledger().changed == ("all lines were taken out",)
    assert look("/runs/two").number == 1
    assert read_ledger().changed == ("before line 1 a line was edited or taken out",)


def test_a_damaged_line_is_skipped_and_said() -> None:
    look()
    with file().open("ab") as opened:
        opened.write(b'{"number": 2, "time": "20')  # killed here
    assert look("/runs/two").number == 2
    held = read_ledger()
    assert [entry.folder for entry in held.looks] == ["/runs/one", "/runs/two"]
    assert held.damaged == ('line 2 is damaged and was skipped: {"number": 2, "time": "20',)
    assert held.changed == ()  # nobody's doing


@pytest.mark.parametrize("line", [b"[]", b"7", b"{}", b"\xff\xfe", b'{"number": "many"}'])
def test_no_line_is_too_odd(line: bytes) -> None:
    look()
    edit(lambda lines: [*lines, line])
    assert len(read_ledger().damaged) == 1
    assert look("/runs/two").number == 2


PROGRAM = """
import sys
from likewise.data.ledger import Occasion, enter_look
for i in range(20):
    enter_look(Occasion("train", f"/runs/{sys.argv[1]}-{i}", "", "x"), test="a" * 64, data="birds", num_items=8, purpose="final")
    enter_look(Occasion("train", "/runs/shared", "", f"{i}"), test="b" * 64, data="birds", num_items=8, purpose="final")
"""


def test_two_processes_at_once() -> None:
    workers = [subprocess.Popen([sys.executable, "-c", PROGRAM, name]) for name in ("left", "right")]
    assert [worker.wait(timeout=120) for worker in workers] == [0, 0]
    held = read_ledger()
    assert (held.damaged, held.changed) == ((), ())
    assert [entry.number for entry in looks_at("a" * 64)] == list(range(1, 41))
    assert len({entry.folder for entry in looks_at("a" * 64)}) == 40
    assert [entry.number for entry in looks_at("b" * 64)] == list(range(1, 21))  # one occasion, whoever was first


def test_a_file_in_the_place_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "taken").write_text("mine")
    with monkeypatch.context() as patched:
        patched.setenv("LIKEWISE_STATE", str(tmp_path / "taken"))
        counted = look()
        assert (counted.number, counted.is_entered) == (0, False)
        assert counted.in_words == "which look at these test classes this is cannot be told"
        (note,) = counted.notes
        assert note.startswith(f"this look at the test classes could not be entered in the ledger ({tmp_path / 'taken'}: ")
        assert "it stays on record in /runs/one. Set LIKEWISE_STATE to a folder that can be written to" in note
        assert (tmp_path / "taken").read_text() == "mine"
    assert look().is_entered  # the same command, once there is a place


def test_a_read_only_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there is still read, so the looks are still counted."""
    first = look()
    before = file().read_bytes()

    def refuse(path: Path, line: bytes) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    with monkeypatch.context() as patched:
        patched.setattr(chained_lines, "append_line", refuse)
        counted = look("/runs/two")
        assert (counted.number, counted.before, counted.is_entered) == (2, (first.look,), False)
        assert f"{file()}: Read-only file system" in counted.notes[0]
        assert look() == first  # was entered before
    assert file().read_bytes() == before
    assert look("/runs/two").number == 2
    assert read_ledger().changed == ()


def test_a_folder_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *given: object, **more: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    counted = look()
    assert (counted.number, counted.is_entered) == (1, False)
    assert f"{state_folder()}: Permission denied" in counted.notes[0]


@pytest.mark.parametrize("written", [0, 20])
def test_a_full_disk(written: int, monkeypatch: pytest.MonkeyPatch) -> None:
    look()
    write = os.write

    with monkeypatch.context() as patched:
        patched.setattr(files.os, "write", lambda handle, line: write(handle, line[:written]))
        counted = look("/runs/two")
    assert not counted.is_entered
    assert "disk full?" in counted.notes[0]
    assert look("/runs/two").number == 2
    held = read_ledger()
    assert [entry.folder for entry in held.looks] == ["/runs/one", "/runs/two"]
    assert (len(held.damaged), held.changed) == (bool(written), ())


def test_another_process_that_never_lets_go(monkeypatch: pytest.MonkeyPatch) -> None:
    look()
    monkeypatch.setattr(ledger, "PATIENCE", 0.05)
    with files.locked(state_folder() / f".{ledger.FILE}.lock"):
        counted = look("/runs/two")
    assert (counted.number, counted.is_entered) == (2, False)
    assert len(counted.notes) == 1


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LIKEWISE_STATE")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)

    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    counted = look()
    assert (counted.number, counted.is_entered) == (0, False)
    assert "Could not determine home directory" in counted.notes[0]


def test_no_folder_is_an_empty_ledger() -> None:
    assert not state_folder().exists()
    held = read_ledger()
    assert (held.looks, held.damaged, held.changed) == ((), (), ())
    assert looks_at(TEST) == ()
    assert not state_folder().exists()  # reading makes nothing


@pytest.mark.parametrize(
    ("platform", "set_to", "expected"),
    [
        ("linux", {"LIKEWISE_STATE": "/s", "XDG_STATE_HOME": "/x"}, "/s"),
        ("linux", {"XDG_STATE_HOME": "/x"}, "/x/likewise"),
        ("linux", {}, "/home/me/.local/state/likewise"),
        ("darwin", {}, "/home/me/Library/Application Support/likewise"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/likewise"),
        ("win32", {}, "/home/me/AppData/Local/likewise"),
    ],
)
def test_where_it_lies(platform: str, set_to: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LIKEWISE_STATE", "XDG_STATE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in set_to.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    monkeypatch.setattr(sys, "platform", platform)
    assert state_folder() == Path(expected)


def test_tests_never_write_the_developers_ledger() -> None:
    assert "LIKEWISE_STATE" in os.environ
    told = subprocess.run([sys.executable, "-c", "import os; print(os.environ['LIKEWISE_STATE'])"], capture_output=True, text=True)
    assert told.stdout.strip() == str(state_folder())
    assert not state_folder().is_relative_to(Path.home() / ".local")


# The guard is the one place that opens, and it enters every look.


def toy(order: np.ndarray | None = None) -> Dataset:
    rows = np.arange(24, dtype=np.float32).reshape(12, 2)
    parts = np.repeat(["train", "test"], 6)
    data = Dataset("toy", Features(rows), np.repeat(np.arange(6), 2), tuple("abcdef"), parts)
    return data if order is None else data.subset(order)


def opened(guard: TestGuard, **words: str) -> TestGuard:
    guard.open(guard.issue_key("final"), **({"run": "raw-0", "purpose": "final evaluation", "decided": "abc"} | words))
    return guard


def test_every_opening_is_entered(tmp_path: Path) -> None:
    guard = opened(split(toy(), seed=0, record=tmp_path / "runs" / "openings.jsonl").test)
    (entered,) = read_ledger().looks
    assert (entered.number, entered.what, entered.data, entered.num_items) == (1, "python", "toy", 6)
    assert (entered.folder, entered.run, entered.decided) == (str(tmp_path / "runs"), "raw-0", "abc")
    assert (entered.test, entered.purpose) == (guard.items_digest, "final evaluation")
    assert guard.look is not None
    assert guard.look.look == entered


def test_what_is_refused_is_no_look() -> None:
    guard = split(toy(), seed=0).test
    key = guard.issue_key("final")
    with guard.closed("tuning"), pytest.raises(ValueError, match="stays closed"):
        guard.open(key, run="raw-0", purpose="final", decided="abc")
    assert guard.look is None
    assert read_ledger().looks == ()


def test_many_openings_on_one_occasion_are_one_look() -> None:
    guard = split(toy(), seed=0).test
    key, occasion = guard.issue_key("final"), Occasion("compare", "/runs/one", "", "all that was decided")
    for seed in range(3):
        guard.open(key, run=f"raw-{seed}", purpose="final", decided=str(seed), occasion=occasion)
    assert len(read_ledger().looks) == 1
    guard.open(key, run="raw-3", purpose="final", decided="3", occasion=replace(occasion, decided="more"))
    assert guard.look is not None
    assert guard.look.number == 2


def test_a_look_that_could_not_be_entered_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = split(toy(), seed=0).test
    key = guard.issue_key("final")
    (tmp_path / "taken").write_text("")
    with monkeypatch.context() as patched:
        patched.setenv("LIKEWISE_STATE", str(tmp_path / "taken"))
        assert len(guard.open(key, run="raw-0", purpose="final", decided="abc").indices) == 6  # the work goes on
        assert guard.look is not None
        assert guard.look.notes
    guard.open(key, run="raw-0", purpose="final", decided="abc")
    assert guard.look.is_entered
    assert len(read_ledger().looks) == 1


def test_the_same_items_in_another_order_or_with_other_training_items_are_the_same_test_set() -> None:
    first = opened(split(toy(), seed=0).test)
    mixed = opened(split(toy(np.array([11, 3, 7, 2, 8, 6, 10, 9])), seed=0).test, run="raw-1")
    assert first.digest != mixed.digest
    assert first.items_digest == mixed.items_digest
    assert mixed.look is not None
    assert mixed.look.number == 2


def test_other_items_are_another_test_set() -> None:
    data = toy()
    base = split(data, seed=0).test.items_digest
    relabelled = replace(data, labels=np.where(data.labels == 5, 4, data.labels))
    halves = replace(data, parts=np.array(["train"] * 6 + ["query", "gallery"] * 3))
    moved = replace(data, items=Features(data.items.array + 1))  # type: ignore[union-attr]
    fewer = data.subset(np.arange(11))
    digests = {split(other, seed=0).test.items_digest for other in (relabelled, halves, moved, fewer)}
    assert len(digests | {base}) == 5


def test_a_copy_of_a_folder_is_the_same_test_set(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for number in range(8):
        path = tmp_path / "birds" / f"class {number // 2}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(path)
    shutil.copytree(tmp_path / "birds", tmp_path / "deep" / "copy")
    one, other = (split(read(place), seed=0).test for place in (tmp_path / "birds", tmp_path / "deep" / "copy"))
    assert one.items_digest == other.items_digest
    next((tmp_path / "deep" / "copy").rglob("*.png")).write_bytes(b"changed")
    assert split(read(tmp_path / "deep" / "copy"), seed=0).test.items_digest != one.items_digest


def test_an_image_that_went_while_training_stops_nothing(tmp_path: Path) -> None:
    for number in range(8):
        path = tmp_path / "birds" / f"class {number // 2}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(path)
    guard = split(read(tmp_path / "birds"), seed=0).test
    shutil.rmtree(tmp_path / "birds")
    opened(guard)
    assert guard.look is not None
    assert (guard.look.number, guard.look.is_entered) == (0, False)
    assert "The data set was changed meanwhile" in guard.look.notes[0]
