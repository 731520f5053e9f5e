"""Store: what a comparison has decided and found, in one database that several processes share.

A piece is claimed by inserting its row, which only one process can do; it is finished by filling in the result. A claim whose process is
dead, or silent for `LEASE` seconds where that cannot be known, is taken over by whoever changes the row's owner first. Nobody holds a
transaction open for longer than one statement, so that readers and workers never wait for each other's pieces.

What is stored ends with a digest: the plan's of itself; a result's of its words and numbers, and in these are its piece, its score and the
digest of its arrays. So a result that was edited, damaged or put in another's place is never used.
"""

from __future__ import annotations

import hashlib
import math
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy.exc import DBAPIError, IntegrityError

from likewise.addresses import Address, without_secrets
from likewise.comparison.plan import LOOKS, Claim, Piece, Plan
from likewise.comparison.plan_progress import Progress
from likewise.comparison.running.database import DatabaseFault, make_engine, reason_of
from likewise.sealing import Damaged, sealed_json, unsealed_json

SEALED = "sealed"  # in the words of a result: what else its row holds
BEGIN_ANEW = "restore the database from a copy, or begin anew with another --out"
LEASE = 60.0  # seconds of silence after which another machine's claim is void

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


_plan_length = sql.func.length(_comparisons.c.plan)


class _PlanChanged(Exception):
    """The plan is no longer the one that this process knows."""


@dataclass(frozen=True)
class PieceResult:
    """What a piece found: words and numbers, and arrays as bytes."""

    facts: dict[str, Any]
    score: float | None = None
    failure: str | None = None
    arrays: bytes | None = None


@dataclass(frozen=True)
class Owner:
    """A process on a machine. The start time tells it from a later process with the same number."""

    host: str
    pid: int
    started: str
    nonce: str  # two comparisons in one process

    @staticmethod
    def here() -> Owner:
        return Owner(this_host(), os.getpid(), _started(os.getpid()) or "", secrets.token_hex(4))

    @property
    def name(self) -> str:
        return f"{self.host}|{self.pid}|{self.started}|{self.nonce}"

    @staticmethod
    def from_name(name: str) -> Owner:
        host, pid, started, nonce = name.rsplit("|", 3)
        return Owner(host, int(pid), started, nonce)

    @property
    def is_gone(self) -> bool:
        """Certainly dead. False also where that cannot be known from here: then only its silence tells."""
        if self.host != this_host() or not self.started:
            return False
        return _started(self.pid) != self.started


