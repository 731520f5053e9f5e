"""The ledger: every look at a test set, in one file of the user's, whichever command, folder or copy of the data it came from.

A look is one run or comparison with all that it had decided, however often it opens the test part: one that was killed and goes on is
the same look, one with more seeds or methods another. Test sets are told apart by the content of their items.

The file takes lines and loses none. Each line holds a digest of itself and one of the line before it, and the last line's is kept beside
the file, so that a line that was edited or taken out is noticed. Nothing refuses to work because of the ledger: what could not be
entered is said, and the look stays on record in the folder of its run.
"""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from likewise.chained_lines import ChainedLines
from likewise.files import locked
from likewise.wording import count_of, listed, ordinal, printable

What = Literal["compare", "train", "adapt", "evaluate", "python"]

FILE = "ledger.jsonl"
PATIENCE = 30.0  # seconds to wait for another process's entry
NAMED = 3  # looks before this one that are named, the latest first


@dataclass(frozen=True)
class Occasion:
    """What a test part is opened for. All openings on one occasion are one look."""

    what: What
    folder: str = ""  # of the run or comparison, absolute; empty where Python looks without one
    run: str = ""  # which of several in the folder; empty where the folder holds one
    decided: str = ""  # names everything decided before this look

    @property
    def key(self) -> tuple[str, str, str]:
        """Whoever scores the same decisions of the same run again sees nothing new, by whichever command."""
        return self.folder, self.run, self.decided


@dataclass(frozen=True)
class Look:
    """One line of the ledger."""

    number: int  # the how many-th look at this test set, from 1 on
    time: str  # UTC, ISO 8601
    what: What
    folder: str
    run: str
    data: str  # name of the data set
    test: str  # digest of the test items
    num_items: int
    decided: str
    purpose: str

    @property
    def occasion(self) -> Occasion:
        return Occasion(self.what, self.folder, self.run, self.decided)

    @property
    def in_words(self) -> str:
        """Where and when: "runs/x (2026-11-16)"."""
        return f"{self.place} ({self.time[:10]})"

    @property
    def place(self) -> str:
        """The folder as it is called from here, and what in it or in Python looked."""
        folder = printable(os.path.relpath(self.folder) if _is_below_here(self.folder) else self.folder)
        return ": ".join(filter(None, (folder, printable(self.run)))) or "Python"


@dataclass(frozen=True)
class CountedLook:
    """A look that was taken, and those at the same test set before it."""

    look: Look  # number 0: it is not known, as the notes say why
    before: tuple[Look, ...] = ()  # oldest first
    notes: tuple[str, ...] = ()  # why it is not in the ledger; what was done to the ledger
    is_entered: bool = True

    @property
    def number(self) -> int:
        return self.look.number

    @property
    def number_in_folder(self) -> int:
        """The how many-th look by what is in this folder, from 1 on: a comparison that went on with more seeds has looked before."""
        return 1 + sum(look.folder == self.look.folder for look in self.before)

    @property
    def in_words(self) -> str:
        """ "second look at these test classes, after runs/x (2026-11-16)"."""
        if not self.number:
            return "which look at these test classes this is cannot be told"
        words = f"{ordinal(self.number)} look at these test classes"
        if not self.before:
            return words
        named = [look.in_words for look in self.before[: -NAMED - 1 : -1]]
        others = len(self.before) - len(named)
        return f"{words}, after {listed([*named, *([count_of(others, 'other', 'others')] if others else [])])}"

    def as_json(self) -> dict[str, Any]:
        return {
            **asdict(self.look),
            "before": [asdict(look) for look in self.before],
            "notes": list(self.notes),
            "is_entered": self.is_entered,
        }

    @staticmethod
    def from_json(stored: dict[str, Any]) -> CountedLook:
        before = tuple(map(_look_of, stored["before"]))
        return CountedLook(_look_of(stored), before, tuple(stored["notes"]), stored["is_entered"])


@dataclass(frozen=True)
class Ledger:
    """What the file holds."""

    path: Path
    looks: tuple[Look, ...]  # oldest first
    damaged: tuple[str, ...]  # lines that a kill or a full disk cut short, in words; they are skipped
    changed: tuple[str, ...]  # what was edited or taken out, in words


def state_folder() -> Path:
    """$LIKEWISE_STATE, or likewise among what the system keeps of a user's programs."""
    given = os.environ.get("LIKEWISE_STATE")
    if given:
        return Path(given)
    if os.environ.get("XDG_STATE_HOME"):
        return Path(os.environ["XDG_STATE_HOME"]) / "likewise"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "likewise"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "likewise"
    return Path.home() / ".local" / "state" / "likewise"


