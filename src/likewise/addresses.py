"""Addresses and other text that may hold a password, a token or a signature: shown without them, wherever they are shown.

Whatever is stored, printed, logged or raised goes through `without_secrets`: command lines, addresses, what drivers and servers say.
An `Address` does so by itself, and connects whole.
"""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HIDDEN = "***"

# What a secret is called: as a setting of an address, of a driver's message, of a header, of a command.
_NAMES = (
    r"[\w.-]*(?:password|passwd|passphrase|pwd|secret|signature|credentials?|api[_-]?key|access[_-]?key(?:[_-]?id)?|"
    r"(?:auth|security|session|access|refresh|id)?[_-]?token)\b|sig|authorization"
)
_VALUE = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\s&]*[^\s&'\",;)}\]]"
_SECRETS = re.compile(
    r"(?P<user>(?<=://)[^:/@\s]*:)[^@]*(?:@[^@\s]*)*(?=@)"  # user:SECRET@ of an address
    r"|(?P<web>(?<=https://)|(?<=http://))[^:/@\s]+(?=@)"  # SECRET@, where names of users are no part of addresses
    rf"|(?P<bearer>\bbearer\s+)[\w.~+/=-]+"  # a header
    rf"|(?P<option>(?<!\S)--(?:{_NAMES})\s+)(?:{_VALUE})"  # a word of a command
    rf"|(?P<name>(?<![\w.-])(?:{_NAMES})[\"']?\s*(?:=|(?<=[\"'])\s*:)\s*)(?:{_VALUE})",  # name=SECRET, "name": SECRET
    re.IGNORECASE,
)


def without_secrets(text: str) -> str:
    """An address, a command or a message with *** for every password, token and signature in it."""
    return _SECRETS.sub(lambda match: f"{match[match.lastgroup or 0]}{HIDDEN}", text)


@dataclass(frozen=True, repr=False)
class Address:
    """An address that may hold a secret. It prints without; `whole` is what connects."""

    whole: str

    def __str__(self) -> str:
        return without_secrets(self.whole)

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"


def shown_words(words: Sequence[str]) -> list[str]:
    """The words of a command, each without its secrets: word by word, as a shell's quotes would hide where a password ends."""
    names_secret = re.compile(rf"--(?:{_NAMES})", re.IGNORECASE)
    before = ["", *words]
    return [HIDDEN if names_secret.fullmatch(option) else without_secrets(word) for option, word in zip(before, words, strict=False)]


def command_line() -> str:
    """The command line of this process as it can be typed again, but for secrets."""
    program = Path(sys.argv[0]).name
    return shlex.join(["likewise" if program in ("likewise", "__main__.py") else program, *shown_words(sys.argv[1:])])


def hide_in_process_list(words: Sequence[str]) -> None:
    """Puts *** over the secrets of this process's command line, which every user of the machine can read. Only Linux lets a process."""
    if not sys.platform.startswith("linux"):
        return
    try:
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end, counted from the third field on
        listed = Path("/proc/self/cmdline").read_bytes()
    except (OSError, ValueError, IndexError):
        return
    if not 0 < start < end or len(listed) != end - start:
        return
    given = [os.fsencode(word) for word in words]
    entries = listed.split(b"\0")
    place = len(entries) - 1 - len(given)  # behind Python's own words; what ends the last one is no word
    if entries[place:-1] != given:
        return
    at = start + sum(len(entry) + 1 for entry in entries[:place])
    for word, shown in zip(given, shown_words(words), strict=True):
        told = os.fsencode(shown)
        if told != word:
            ctypes.memmove(at, told[: len(word)].ljust(len(word), b"*"), len(word))
        at += len(word) + 1
