"""Faults of the place: of the disk and the database. They stop a comparison; a fault of a method is one of its findings."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


class StoreFault(OSError):
    """The database does not do what it is asked."""


def is_of_the_place(fault: Exception) -> bool:
    """Every method would meet it, so none may be blamed for it."""
    return isinstance(fault, StoreFault) or (isinstance(fault, OSError) and fault.errno in DISK)


@contextmanager
def told_how_to_go_on(folder: Path) -> Iterator[None]:
    """A fault of the place, in words that end with what to do."""
    try:
        yield
    except OSError as fault:
        raise OSError(
            f"the comparison in {folder} stopped: {fault}\n"
            "What was finished is kept: see to the disk or the database, then give the same command again."
        ) from fault
