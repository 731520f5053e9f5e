"""Store: what a comparison has decided and found, in one database that several processes share.

A piece is claimed by inserting its row, which only one process can do; it is finished by filling in the result. A claim whose process is
dead, or silent for `LEASE` seconds where that cannot be known, is taken over by whoever changes the row's owner first. Nobody holds a
transaction open for longer than one statement, so that readers and workers never wait for each other's pieces.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError, OperationalError

from likewise.comparison.faults import StoreFault
from likewise.comparison.pieces import Kind, Piece
from likewise.comparison.processes import Owner

LEASE = 60.0  # seconds of silence after which another machine's claim is void
BEAT = 5.0  # seconds between two signs of life
BUSY = 60.0  # seconds that SQLite waits for another process's write

_tables = sql.MetaData()
_comparisons = sql.Table(
    "likewise_comparisons",
    _tables,
    sql.Column("id", sql.String(64), primary_key=True),
    sql.Column("plan", sql.Text, nullable=False),
    sql.Column("about", sql.Text, nullable=False),  # command, time, versions
)
_pieces = sql.Table(
    "likewise_pieces",
    _tables,
    sql.Column("comparison", sql.String(64), primary_key=True),
    sql.Column("piece", sql.String(512), primary_key=True),
    sql.Column("kind", sql.String(16), nullable=False),
    sql.Column("owner", sql.String(256), nullable=False),
    sql.Column("beat", sql.Integer, nullable=False),
    sql.Column("claimed", sql.Float, nullable=False),
    sql.Column("finished", sql.Float),
    sql.Column("score", sql.Float),  # MAP@R
    sql.Column("failure", sql.Text),
    sql.Column("result", sql.Text),
    sql.Column("arrays", sql.LargeBinary),
)


@dataclass(frozen=True)
class Row:
    """A claimed or finished piece, without its result."""

    piece: Piece
    owner: str
    beat: int
    claimed: float
    finished: float | None
    score: float | None
    failure: str | None


@dataclass(frozen=True)
class Found:
    """What a piece found: words and numbers, and arrays as bytes."""

    result: dict[str, Any]
    score: float | None = None
    failure: str | None = None
    arrays: bytes | None = None


class Store:
    """One comparison in a database."""

    def __init__(self, url: str, comparison: str) -> None:
        self.comparison = comparison
        self._url = url
        self._file = Path(sql.make_url(url).database or "") if url.startswith("sqlite") else None
        self._engine = make_engine(url)
        self._seen: dict[str, tuple[str, int, float]] = {}  # piece -> owner, beat, when this process first saw these two

    def close(self) -> None:
        self._engine.dispose()

    def create(self, plan: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        """Tables where there are none, and this comparison."""
        with self._transaction() as connection:
            _tables.create_all(connection, checkfirst=True)
            row = {"id": self.comparison, "plan": json.dumps(plan), "about": json.dumps(about)}
            connection.execute(sql.insert(_comparisons).values(row))

    def plan(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The stored plan and what is known about it; None if this comparison is not here."""
        with self._transaction() as connection:
            if not sql.inspect(connection).has_table(_comparisons.name):
                return None
            row = connection.execute(
                sql.select(_comparisons.c.plan, _comparisons.c.about).where(_comparisons.c.id == self.comparison)
            ).first()
        return None if row is None else (json.loads(row.plan), json.loads(row.about))

    def rows(self) -> dict[str, Row]:
        """Every piece that was claimed, by its key."""
        columns = [_pieces.c[name] for name in ("piece", "owner", "beat", "claimed", "finished", "score", "failure")]
        with self._transaction() as connection:
            found = connection.execute(sql.select(*columns).where(_pieces.c.comparison == self.comparison)).all()
        return {row.piece: Row(Piece.of(row.piece), *row[1:]) for row in found}

    def result(self, piece: Piece) -> Found:
        """What a finished piece found."""
        columns = [_pieces.c[name] for name in ("result", "score", "failure", "arrays")]
        with self._transaction() as connection:
            row = connection.execute(sql.select(*columns).where(*self._at(piece), _pieces.c.finished.is_not(None))).one()
        return Found(json.loads(row.result), row.score, row.failure, row.arrays)

    def claim(self, pieces: Iterable[Piece], owner: Owner, rows: Mapping[str, Row]) -> Piece | None:
        """The first of these pieces that is free, or whose owner is gone, now this owner's."""
        for piece in pieces:
            row = rows.get(piece.key)
            if row is None:
                if self._insert(piece, owner):
                    return piece
            elif row.finished is None and row.owner != owner.name and self._is_abandoned(row) and self._take_over(row, owner):
                return piece
        return None

    def beat(self, owner: Owner) -> None:
        """A sign of life for all this owner's pieces."""
        mine = (_pieces.c.comparison == self.comparison, _pieces.c.owner == owner.name, _pieces.c.finished.is_(None))
        with self._transaction() as connection:
            connection.execute(sql.update(_pieces).where(*mine).values(beat=_pieces.c.beat + 1))

    def finish(self, piece: Piece, found: Found) -> None:
        """The result, durable when this returns. If another process was as far before, its equal result stays."""
        values = {
            "finished": time.time(),
            "score": found.score,
            "failure": found.failure,
            "result": json.dumps(found.result),
            "arrays": found.arrays,
        }
        with self._transaction() as connection:
            connection.execute(sql.update(_pieces).where(*self._at(piece), _pieces.c.finished.is_(None)).values(values))

    def release(self, owner: str) -> None:
        """Gives up this owner's unfinished pieces."""
        mine = (_pieces.c.comparison == self.comparison, _pieces.c.owner == owner, _pieces.c.finished.is_(None))
        with self._transaction() as connection:
            connection.execute(sql.delete(_pieces).where(*mine))

    def forget_failures(self) -> None:
        """Failed pieces may be tried again; but once a test class has been looked at, nothing is tuned or trained anew."""
        failed = (_pieces.c.comparison == self.comparison, _pieces.c.failure.is_not(None))
        looks: tuple[Kind, ...] = ("score", "items")
        looked = sql.select(_pieces.c.piece).where(_pieces.c.comparison == self.comparison, _pieces.c.kind.in_(looks)).exists()
        with self._transaction() as connection:
            late = bool(connection.execute(sql.select(looked)).scalar())
            connection.execute(sql.delete(_pieces).where(*failed, *([_pieces.c.kind.in_(looks)] if late else [])))

    @contextmanager
    def _transaction(self) -> Iterator[sql.Connection]:
        """One transaction. The statements are ours, so what a database says against them is about itself."""
        if self._file is not None and not self._file.exists():  # an open file that was removed would still take writes, for nobody
            raise StoreFault(f"its database {self._file} is gone")
        try:
            with self._engine.begin() as connection:
                yield connection
        except IntegrityError:
            raise
        except DBAPIError as fault:
            raise StoreFault(f"its database {masked(self._url)} fails: {_reason(fault)}") from fault

    def _at(self, piece: Piece) -> tuple[sql.ColumnElement[bool], sql.ColumnElement[bool]]:
        return _pieces.c.comparison == self.comparison, _pieces.c.piece == piece.key

    def _insert(self, piece: Piece, owner: Owner) -> bool:
        row = {
            "comparison": self.comparison,
            "piece": piece.key,
            "kind": piece.kind,
            "owner": owner.name,
            "beat": 0,
            "claimed": time.time(),
        }
        try:
            with self._transaction() as connection:
                connection.execute(sql.insert(_pieces).values(row))
        except IntegrityError:  # another process was first
            return False
        return True

    def _take_over(self, row: Row, owner: Owner) -> bool:
        same = (_pieces.c.owner == row.owner, _pieces.c.beat == row.beat, _pieces.c.finished.is_(None))
        with self._transaction() as connection:
            changed = connection.execute(
                sql.update(_pieces).where(*self._at(row.piece), *same).values(owner=owner.name, beat=0, claimed=time.time())
            )
        return changed.rowcount == 1

    def _is_abandoned(self, row: Row) -> bool:
        """By this process's own clock: those of two machines need not agree."""
        if Owner.of(row.owner).is_gone:
            return True
        owner, beat, since = self._seen.get(row.piece.key, ("", -1, 0.0))
        if (owner, beat) != (row.owner, row.beat):
            self._seen[row.piece.key] = (row.owner, row.beat, time.monotonic())
            return False
        return time.monotonic() - since > LEASE


