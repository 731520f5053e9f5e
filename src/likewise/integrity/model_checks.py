"""Checks of runs, of what `adapt` leaves, and of embedders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from likewise.adaptation.adapt import RESULT
from likewise.adaptation.adapt import SCORES as FOLD_SCORES
from likewise.integrity.file_checks import check_chained, check_listed, check_sealed
from likewise.integrity.findings import FileFinding
from likewise.models.bundle import CALIBRATION, DESCRIPTION, WEIGHTS
from likewise.sealing import has_seal, unsealed_json
from likewise.training.runs.checkpoints import DamagedCheckpoint, read_checkpoint
from likewise.training.runs.run_folder import MEND, SCORES, RunFolder

OPENINGS = "test_openings.jsonl"
SAVE_AGAIN = "save the model again, or copy the whole folder again"
IN_RUN = ("config.json", "split.json", "environment.json")


def check_bundle(folder: Path) -> Iterator[FileFinding]:
    description = check_sealed(folder, DESCRIPTION, mend=SAVE_AGAIN)
    assert description is not None  # it is required
    yield description
    if description.state in ("whole", "not verifiable"):
        stored = unsealed_json((folder / DESCRIPTION).read_bytes(), folder / DESCRIPTION, mend=SAVE_AGAIN)
        yield from check_listed(folder, {WEIGHTS: str(stored.get("sha256"))}, mend=SAVE_AGAIN)
        calibration = check_sealed(folder, CALIBRATION, mend="calibrate again, or delete it", required=False)
        if calibration is not None:
            yield calibration
    elif (folder / WEIGHTS).is_file():
        yield FileFinding(WEIGHTS, "not verifiable", f"its digest is in {DESCRIPTION}")
    else:
        yield FileFinding(WEIGHTS, "missing", "it is not there", SAVE_AGAIN)


def check_run(folder: Path) -> Iterator[FileFinding]:
    yield from _check_run(folder, SCORES)


def check_adaptation(folder: Path) -> Iterator[FileFinding]:
    yield from _check_run(folder, RESULT)
    path = folder / FOLD_SCORES
    if path.is_file():
        again = "the same command does what is missing again"
        lines = [line for line in path.read_bytes().split(b"\n") if line]
        wrong = [str(number) for number, line in enumerate(lines, 1) if not _is_whole_line(line)]
        if wrong or not path.read_bytes().endswith(b"\n"):
            what = f"of its lines {', '.join(wrong)}" if wrong else "its last line does not end"
            yield FileFinding(FOLD_SCORES, "damaged", what, again)
        else:
            yield FileFinding(FOLD_SCORES, "whole")
    elif (folder / RESULT).is_file():
        yield FileFinding(FOLD_SCORES, "missing", "the scores that the ladder was judged by", "the same command finds them again")


def _check_run(folder: Path, result: str) -> Iterator[FileFinding]:
    """result: the file that is written last."""
    for name in IN_RUN:
        finding = check_sealed(folder, name, mend=MEND)
        assert finding is not None  # it is required
        yield finding
    has_ended = (folder / result).is_file()
    yield from check_chained(folder, OPENINGS)
    if not has_ended and (folder / "README.md").is_file():
        yield FileFinding(result, "missing", "it is written last, and the card of the run is there", MEND)
    if not has_ended:
        yield from _check_unfinished(folder)
        return
    finding = check_sealed(folder, result, mend=MEND)
    assert finding is not None  # it is there
    if finding.state == "damaged":
        yield finding
        return
    run = RunFolder(folder)
    listed = (run.read_json(result) or {}).get("files")
    try:
        run.checked(result)
    except ValueError as fault:
        finding = replace(finding, state="damaged", what=str(fault), mend=MEND)
    yield finding
    if listed is None:
        yield FileFinding(".", "not verifiable", "an earlier version wrote the run, without digests of its files")
    else:
        told = {*IN_RUN}
        yield from check_listed(folder, {name: digest for name, digest in listed.items() if name not in told}, mend=MEND)
    if (folder / "embedder" / CALIBRATION).is_file():
        yield from (_below("embedder", finding) for finding in check_bundle(folder / "embedder") if finding.path == CALIBRATION)
    was_opened = bool((run.read_json(result) or {}).get("look"))
    if was_opened and not any((folder / name).is_file() for name in (OPENINGS, "test_openings.last.json")):
        yield FileFinding(OPENINGS, "missing", "it was deleted", "restore it from a copy")


def _check_unfinished(folder: Path) -> Iterator[FileFinding]:
    yield from check_checkpoints(folder)
    if (folder / "embedder").is_dir():
        yield from (_below("embedder", finding) for finding in check_bundle(folder / "embedder"))
    yield FileFinding(".", "not verifiable", "the run has not ended; its other files have digests when it has")


def check_checkpoints(folder: Path) -> Iterator[FileFinding]:
    for path in (RunFolder(folder).checkpoints.last, RunFolder(folder).checkpoints.previous):
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            try:
                read_checkpoint(path)
            except DamagedCheckpoint:
                yield FileFinding(name, "damaged", "it differs from its own digest", "--resume goes on from the one before it")
            else:
                yield FileFinding(name, "whole")


def _is_whole_line(line: bytes) -> bool:
    try:
        unsealed_json(line + b"\n", "a line", mend="")
    except ValueError:
        return False
    return has_seal(line + b"\n")


def _below(folder: str, finding: FileFinding) -> FileFinding:
    return replace(finding, path=f"{folder}/{finding.path}")


def is_run(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("config.json", SCORES, "split.json")) and not is_adaptation(folder)


def is_adaptation(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (RESULT, FOLD_SCORES))


def is_bundle(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (DESCRIPTION, WEIGHTS))
