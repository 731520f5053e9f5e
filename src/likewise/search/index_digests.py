"""What the files of an index's store were when its last writer had finished: digests.json, held against them whenever it is opened.

Checksums are of chunks, so that of a file of rows, which only grows, only what is new is read when further images came. While somebody
writes there is no digests.json, and after a writer was killed none until the next has finished.
"""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from likewise.files import is_unfinished, write_whole
from likewise.formats.settings_files import read_sealed_table
from likewise.sealing import Damaged, sealed_json, tell_mended

FILE = "digests.json"
CHUNK = 1 << 24  # bytes
COPY_AGAIN = "copy the whole index again, or build it anew"
Digests = dict[str, dict[str, Any]]  # by name in the store: bytes, and CRC-32 of each chunk


def take_digests(folder: Path) -> Digests:
    """What digests.json holds, which goes: somebody is about to write. Empty where there is none that can be read."""
    try:
        return read_digests(folder)
    except ValueError:
        return {}
    finally:
        (folder / FILE).unlink(missing_ok=True)


def read_digests(folder: Path) -> Digests:
    """Empty where there is none; `Damaged`, or a ValueError, where it is not as it was written."""
    if not (folder / FILE).is_file():
        return {}
    files: Digests = read_sealed_table(folder / FILE, remedy="delete it; the next images that are added seal the index again")["files"]
    return files


def write_digests(folder: Path, store: Path, before: Digests) -> None:
    """Of the store's files as they are now. before: what `take_digests` gave, whose chunks of rows are not read again."""
    for database in store.glob("*.sqlite"):
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    digests: Digests = {}
    for path in sorted(store.iterdir()):
        if path.name.endswith(("lock", "-wal", "-shm")) or is_unfinished(path) or _has_more_to_come(path):
            continue
        digests[path.name] = _digest(path, before.get(path.name) if path.name.startswith("rows-") else None)
    write_whole(folder / FILE, sealed_json({"files": digests}, indent=None))


def damaged_files(store: Path, digests: Digests) -> dict[str, str]:
    """Which of the files are not as they were written: "damaged" or "missing" by name."""
    return {name: state for name, stored in digests.items() if (state := _state(store / name, stored))}


def check_index(folder: Path, store: Path) -> None:
    """Before an index is used. `Damaged`, but for an approximate index, which can be built again and goes: everything is then compared."""
    digests = read_digests(folder)
    wrong = damaged_files(store, digests)
    if not wrong or read_digests(folder) != digests:  # a writer has begun meanwhile
        return
    derived = [name for name in wrong if name.startswith("faiss")]
    if derived:
        with suppress(OSError):
            (store / "faiss.json").unlink(missing_ok=True)
        wrong = {name: state for name, state in wrong.items() if name not in derived or (store / "faiss.json").exists()}
        if not wrong:
            tell_mended(f"{store / derived[0]} is damaged: all images are compared until more are added, which builds the index again")
            return
    name, state = next(iter(wrong.items()))
    raise Damaged(f"{store / name} is {state}: {COPY_AGAIN}")


def _has_more_to_come(path: Path) -> bool:
    """A database that somebody has open, whose last changes lie beside it still."""
    log = path.with_name(f"{path.name}-wal")
    return log.is_file() and log.stat().st_size > 0


def _digest(path: Path, before: dict[str, Any] | None) -> dict[str, Any]:
    """before: of a file that has only grown since."""
    size = path.stat().st_size
    if before is None or before["bytes"] > size:
        return {"bytes": size, "crc32": _checksums(path, 0)}
    whole, rest = divmod(before["bytes"], CHUNK)
    known = list(before["crc32"][:whole])
    if rest and _checksum_of(path, whole * CHUNK, rest) != before["crc32"][whole]:
        return {"bytes": size, "crc32": [*known, -1, *_checksums(path, (whole + 1) * CHUNK)]}  # damaged before: it stays so
    return {"bytes": size, "crc32": [*known, *_checksums(path, whole * CHUNK)]}


def _state(path: Path, stored: dict[str, Any]) -> str:
    if not path.is_file():
        return "missing"
    is_right = path.stat().st_size == stored["bytes"] and _checksums(path, 0) == stored["crc32"]
    return "" if is_right else "damaged"


def _checksums(path: Path, start: int) -> list[int]:
    with path.open("rb") as file:
        file.seek(start)
        return [zlib.crc32(chunk) for chunk in iter(lambda: file.read(CHUNK), b"")]


def _checksum_of(path: Path, start: int, size: int) -> int:
    with path.open("rb") as file:
        file.seek(start)
        return zlib.crc32(file.read(size))
