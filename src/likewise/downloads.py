"""Downloads: a file from an address, whole and with the right digest, or not at all.

What came so far lies beside its place as NAME.part: where a connection breaks off, or the process is killed, the next attempt goes on from
there, if the server can. One process at a time fetches a file; others wait and then find it. Proxies are those of the environment
(HTTPS_PROXY, NO_PROXY), as in all of urllib.
"""

from __future__ import annotations

import errno
import http.client
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, build_opener

from likewise.addresses import without_secrets
from likewise.environment import installed_version
from likewise.files import file_digest, flush_folder, give_usual_permissions, locked_telling, never_through_a_link
from likewise.progress import ProgressCallback
from likewise.wording import bytes_in_words

CHUNK = 2**18
UNIT = 1000  # bytes that count as one item of progress: kB
PATIENCE = 30.0  # seconds without a byte after which a connection counts as broken
PAUSES = (1.0, 3.0)  # seconds before each further attempt that follows one without a single byte
OVERLOADED = (429, 500, 502, 503, 504)  # answers that may be others in a moment
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _BrokenOff(Exception):
    """The connection ended before the file did; another attempt may go on."""


@dataclass(frozen=True)
class Download:
    """A file to be fetched from `address` to `target`, known by its SHA-256."""

    name: str  # what the user calls it
    address: str
    target: Path
    sha256: str

    @property
    def part(self) -> Path:
        return self.target.with_name(f"{self.target.name}.part")

    @property
    def by_hand(self) -> str:
        return f"it can also be fetched elsewhere, from {without_secrets(self.address)}, and put at {self.target}"


def download(wanted: Download, *, on_progress: ProgressCallback | None = None) -> None:
    """Fetches the file unless it is there already. ValueError and OSError say in words what went wrong and what to do."""
    try:
        wanted.target.parent.mkdir(parents=True, exist_ok=True)
        waiting = f"waiting for another process that fetches {wanted.name}"
        with locked_telling(wanted.target.with_name(f"{wanted.target.name}.lock"), waiting, on_progress):
            if wanted.part.is_symlink():  # none of ours: what it leads to is not to be written to
                wanted.part.unlink()
            if not (wanted.target.is_file() and file_digest(wanted.target) == wanted.sha256):
                _fetch_part(wanted, on_progress)
                give_usual_permissions(wanted.part)
                os.replace(wanted.part, wanted.target)
                flush_folder(wanted.target.parent)
    except OSError as fault:
        came = bytes_in_words(wanted.part.stat().st_size) if wanted.part.is_file() else "nothing"
        hint = f"{wanted.name} cannot be kept here, {came} of it came so far: "
        if fault.errno in FULL:
            hint += "free some space and give the same command, which goes on, or "
        hint += "set LIKEWISE_CACHE to another folder"
        raise OSError(fault.errno, f"{fault.strerror}: {hint}", str(wanted.target.parent)) from fault


def _fetch_part(wanted: Download, on_progress: ProgressCallback | None) -> None:
    """The whole file as NAME.part, with the right digest."""
    was_resumed = wanted.part.is_file() and wanted.part.stat().st_size > 0
    _fetch_bytes(wanted, on_progress)
    digest = file_digest(wanted.part)
    if digest != wanted.sha256 and was_resumed:  # what lay there may have been of another file, or of a killed machine
        wanted.part.unlink()
        _fetch_bytes(wanted, on_progress)
        digest = file_digest(wanted.part)
    if digest != wanted.sha256:
        size = bytes_in_words(wanted.part.stat().st_size)
        wanted.part.unlink()
        raise ValueError(
            f"what {_host(wanted.address)} sent is not {wanted.name} ({size}, sha256 {digest[:16]}... instead of "
            f"{wanted.sha256[:16]}...): nothing was kept. A proxy or a login page may have answered in its place; {wanted.by_hand}"
        )


