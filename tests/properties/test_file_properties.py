"""Files written whole: whatever fails and whenever, the one before stays or the new one is there, and nothing lies about."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as some

from likewise.files import append_line, is_unfinished, write_folder, write_whole

FAULTS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EDQUOT, errno.EROFS)
content = some.binary(max_size=400)


class Killed(BaseException):
    """Ctrl-C, at the worst moment."""


class After:
    """The so many-th call fails, instead of what it does or after it."""

    def __init__(self, real: Callable[..., Any], number: int, fault: BaseException, *, done: bool) -> None:
        self.real, self.left, self.fault, self.done = real, number, fault, done

    def __call__(self, *given: Any, **settings: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            if self.done:
                self.real(*given, **settings)
            raise self.fault
        return self.real(*given, **settings)


def fault_of(number: int | None) -> BaseException:
    return Killed() if number is None else OSError(number, os.strerror(number))


faults = some.one_of(some.none(), some.sampled_from(FAULTS))


@given(content, content, some.sampled_from(["fsync", "replace"]), some.integers(1, 3), faults, some.booleans())
def test_the_old_or_the_new_and_nothing_else(before: bytes, now: bytes, call: str, number: int, fault: int | None, done: bool) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "kept.json"
        write_whole(path, before)
        injected = After(getattr(os, call), number, fault_of(fault), done=done)
        raised: BaseException | None = None
        with mock.patch(f"likewise.files.os.{call}", injected):
            try:
                write_whole(path, now)
            except (OSError, Killed) as caught:
                raised = caught
        failed = raised is not None
        assert not isinstance(raised, OSError) or str(path) in str(raised)
        assert path.read_bytes() in ((before, now) if failed else (now,))
        assert os.listdir(folder) == ["kept.json"]


@given(some.lists(content, max_size=6), content, some.integers(0, 6), faults)
def test_a_writer_that_fails_changes_nothing(parts: list[bytes], before: bytes, at: int, fault: int | None) -> None:
    def write(file: Any) -> None:
        for place, part in enumerate(parts):
            if place == at:
                raise fault_of(fault)
            file.write(part)

    with TemporaryDirectory() as folder:
        path = Path(folder) / "kept.bin"
        write_whole(path, before)
        try:
            write_whole(path, write)
        except (OSError, Killed):
            assert at < len(parts)
            assert path.read_bytes() == before
        else:
            assert path.read_bytes() == b"".join(parts)
        assert os.listdir(folder) == ["kept.bin"]


@given(some.booleans(), some.integers(1, 2), faults)
def test_a_folder_is_there_whole_or_as_it_was(is_there: bool, number: int, fault: int | None) -> None:
    with TemporaryDirectory() as above:
        folder = Path(above) / "made"
        if is_there:
            folder.mkdir()
            (folder / "mark.json").write_text("before")
        injected = After(os.replace, number, fault_of(fault), done=False)
        failed = False
        try:
            with write_folder(folder, known_by="mark.json", what="a thing") as unfinished:
                (unfinished / "mark.json").write_text("now")
                with_fault = mock.patch("likewise.files.os.replace", injected)
                with_fault.start()
        except (OSError, Killed):
            failed = True
        finally:
            mock.patch.stopall()
        found = (folder / "mark.json").read_text() if folder.is_dir() else None
        assert found in (("before", "now") if is_there else (None, "now")) if failed else found == "now"


@given(some.lists(some.binary(min_size=1, max_size=30).map(lambda line: line.replace(b"\n", b" ")), max_size=8), some.integers(0, 40))
def test_lines_stay_lines_whatever_a_killed_process_left(lines: list[bytes], cut: int) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "record.jsonl"
        for line in lines:
            append_line(path, line)
        whole = path.read_bytes() if lines else b""
        path.write_bytes(whole[: max(0, len(whole) - cut)])
        kept = path.read_bytes().split(b"\n")
        append_line(path, b"last")
        found = path.read_bytes().split(b"\n")
        assert found[-2:] == [b"last", b""]
        assert found[: len(kept)][:-1] == kept[:-1]  # whole lines are as they were


@given(some.text(alphabet="abcdef0123456789.x", min_size=1, max_size=20))
def test_only_what_was_left_is_taken_for_unfinished(name: str) -> None:
    left = is_unfinished(Path(name))
    token = name.rpartition(".")[2]
    assert left == (name.startswith(".") and name.count(".") >= 2 and name != f".{token}" and len(token) == 8 and "x" not in token)