class Store:
    """One comparison in a database."""

    def __init__(self, url: Address, comparison: str) -> None:
        self.comparison = comparison
        self._url = url
        self._engine = make_engine(url)  # first, as it says what is wrong with an address
        self._file = Path(sql.make_url(url.whole).database or "") if url.whole.startswith("sqlite") else None
        self._seen: dict[str, tuple[str, int, float]] = {}  # piece -> owner, beat, when this process first saw these two
        self._length: int | None = None  # of the text of the plan as this process knows it
        self._plan: Plan | None = None  # the same, read

    def close(self) -> None:
        self._engine.dispose()

    def create(self, plan: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        """Tables where there are none, and this comparison."""
        with self._transaction() as connection:
            _tables.create_all(connection, checkfirst=True)
            row = {"id": self.comparison, "plan": _text(plan), "about": _text(about)}
            connection.execute(sql.insert(_comparisons).values(row))

    def plan(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The stored plan and what is known about its start; None if this comparison is not here."""
        with self._transaction() as connection:
            if not sql.inspect(connection).has_table(_comparisons.name):
                return None
            row = connection.execute(
                sql.select(_comparisons.c.plan, _comparisons.c.about).where(_comparisons.c.id == self.comparison)
            ).first()
        if row is None:
            return None
        self._length, self._plan = len(row.plan), None
        about = self._content(row.about, "what is known of its start")
        return self._content(row.plan, "the plan"), about | {"command": without_secrets(about["command"])}

    def progress(self) -> Progress:
        """How far it is, by the plan as it now stands: another process may have extended it.

        A plan only grows, so that the length of its text tells whether it did.
        """
        with self._transaction() as connection:
            length = connection.execute(sql.select(_plan_length).where(_comparisons.c.id == self.comparison)).scalar()
        if self._plan is None or self._length != length:
            stored = self.plan()
            if stored is None:
                raise DatabaseFault("its database no longer knows the comparison: was it emptied?")
            self._plan = Plan.from_table(stored[0])
        claims = self.claims()
        return Progress(self._plan, self._with_seconds(claims) if self._plan.measures_time else claims)

    def extend(self, larger: Callable[[int], Plan]) -> bool:
        """Puts a larger plan in the place of the one that was last read here, given how many looks at the test classes there were so far.

        False if that is no longer the plan: another process was first. Whoever claims a look meanwhile is counted, or is told that the
        plan has changed: see `claim`.
        """
        here = _comparisons.c.id == self.comparison
        looked = sql.select(sql.func.count()).where(_pieces.c.comparison == self.comparison, _pieces.c.kind.in_(LOOKS))
        with self._transaction() as connection:
            connection.execute(sql.update(_comparisons).where(here).values(id=self.comparison))  # nobody else writes until this ends
            if connection.execute(sql.select(_plan_length).where(here)).scalar() != self._length:
                return False
            plan = larger(int(connection.execute(looked).scalar() or 0))
            connection.execute(sql.update(_comparisons).where(here).values(plan=_text(plan.as_table())))
        return True

    def claims(self) -> dict[str, Claim]:
        """Every piece that was claimed, by its key."""
        columns = [_pieces.c[name] for name in ("piece", "owner", "beat", "claimed", "finished", "score", "failure")]
        with self._transaction() as connection:
            rows = connection.execute(sql.select(*columns).where(_pieces.c.comparison == self.comparison)).all()
        return {row.piece: Claim(Piece.from_key(row.piece), *row[1:]) for row in rows}

    def _with_seconds(self, claims: Mapping[str, Claim]) -> dict[str, Claim]:
        """The trials with the time that they measured."""
        trials = (_pieces.c.comparison == self.comparison, _pieces.c.kind == "trial", _pieces.c.result.is_not(None))
        with self._transaction() as connection:
            rows = connection.execute(sql.select(_pieces.c.piece, _pieces.c.result).where(*trials)).all()
        seconds = {row.piece: self._content(row.result, row.piece).get("seconds_of_all_steps") for row in rows}
        return {key: replace(claim, seconds=seconds.get(key)) for key, claim in claims.items()}

    def result(self, piece: Piece) -> PieceResult:
        """What a finished piece found."""
        columns = [_pieces.c[name] for name in ("result", "score", "failure", "arrays")]
        with self._transaction() as connection:
            row = connection.execute(sql.select(*columns).where(*self._at(piece), _pieces.c.finished.is_not(None))).one()
        facts = self._content(row.result, f"the result of {piece.in_words}")
        stored = PieceResult(facts, row.score, row.failure, row.arrays)
        sealed = facts.pop(SEALED, None)
        unlike = None if sealed is None else self._unlike(sealed, _sealed_with(piece, stored))  # None: of an earlier version
        if unlike is not None:
            raise Damaged(f"{self._place}: the {unlike} of {piece.in_words} is not what was stored: {BEGIN_ANEW}")
        return stored

    def claim(self, pieces: Iterable[Piece], owner: Owner, claims: Mapping[str, Claim]) -> Piece | None:
        """The first of these pieces that is free, or whose owner is gone, now this owner's.

        A look at the test classes is claimed only under the plan that this process knows: one that has grown meanwhile may have more to
        decide first.
        """
        for piece in pieces:
            claim = claims.get(piece.key)
            if claim is None:
                if self._insert(piece, owner):
                    return piece
            elif claim.finished is None and claim.owner != owner.name and self._is_abandoned(claim) and self._take_over(claim, owner):
                return piece
        return None

    def beat(self, owner: Owner) -> None:
        """A sign of life for all this owner's pieces."""
        with self._transaction() as connection:
            connection.execute(sql.update(_pieces).where(*self._under_way(owner.name)).values(beat=_pieces.c.beat + 1))

    def finish(self, piece: Piece, result: PieceResult) -> None:
        """The result, durable when this returns. If another process was as far before, its equal result stays."""
        values = {
            "finished": time.time(),
            "score": result.score,
            "failure": result.failure,
            "result": _text(result.facts | {SEALED: _sealed_with(piece, result)}),
            "arrays": result.arrays,
        }
        with self._transaction() as connection:
            connection.execute(sql.update(_pieces).where(*self._at(piece), _pieces.c.finished.is_(None)).values(values))

    def release(self, owner: str) -> None:
        """Gives up this owner's unfinished pieces."""
        with self._transaction() as connection:
            connection.execute(sql.delete(_pieces).where(*self._under_way(owner)))

    def forget_failures(self) -> None:
        """Failed pieces may be tried again; but once a test class has been looked at, nothing is tuned or trained anew."""
        failed = (_pieces.c.comparison == self.comparison, _pieces.c.failure.is_not(None))
        looked = sql.select(_pieces.c.piece).where(_pieces.c.comparison == self.comparison, _pieces.c.kind.in_(LOOKS)).exists()
        with self._transaction() as connection:
            late = bool(connection.execute(sql.select(looked)).scalar())
            connection.execute(sql.delete(_pieces).where(*failed, *([_pieces.c.kind.in_(LOOKS)] if late else [])))

    @contextmanager
    def _transaction(self) -> Iterator[sql.Connection]:
        """One transaction. The statements are ours, so what a database says against them is about itself."""
        if self._file is not None and not self._file.exists():  # an open file that was removed would still take writes, for nobody
            raise DatabaseFault(f"its database {self._file} is gone")
        try:
            with self._engine.begin() as connection:
                yield connection
        except IntegrityError:
            raise
        except DBAPIError as fault:
            raise DatabaseFault(f"its database {self._url} fails: {reason_of(fault)}") from fault

    def network_digest(self, piece: Piece) -> str:
        """Of the network that a piece scores; empty where it scores none, or an earlier version stored none."""
        return "" if piece.kind != "score" else str(self.result(replace(piece, kind="final")).facts.get("digest", ""))

    def _unlike(self, sealed: Mapping[str, Any], found: Mapping[str, Any]) -> str | None:
        """What a row holds otherwise than when it was stored. Some databases keep fewer digits of a number than these two."""
        exact = self._engine.dialect.name in ("sqlite", "postgresql")
        given, score = sealed["score"], found["score"]
        if (given is None) != (score is None) or (score is not None and not math.isclose(score, given, rel_tol=0 if exact else 1e-6)):
            return "score"
        return next((name for name in ("piece", "failure", "arrays") if sealed[name] != found[name]), None)

    @property
    def _place(self) -> str:
        return str(self._file or self._url)

    def _content(self, text: str, what: str) -> dict[str, Any]:
        """What was stored as JSON, with its seal or, by an earlier version, without."""
        return unsealed_json(f"{text}\n".encode(), f"{self._place}: {what}", mend=BEGIN_ANEW)

    def _at(self, piece: Piece) -> tuple[sql.ColumnElement[bool], sql.ColumnElement[bool]]:
        return _pieces.c.comparison == self.comparison, _pieces.c.piece == piece.key

    def _under_way(self, owner: str) -> tuple[sql.ColumnElement[bool], ...]:
        return _pieces.c.comparison == self.comparison, _pieces.c.owner == owner, _pieces.c.finished.is_(None)

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
                self._check_plan(connection, piece)
        except IntegrityError:  # another process was first
            return False
        except _PlanChanged:
            return False
        return True

    def _check_plan(self, connection: sql.Connection, piece: Piece) -> None:
        """Undoes the claim of a look under a plan that has changed. After the claim is written: then nobody can change it meanwhile."""
        if piece.kind in LOOKS and self._length is not None:
            stored = sql.select(_plan_length).where(_comparisons.c.id == self.comparison).with_for_update(read=True)
            if connection.execute(stored).scalar() != self._length:
                raise _PlanChanged

    def _take_over(self, claim: Claim, owner: Owner) -> bool:
        same = (_pieces.c.owner == claim.owner, _pieces.c.beat == claim.beat, _pieces.c.finished.is_(None))
        try:
            with self._transaction() as connection:
                changed = connection.execute(
                    sql.update(_pieces).where(*self._at(claim.piece), *same).values(owner=owner.name, beat=0, claimed=time.time())
                )
                self._check_plan(connection, claim.piece)
        except _PlanChanged:
            return False
        return changed.rowcount == 1

    def _is_abandoned(self, claim: Claim) -> bool:
        """By this process's own clock: those of two machines need not agree."""
        if Owner.from_name(claim.owner).is_gone:
            return True
        owner, beat, since = self._seen.get(claim.piece.key, ("", -1, 0.0))
        if (owner, beat) != (claim.owner, claim.beat):
            self._seen[claim.piece.key] = (claim.owner, claim.beat, time.monotonic())
            return False
        return time.monotonic() - since > LEASE


def _text(content: Mapping[str, Any]) -> str:
    return sealed_json(content, indent=None, allow_nan=True).decode().rstrip()


def _sealed_with(piece: Piece, result: PieceResult) -> dict[str, Any]:
    """What the row of a result holds beside its words and numbers."""
    return {
        "piece": piece.key,
        "score": result.score,
        "failure": result.failure,
        "arrays": None if result.arrays is None else hashlib.sha256(result.arrays).hexdigest(),
    }


def this_host() -> str:
    """The machine, as far as process numbers mean the same: its name, boot and process-number space (containers have their own)."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
        space = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        boot = space = ""
    return f"{socket.gethostname()}/{boot}/{space}".replace("|", "-")


def _started(pid: int) -> str | None:
    """The start time of a living process; None if there is none, or if it only waits to be collected by its parent."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else fields[19]
