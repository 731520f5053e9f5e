"""Marks: kept as pairs through anything, exported as pairs and as the classes that they amount to."""

import csv
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from likewise.data.readers import read
from likewise.search import feedback as feedback_module
from likewise.search.feedback import Feedback, MarkedImage, MarkedPair, classes_of, write_classes, write_pairs

MARKER = """
import sys
from likewise.search.feedback import Feedback, MarkedImage
feedback = Feedback(sys.argv[1])
for number in range(1000):
    feedback.mark(MarkedImage("/query", "q"), MarkedImage(f"/item{number}", "i"), number % 2 == 0, 0.5)
    print(number, flush=True)
"""


def image(name: str) -> MarkedImage:
    return MarkedImage(f"/{name}", name)


def pair(query: str, item: str, is_same: bool) -> MarkedPair:
    return MarkedPair(image(query), image(item), is_same, 0.5, "2026-11-16T12:00:00+00:00")


def test_nothing_is_written_before_the_first_mark(tmp_path: Path) -> None:
    feedback = Feedback(tmp_path)
    assert feedback.pairs() == []
    assert feedback.marks_of("/a", ["/b"]) == {}
    assert list(tmp_path.iterdir()) == []


def test_a_pair_has_one_mark_whichever_was_the_query(tmp_path: Path) -> None:
    feedback = Feedback(tmp_path)
    feedback.mark(image("a"), image("b"), True, 0.9)
    feedback.mark(image("b"), image("a"), False, 0.9)
    feedback.mark(image("a"), image("c"), True, 0.8)
    assert [(found.query.path, found.item.path, found.is_same) for found in feedback.pairs()] == [("/b", "/a", False), ("/a", "/c", True)]
    assert feedback.marks_of("/a", ["/b", "/c", "/d"]) == {"/b": False, "/c": True}
    feedback.mark(image("c"), image("a"), None, 0.8)
    assert feedback.marks_of("/a", ["/b", "/c"]) == {"/b": False}


def test_pictures_are_kept_once_and_move_with_the_index(tmp_path: Path) -> None:
    index = tmp_path / "index"
    index.mkdir()
    feedback = Feedback(index)
    kept = feedback.keep_picture(b"\xff\xd8\xff and so on")
    assert feedback.keep_picture(b"\xff\xd8\xff and so on") == kept
    assert Path(kept.path).read_bytes() == b"\xff\xd8\xff and so on"
    assert Path(kept.path).suffix == ".jpg"
    assert feedback.picture(kept.digest) == Path(kept.path)
    assert feedback.picture("../../" + kept.digest) is None
    feedback.mark(kept, image("b"), True, 0.7)
    index.rename(tmp_path / "moved")
    (moved,) = Feedback(tmp_path / "moved").pairs()
    assert Path(moved.query.path).read_bytes() == b"\xff\xd8\xff and so on"
    assert moved.item.path == "/b"


def test_room_for_pictures_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feedback_module, "MOST_BYTES", 20)
    feedback = Feedback(tmp_path)
    feedback.keep_picture(b"BM" + bytes(10))
    with pytest.raises(ValueError, match="make room"):
        feedback.keep_picture(b"BM" + bytes(11))


def test_kill_9_loses_no_mark_that_was_acknowledged(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", MARKER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    acknowledged = [int(process.stdout.readline()) for _ in range(30)][-1]
    os.kill(process.pid, signal.SIGKILL)
    acknowledged = max([acknowledged, *(int(line) for line in process.stdout.read().split())])
    process.wait()
    process.stdout.close()
    items = {found.item.path: found.is_same for found in Feedback(tmp_path).pairs()}
    assert all(items[f"/item{number}"] == (number % 2 == 0) for number in range(acknowledged + 1))
    assert len(items) in (acknowledged + 1, acknowledged + 2)


def test_many_threads_mark_at_once(tmp_path: Path) -> None:
    feedback = Feedback(tmp_path)

    def work(thread: int) -> None:
        for number in range(5):
            feedback.mark(image(f"q{thread}"), image(f"i{number}"), True, 0.1)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(feedback.pairs()) == 20


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    feedback = Feedback(tmp_path)
    feedback.mark(image("a"), image("b"), True, 0.9)
    (tmp_path / "feedback" / "marks.sqlite").write_bytes(b"not a database at all, but long enough to be looked at" * 40)
    with pytest.raises(OSError, match=r"marks\.sqlite: file is not a database"):
        feedback.pairs()


def test_pairs_as_a_table(tmp_path: Path) -> None:
    odd = 'a "quoted", name\n'
    write_pairs([pair(odd, "b", True), pair("a", "c", False)], tmp_path / "pairs.csv")
    with (tmp_path / "pairs.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["query"], row["item"], row["same"]) for row in rows] == [(f"/{odd}", "/b", "1"), ("/a", "/c", "0")]
    assert rows[0]["item_digest"] == "b"


def test_classes_are_what_right_marks_join() -> None:
    marks = [pair("upload", "gull1", True), pair("gull1", "gull2", True), pair("upload", "tern1", False), pair("x", "y", True)]
    labels = {"/gull1": "gull", "/gull2": "gull", "/tern1": "tern"}
    classes, contradictions = classes_of(marks, labels)
    assert contradictions == []
    assert {path: classes[path] for path in ("/upload", "/gull1", "/gull2", "/tern1")} == {
        "/upload": "gull",
        "/gull1": "gull",
        "/gull2": "gull",
        "/tern1": "tern",
    }
    assert classes["/x"] == classes["/y"] not in ("gull", "tern")


def test_what_contradicts_itself_is_left_out_and_told() -> None:
    chain = [pair("a", "b", True), pair("b", "c", True), pair("a", "c", False)]
    classes, contradictions = classes_of(chain, {})
    assert classes == {}
    assert contradictions == ["3 images from /a on: marked right by a chain, and wrong between two of them"]
    classes, contradictions = classes_of([pair("a", "b", True), pair("b", "c", True)], {"/a": "gull", "/c": "tern"})
    assert classes == {}
    assert contradictions == ["3 images from /a on: labels gull and tern"]
    assert classes_of([pair("a", "b", False)], {}) == ({}, [])


def test_classes_are_a_table_that_is_read_for_training(tmp_path: Path) -> None:
    for name in "abcd":
        (tmp_path / f"{name}.png").write_bytes(b"")
    write_classes({str(tmp_path / f"{name}.png"): "gull" if name < "c" else "tern" for name in "abcd"}, tmp_path / "classes.csv")
    dataset = read(tmp_path / "classes.csv")
    assert dataset.class_names == ("gull", "tern")
    assert len(dataset) == 4


def test_the_table_is_plain_sqlite(tmp_path: Path) -> None:
    Feedback(tmp_path).mark(image("a"), image("b"), True, 0.25)
    with sqlite3.connect(tmp_path / "feedback" / "marks.sqlite") as database:
        assert database.execute("SELECT query, item, is_same, similarity FROM marks").fetchall() == [("/a", "/b", 1, 0.25)]
    database.close()
