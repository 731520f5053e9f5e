"""Checks of comparisons, their stores included, and of the benches of reproductions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from likewise.comparison.folder import DATABASE, DIGESTS, MARK, OPENINGS, find_folder
from likewise.comparison.level_scores import unlike_scores
from likewise.comparison.running.store import BEGIN_ANEW, Store
from likewise.evaluation.retrieval import PerQuery
from likewise.integrity.file_checks import check_chained, check_listed, check_sealed
from likewise.integrity.findings import FileFinding
from likewise.sealing import unsealed_json

SEAL_AGAIN = "the same `likewise compare` command holds all results against their digests, and writes it again"


def is_comparison(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (MARK, DATABASE))


def is_benches(folder: Path) -> bool:
    """Of `likewise reproduce`: comparisons in folders of their own."""
    return folder.is_dir() and any(path.is_dir() and is_comparison(path) for path in folder.iterdir())


def check_benches(folder: Path) -> Iterator[FileFinding]:
    for bench in sorted(path for path in folder.iterdir() if path.is_dir() and is_comparison(path)):
        yield from (replace(finding, path=f"{bench.name}/{finding.path}") for finding in check_comparison(bench))


def check_comparison(folder: Path) -> Iterator[FileFinding]:
    copy = "copy the whole folder again, or begin anew with another --out"
    digests = check_sealed(folder, DIGESTS, mend=SEAL_AGAIN, required=False)
    if digests is not None and digests.state == "whole":
        listed = unsealed_json((folder / DIGESTS).read_bytes(), folder / DIGESTS, mend=SEAL_AGAIN)["files"]
        yield from check_listed(folder, listed, mend=copy)
    mark = check_sealed(folder, MARK, mend=copy)
    assert mark is not None  # it is required
    if mark.state != "whole" or digests is None or digests.state != "whole":
        yield mark
    if digests is not None:
        yield digests
    yield from check_chained(folder, OPENINGS)
    if mark.state not in ("whole", "not verifiable"):
        return
    try:
        found = find_folder(folder)
    except ValueError:
        other = "its results are in another database: the command with --store holds them against their digests"
        yield FileFinding("store", "not verifiable", other)
        return
    assert found is not None  # the mark is there
    if not (folder / DATABASE).is_file():
        yield FileFinding(DATABASE, "missing", "all results were in it", BEGIN_ANEW)
        return
    with closing(found.store()) as store:
        yield from _check_store(store, has_digests=digests is not None)


def _check_store(store: Store, *, has_digests: bool) -> Iterator[FileFinding]:
    """Every result against its digest, and scores against those of their queries."""
    wrong: list[str] = []
    try:
        progress = store.progress()
        done = [claim.piece for claim in progress.claims.values() if claim.finished is not None]
        for piece in done:
            try:
                result = store.result(piece)
                unlike = "" if result.arrays is None else unlike_scores(result.facts, PerQuery.from_bytes(result.arrays))
            except ValueError as fault:
                wrong.append(str(fault))
            else:
                wrong += [f"{piece.in_words}: {unlike}"] if unlike else []
        is_complete = progress.is_complete
    except (OSError, ValueError) as fault:
        yield FileFinding(f"{DATABASE}: results", "damaged", str(fault), BEGIN_ANEW)
        return
    if wrong:
        yield FileFinding(f"{DATABASE}: results", "damaged", "; ".join(wrong), BEGIN_ANEW)
    else:
        yield FileFinding(f"{DATABASE}: {len(done):,} results", "whole")
    if is_complete and not has_digests:
        yield FileFinding(DIGESTS, "missing", "the digests of all other files of a finished comparison", SEAL_AGAIN)
    elif not has_digests:
        yield FileFinding(".", "not verifiable", "the comparison is not finished; its other files have digests when it is")
