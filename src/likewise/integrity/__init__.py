"""Integrity: whether what lies in a folder is as it was written, byte by byte. KINDS are the folders that likewise writes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from likewise.integrity.cache_checks import check_cache, check_ledger, is_cache, is_ledger
from likewise.integrity.comparison_checks import check_benches, check_comparison, is_benches, is_comparison
from likewise.integrity.findings import FileFinding
from likewise.integrity.index_checks import check_export, check_index_folder, is_export, is_index_folder
from likewise.integrity.model_checks import check_adaptation, check_bundle, check_run, is_adaptation, is_bundle, is_run


@dataclass(frozen=True)
class FolderKind:
    """A kind of folder: what tells it, also where files of it are lost, and what its files say of each other."""

    title: str
    recognises: Callable[[Path], bool]
    check: Callable[[Path], Iterator[FileFinding]]


# The first that recognises a folder checks it.
KINDS = {
    "comparison": FolderKind("a comparison", is_comparison, check_comparison),
    "index": FolderKind("an index of images", is_index_folder, check_index_folder),
    "export": FolderKind("an export", is_export, check_export),
    "adaptation": FolderKind("what `likewise adapt` wrote", is_adaptation, check_adaptation),
    "run": FolderKind("a training run", is_run, check_run),
    "bundle": FolderKind("a saved embedder", is_bundle, check_bundle),
    "ledger": FolderKind("the ledger of looks at test classes", is_ledger, check_ledger),
    "cache": FolderKind("a cache", is_cache, check_cache),
    "benches": FolderKind("the comparisons of `likewise reproduce`", is_benches, check_benches),
}
