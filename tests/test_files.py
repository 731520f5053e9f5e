"""Files are written whole, and what a killed process left is known."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

import pytest

import likewise
from likewise.files import is_unfinished, remove_unfinished, write_folder, write_whole


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        """As kill -9 leaves it: nothing is tidied up."""

    def killed(*given: object) -> None:
        raise Killed

    kept = [tmp_path / name for name in ("last.ckpt", ".hidden", ".hidden.txt", ".hidden.bad", ".a.0123abcg", "x.0123abcd")]
    for path in kept:
        path.write_text("kept")
    with monkeypatch.context() as patched:
        patched.setattr("likewise.files.os.replace", killed)
        patched.setattr(Path, "unlink", lambda *given, **settings: None)
        with pytest.raises(Killed):
            write_whole(tmp_path / "scores.json", b"{}")
    left = [path for path in tmp_path.iterdir() if path not in kept]
    assert [is_unfinished(path) for path in left] == [True]
    remove_unfinished(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(kept)
    remove_unfinished(tmp_path / "nowhere")


def test_faults_of_the_system_name_the_file_that_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the one beside it, under which it is written until it is whole."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("likewise.files.os.fsync", full)
    with pytest.raises(OSError, match=r"cannot be written \(No space left on device\): give another place: '.*/scores\.json'$"):
        write_whole(tmp_path / "scores.json", b"{}")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError, match="another: 'other'"):
        write_whole(
            tmp_path / "scores.json", lambda file: (_ for _ in ()).throw(FileNotFoundError(errno.ENOENT, "another", "other")).send(None)
        )
    (tmp_path / "file").write_bytes(b"")
    for path, words in ((tmp_path, "is a folder"), (tmp_path / "file" / "a" / "b", "file is a file: give another place")):
        with pytest.raises(ValueError, match=words):
            write_whole(path, b"")


def test_an_unfinished_file_is_its_writers_alone_and_a_finished_one_is_as_the_umask_says(tmp_path: Path) -> None:
    seen = []

    def write(file: BinaryIO) -> None:
        seen.append(stat.S_IMODE(os.fstat(file.fileno()).st_mode))
        file.write(b"{}")

    for mask, usual in ((0o022, 0o644), (0o077, 0o600), (0o002, 0o664)):
        before = os.umask(mask)
        try:
            write_whole(tmp_path / f"{mask}.json", write)
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / f"{mask}.json").stat().st_mode) == usual
    assert seen == [0o600] * 3


@pytest.mark.parametrize("leads", ["to a file", "nowhere"])
def test_a_link_planted_in_the_place_of_an_unfinished_file_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leads: str
) -> None:
    monkeypatch.setattr("likewise.files.secrets.token_hex", lambda number: "0123abcd")  # as if it could be guessed
    victim = tmp_path / "victim"
    if leads == "to a file":
        victim.write_text("kept")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".scores.json.0123abcd").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "out" / "scores.json", b"{}")
    assert not (tmp_path / "out" / "scores.json").exists()
    assert victim.read_text() == "kept" if leads == "to a file" else not victim.exists()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "model.0123abcd.unfinished").symlink_to(elsewhere)
    with pytest.raises(FileExistsError), write_folder(tmp_path / "model", known_by="embedder.json", what="an embedder") as folder:
        (folder / "embedder.json").write_text("{}")
    assert list(elsewhere.iterdir()) == []


def test_no_hard_link_is_asked_for() -> None:
    """Some network and container file systems have none."""
    source = Path(likewise.__file__).parent
    asked = [path.name for path in source.rglob("*.py") if re.search(r"\bos\.link\(|\.hardlink_to\(", path.read_text(encoding="utf-8"))]
    assert asked == []
