"""Home: the folder that a comparison lives in, and its place in a database."""

from __future__ import annotations

import json
import secrets
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from likewise.comparison.equal import versions
from likewise.comparison.plan import Plan
from likewise.comparison.request import difference
from likewise.comparison.store import Store, masked, sqlite_url, use_write_ahead_log

MARK = "comparison.json"  # names the comparison in its folder
DATABASE = "comparison.sqlite"
REPORT = "report.html"
LOCK = ".lock"
BEGUN = (LOCK, DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", f"{MARK}.part")  # what a kill at the very start leaves


@dataclass(frozen=True)
class Home:
    """Where a comparison lives: its folder, the address of its database, and its name there."""

    folder: Path
    url: str
    comparison: str

    def store(self) -> Store:
        return Store(self.url, self.comparison)

    def alone(self) -> FileLock:
        """One process at a time, for what a database does not order by itself: making tables and studies."""
        return FileLock(self.folder / LOCK)


def open_home(folder: Path, plan: Plan, *, store: str | None, command: str) -> tuple[Home, Plan, dict[str, Any]]:
    """The comparison in this folder, made if there is none: where it lives, its plan as stored, command and time of its start.

    Another comparison in the folder is refused. The lock is for two processes that start at once.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / LOCK):
        home = home_of(folder, store=store)
        if home is None:
            if any(path.name not in BEGUN for path in folder.iterdir()):
                raise ValueError(f"{folder} holds other things than a comparison: give --out a new or empty folder")
            url = sqlite_url(folder / DATABASE) if store is None else store
            use_write_ahead_log(url)
            home = Home(folder, url, secrets.token_hex(8))
            about = {"command": command, "created": datetime.now(UTC).isoformat(timespec="seconds"), "versions": versions()}
            with closing(home.store()) as held:
                held.create(plan.as_table(), about)
            _write_mark(home, in_folder=store is None)
            return home, plan, about
    with closing(home.store()) as held:
        found = held.plan()
    if found is None:
        raise ValueError(f"the database of the comparison in {folder} does not know it: was it emptied? give --out a new folder")
    stored = Plan.of(found[0])
    unlike = difference(stored, plan)
    if unlike is not None:
        raise ValueError(f"{folder} holds another comparison: {unlike}; give the same values to go on with it, or --out another folder")
    return home, stored, found[1]


def home_of(folder: Path, *, store: str | None = None) -> Home | None:
    """Where the comparison of this folder lives; None if it holds none. A server's address is given again, as it may hold a password."""
    try:
        mark = json.loads((folder / MARK).read_text())
    except FileNotFoundError:
        return None
    if mark["store"] == DATABASE:
        if store is not None:
            raise ValueError(f"the comparison in {folder} keeps its results in {DATABASE} there: leave --store out")
        return Home(folder, sqlite_url(folder / DATABASE), mark["id"])
    if store is None:
        raise ValueError(f"the comparison in {folder} keeps its results in {mark['store']}: give that address with --store")
    return Home(folder, store, mark["id"])


def _write_mark(home: Home, *, in_folder: bool) -> None:
    where = DATABASE if in_folder else masked(home.url)
    part = home.folder / f"{MARK}.part"
    part.write_text(json.dumps({"id": home.comparison, "store": where}) + "\n")
    part.replace(home.folder / MARK)
