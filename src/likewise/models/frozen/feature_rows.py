"""Feature rows on the disk: one an image, found by the image's key, in files of some hundred rows.

A file is written whole, ends with its SHA-256 and is never changed: it is as it was written, or it is not used and goes. So whatever
was computed before a process was killed is there for the next, and a part of a data set is served from the rows of the whole.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Container, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from likewise.files import write_whole
from likewise.models.frozen.streaming import Streamed
from likewise.sealing import tell_mended, with_digest, without_digest

SUFFIX = ".rows"


Outcome = Streamed | str  # or the reason why the image has none


def write_rows(folder: Path, rows: Mapping[bytes, Outcome]) -> None:
    """As one file; keys are of one length."""
    kept = [row for row in rows.values() if isinstance(row, Streamed)]
    reasons = [row if isinstance(row, str) else None for row in rows.values()]
    stored = io.BytesIO()
    np.savez(
        stored,
        keys=np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), -1),
        reasons=np.frombuffer(json.dumps(reasons).encode(), dtype=np.uint8),
        vectors=np.stack([row.vector for row in kept]) if kept else np.zeros((0, 0), np.float32),
        thumbnails=np.frombuffer(b"".join(row.thumbnail for row in kept), dtype=np.uint8),
        thumbnail_sizes=np.array([len(row.thumbnail) for row in kept], dtype=np.int64),
    )
    name = hashlib.sha256(b"".join(rows)).hexdigest()[:24]
    write_whole(folder / f"{name}{SUFFIX}", with_digest(stored.getvalue()))


def read_rows(folder: Path, wanted: Container[bytes]) -> dict[bytes, Outcome]:
    """Those of the wanted rows that are here. Damaged files are removed, which is told."""
    rows: dict[bytes, Outcome] = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            content = without_digest(path.read_bytes())
        except FileNotFoundError:  # another process has removed it
            continue
        if content is None:
            with suppress(OSError):
                path.unlink()
            tell_mended(f"{path} was damaged: its features are computed again")
            continue
        rows.update((key, row) for key, row in _rows_of(content).items() if key in wanted)
    return rows


def _rows_of(content: bytes) -> dict[bytes, Outcome]:
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    ends = np.cumsum(arrays["thumbnail_sizes"]).tolist()
    thumbnails = arrays["thumbnails"].tobytes()
    kept = iter(zip(arrays["vectors"], [0, *ends[:-1]], ends, strict=True)) if ends else iter(())
    rows: dict[bytes, Outcome] = {}
    for key, reason in zip(arrays["keys"], json.loads(arrays["reasons"].tobytes()), strict=True):
        if reason is not None:
            rows[key.tobytes()] = reason
        else:
            vector, start, end = next(kept)
            rows[key.tobytes()] = Streamed(vector, thumbnails[start:end])
    return rows
