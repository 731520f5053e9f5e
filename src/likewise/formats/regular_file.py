"""Regular files, the only kind that is opened, and the faults of whoever parses them as one sentence.

A pipe would be waited on for ever, /dev/zero never ends, and a device may do something when it is opened.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from likewise.limits import OverLimit, require_within
from likewise.wording import printable

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
SHOWN = 200  # letters of what a parser says


class NotRegular(OSError):
    """Neither a file nor a link to one."""


class UnreadableFile(ValueError):
    """A file that is not what it should be; the message names it and says what to do."""


def require_regular(path: Path) -> os.stat_result:
    """What the system knows of the file; an OSError in words where there is none, or something else."""
    state = os.stat(path)
    _check(state, path)
    return state


def _check(state: os.stat_result, path: Path) -> None:
    kind = stat.S_IFMT(state.st_mode)
    if kind != stat.S_IFREG:
        code = errno.EISDIR if kind == stat.S_IFDIR else errno.EINVAL
        raise NotRegular(code, f"{KINDS.get(kind, 'no file')} where a regular file was expected", str(path))


def is_regular(path: Path) -> bool:
    """Whether it is a file, or a link that leads to one. A link that leads back to itself does not."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):  # a ValueError: a name with a null in it, which no file has
        return False


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The file to read from. NotRegular, before it is opened, where it is none."""
    require_regular(path)
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        _check(os.fstat(handle), path)  # it may have become another since
        yield file


def size_of(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def read_whole(path: Path, limit: str) -> bytes:
    """All its bytes, of which there may be as many as the limit of that name allows."""
    with opened(path) as file:
        require_within(limit, size_of(file), f"{path} has bytes:")
        return file.read()


@contextmanager
def parsing(path: Path, kind: str, remedy: str) -> Iterator[None]:
    """Every fault of what is done inside as a ValueError: that the file cannot be read, is over a limit, or is not of its kind.

    The parsers of other people raise what they like on damaged files, so every Exception counts.
    """
    try:
        yield
    except UnreadableFile:
        raise
    except OverLimit as fault:
        raise UnreadableFile(str(fault) if str(path) in str(fault) else f"{path}: {fault}") from fault
    except MemoryError as fault:
        raise UnreadableFile(f"{path} needs more memory than there is: give a smaller file, or read it on a larger machine") from fault
    except RecursionError as fault:
        raise UnreadableFile(f"{path} is not a readable {kind} (nested too deep): {remedy}") from fault
    except FileNotFoundError as fault:
        raise UnreadableFile(f"{path} is not there: expected a file") from fault
    except OSError as fault:
        if fault.errno is None or not fault.strerror:
            raise UnreadableFile(f"{path} is not a readable {kind} ({in_brief(fault)}): {remedy}") from fault
        advice = "give a file" if isinstance(fault, NotRegular) else "check its permissions and its disk"
        raise UnreadableFile(f"{path} cannot be read ({fault.strerror}): {advice}") from fault
    except Exception as fault:
        raise UnreadableFile(f"{path} is not a readable {kind} ({in_brief(fault)}): {remedy}") from fault


def in_brief(fault: BaseException) -> str:
    """What a parser says, on one line that is not too long."""
    words = printable(" ".join(str(fault).split())) or type(fault).__name__
    return words if len(words) <= SHOWN else f"{words[:SHOWN]}..."
