"""Unpacking: how much a compressed file may hold, told before it is unpacked. A few MB of zip or gzip can stand for terabytes."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import BinaryIO

from likewise.limits import OverLimit, current_limits, how_to_raise

HARMLESS = 64 * 2**20  # bytes that any file may unpack to


def require_room(path: Path, unpacked: int, packed: int) -> None:
    """An OverLimit where so many bytes come of so few."""
    most = current_limits().expansion
    if unpacked > max(HARMLESS, most * packed):
        raise OverLimit(
            f"{path} would unpack {packed:,} bytes to {unpacked:,}, more than the limit of {most:,} times{how_to_raise('expansion')}"
        )


def require_sound_zip(path: Path, file: BinaryIO) -> None:
    """Refuses a zip file that unpacks to too much, is encrypted, or is damaged in its table of contents."""
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        if any(entry.flag_bits & 1 for entry in entries):
            raise ValueError("it is encrypted")
        require_room(path, sum(entry.file_size for entry in entries), sum(entry.compress_size for entry in entries))
