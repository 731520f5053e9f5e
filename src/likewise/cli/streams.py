"""Standard streams: what a command says is shown as far as it can be, and work does not end because it cannot.

A character that the terminal does not know is shown as "?". What is said of work on stderr is lost where stderr is full or gone. What is
asked for on stdout is an `OutputFault` there, which ends the command; but one whose product is on the disk goes on: see `work_first`.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

READER_LEFT = 141  # the exit code of a shell's commands whose reader has gone, as in `likewise methods | head -1`


class OutputFault(Exception):
    """What was to be written to stdout cannot be. No OSError: it is none of a file that somebody named."""

    def __init__(self, number: int) -> None:
        super().__init__(f"the standard output cannot be written to ({os.strerror(number)})")
        self.errno = number

    @property
    def is_reader_gone(self) -> bool:
        return self.errno == errno.EPIPE


class _StandardStream(io.FileIO):
    """A stream that is written to no more once that has failed."""

    def __init__(self, number: int, *, is_needed: bool) -> None:
        super().__init__(number, "w", closefd=False)
        self.is_needed = is_needed
        self.fault: OutputFault | None = None

    def write(self, data: object) -> int | None:  # type: ignore[override]  # any buffer
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError as fault:
            self.fault = OutputFault(fault.errno or errno.EIO)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())  # what is still in a buffer goes there too, when Python ends
        os.close(nowhere)
        if self.is_needed:
            raise self.fault
        return len(memoryview(data).cast("B"))  # type: ignore[arg-type]


def open_streams() -> None:
    """Puts streams that keep to this in the place of Python's."""
    for number in (0, 1, 2):  # one that is closed would be given to the next file that is opened, and be written into
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = _stream(sys.stdout, 1, is_needed=True)
    sys.stderr = _stream(sys.stderr, 2, is_needed=False)


def _stream(before: TextIO | None, number: int, *, is_needed: bool) -> TextIO:
    if os.name == "nt" and before is not None and before.isatty():  # a console takes text, not bytes
        assert isinstance(before, io.TextIOWrapper)
        before.reconfigure(errors="replace")
        return before
    raw = _StandardStream(number, is_needed=is_needed)
    encoding = "utf-8" if before is None else before.encoding
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding, errors="replace", line_buffering=number == 2 or raw.isatty())


@contextmanager
def work_first(*, unless: bool = False) -> Iterator[None]:
    """A command whose product is on the disk: it goes on, and ends well, where it cannot say so.

    unless: what it says on stdout is what was asked for, as with --json.
    """
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if unless or not isinstance(raw, _StandardStream):  # sys.stdout may be a test's
        yield
        return
    raw.is_needed = False
    try:
        yield
    finally:
        sys.stdout.flush()
        if raw.fault is not None and not raw.fault.is_reader_gone:
            print(f"note: {raw.fault}, so that not all is told; the work is not touched by that", file=sys.stderr)


def flush_output() -> None:
    """OutputFault where what was said cannot be written."""
    with suppress(ValueError):  # closed
        sys.stdout.flush()
