"""Ctrl-C: heard wherever it falls, and answered with exit code 130.

Python raises KeyboardInterrupt in the main thread, wherever that stands. In a finaliser it is printed and forgotten; while a compiled
module is imported it becomes an ImportError, which others take for "not installed"; while the interpreter ends it kills, and threads
that are still in C++ then abort. So a wish to stop is remembered and pressed again where it was lost, and a command that was stopped ends
without unloading anything.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from types import FrameType, TracebackType

STOPPED = 130  # the exit code of a shell's commands after Ctrl-C
AT_ONCE = 0.05  # seconds
PATIENCE = 5.0  # seconds: leaving takes one or two, where images under way are finished first


class CpuTimeIsUp(KeyboardInterrupt):
    """The processor time that the system grants this process is used up. It ends what is under way as Ctrl-C does."""


def hear_cpu_limit() -> None:
    """From here on the soft limit of processor time (ulimit -t) raises CpuTimeIsUp, once, instead of killing; the hard one kills."""
    if hasattr(signal, "SIGXCPU"):
        signal.signal(signal.SIGXCPU, _cpu_time_is_up)


def _cpu_time_is_up(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # it comes again every second, into what is being put in order
    raise CpuTimeIsUp("the processor time that this process may take (ulimit -t) is used up")


class CtrlC:
    """While this lasts, Ctrl-C ends what is under way. After it, the process ends at once where it was pressed, else it is not heard."""

    def __init__(self, *, patience: float = PATIENCE) -> None:
        self.pressed = False
        self._patience = patience
        self._show_lost = sys.unraisablehook

    def __enter__(self) -> CtrlC:
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as a shell leaves it to what it starts in the background
            signal.signal(signal.SIGINT, self)
            signal.signal(signal.SIGALRM, self)
            sys.unraisablehook = self._lost
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if self.pressed:
            with suppress(Exception):  # nobody listens any more
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(STOPPED)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """The handler. A timer presses again, as a thread could not be started from here: what it needs may be locked."""
        self.pressed = True
        signal.setitimer(signal.ITIMER_REAL, self._patience, self._patience)
        raise KeyboardInterrupt

    def _lost(self, lost: sys.UnraisableHookArgs) -> None:
        if lost.exc_type is KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, AT_ONCE, self._patience)
        else:
            self._show_lost(lost)


def was_pressed() -> bool:
    """Whether Ctrl-C was pressed in this process, under a CtrlC: whatever went wrong since, went wrong because of it."""
    handler = signal.getsignal(signal.SIGINT)
    return isinstance(handler, CtrlC) and handler.pressed
