"""The guard: closed by default, opened by its key, once a run, and every request on record."""

import copy
import dataclasses
import json
import os
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from likewise.data.dataset import Dataset, Features
from likewise.data.guard import Opening, Record, TestGuard, TestKey, TestPart
from likewise.data.splits import split

INDICES = np.array([907, 911, 919, 929])
WORDS = {"run": "raw-0", "purpose": "final evaluation", "decided": "abc"}


def guard(record: Path | None = None) -> TestGuard:
    return TestGuard(TestPart(INDICES), record=record)


def holds_indices(value: object) -> bool:
    return any(str(index) in repr(value) for index in INDICES) or value is INDICES or isinstance(value, np.ndarray | TestPart)


def test_the_key_opens_it() -> None:
    closed = guard()
    key = closed.issue_key("final evaluation")
    part = closed.open(key, **WORDS)
    assert part.indices.tolist() == INDICES.tolist()
    assert part.query is None
    with pytest.raises(ValueError, match="read-only"):
        part.indices[0] = 1


def test_public_attributes_text_and_iteration_tell_nothing() -> None:
    closed = guard()
    assert not holds_indices(repr(closed))
    assert not holds_indices(str(closed))
    for name in dir(closed):
        if not name.startswith("_"):
            value = getattr(closed, name)
            assert callable(value) or not holds_indices(value), name
    assert not hasattr(closed, "__dict__")
    assert not dataclasses.is_dataclass(closed)
    for ask in (len, iter, list, tuple, lambda g: g[0], int, lambda g: np.zeros(1000)[g]):
        with pytest.raises((TypeError, IndexError)):
            ask(closed)  # type: ignore[operator]
    assert np.asarray(closed).dtype == object


def test_private_attributes_hold_no_array() -> None:
    closed = guard()
    for name in TestGuard.__slots__:
        if name != "__weakref__":
            assert not holds_indices(getattr(closed, name)), name


def test_a_data_set_does_not_take_it_as_indices() -> None:
    labels = np.repeat(np.arange(6), 2)
    data = Dataset("toy", Features(np.zeros((12, 1), dtype=np.float32)), labels, tuple("abcdef"))
    with pytest.raises((TypeError, IndexError)):
        data.subset(split(data, seed=0).test)  # type: ignore[arg-type]


def test_it_is_neither_pickled_nor_copied() -> None:
    closed = guard()
    with pytest.raises(TypeError, match=r"Split\.to_json"):
        pickle.dumps(closed)
    assert copy.copy(closed) is closed
    assert copy.deepcopy(closed) is closed
    key = closed.issue_key("final evaluation")
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="stays with the final evaluation"):
            attempt(key)


def test_the_key_is_given_out_once() -> None:
    closed = guard()
    closed.issue_key("final evaluation")
    with pytest.raises(ValueError, match="given out before, so 'a curious callback' cannot have it"):
        closed.issue_key("a curious callback")
    assert [opening.event for opening in closed.record] == ["key", "refused"]


@pytest.mark.parametrize("key", [None, "key", TestKey()])
def test_no_other_key_opens_it(key: object) -> None:
    closed = guard()
    with pytest.raises(ValueError, match="not the key of this guard"):
        closed.open(key, **WORDS)  # type: ignore[arg-type]
    right = closed.issue_key("final evaluation")
    with pytest.raises(ValueError, match="not the key of this guard"):
        closed.open(key, **WORDS)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not the key of this guard"):
        guard().open(right, **WORDS)
    assert [opening.event for opening in closed.record] == ["refused", "key", "refused"]


def test_every_opening_is_recorded() -> None:
    closed = guard()
    key = closed.issue_key("final evaluation")
    closed.open(key, **WORDS)
    closed.open(key, **(WORDS | {"run": "raw-1"}))
    given, first, second = closed.record
    assert (given.event, given.purpose) == ("key", "final evaluation")
    assert (first.event, first.run, first.purpose, first.decided) == ("opened", "raw-0", "final evaluation", "abc")
    assert (first.number, second.number) == (1, 2)
    assert first.num_items == 4
    assert first.time.endswith("+00:00")
    assert "test_guard.py" in first.caller
    assert "test_every_opening_is_recorded" in first.caller
    assert "opened 2 times" in repr(closed)


