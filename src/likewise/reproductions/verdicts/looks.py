"""Looks: how often a claim was judged in a folder as its figures grew, so that who adds seeds until it suits is not told that it is sure.

What another item adds to the same comparison is no look at this claim: it is judged by its own rows alone, which stay as they are. A look
is a judgement on other figures of the same rows, with more seeds. One seed judges nothing, so that it is none either.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from likewise.files import write_whole

FILE = "judgements.json"
FEWEST_SEEDS = 2  # with which anything is judged


class Looks:
    """Which figures each claim was judged by, in the order that they came, in a file of the folder."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._seen: dict[str, list[str]] = json.loads(self._file.read_text(encoding="utf-8")) if self._file.is_file() else {}

    def number(self, claim: Any, figures: Any) -> int:
        """The how many-th look this is; the same figures again are the same look. Both are told by what JSON makes of them."""
        judged = self._seen.setdefault(_digest(claim), [])
        state = _digest(figures)
        if state not in judged:
            judged.append(state)
        return judged.index(state) + 1

    def save(self) -> None:
        if self._seen:
            write_whole(self._file, (json.dumps(self._seen, indent=1) + "\n").encode())


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
