"""Checks of the cache and of the ledger. A file of the cache that is gone is made again when it is needed, so that none is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from likewise.data.ledger import FILE as LEDGER
from likewise.data.packing.packed import open_packed, read_index
from likewise.integrity.file_checks import check_chained
from likewise.integrity.findings import FileFinding
from likewise.sealing import without_digest

DELETE = "delete it: it is made again when it is needed"


def is_cache(folder: Path) -> bool:
    return any(_files_of_cache(folder))


def is_ledger(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (LEDGER, "ledger.last.json"))


def check_ledger(folder: Path) -> Iterator[FileFinding]:
    yield from check_chained(folder, LEDGER)


def check_cache(folder: Path) -> Iterator[FileFinding]:
    for path, is_whole in _files_of_cache(folder):
        name = path.relative_to(folder).as_posix()
        fault = is_whole(path)
        yield FileFinding(name, "damaged", fault, DELETE) if fault else FileFinding(name, "whole")


def _files_of_cache(folder: Path) -> Iterator[tuple[Path, Callable[[Path], str]]]:
    """Here, or in the rooms of the whole cache."""
    for pattern, check in (("*.packed", _packed_fault), ("*.glyphs", _sealed_fault), ("*.rows", _sealed_fault)):
        for depth in ("", "*/", "*/*/"):
            yield from ((path, check) for path in sorted(folder.glob(f"{depth}{pattern}")) if path.is_file())


def _packed_fault(path: Path) -> str:
    try:
        index = read_index(path)
        open_packed(path, index, np.zeros(int(index.indices.max(initial=-1)) + 1, np.int64)).verify()
    except (OSError, ValueError) as fault:
        return str(fault).split(";")[0]
    return ""


def _sealed_fault(path: Path) -> str:
    return "" if without_digest(path.read_bytes()) is not None else "it differs from its own digest"