def test_the_record_cannot_be_edited_through_the_guard() -> None:
    closed = guard()
    closed.issue_key("final evaluation")
    assert isinstance(closed.record, tuple)
    with pytest.raises(dataclasses.FrozenInstanceError):
        closed.record[0].event = "opened"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        closed.record = ()  # type: ignore[misc]


def test_a_run_opens_once_and_may_resume() -> None:
    closed = guard()
    key = closed.issue_key("final evaluation")
    closed.open(key, **WORDS)
    closed.open(key, **WORDS)
    with pytest.raises(ValueError, match="with other settings or weights"):
        closed.open(key, **(WORDS | {"decided": "tuned again"}))
    with pytest.raises(ValueError, match="with another purpose"):
        closed.open(key, **(WORDS | {"purpose": "a look"}))
    closed.open(key, **WORDS)  # what was refused does not stand in the way
    assert [opening.event for opening in closed.record] == ["key", "opened", "resumed", "refused", "refused", "resumed"]
    assert [opening.number for opening in closed.record] == [0, 1, 2, 2, 2, 3]


def test_nothing_opens_while_tuning() -> None:
    closed = guard()
    key = closed.issue_key("final evaluation")
    with closed.closed("tuning raw"), closed.closed("a trial"), pytest.raises(ValueError, match="a trial is under way"):
        closed.open(key, **WORDS)
    with pytest.raises(RuntimeError), closed.closed("tuning raw"):
        raise RuntimeError
    assert closed.open(key, **WORDS).indices.tolist() == INDICES.tolist()
    assert [opening.event for opening in closed.record] == ["key", "refused", "opened"]


@pytest.mark.parametrize("name", ["run", "purpose", "decided"])
@pytest.mark.parametrize("value", ["", " ", None])
def test_words_are_needed(name: str, value: object) -> None:
    closed = guard()
    key = closed.issue_key("final evaluation")
    with pytest.raises(ValueError, match=f"{name}="):
        closed.open(key, **(WORDS | {name: value}))  # type: ignore[arg-type]


