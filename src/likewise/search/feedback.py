"""Feedback: which results of a search were right and which wrong, kept as pairs of images beside an index, to train on.

They lie in INDEX/feedback: `marks.sqlite`, and in `pictures` the query pictures that are in no index. What `mark` has returned from is on
the disk, whatever happens to the process or the machine afterwards; any number of processes may mark at once.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from likewise.files import write_whole
from likewise.formats.regular_file import in_brief
from likewise.wording import count_of

FOLDER, DATABASE, PICTURES = "feedback", "marks.sqlite", "pictures"
WAITS = 10.0  # seconds for another process that writes
MOST_BYTES = 2 * 2**30  # of kept query pictures
PAIR_COLUMNS = ("query", "item", "same", "similarity", "marked_at", "query_digest", "item_digest")

_TABLE = """
CREATE TABLE IF NOT EXISTS marks (
    query TEXT NOT NULL, item TEXT NOT NULL, is_same INTEGER NOT NULL, similarity REAL NOT NULL, marked_at TEXT NOT NULL,
    query_digest TEXT NOT NULL, item_digest TEXT NOT NULL, PRIMARY KEY (query, item)
)
"""


@dataclass(frozen=True)
class MarkedImage:
    """An image of a pair: where it is, and the digest of its bytes when it was marked."""

    path: str  # absolute
    digest: str


@dataclass(frozen=True)
class MarkedPair:
    """What a person said about a query and a result."""

    query: MarkedImage
    item: MarkedImage
    is_same: bool
    similarity: float
    marked_at: str  # in UTC


class Feedback:
    """The marks of an index. Nothing is written before the first."""

    def __init__(self, index_folder: str | Path) -> None:
        self.index_folder = Path(index_folder).absolute()
        self.folder = self.index_folder / FOLDER

    def keep_picture(self, data: bytes) -> MarkedImage:
        """The picture as a file beside the marks, once however often it is kept; a ValueError where there is no more room for them."""
        digest = hashlib.sha256(data).hexdigest()
        pictures = self.folder / PICTURES
        path = pictures / f"{digest}{_suffix(data)}"
        if not path.is_file():
            held = sum(file.stat().st_size for file in pictures.iterdir()) if pictures.is_dir() else 0
            if held + len(data) > MOST_BYTES:
                raise ValueError(f"{pictures} holds {held / 2**30:.1f} GiB of pictures: export the marks, then make room there")
            write_whole(path, data)
        return MarkedImage(str(path), digest)

    def picture(self, digest: str) -> Path | None:
        """The file of a picture that was kept."""
        is_digest = re.fullmatch(r"[0-9a-f]{64}", digest) is not None
        return next((self.folder / PICTURES).glob(f"{digest}.*"), None) if is_digest else None

    def mark(self, query: MarkedImage, item: MarkedImage, is_same: bool | None, similarity: float) -> None:
        """Both show the same, or not; None takes back what was said. A pair has one mark, whichever of the two was the query."""
        names = self._name(query.path), self._name(item.path)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._connected() as database:
            database.execute("DELETE FROM marks WHERE (query, item) IN (VALUES (?, ?), (?, ?))", (*names, *reversed(names)))
            if is_same is not None:
                row = (*names, int(is_same), similarity, now, query.digest, item.digest)
                database.execute(f"INSERT INTO marks VALUES ({', '.join('?' * len(row))})", row)

    def marks_of(self, query: str, items: Sequence[str]) -> dict[str, bool]:
        """What was said of these items (paths) with this query, where something was."""
        if not self._database.is_file():
            return {}
        name, asked = self._name(query), {self._name(item): item for item in items}
        with self._connected() as database:
            rows = database.execute("SELECT query, item, is_same FROM marks WHERE query = ? OR item = ?", (name, name)).fetchall()
        others = ((second if first == name else first, bool(is_same)) for first, second, is_same in rows)
        return {asked[other]: is_same for other, is_same in others if other in asked}

    def num_pairs(self) -> int:
        if not self._database.is_file():
            return 0
        with self._connected() as database:
            return int(database.execute("SELECT count(*) FROM marks").fetchone()[0])

    def pairs(self) -> list[MarkedPair]:
        """All of them, the oldest first."""
        if not self._database.is_file():
            return []
        with self._connected() as database:
            rows = database.execute("SELECT * FROM marks ORDER BY marked_at, rowid").fetchall()
        return [self._pair(row) for row in rows]

    def _pair(self, row: tuple[Any, ...]) -> MarkedPair:
        query, item, same, similarity, at, query_digest, item_digest = row
        texts = (query, item, at, query_digest, item_digest)
        if not all(isinstance(text, str) for text in texts) or not isinstance(similarity, float | int) or same not in (0, 1):
            raise ValueError(f"{self._database} is damaged (a mark is {row!r:.200}): put back a copy, or delete it to begin anew")
        images = MarkedImage(self._path(query), query_digest), MarkedImage(self._path(item), item_digest)
        return MarkedPair(*images, bool(same), similarity, at)

    @property
    def _database(self) -> Path:
        return self.folder / DATABASE

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """One transaction; a connection of its own, so that threads and processes need not share one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            connection = sqlite3.connect(self._database, timeout=WAITS)
            try:
                connection.execute("PRAGMA synchronous = FULL")
                with connection:
                    connection.execute(_TABLE)
                    yield connection
            finally:
                connection.close()
        except sqlite3.Error as fault:
            raise OSError(f"{self._database}: {in_brief(fault)}") from fault

    def _name(self, path: str) -> str:
        """What is kept here is named from the index's folder, which may be moved."""
        inside = Path(path).is_relative_to(self.folder)
        return Path(path).relative_to(self.index_folder).as_posix() if inside else path

    def _path(self, name: str) -> str:
        return str(self.index_folder / name)  # an absolute name stays as it is


