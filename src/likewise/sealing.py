"""Sealing: what was written is what is read. Digests at the end of files and inside JSON, and what is told where one does not fit.

A reader that finds damage raises `Damaged` with a sentence that says how to mend it; where the content can be made again, it makes it
and says so (`Mended`), as a cache that is damaged costs time and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from likewise.files import file_digest, is_unfinished

DIGEST_SIZE = 32  # bytes, of SHA-256
_NO_SEAL = "0" * 64
_SEAL = re.compile(rb'"seal": "([0-9a-f]{64})"\s*\}\n\Z')


class Damaged(ValueError):
    """Something that is not as it was written; the message says what, and how to mend it."""


class Mended(UserWarning):
    """Something kept was damaged, and was made again."""


def tell_mended(what: str) -> None:
    """Tells the user in a sentence; every time, as another file may be damaged each time."""
    warnings.warn(what, Mended, stacklevel=3)


def with_digest(content: bytes) -> bytes:
    """Content that ends with its own digest."""
    return content + hashlib.sha256(content).digest()


def without_digest(stored: bytes) -> bytes | None:
    """What `with_digest` was given; None where it is not that any more."""
    content = stored[:-DIGEST_SIZE]
    is_right = len(stored) >= DIGEST_SIZE and hashlib.sha256(content).digest() == stored[-DIGEST_SIZE:]
    return content if is_right else None


def sealed_json(content: dict[str, Any], *, indent: int | None = 2) -> bytes:
    """JSON that ends with a digest of all its bytes: the seal's own digits count as zeros."""
    text = json.dumps({**content, "seal": _NO_SEAL}, indent=indent, allow_nan=False).encode() + b"\n"
    place = text.rindex(_NO_SEAL.encode())
    return text[:place] + hashlib.sha256(text).hexdigest().encode() + text[place + len(_NO_SEAL) :]


def unsealed_json(stored: bytes, path: Path, *, mend: str) -> tuple[dict[str, Any], bool]:
    """The content without its seal, and whether it had one: what earlier versions wrote has none.

    path, mend: for the message of `Damaged`, where it is no JSON or differs from its seal.
    """
    found = _SEAL.search(stored)
    if found is not None:
        start, end = found.span(1)
        if hashlib.sha256(stored[:start] + _NO_SEAL.encode() + stored[end:]).hexdigest().encode() != found[1]:
            raise Damaged(f"{path} is damaged: it differs from its own digest; {mend}")
    try:
        content = json.loads(stored)
    except ValueError as fault:
        raise Damaged(f"{path} is damaged ({fault}): {mend}") from fault
    if not isinstance(content, dict):
        raise Damaged(f"{path} is damaged (it holds no table): {mend}")
    content.pop("seal", None)
    return content, found is not None


def digests_below(folder: Path, *, but: Iterable[str] = ()) -> dict[str, str]:
    """SHA-256 of every file in the folder, by its name from there; without locks, what a killed process left, and those in `but`.

    but: names of files, or of folders with all that is in them.
    """
    left_out = tuple(but)
    digests = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        is_left_out = any(name == other or name.startswith(f"{other}/") for other in left_out)
        if path.is_file() and not path.is_symlink() and not is_left_out and not path.name.endswith("lock") and not is_unfinished(path):
            digests[name] = file_digest(path)
    return digests