def test_the_record_outlives_the_process(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "openings.jsonl"
    first = guard(path)
    first.open(first.issue_key("final evaluation"), **WORDS)
    lines = path.read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["key", "opened"]
    second = guard(path)
    key = second.issue_key("final evaluation")
    second.open(key, **WORDS)
    with pytest.raises(ValueError, match="other settings"):
        second.open(key, **(WORDS | {"decided": "other"}))
    assert [opening.event for opening in second.record] == ["key", "opened", "key", "resumed", "refused"]
    assert path.read_text().splitlines()[:2] == lines


def test_two_test_parts_share_a_file_without_mixing(tmp_path: Path) -> None:
    path = tmp_path / "openings.jsonl"
    one, other = guard(path), TestGuard(TestPart(INDICES + 1), record=path)
    one.open(one.issue_key("final evaluation"), **WORDS)
    other.open(other.issue_key("final evaluation"), **(WORDS | {"decided": "other"}))
    assert [opening.event for opening in one.record] == ["key", "opened"]
    assert len(path.read_text().splitlines()) == 4


def test_what_was_recorded_in_memory_is_kept_in_the_file(tmp_path: Path) -> None:
    closed = guard()
    key = closed.issue_key("final evaluation")
    closed.open(key, **WORDS)
    closed.keep_record(tmp_path / "openings.jsonl")
    closed.open(key, **WORDS)
    assert [opening.event for opening in guard(tmp_path / "openings.jsonl").record] == ["key", "opened", "resumed"]


def test_a_torn_line_is_shown_and_harms_no_other(tmp_path: Path) -> None:
    path = tmp_path / "openings.jsonl"
    first = guard(path)
    first.open(first.issue_key("final evaluation"), **WORDS)
    with path.open("ab") as file:
        file.write(b'{"event": "opened", "ru')
    second = guard(path)
    second.open(second.issue_key("final evaluation"), **WORDS)
    assert [opening.event for opening in second.record] == ["key", "opened", "unreadable", "key", "resumed"]


def test_what_cannot_be_recorded_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = guard(tmp_path / "openings.jsonl")
    key = closed.issue_key("final evaluation")

    def full(handle: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            closed.open(key, **WORDS)
        patched.setattr(os, "write", lambda handle, data: len(data) - 1)
        with pytest.raises(OSError, match="nothing was opened"):
            closed.open(key, **WORDS)
    assert [opening.event for opening in closed.record] == ["key"]


def test_a_seal_holds_while_the_record_only_grows(tmp_path: Path) -> None:
    path = tmp_path / "openings.jsonl"
    closed = guard(path)
    assert guard().seal() is None  # nothing outlives this process that could be edited
    key = closed.issue_key("final evaluation")
    closed.open(key, **WORDS)
    seal = closed.seal()
    assert seal is not None
    assert closed.still_holds(seal)
    closed.open(key, **(WORDS | {"run": "raw-1"}))
    assert closed.still_holds(seal)
    later = closed.seal()
    assert later is not None
    written = path.read_bytes()
    for changed in (written.replace(b"raw-0", b"raw-2"), written[written.index(b"\n") + 1 :], b""):
        path.write_bytes(changed)
        assert not closed.still_holds(seal)
    path.write_bytes(written[: seal.num_bytes])
    assert closed.still_holds(seal)
    assert not closed.still_holds(later)
    path.unlink()
    assert not closed.still_holds(seal)


def _open_many(path: Path, name: str) -> None:
    closed = guard(path)
    key = closed.issue_key(name)
    for i in range(20):
        closed.open(key, run=f"{name}-{i}", purpose="final evaluation", decided="abc" * 200)


def test_several_append_without_tearing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads, each with its own guard: each takes the lock for itself, so it holds among them as among processes."""
    path = tmp_path / "openings.jsonl"
    read = Record.read

    def slowly(record: Record) -> list[Opening]:
        found = read(record)
        time.sleep(0.0005)  # time for another to append after this look
        return found

    monkeypatch.setattr(Record, "read", slowly)
    with ThreadPoolExecutor(3) as workers:
        list(workers.map(lambda i: _open_many(path, f"w{i}"), range(3)))
    record = guard(path).record
    assert len(record) == 63
    assert sorted(file.name for file in tmp_path.iterdir()) == [".openings.jsonl.lock", "openings.jsonl", "openings.last.json"]
    assert [opening.number for opening in record if opening.handed_out] == list(range(1, 61))  # looking and appending is one step


def test_positions_of_queries_and_gallery() -> None:
    halves = TestPart(np.array([3, 5, 8, 9]), query=np.array([5, 9]), gallery=np.array([3, 8]))
    found = halves.query_and_gallery(np.array([9, 8, 5]))  # an item may be missing, as images that cannot be decoded are
    assert found is not None
    assert [positions.tolist() for positions in found] == [[0, 2], [1]]
    assert TestPart(np.array([3, 5])).query_and_gallery(np.array([3])) is None


def test_the_digest_names_the_part() -> None:
    assert guard().digest == guard().digest
    assert guard().digest != TestGuard(TestPart(INDICES[:3])).digest
    halves = TestGuard(TestPart(INDICES, query=INDICES[:2], gallery=INDICES[2:]))
    assert halves.digest != guard().digest
    assert halves.has_query_and_gallery
    assert halves.num_items == 4


@pytest.mark.parametrize("hand", ["edited", "taken out", "cut off", "deleted", "added"])
def test_what_other_hands_do_to_the_record_is_told(tmp_path: Path, hand: str) -> None:
    path = tmp_path / "openings.jsonl"
    _open_many(path, "w")
    assert guard(path).record_faults == ()
    lines = path.read_bytes().splitlines(keepends=True)
    changed = {
        "edited": [lines[0], lines[1].replace(b"opened", b"key   ").replace(b"resumed", b"key    "), *lines[2:]],
        "taken out": [lines[0], *lines[2:]],
        "cut off": lines[:-1],
        "deleted": [],
        "added": [*lines, b'{"event": "key"}\n'],
    }[hand]
    path.write_bytes(b"".join(changed))
    if hand == "deleted":
        path.unlink()
    assert guard(path).record_faults
    guard(path).issue_key("another")  # what is written later hides nothing
    assert guard(path).record_faults


def test_a_record_of_an_earlier_version_is_read_and_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "openings.jsonl"
    _open_many(path, "w")
    plain = [
        {name: value for name, value in json.loads(line).items() if name not in ("seal", "previous")}
        for line in path.read_text().splitlines()
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in plain))
    (tmp_path / "openings.last.json").unlink()
    number = len(guard(path).record)
    assert number == len(plain)
    guard(path).issue_key("another")
    assert len(guard(path).record) == number + 1
    assert guard(path).record_faults == ()
