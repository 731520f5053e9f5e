"""What is allowed for bad input: a result or one sentence, within a time and an amount of memory."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

SECONDS = 20.0  # a hang, not a slow machine
BYTES = 2 * 2**30  # beyond what the process has when it begins
LONGEST = 1000  # letters of a sentence


class TooLong(BaseException):
    """Not an Exception: nobody on the way may take it for one of the faults he expects."""


@contextmanager
def limits_of_the_system(seconds: float = SECONDS, num_bytes: int = BYTES) -> Iterator[None]:
    """Ends in TooLong, or with a MemoryError, what takes more than that."""

    def ring(_: int, __: FrameType | None) -> None:
        raise TooLong(f"not done in {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with _memory(num_bytes):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _memory(num_bytes: int) -> Iterator[None]:
    if sys.platform != "linux":
        yield
        return
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def told(attempt: Callable[[], object], *named: str) -> str | None:
    """The sentence that the attempt ends in, which has to hold one of the names; None where it gives a result.

    Anything but a ValueError, a sentence of several lines or one without the name fails the test.
    """
    raised: ValueError | None = None
    with limits_of_the_system():
        try:
            attempt()
        except ValueError as fault:
            raised = fault
    if raised is None:
        return None
    sentence = str(raised)
    assert type(raised).__module__ != "builtins" or type(raised) is ValueError, f"not worded: {raised!r}"  # a UnicodeDecodeError, say
    assert_sentence(sentence)
    assert not named or any(name in sentence for name in named), f"names none of {named}: {sentence}"
    return sentence


def assert_sentence(text: str) -> None:
    assert text.strip(), "nothing is said"
    assert "\n" not in text.strip(), f"several lines: {text}"
    assert len(text) <= LONGEST, f"{len(text)} letters: {text[:300]}"
    assert "Traceback" not in text
