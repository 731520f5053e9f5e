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
from likewise.formats.regular_file import in_brief

FILE = "judgements.json"
MEND = "put back a copy, or delete it and say in what is published that earlier looks are not counted"
FEWEST_SEEDS = 2  # with which anything is judged


class Looks:
    """Which figures each claim was judged by, in the order that they came, in a file of the folder."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._seen = _read(self._file) if self._file.is_file() else {}

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


def _read(path: Path) -> dict[str, list[str]]:
    try:
        seen: Any = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as fault:
        raise ValueError(f"{path} is damaged ({in_brief(fault)}): {MEND}") from fault
    lists = seen.values() if isinstance(seen, dict) else (None,)
    if not all(isinstance(judged, list) and all(isinstance(one, str) for one in judged) for judged in lists):
        raise ValueError(f"{path} is damaged (expected lists of digests): {MEND}")
    return dict(seen)


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
