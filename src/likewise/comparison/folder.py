"""The folder of a comparison: what marks it, where its database is, and whether it is the comparison that is asked for."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from likewise.addresses import Address, without_secrets
from likewise.comparison.baselines import BASELINES
from likewise.comparison.plan import Plan
from likewise.comparison.plan_progress import Progress, check_code
from likewise.comparison.running.database import sqlite_url, use_write_ahead_log
from likewise.comparison.running.store import Store
from likewise.configuration import as_table, differing
from likewise.environment import versions
from likewise.files import is_unfinished, locked, write_whole
from likewise.formats.settings_files import read_sealed_table
from likewise.sealing import digests_below, sealed_json

MARK = "comparison.json"  # names the comparison in its folder
DATABASE = "comparison.sqlite"
LOCK = ".lock"
LEFT_BY_A_KILL = (LOCK, DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm")  # at the very start, before the mark is there
REPORT = "report.html"
NETWORKS = "networks"  # the trained networks, until they are scored
EMBEDDINGS = "embeddings"  # of the test items, by each method's first seed
ITEMS = "items"  # thumbnails of the test items
BEST = "best"  # the winner, for `likewise embed`
OPENINGS = "test_openings.jsonl"  # the guard's record
DIGESTS = "digests.json"  # of all files, while the comparison is at rest
GROWS = (OPENINGS, "test_openings.last.json", f"{DATABASE}-wal", f"{DATABASE}-shm")  # what goes on changing, or goes, when it is read


@dataclass(frozen=True)
class ComparisonFolder:
    """A comparison's folder, the address of its database, and its name there."""

    path: Path
    url: Address
    comparison: str

    def store(self) -> Store:
        return Store(self.url, self.comparison)

    def lock(self) -> AbstractContextManager[object]:
        """One process at a time, for what a database does not order by itself: making tables and studies."""
        return locked(self.path / LOCK)


def open_folder(
    path: Path, make_plan: Callable[[Plan | None], Plan], *, store: str | None, command: str
) -> tuple[ComparisonFolder, dict[str, Any]]:
    """The comparison in this folder, made if there is none; command, time and versions of its start.

    make_plan: what is asked for, given the plan that is stored. More seeds or methods than that has are added to it. Anything else that
    differs is refused, as another comparison.
    """
    folder = find_folder(path, store=store)
    if folder is None:
        plan = make_plan(None)  # what cannot work is refused before anything is written
        path.mkdir(parents=True, exist_ok=True)
        with locked(path / LOCK):  # for two processes that start at once
            folder = find_folder(path, store=store)
            if folder is None:
                return _begin(path, plan, store=store, command=command)
    with closing(folder.store()) as database:
        while True:
            stored = database.plan()
            if stored is None:
                raise ValueError(f"the database of the comparison in {path} does not know it: was it emptied? give --out a new folder")
            table, about = stored
            before = Plan.from_table(table)
            asked = make_plan(before)

            def grown(looked: int, before: Plan = before, asked: Plan = asked) -> Plan:
                return before.extended(asked, time=datetime.now(UTC).isoformat(timespec="seconds"), command=command, looked=looked)

            unlike = difference(grown(0), asked)
            if unlike is not None:
                what = "give the same values to go on with it (more --seeds, or --methods +NAME, add to it), or --out another folder"
                raise ValueError(f"{path} holds another comparison: {unlike}; {what}")
            if grown(0) is before:
                return folder, about
            check_code(Progress(grown(0), database.claims()))  # what could not be trained here is not planned here
            if database.extend(grown):
                return folder, about


def find_folder(path: Path, *, store: str | None = None) -> ComparisonFolder | None:
    """The comparison of this folder; None if it holds none. A server's address is given again, as it may hold a password."""
    if not (path / MARK).exists():
        return None
    remedy = "copy the whole folder again, or begin anew with another --out"
    mark = read_sealed_table(path / MARK, remedy=remedy)
    if not all(isinstance(mark.get(name), str) for name in ("id", "store")):
        raise ValueError(f"{path / MARK} is damaged (it does not say which comparison this is): {remedy}")
    if mark["store"] == DATABASE:
        if store is not None:
            raise ValueError(f"the comparison in {path} keeps its results in {DATABASE} there: leave --store out")
        return ComparisonFolder(path, sqlite_url(path / DATABASE), mark["id"])
    if store is None:
        raise ValueError(f"the comparison in {path} keeps its results in {without_secrets(mark['store'])}: give that address with --store")
    return ComparisonFolder(path, Address(store), mark["id"])


def plan_in(path: Path, *, store: str | None = None) -> Plan | None:
    """The plan of the comparison in this folder; None if it holds none."""
    folder = find_folder(path, store=store)
    if folder is None:
        return None
    with closing(folder.store()) as database:
        stored = database.plan()
    return None if stored is None else Plan.from_table(stored[0])


def difference(stored: Plan, asked: Plan) -> str | None:
    """The first thing that two plans do not agree on, in words; None if they are the same comparison."""
    differences = differing(_comparable(stored), _comparable(asked))
    return f"{differences[0].name} is {differences[0].before} there and {differences[0].now} here" if differences else None


def unseal_folder(path: Path) -> None:
    """Before anything in the folder changes."""
    (path / DIGESTS).unlink(missing_ok=True)


def seal_folder(path: Path) -> None:
    """Writes down the digests of all that a finished comparison has left, its database among them."""
    if (path / DATABASE).is_file():
        with closing(sqlite3.connect(path / DATABASE)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # or else the file changes when whoever has it open lets go
    write_whole(path / DIGESTS, sealed_json({"files": digests_below(path, but=(*GROWS, DIGESTS))}))


def _begin(path: Path, plan: Plan, *, store: str | None, command: str) -> tuple[ComparisonFolder, dict[str, Any]]:
    if any(entry.name not in LEFT_BY_A_KILL and not is_unfinished(entry) for entry in path.iterdir()):
        raise ValueError(f"{path} holds other things than a comparison: give --out a new or empty folder")
    url = sqlite_url(path / DATABASE) if store is None else Address(store)
    use_write_ahead_log(url)
    folder = ComparisonFolder(path, url, secrets.token_hex(8))
    about = {
        "command": command,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
    }
    with closing(folder.store()) as database:
        database.create(plan.as_table(), about)
    mark = {"id": folder.comparison, "store": DATABASE if store is None else str(url)}
    write_whole(path / MARK, sealed_json(mark, indent=None))
    return folder, about


def _comparable(plan: Plan) -> dict[str, Any]:
    table: dict[str, Any] = as_table(plan)  # all of it, so that a message has both values
    for name in ("sets", "notes", "extensions"):  # the first two follow from what is compared, as do the baselines
        del table[name]
    table["data"] = {
        source["name"]: {"content": source["split"]["fingerprint"], "test": source["split"]["test_digest"]} for source in table["data"]
    }
    table["methods"] = {method["name"]: method for method in table["methods"] if method["name"] not in BASELINES}
    return table