def _fetch_bytes(wanted: Download, on_progress: ProgressCallback | None) -> None:
    """Attempts, each from where the last one ended, until the server says that this was all."""
    pauses = list(PAUSES)
    while True:
        before = wanted.part.stat().st_size if wanted.part.is_file() else 0
        try:
            return _attempt(wanted, before, on_progress)
        except _BrokenOff as fault:
            came = wanted.part.stat().st_size if wanted.part.is_file() else 0
            if came > before:
                continue  # slow, but it gets on
            if not pauses:
                kept = f" {bytes_in_words(came)} are kept, and the same command goes on from there;" if came else ""
                raise ValueError(f"{wanted.name} cannot be fetched: {fault};{kept} {wanted.by_hand}") from fault
            time.sleep(pauses.pop(0))


def _attempt(wanted: Download, start: int, on_progress: ProgressCallback | None) -> None:
    """One request for what follows `start`. Returns where the server has sent all of it."""
    headers = {"User-Agent": f"likewise/{installed_version('likewise')}", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    host = _host(wanted.address)
    try:
        response = build_opener().open(Request(wanted.address, headers=headers), timeout=PATIENCE)  # with the proxies of this moment
    except HTTPError as fault:
        fault.close()
        if fault.code == 416 and start:  # nothing follows what is there: it is whole, or it is of another file
            return
        if fault.code in OVERLOADED:
            raise _BrokenOff(f"{host} answers {fault.code} ({fault.reason})") from fault
        what = "the proxy wants a name and a password" if fault.code == 407 else "the file is not to be had there"
        raise ValueError(
            f"{wanted.name} cannot be fetched: {without_secrets(wanted.address)} answers {fault.code} ({fault.reason}): {what}"
        ) from fault
    except (OSError, http.client.HTTPException) as fault:
        reason = fault.reason if isinstance(fault, URLError) else fault
        if isinstance(fault, http.client.InvalidURL):  # it quotes what it could not take apart, a piece of a password perhaps
            raise _BrokenOff(f"{host} cannot be reached: its address, or that of the proxy, cannot be taken apart") from None
        hint = "there is no connection to the internet, or one that needs a proxy, which HTTPS_PROXY names"
        raise _BrokenOff(f"{host} cannot be reached ({without_secrets(str(reason))}); perhaps {hint}") from fault
    with response:
        _receive(wanted, response, start, on_progress)


def _host(address: str) -> str:
    """Without a name and a password before it."""
    return urlsplit(address).netloc.rpartition("@")[2]


def _receive(wanted: Download, response: Any, start: int, on_progress: ProgressCallback | None) -> None:
    """Writes what the server sends after what is there; over it, if the server starts anew."""
    goes_on = response.status == 206 and str(response.headers.get("Content-Range", "")).startswith(f"bytes {start}-")
    done = start if goes_on else 0
    length = str(response.headers.get("Content-Length", ""))
    total = done + int(length) if length.isdigit() else 0
    if total - done > shutil.disk_usage(wanted.target.parent).free:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    what = f"fetching {wanted.name}, kB"
    with open(wanted.part, "ab" if goes_on else "wb", opener=never_through_a_link) as file:
        while chunk := _read(response):
            file.write(chunk)
            done += len(chunk)
            if on_progress is not None and done != total:
                on_progress(what, done // UNIT, -(-total // UNIT))
        file.flush()
        os.fsync(file.fileno())
    if done < total:
        raise _BrokenOff(f"the connection broke off after {bytes_in_words(done)} of {bytes_in_words(total)}")
    if on_progress is not None:
        on_progress(what, -(-done // UNIT), -(-done // UNIT))


def _read(response: Any) -> bytes:
    try:
        chunk: bytes = response.read1(CHUNK)
    except (OSError, http.client.HTTPException) as fault:
        raise _BrokenOff(f"the connection broke off ({without_secrets(str(fault)) or type(fault).__name__})") from fault
    return chunk