def make_engine(url: str) -> sql.Engine:
    """The database of this address; a clear message where it cannot be one."""
    try:
        engine = sql.create_engine(url, **engine_options(url))
        with engine.connect():
            pass
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as fault:
        raise ValueError(
            f"--store {masked(url)} is no address of a database that can be used here ({fault}): "
            "expected postgresql+psycopg://user@host/database (pip install 'likewise[cluster]'), or nothing for a file in --out"
        ) from fault
    except OperationalError as fault:
        raise ValueError(f"the store {masked(url)} cannot be opened: {_reason(fault)}") from fault
    return engine


def engine_options(url: str) -> dict[str, Any]:
    """SQLite waits for other writers instead of failing; a server's connection is tested before use, as it may have been restarted."""
    return {"connect_args": {"timeout": BUSY}} if url.startswith("sqlite") else {"pool_pre_ping": True}


def sqlite_url(file: Path) -> str:
    return f"sqlite:///{file.absolute()}"


def use_write_ahead_log(url: str) -> None:
    """Readers and a writer of a SQLite file do not wait for each other. A property of the file: set once."""
    if url.startswith("sqlite"):
        engine = make_engine(url)
        with engine.connect() as connection:
            connection.execute(sql.text("PRAGMA journal_mode=WAL"))
        engine.dispose()


def masked(url: str) -> str:
    """The address without its password."""
    try:
        return sql.make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return repr(url)


def _reason(fault: DBAPIError) -> str:
    """The first line of what the database said."""
    return str(fault.orig).strip().splitlines()[0]
