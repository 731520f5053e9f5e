"""ChainedLines: a file of JSON lines that only grows, and tells what other hands did to it.

Each line holds a digest of itself (`seal`) and that of the line before it (`previous`), and the last line's is kept in a file beside:
so a line that was edited, taken out or cut off at the end is noticed, also where the whole file is gone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from likewise.files import append_line, write_whole


@dataclass(frozen=True)
class ChainedLine:
    number: int  # from 1 on
    text: bytes
    entry: dict[str, Any] | None  # None: it is no JSON, as a kill or a full disk cut it short, or other hands did

    @property
    def is_chained(self) -> bool:
        """False of lines that an earlier version wrote."""
        return self.entry is not None and "seal" in self.entry and "previous" in self.entry


@dataclass(frozen=True)
class Chain:
    """What the file holds."""

    lines: tuple[ChainedLine, ...]  # oldest first
    changed: tuple[str, ...]  # what was edited or taken out, in words


class ChainedLines:
    """Who appends holds a lock of the file."""

    def __init__(self, path: Path) -> None:
        self.path, self.last = path, path.with_name(f"{path.stem}.last.json")

    def append(self, entry: Mapping[str, Any]) -> None:
        """A line more; on the disk before this returns."""
        digests = [_digest(line) for line in self._lines()]
        last = self._last_digest()
        # Where the last line that was written is gone, the next one names it all the same: the gap stays to be seen.
        previous = last if last and last not in digests else digests[-1] if digests else ""
        chained = {**entry, "previous": previous}
        line = json.dumps({**chained, "seal": _seal(chained)}).encode()
        append_line(self.path, line)
        write_whole(self.last, _about_last(_digest(line)))

    def read(self) -> Chain:
        """Empty where there is no file; OSError where there is one that cannot be read."""
        last = self._last_digest()  # before the lines: one that is added meanwhile is then only more than was expected
        lines: list[ChainedLine] = []
        changed: list[str] = []
        previous, digests, is_chain = "", set(), False
        for number, text in enumerate(self._lines(), start=1):
            lines.append(line := ChainedLine(number, text, _table(text)))
            if line.is_chained and line.entry is not None:
                if line.entry["seal"] != _seal(line.entry):
                    changed.append(f"line {number} was edited after it was written")
                if line.entry["previous"] != previous:
                    where = f"between lines {number - 1} and {number}" if number > 1 else "before line 1"
                    changed.append(f"{where} a line was edited or taken out")
            elif is_chain and line.entry is not None:
                changed.append(f"line {number} was edited after it was written, or not written by likewise")
            is_chain = is_chain or line.is_chained
            previous = _digest(text)
            digests.add(previous)
        if last and last not in digests:
            changed.append("the last line that was written is not there any more" if digests else "all lines were taken out")
        return Chain(tuple(lines), tuple(changed))

    def fault_of_last(self) -> str:
        """What is wrong with the file beside, in words; empty if nothing is."""
        lines = self._lines()
        if not lines or not ChainedLine(1, lines[-1], _table(lines[-1])).is_chained or self._is_whole(_digest(lines[-1])):
            return ""
        return "damaged" if self.last.is_file() else "missing"

    def _is_whole(self, digest: str) -> bool:
        try:
            return self.last.read_bytes() == _about_last(digest)
        except FileNotFoundError:
            return False

    def _lines(self) -> list[bytes]:
        try:
            return [line for line in self.path.read_bytes().split(b"\n") if line.strip()]
        except FileNotFoundError:
            return []

    def _last_digest(self) -> str:
        try:
            return str(json.loads(self.last.read_text())["sha256"])
        except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
            return ""


def _about_last(digest: str) -> bytes:
    return (json.dumps({"sha256": digest}) + "\n").encode()


def _table(text: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def _seal(entry: Mapping[str, Any]) -> str:
    content = {name: value for name, value in entry.items() if name != "seal"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
