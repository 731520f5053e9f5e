"""Workers: processes that take pieces from the store until none is left, and the runner that starts them on this machine.

`python -m likewise.comparison.running.workers` is what a comparison starts for each of its jobs. It gets its orders on its standard input,
which then stays open for as long as the comparison lives: when it closes, the worker ends at once.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from likewise.addresses import Address
from likewise.comparison.plan_progress import OnProgress, Progress
from likewise.comparison.running.database import DatabaseFault
from likewise.comparison.running.store import Owner, PieceResult, Store, this_host
from likewise.comparison.running.workshop import Context, Workshop

BETWEEN_PIECES = 0.1  # seconds between two looks for a piece that has become due
BETWEEN_CHECKS = 0.5  # seconds between two looks at the workers
BETWEEN_BEATS = 5.0  # seconds between two signs of life
STOPPED_BY_STORAGE = 3  # exit code of a worker that disk or database keep from working
CPU_LIMIT = int(getattr(signal, "SIGXCPU", 0))  # what ends a process whose time is used up; 0: the system has no such limit
MOST_DEATHS = 3  # of workers on one piece, after which the piece has failed


@dataclass(frozen=True)
class Orders:
    """What a worker is told."""

    context: Context
    url: Address
    comparison: str
    until: float | None = None  # time.monotonic(), after which no new piece is begun: a clock that is put right changes nothing

    @property
    def are_over(self) -> bool:
        return self.until is not None and time.monotonic() >= self.until


def work(orders: Orders, *, on_piece: Callable[[], object] = lambda: None) -> None:
    """Takes pieces until the comparison is complete or the time is over. `on_piece` is called after each, and while there is none."""
    store, owner, workshop = Store(orders.url, orders.comparison), Owner.here(), Workshop(orders.context)
    try:
        with signs_of_life(orders, owner):
            asking = 0.0  # seconds, for this piece
            while not orders.are_over:
                began = time.perf_counter()
                progress = store.progress()
                piece = store.claim(progress.due(), owner, progress.claims)
                asking += time.perf_counter() - began
                if piece is not None:
                    result = workshop.perform(piece, progress, network=store.network_digest(piece))
                    began = time.perf_counter()
                    result.facts["time"]["database"] = asking
                    store.finish(piece, result)
                    asking = time.perf_counter() - began
                elif progress.is_complete:
                    return
                else:
                    time.sleep(BETWEEN_PIECES)
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
        while not over.wait(BETWEEN_BEATS):
            with suppress(DatabaseFault):  # the work itself meets it too, and stops
                store.beat(owner)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        store.close()


class LocalRunner:
    """`jobs` pieces at once: in this process, or in worker processes that are started once and kept.

    Workers start (and import torch) before the data set is read, and wait for their orders.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the workers
        self._idle_deaths = 0
        self._workers = [] if jobs == 1 else [self._start() for _ in range(jobs)]

    def run(self, orders: Orders, on_progress: OnProgress) -> None:
        """Until every piece is done, or the time is over and those under way are."""
        store = Store(orders.url, orders.comparison)

        def look() -> Progress:
            progress = store.progress()
            on_progress(progress)
            return progress

        try:
            if self.jobs == 1:
                work(orders, on_piece=look)
            else:
                self._watch(orders, store, look)
            look()
        finally:
            store.close()

    def close(self) -> None:
        """Ends the workers; what they were at is abandoned and free for others."""
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.wait()
            _close_input(worker)
        self._workers = []
        self._log.close()

    def _watch(self, orders: Orders, store: Store, look: Callable[[], Progress]) -> None:
        pickled = pickle.dumps(orders)
        for worker in self._workers:
            _send(worker, pickled)
        deaths: dict[str, int] = {}
        while not look().is_complete and not (orders.are_over and all(worker.poll() is not None for worker in self._workers)):
            for number, worker in enumerate(self._workers):
                if worker.poll() is None or (worker.returncode == 0 and store.progress().is_complete):
                    continue
                if worker.returncode == STOPPED_BY_STORAGE:
                    raise OSError(self._last_log_line())
                if orders.are_over:  # whoever goes on finds what a dead worker was at
                    continue
                if worker.returncode == 0:  # all was done, and then another process added to it
                    _close_input(worker)
                else:
                    if worker.returncode == -CPU_LIMIT:
                        raise OSError("the processor time that a process may take (ulimit -t) is used up: raise it, or take fewer steps")
                    self._give_up_claims(worker, store, deaths)
                self._workers[number] = self._start()
                _send(self._workers[number], pickled)
            time.sleep(BETWEEN_CHECKS)

    def _give_up_claims(self, worker: subprocess.Popen[bytes], store: Store, deaths: dict[str, int]) -> None:
        """A dead worker's piece is free again; one that has killed several has failed."""
        under_way = [claim for claim in store.claims().values() if claim.finished is None]
        owners = {claim.owner: Owner.from_name(claim.owner) for claim in under_way}
        of_worker = [claim for claim in under_way if (owners[claim.owner].host, owners[claim.owner].pid) == (this_host(), worker.pid)]
        self._idle_deaths += not of_worker
        if self._idle_deaths >= MOST_DEATHS:
            raise ChildProcessError(f"workers cannot start (exit code {worker.returncode}): {self._last_log_line()}")
        for claim in of_worker:
            deaths[claim.piece.key] = deaths.get(claim.piece.key, 0) + 1
            if deaths[claim.piece.key] >= MOST_DEATHS:
                failure = f"its process died {MOST_DEATHS} times (exit code {worker.returncode}; out of memory?): {self._last_log_line()}"
                store.finish(claim.piece, PieceResult({"time": {}}, failure=failure))
            else:
                store.release(claim.owner)
        _close_input(worker)

    def _last_log_line(self) -> str:
        self._log.seek(0)
        logged = self._log.read().decode(errors="replace").strip()
        return logged.splitlines()[-1] if logged else "it said nothing"

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "likewise.comparison.running.workers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._log,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )


def _send(worker: subprocess.Popen[bytes], pickled: bytes) -> None:
    assert worker.stdin is not None
    try:
        worker.stdin.write(pickled)
        worker.stdin.flush()
    except BrokenPipeError:  # it died meanwhile: the watch will see that
        return


def _close_input(worker: subprocess.Popen[bytes]) -> None:
    if worker.stdin is not None:
        with suppress(BrokenPipeError):  # orders that a dead worker has not taken
            worker.stdin.close()


def _end_with_parent() -> None:
    """Waits for the end of the standard input, which only the comparison's own end brings about."""
    sys.stdin.buffer.read()
    os._exit(1)


def main() -> None:
    """A worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the comparison hears it and decides
    orders = pickle.load(sys.stdin.buffer)  # from the process that started this one, through its own pipe
    threading.Thread(target=_end_with_parent, daemon=True).start()
    code = 0
    try:
        work(orders)
    except (OSError, ValueError) as fault:  # of disk or database: pieces keep a method's faults to themselves
        print(" ".join(str(fault).split()), file=sys.stderr, flush=True)
        code = STOPPED_BY_STORAGE
    os._exit(code)  # without closing the standard input, which the thread holds: Python would abort over that, with another code


if __name__ == "__main__":
    main()
