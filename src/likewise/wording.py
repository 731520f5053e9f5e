"""Wording: numbers, durations, sizes, lists and names as a sentence has them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

NONE = "\N{EN DASH}"  # where there is no value
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth")


def count_of(number: int, one: str, many: str) -> str:
    """ "1 seed", "3 seeds"."""
    return f"{number:,} {one if number == 1 else many}"


def listed(names: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def quoted(value: object, *, most: int = 80) -> str:
    """The value as Python writes it, as long as a sentence can bear: what data hold may be any length."""
    written = " ".join(repr(value).split())
    return written if len(written) <= most else f"{written[:most]}..."


def some_of(names: Iterable[str], *, most: int = 12) -> str:
    """ "a, b, c" of a few names; of many, the first, and how many there are."""
    names = list(names)
    shown = ", ".join(printable(name) if len(name) <= 60 else f"{printable(name[:60])}..." for name in names[:most])
    return f"{shown}, ... ({len(names):,} in all)" if len(names) > most else shown or "nothing"


def shortened(text: str, *, most: int = 80) -> str:
    """As long as a sentence can bear."""
    return text if len(text) <= most else f"{text[:most]}..."


def ordinal(number: int) -> str:
    """ "first", "twelfth", "13th", "22nd"."""
    if 1 <= number <= len(_ORDINALS):
        return _ORDINALS[number - 1]
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def percent(value: float, *, digits: int = 2) -> str:
    return NONE if math.isnan(value) else f"{100 * value:.{digits}f}"


def seconds_in_words(seconds: float) -> str:
    if math.isnan(seconds):
        return NONE
    if seconds < 100:
        return f"{seconds:.1f} s"
    if seconds < 6000:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def bytes_in_words(count: int) -> str:
    if not count:
        return NONE
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def printable(text: str) -> str:
    """The text without what no file of ours can hold: undecodable bytes of file names and control characters show as a mark."""
    return "".join(letter if letter.isprintable() or letter == " " else "\N{REPLACEMENT CHARACTER}" for letter in text)


def printable_lines(text: str) -> str:
    """The same of a text of several lines."""
    return text if text.isprintable() else "".join(letter if letter in "\n\t" else printable(letter) for letter in text)