def write_pairs(pairs: Iterable[MarkedPair], out: Path) -> None:
    """A CSV with a row a pair."""
    rows = (
        (pair.query.path, pair.item.path, int(pair.is_same), f"{pair.similarity:.6f}", pair.marked_at, pair.query.digest, pair.item.digest)
        for pair in pairs
    )
    _write_csv(out, PAIR_COLUMNS, rows)


def write_classes(classes: Mapping[str, str], out: Path) -> None:
    """A CSV with a row an image, its path and its class, as `likewise train` and `likewise index` read it."""
    _write_csv(out, ("path", "label"), classes.items())


def classes_of(pairs: Sequence[MarkedPair], labels: Mapping[str, str | None]) -> tuple[dict[str, str], list[str]]:
    """The classes that the pairs amount to, by path, and in words what was left out as it contradicts itself.

    Images that are joined by "right" are of one class: that of those whose label is known (`labels` by path), else one of its own. Joined
    images with two labels, or with a "wrong" between two of them, are left out, as nobody can tell which of the marks is the mistake.
    """
    group = {path: path for pair in pairs for path in (pair.query.path, pair.item.path)}

    def first_of(path: str) -> str:
        while group[path] != path:
            group[path] = path = group[group[path]]
        return path

    for pair in pairs:
        if pair.is_same:
            group[first_of(pair.item.path)] = first_of(pair.query.path)
    members: dict[str, list[str]] = {}
    for path in group:
        members.setdefault(first_of(path), []).append(path)
    at_odds = {first_of(pair.query.path) for pair in pairs if not pair.is_same and first_of(pair.query.path) == first_of(pair.item.path)}
    classes: dict[str, str] = {}
    contradictions = []
    for number, (first, paths) in enumerate(members.items(), start=1):
        known = sorted({label for path in paths if (label := labels.get(path)) is not None})
        if first in at_odds or len(known) > 1:
            reason = f"labels {' and '.join(known)}" if len(known) > 1 else "marked right by a chain, and wrong between two of them"
            contradictions.append(f"{count_of(len(paths), 'image', 'images')} from {paths[0]} on: {reason}")
        elif known or len(paths) > 1:  # an image alone that has no label tells nothing
            classes.update(dict.fromkeys(paths, known[0] if known else f"marked {number}"))
    return classes, contradictions


def _write_csv(out: Path, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    write_whole(out, text.getvalue().encode("utf-8", "surrogateescape"))


def _suffix(data: bytes) -> str:
    """By the first bytes, as programs that read the export go by names."""
    starts = {b"\xff\xd8\xff": ".jpg", b"\x89PNG": ".png", b"GIF8": ".gif", b"BM": ".bmp", b"II*\0": ".tif", b"MM\0*": ".tif"}
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return ".webp"
    return next((suffix for start, suffix in starts.items() if data.startswith(start)), ".img")
