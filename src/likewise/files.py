"""Files: written whole or not at all, whoever looks or writes at the same time; named by their digests; held by one process at a time."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

from likewise.progress import ProgressCallback

LOCKED_FOR = -1.0  # seconds to wait for a lock: as long as it takes


def write_whole(path: Path, content: bytes | Callable[[BinaryIO], object]) -> None:
    """Written beside its place, flushed to the disk, then renamed. If that fails, what was there stays and nothing is left behind.

    `content` is the bytes, or a function that writes them into the file it is given: for what should not be held in memory.
    """
    check_output(path)
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with _named(path, unfinished):
            path.parent.mkdir(parents=True, exist_ok=True)
            with open_new(unfinished) as file:
                if callable(content):
                    content(file)
                else:
                    file.write(content)
                file.flush()
                os.fsync(file.fileno())
            give_usual_permissions(unfinished)
            os.replace(unfinished, path)
            flush_folder(path.parent)
    finally:
        unfinished.unlink(missing_ok=True)


def open_new(path: Path) -> BinaryIO:
    """A file that nobody else has made, nor reads before it is whole: what was put there, a link too, is a FileExistsError."""
    return open(path, "xb", opener=never_through_a_link)


def never_through_a_link(name: str, flags: int) -> int:
    """An opener of files that only this user reads: whoever put a link there chooses no file to be written over."""
    return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)


def give_usual_permissions(path: Path) -> None:
    """Those that the user's umask leaves to new files."""
    with suppress(PermissionError):  # a file system that has none
        path.chmod(0o666 & ~_umask())


def _umask() -> int:
    """What the user takes away from new files. It cannot be asked for but by setting it, which other threads would see: Linux tells."""
    try:
        with open("/proc/self/status", encoding="utf-8", errors="replace") as status:
            return next(int(line.split()[1], 8) for line in status if line.startswith("Umask:"))
    except (OSError, StopIteration):
        mask = os.umask(0o077)
        os.umask(mask)
        return mask


def check_output(path: Path) -> None:
    """A ValueError, before any work, where no file of that name can be written."""
    if path.is_dir():
        raise ValueError(f"'{path}' is a folder: expected the name of a file to write")
    above = next((parent for parent in path.parents if parent.exists()), None)
    if above is not None and not above.is_dir():
        raise ValueError(f"'{path}' cannot be written, as {above} is a file: give another place")


@contextmanager
def _named(path: Path, unfinished: Path) -> Iterator[None]:
    """A fault of the system in words, by the name that was asked for and not by the one that is written to until all is there."""
    try:
        yield
    except OSError as fault:
        if fault.errno is None or fault.filename not in (None, str(unfinished), *map(str, path.parents)):
            raise
        raise OSError(fault.errno, f"cannot be written ({fault.strerror}): give another place", str(path)) from fault


@contextmanager
def _named_in_place(folder: Path, unfinished: Path) -> Iterator[None]:
    """A fault of the system by the file's name as it would have been in the end."""
    try:
        yield
    except OSError as fault:
        if not isinstance(fault.filename, str) or not Path(fault.filename).is_relative_to(unfinished):
            raise
        raise OSError(fault.errno, fault.strerror, str(folder / Path(fault.filename).relative_to(unfinished))) from fault


@contextmanager
def write_folder(folder: Path, *, known_by: str, what: str) -> Iterator[Path]:
    """A folder to write into, which takes the name of `folder` when all is written. One that is there is replaced if it is such a one,
    which the file `known_by` tells, or empty; anything else is refused.

    The old one is renamed away just before: a power cut between the two leaves both, under names that begin as the folder's does.
    """
    folder = folder.absolute()
    if folder.exists() and not (folder / known_by).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is there and is not {what}: give another folder, or empty it")
    mark = secrets.token_hex(4)
    unfinished, replaced = (folder.with_name(f"{folder.name}.{mark}.{state}") for state in ("unfinished", "replaced"))
    try:
        with _named(folder, unfinished):
            folder.parent.mkdir(parents=True, exist_ok=True)
            unfinished.mkdir()
        with _named_in_place(folder, unfinished):
            yield unfinished
        if folder.exists():
            os.replace(folder, replaced)
        try:
            os.replace(unfinished, folder)
        except BaseException:
            if replaced.exists():
                os.replace(replaced, folder)
            raise
        flush_folder(folder.parent)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        if folder.exists():  # or else what was renamed away is all there is
            shutil.rmtree(replaced, ignore_errors=True)


def append_line(path: Path, line: bytes) -> None:
    """One write at the end of the file, on the disk before this returns. The line is one of its own, whatever a killed process left."""
    written = line + b"\n"
    binary = getattr(os, "O_BINARY", 0)  # Windows would write its own line ends
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | binary, 0o644)
    try:
        if os.lseek(handle, 0, os.SEEK_END):
            os.lseek(handle, -1, os.SEEK_END)
            if os.read(handle, 1) != b"\n":  # a process was killed, or a disk full, in the middle of a line
                written = b"\n" + written
        if os.write(handle, written) != len(written):
            raise OSError(errno.ENOSPC, "a line could not be written in full (disk full?)", str(path))
        os.fsync(handle)
    finally:
        os.close(handle)


def is_unfinished(path: Path) -> bool:
    """Whether this is what a process that was killed in `write_whole` leaves."""
    name, _, token = path.name.rpartition(".")
    return name.startswith(".") and len(name) > 1 and len(token) == 8 and all(letter in "0123456789abcdef" for letter in token)


def remove_unfinished(folder: Path) -> None:
    """Removes what killed processes left in a folder that only this process writes to."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if is_unfinished(path):
            path.unlink(missing_ok=True)


def flush_folder(folder: Path) -> None:
    """Makes renames in the folder last through a power cut, where the system can."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def locked(path: Path, *, timeout: float = LOCKED_FOR) -> FileLock:
    """`with locked(path):` one process at a time. The lock is a file of its own and goes with its process, however that ends.

    filelock.Timeout where another process holds it for longer than `timeout` seconds.
    """
    return FileLock(path, timeout=timeout)


@contextmanager
def locked_telling(path: Path, waiting: str, on_progress: ProgressCallback | None) -> Iterator[None]:
    """As `locked`; where another process holds it, `waiting` is what this one tells to be doing meanwhile."""
    lock = locked(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if on_progress is not None:
            on_progress(waiting, 0, 0)
        lock.acquire()
        if on_progress is not None:
            on_progress(waiting, 1, 1)
    try:
        yield
    finally:
        lock.release()