def enter_look(occasion: Occasion, *, test: str, data: str, num_items: int, purpose: str) -> CountedLook:
    """Counts a look at the test set with this digest, and enters it if it is not in the ledger yet. Never fails: see the notes."""
    look = _look(occasion, test=test, data=data, num_items=num_items, purpose=purpose)
    try:
        path = state_folder() / FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.with_name(f".{FILE}.lock"), timeout=PATIENCE):
            counted = _counted(look)
            if not counted.is_entered:
                ChainedLines(path).append(asdict(counted.look))
            return replace(counted, is_entered=True)
    except (OSError, RuntimeError) as fault:  # RuntimeError: the user has no home
        note = _not_entered(occasion, fault, "Set LIKEWISE_STATE to a folder that can be written to: the same command then enters it")
    try:
        counted = _counted(look)
    except (OSError, RuntimeError):
        counted = CountedLook(look, is_entered=False)
    return counted if counted.is_entered else replace(counted, notes=(note, *counted.notes))


def uncounted_look(occasion: Occasion, fault: OSError, *, data: str, num_items: int, purpose: str) -> CountedLook:
    """A look at a test set whose items cannot be read any more, so that nobody can tell which it is."""
    look = _look(occasion, test="", data=data, num_items=num_items, purpose=purpose)
    return CountedLook(look, notes=(_not_entered(occasion, fault, "The data set was changed meanwhile"),), is_entered=False)


def looks_at(test: str) -> tuple[Look, ...]:
    """Every look at the test set with this digest, oldest first."""
    return tuple(look for look in read_ledger().looks if look.test == test)


def read_ledger() -> Ledger:
    """All of it. Empty where there is no file; OSError where there is one that cannot be read."""
    path = state_folder() / FILE
    chain = ChainedLines(path).read()
    looks: list[Look] = []
    damaged: list[str] = []
    for line in chain.lines:
        try:
            if line.entry is None or not line.is_chained:
                raise ValueError("no entry of a ledger")
            looks.append(_look_of(line.entry))
        except (ValueError, KeyError, TypeError):
            damaged.append(f"line {line.number} is damaged and was skipped: {printable(line.text[:60].decode(errors='replace'))}")
    return Ledger(path, tuple(looks), tuple(damaged), chain.changed)


def _look(occasion: Occasion, *, test: str, data: str, num_items: int, purpose: str) -> Look:
    """Not yet counted."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Look(0, now, occasion.what, occasion.folder, occasion.run, data, test, num_items, occasion.decided, purpose)


def _look_of(stored: dict[str, Any]) -> Look:
    look = Look(**{field.name: stored[field.name] for field in fields(Look)})
    if not (isinstance(look.number, int) and isinstance(look.num_items, int)):
        raise TypeError("number and num_items are whole numbers")
    return look


def _counted(look: Look) -> CountedLook:
    """The look of this occasion as the ledger has it, or else as it would be entered next."""
    ledger = read_ledger()
    looks = [entry for entry in ledger.looks if entry.test == look.test]
    number = next((i for i, entry in enumerate(looks) if entry.occasion.key == look.occasion.key), len(looks))
    is_entered = number < len(looks)
    found = looks[number] if is_entered else replace(look, number=number + 1)
    return CountedLook(found, tuple(looks[:number]), _notes(ledger), is_entered)


def _notes(ledger: Ledger) -> tuple[str, ...]:
    if not ledger.changed:
        return ()
    more = f" (and {len(ledger.changed) - 1} more)" if len(ledger.changed) > 1 else ""
    return (
        f"the ledger of looks at test classes was changed by other hands, so looks may be missing: {ledger.changed[0]}{more}; see "
        "`likewise ledger`",
    )


def _not_entered(occasion: Occasion, fault: Exception, hint: str) -> str:
    reason = f"{fault.filename or 'ledger'}: {fault.strerror or fault}" if isinstance(fault, OSError) else str(fault)
    kept = f"; it stays on record in {occasion.folder}" if occasion.folder else ""
    return f"this look at the test classes could not be entered in the ledger ({reason}){kept}. {hint}"


def _is_below_here(folder: str) -> bool:
    try:
        return bool(folder) and Path(folder).is_relative_to(Path.cwd())
    except OSError:  # the folder that this process stands in is gone
        return False
