"""Checks of single files: sealed JSON, files with digests elsewhere, chained lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from likewise.chained_lines import ChainedLines
from likewise.files import file_digest
from likewise.integrity.findings import FileFinding
from likewise.sealing import check_seal, has_seal, unsealed_json

COPY = "restore it from a copy"


def check_sealed(folder: Path, name: str, *, mend: str, required: bool = True) -> FileFinding | None:
    """A file of sealed JSON; None where it need not be there and is not."""
    path = folder / name
    if not path.is_file():
        return FileFinding(name, "missing", "it is not there", mend) if required else None
    stored = path.read_bytes()
    try:
        check_seal(stored, path, mend=mend)
        unsealed_json(stored, path, mend=mend)
    except ValueError:
        return FileFinding(name, "damaged", "it differs from its own digest, or is no JSON", mend)
    if not has_seal(stored):
        return FileFinding(name, "not verifiable", "an earlier version wrote it, without a digest")
    return FileFinding(name, "whole")


def check_listed(folder: Path, digests: Mapping[str, str], *, mend: str = COPY) -> Iterator[FileFinding]:
    """Files whose SHA-256 is written down elsewhere."""
    for name, digest in digests.items():
        if not (folder / name).is_file():
            yield FileFinding(name, "missing", "it is not there", mend)
        elif file_digest(folder / name) != digest:
            yield FileFinding(name, "damaged", "it differs from the digest that was taken of it", mend)
        else:
            yield FileFinding(name, "whole")


def check_chained(folder: Path, name: str) -> Iterator[FileFinding]:
    """A file of chained lines and the one beside it; nothing where neither is there."""
    chained = ChainedLines(folder / name)
    mend = "restore both files from a copy; what was taken out cannot be told from the rest"
    anew = "the next line that is written makes it again"
    if not chained.path.is_file():
        if chained.last.is_file():
            yield FileFinding(name, "missing", "it was deleted", mend)
        return
    chain = chained.read()
    unreadable = [f"line {line.number} cannot be read" for line in chain.lines if line.entry is None]
    wrong = [*chain.changed, *unreadable]
    if wrong:
        yield FileFinding(name, "damaged", "; ".join(wrong), mend)
    elif not all(line.is_chained for line in chain.lines):
        yield FileFinding(name, "not verifiable", "an earlier version wrote lines of it, without digests")
    elif not chained.path.read_bytes().endswith(b"\n"):
        yield FileFinding(name, "damaged", "its last line does not end", mend)
    else:
        yield FileFinding(name, "whole")
    fault = chained.fault_of_last()
    beside = chained.last.name
    if fault == "missing":
        yield FileFinding(
            beside, "missing", f"it holds the digest of the last line of {name}", "the next line that is written makes it again"
        )
    elif fault:
        yield FileFinding(beside, "damaged", f"it does not name the last line of {name}", anew)
    elif chained.last.is_file():
        yield FileFinding(beside, "whole")
