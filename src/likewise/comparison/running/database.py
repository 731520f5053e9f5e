"""Database: where a comparison keeps its results. Its address (never shown with a password), its engine, and the faults of storage.

Faults of the disk and the database stop a comparison, as every method would meet them; a fault of a method is one of its findings.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError

from likewise.addresses import Address, without_secrets
from likewise.wording import shortened

BUSY = 60.0  # seconds that SQLite waits for another process's write
DISK_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


SHOWN = 400  # letters of what a database says


class DatabaseFault(OSError):
    """The database does not do what it is asked."""


def is_storage_fault(fault: Exception) -> bool:
    """Whether the disk or the database is at fault, which every method would meet: none may be blamed for it."""
    return isinstance(fault, DatabaseFault) or (isinstance(fault, OSError) and fault.errno in DISK_FAULTS)


@contextmanager
def storage_faults_explained(folder: Path) -> Iterator[None]:
    """A fault of the disk or the database, in words that end with what to do."""
    try:
        yield
    except OSError as fault:
        raise OSError(
            f"the comparison in {folder} stopped: {shortened(without_secrets(' '.join(str(fault).split())), most=SHOWN)}\n"
            "What was finished is kept: see to the disk or the database, then give the same command again."
        ) from fault


def sqlite_url(file: Path) -> Address:
    return Address(f"sqlite:///{file.absolute()}")


def make_engine(url: Address) -> sql.Engine:
    """The database of this address; a clear message where it cannot be one."""
    try:
        engine = sql.create_engine(url.whole, **engine_options(url))
        with engine.connect():
            pass
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError, TypeError, ValueError) as fault:
        # what SQLAlchemy says of an address that it cannot take apart may quote a piece of the password
        reason = str(fault) if isinstance(fault, NoSuchModuleError | ModuleNotFoundError) else "it cannot be taken apart"
        raise ValueError(
            f"--store {url} is no address of a database that can be used here ({reason}): "
            "expected postgresql+psycopg://user@host/database (pip install 'likewise[postgresql]'), or nothing for a file in --out"
        ) from None
    except OperationalError as fault:
        raise ValueError(f"the store {url} cannot be opened: {reason_of(fault)}") from fault
    return engine


def engine_options(url: Address) -> dict[str, Any]:
    """SQLite waits for other writers instead of failing; a server's connection is tested before use, as it may have been restarted."""
    return {"connect_args": {"timeout": BUSY}} if url.whole.startswith("sqlite") else {"pool_pre_ping": True}


def use_write_ahead_log(url: Address) -> None:
    """Readers and a writer of a SQLite file do not wait for each other. A property of the file: set once."""
    if url.whole.startswith("sqlite"):
        engine = make_engine(url)
        with engine.connect() as connection:
            connection.execute(sql.text("PRAGMA journal_mode=WAL"))
        engine.dispose()


def reason_of(fault: DBAPIError) -> str:
    """The first line of what the database said."""
    return without_secrets(str(fault.orig).strip().splitlines()[0])
