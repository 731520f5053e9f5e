"""Checks of indexes and exports."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from likewise.exporting.exporter import DESCRIPTION as EXPORT
from likewise.exporting.exporter import MODEL as GRAPH
from likewise.integrity.file_checks import check_listed, check_sealed
from likewise.integrity.findings import FileFinding
from likewise.integrity.model_checks import check_bundle
from likewise.sealing import unsealed_json
from likewise.search.feedback import DATABASE as MARKS
from likewise.search.feedback import FOLDER as FEEDBACK
from likewise.search.index_digests import COPY_AGAIN, FILE, damaged_files, read_digests
from likewise.search.index_folder import DESCRIPTION, MODEL, STORE, read_description

NEXT_WRITE = "the next images that are added write it again"
EXPORT_AGAIN = "export the model again"


def is_index_folder(folder: Path) -> bool:
    return (folder / DESCRIPTION).is_file() or ((folder / STORE).is_dir() and (folder / MODEL).is_dir())


def is_export(folder: Path) -> bool:
    return (folder / EXPORT).is_file() or (folder / GRAPH).is_file()


def check_index_folder(folder: Path) -> Iterator[FileFinding]:
    description = check_sealed(folder, DESCRIPTION, mend=COPY_AGAIN)
    assert description is not None  # it is required
    if description.state == "whole":
        try:
            read_description(folder)
        except ValueError as fault:
            description = replace(description, state="damaged", what=str(fault), mend=COPY_AGAIN)
    yield description
    yield from (replace(finding, path=f"{MODEL}/{finding.path}") for finding in check_bundle(folder / MODEL))
    digests = check_sealed(folder, FILE, mend=NEXT_WRITE)
    assert digests is not None  # it is required
    yield digests
    if digests.state == "whole":
        listed = read_digests(folder)
        wrong = damaged_files(folder / STORE, listed)
        for name in listed:
            if name not in wrong:
                yield FileFinding(f"{STORE}/{name}", "whole")
            elif wrong[name] == "missing":
                yield FileFinding(f"{STORE}/{name}", "missing", "it is not there", COPY_AGAIN)
            else:
                yield FileFinding(f"{STORE}/{name}", "damaged", "it differs from the digest that was taken of it", COPY_AGAIN)
    if (folder / FEEDBACK / MARKS).is_file():
        yield _marks(folder)


def _marks(folder: Path) -> FileFinding:
    """What people said of results changes at any time, so that no digest is kept of it."""
    name, path = f"{FEEDBACK}/{MARKS}", folder / FEEDBACK / MARKS
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            said = database.execute("PRAGMA integrity_check").fetchone()[0]
    except sqlite3.Error as fault:
        return FileFinding(name, "damaged", str(fault), "restore it from a copy")
    if said != "ok":
        return FileFinding(name, "damaged", said, "restore it from a copy")
    return FileFinding(name, "not verifiable", "its structure is sound; no digest is kept of marks, which change at any time")


def check_export(folder: Path) -> Iterator[FileFinding]:
    description = check_sealed(folder, EXPORT, mend=EXPORT_AGAIN)
    assert description is not None  # it is required
    yield description
    if description.state in ("whole", "not verifiable"):
        stored = unsealed_json((folder / EXPORT).read_bytes(), folder / EXPORT, mend=EXPORT_AGAIN)
        listed = {name: facts["sha256"] for name, facts in stored.get("files", {}).items()}
        yield from check_listed(folder, listed, mend=EXPORT_AGAIN)
