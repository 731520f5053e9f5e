"""Files are written whole, and what a killed process left is known."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from likewise.files import is_unfinished, remove_unfinished, write_whole


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
