"""likewise.check: folders held against their digests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from likewise.argument_types import checked_arguments
from likewise.data.ledger import state_folder
from likewise.data.packing.cache import cache_folder
from likewise.integrity import KINDS
from likewise.integrity.findings import CheckedFolder, FileFinding
from likewise.progress import ProgressCallback


@checked_arguments
def check(*folders: str | Path, on_progress: ProgressCallback | None = None) -> list[CheckedFolder]:
    """Verifies runs, embedders, comparisons, indexes, exports, caches, the ledger and what `reproduce` wrote, byte by byte.

    Without a folder: the cache and the ledger. A ValueError where a folder is none that likewise writes.
    on_progress  is told how many files were looked at; None: silent.
    """
    given = [Path(folder) for folder in folders]
    checked = [folder for folder in (given or (cache_folder(), state_folder())) if given or kind_of(folder) is not None]
    return [_checked(folder, on_progress) for folder in checked]


def kind_of(folder: Path) -> str | None:
    """The name of its kind; None where it is none that likewise writes."""
    return next((name for name, kind in KINDS.items() if folder.is_dir() and kind.recognises(folder)), None)


def _checked(folder: Path, on_progress: ProgressCallback | None) -> CheckedFolder:
    name = kind_of(folder)
    if name is None:
        what = "is not there" if not folder.exists() else "is nothing that likewise writes" if folder.is_dir() else "is a file"
        titles = ", ".join(kind.title for kind in KINDS.values())
        raise ValueError(f"{folder} {what}: expected the folder of {titles}")
    return CheckedFolder(folder, name, tuple(_telling(KINDS[name].check(folder), folder, on_progress)))


def _telling(findings: Iterator[FileFinding], folder: Path, on_progress: ProgressCallback | None) -> Iterator[FileFinding]:
    num_files = sum(path.is_file() for path in folder.rglob("*"))
    for done, finding in enumerate(findings, start=1):
        if on_progress is not None:
            on_progress(f"checking {folder.name}", min(done, num_files), num_files)
        yield finding
