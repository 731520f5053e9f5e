"""Local runner: the pieces in this process, or in worker processes that are started once and kept."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from likewise.comparison.plan import Progress
from likewise.comparison.processes import Owner, this_host
from likewise.comparison.store import Found, Store
from likewise.comparison.worker import STOPPED, Orders, work

WATCH = 0.5  # seconds between two looks at the workers
DEATHS = 3  # of workers on one piece, after which the piece has failed

OnProgress = Callable[[Progress], None]


class LocalRunner:
    """`jobs` pieces at once. Workers start (and import torch) before the data set is read, and wait for their orders."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the workers
        self._idle_deaths = 0
        self._workers = [] if jobs == 1 else [self._start() for _ in range(jobs)]

    def run(self, orders: Orders, on_progress: OnProgress) -> None:
        """Until every piece is done."""
        store = Store(orders.url, orders.comparison)

        def look() -> Progress:
            progress = Progress(orders.context.plan, store.rows())
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
            if worker.stdin is not None:
                worker.stdin.close()
        self._workers = []
        self._log.close()

    def _watch(self, orders: Orders, store: Store, look: Callable[[], Progress]) -> None:
        told = pickle.dumps(orders)
        for worker in self._workers:
            _tell(worker, told)
        deaths: dict[str, int] = {}
        while not look().is_complete:
            for number, worker in enumerate(self._workers):
                if worker.poll() in (None, 0):
                    continue
                if worker.returncode == STOPPED:
                    raise OSError(self._last_words())
                self._bury(worker, store, deaths)
                self._workers[number] = self._start()
                _tell(self._workers[number], told)
            time.sleep(WATCH)

    def _bury(self, worker: subprocess.Popen[bytes], store: Store, deaths: dict[str, int]) -> None:
        """A dead worker's piece is free again; one that has killed several has failed."""
        claims = [row for row in store.rows().values() if row.finished is None]
        mine = [row for row in claims if (Owner.of(row.owner).host, Owner.of(row.owner).pid) == (this_host(), worker.pid)]
        self._idle_deaths += not mine
        if self._idle_deaths >= DEATHS:
            raise ChildProcessError(f"workers cannot start (exit code {worker.returncode}): {self._last_words()}")
        for row in mine:
            deaths[row.piece.key] = deaths.get(row.piece.key, 0) + 1
            if deaths[row.piece.key] >= DEATHS:
                said = f"its process died {DEATHS} times (exit code {worker.returncode}; out of memory?): {self._last_words()}"
                store.finish(row.piece, Found({"time": {}}, failure=said))
            else:
                store.release(row.owner)
        if worker.stdin is not None:
            worker.stdin.close()

    def _last_words(self) -> str:
        self._log.seek(0)
        said = self._log.read().decode(errors="replace").strip()
        return said.splitlines()[-1] if said else "it said nothing"

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "likewise.comparison.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._log,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )


def _tell(worker: subprocess.Popen[bytes], told: bytes) -> None:
    assert worker.stdin is not None
    try:
        worker.stdin.write(told)
        worker.stdin.flush()
    except BrokenPipeError:  # it died meanwhile: the watch will see that
        return
