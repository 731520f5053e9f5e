"""Sealing: what was written is what is read. Digests at the end of files and inside JSON, and what is told where one does not fit.

A reader that finds damage raises `Damaged` with a sentence that says how to mend it; where the content can be made again, it makes it
and says so (`Mended`), as a cache that is damaged costs time and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from likewise.files import file_digest, is_unfinished

DIGEST_SIZE = 32  # bytes, of SHA-256
_NO_SEAL = b"0" * 64
_BEFORE_SEAL, _AFTER_SEAL = b'"seal": "', (b'"}\n', b'"\n}\n')


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


def sealed_json(content: Mapping[str, Any], *, indent: int | None = 2, allow_nan: bool = False) -> bytes:
    """JSON that ends with a digest of all its bytes and a line's end: the seal's own digits count as zeros."""
    text = json.dumps({**content, "seal": _NO_SEAL.decode()}, indent=indent, allow_nan=allow_nan).encode() + b"\n"
    place = text.rindex(_NO_SEAL)
    return text[:place] + hashlib.sha256(text).hexdigest().encode() + text[place + len(_NO_SEAL) :]


def unsealed_json(stored: bytes, path: Path | str, *, mend: str) -> dict[str, Any]:
    """The content without its seal, which what earlier versions wrote does not have (`has_seal`).

    path, mend: for the message of `Damaged`, where it is no JSON or differs from its seal.
    """
    check_seal(stored, path, mend=mend)
    try:
        content = json.loads(stored)
    except (ValueError, RecursionError) as fault:
        raise Damaged(f"{path} is damaged ({fault}): {mend}") from fault
    if not isinstance(content, dict):
        raise Damaged(f"{path} is damaged (it holds no table): {mend}")
    content.pop("seal", None)
    return content


def check_seal(stored: bytes, path: Path | str, *, mend: str) -> None:
    """`Damaged` where it has a seal and differs from it."""
    place = _place_of_seal(stored)
    if place is not None:
        end = place + len(_NO_SEAL)
        if hashlib.sha256(stored[:place] + _NO_SEAL + stored[end:]).hexdigest().encode() != stored[place:end]:
            raise Damaged(f"{path} is damaged, as it differs from its own digest: {mend}")


def has_seal(stored: bytes) -> bool:
    return _place_of_seal(stored) is not None


def _place_of_seal(stored: bytes) -> int | None:
    """Where the digits of the seal begin. What stands around them may differ in a byte: a damaged seal is one, too."""
    for ending in _AFTER_SEAL:
        place = len(stored) - len(ending) - len(_NO_SEAL)
        around = stored[max(0, place - len(_BEFORE_SEAL)) : max(0, place)] + stored[len(stored) - len(ending) :]
        if len(around) == len(_BEFORE_SEAL + ending) and sum(a != b for a, b in zip(around, _BEFORE_SEAL + ending, strict=True)) <= 1:
            return place
    return None


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
