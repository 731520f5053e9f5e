"""Worker: takes pieces that are due from the store, one after the other, until none is left.

`python -m likewise.comparison.worker` is what a comparison starts for each of its jobs. It gets its context on its standard input, which
then stays open for as long as the comparison lives: when it closes, the worker ends at once.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from likewise.comparison.faults import StoreFault
from likewise.comparison.plan import Progress
from likewise.comparison.processes import Owner
from likewise.comparison.store import BEAT, Store
from likewise.comparison.workshop import Context, Workshop

IDLE = 0.1  # seconds between two looks for a piece that has become due
STOPPED = 3  # exit code of a worker that disk or database keep from working


@dataclass(frozen=True)
class Orders:
    """What a worker is told."""

    context: Context
    url: str
    comparison: str


def work(orders: Orders, *, stopped: Callable[[], bool] = lambda: False, on_piece: Callable[[], object] = lambda: None) -> None:
    """Takes pieces until the comparison is complete or `stopped`. `on_piece` is called after each, and while there is none."""
    store, owner, workshop = Store(orders.url, orders.comparison), Owner.here(), Workshop(orders.context)
    try:
        with signs_of_life(orders, owner):
            asking = 0.0  # seconds, for this piece
            while not stopped():
                began = time.perf_counter()
                rows = store.rows()
                progress = Progress(orders.context.plan, rows)
                piece = store.claim(progress.due(), owner, rows)
                asking += time.perf_counter() - began
                if piece is not None:
                    found = workshop.perform(piece, progress)
                    began = time.perf_counter()
                    found.result["time"]["database"] = asking
                    store.finish(piece, found)
                    asking = time.perf_counter() - began
                elif progress.is_complete:
                    return
                else:
                    time.sleep(IDLE)
                on_piece()
    finally:
        store.release(owner.name)
        store.close()


@contextmanager
def signs_of_life(orders: Orders, owner: Owner) -> Iterator[None]:
    """While this lasts, the owner's claims stay its own."""
    over = threading.Event()
    store = Store(orders.url, orders.comparison)

    def beat() -> None:
        while not over.wait(BEAT):
            with suppress(StoreFault):  # the work itself meets it too, and stops
                store.beat(owner)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        store.close()


def _end_with_parent() -> None:
    """Waits for the end of the standard input, which only the comparison's own end brings about."""
    sys.stdin.buffer.read()
    os._exit(1)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the comparison hears it and decides
    orders = pickle.load(sys.stdin.buffer)  # from the process that started this one, through its own pipe
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        work(orders)
    except (OSError, ValueError) as fault:  # of the place: pieces keep a method's faults to themselves
        print(" ".join(str(fault).split()), file=sys.stderr)
        sys.exit(STOPPED)


if __name__ == "__main__":
    main()
