"""Ray runner: the pieces as Ray tasks, on this machine or on a cluster.

The tasks compute; this process alone claims pieces and writes results, so that only it needs the store. The comparison's folder, the
data set and pretrained weights have to be at the same path on every machine; features of a frozen backbone are computed by each machine
for itself, unless LIKEWISE_CACHE is a folder that they share.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from likewise.comparison.plan import Piece
from likewise.comparison.plan_progress import OnProgress, Progress
from likewise.comparison.store import Owner, PieceResult, Store
from likewise.comparison.workers import MOST_DEATHS, Orders, signs_of_life
from likewise.comparison.workshop import Context, Workshop

if TYPE_CHECKING:
    from ray import ObjectRef

BETWEEN_CHECKS = 0.2  # seconds between two looks at the tasks
LOCAL = "local"
ANSWERS_WITHIN = 5.0  # seconds for a cluster to answer

_workshops: dict[str, Workshop] = {}  # of a Ray worker's process, which serves one task after the other


class RayRunner:
    """`address`: "local" for a cluster of this machine alone, started here, or that of a running cluster.

    A session with Ray that this process has already is used as it is.
    jobs: pieces at once; None: as many as the cluster takes.  gpu_share: what part of a GPU a piece takes, where it uses one.
    """

    def __init__(self, address: str, *, jobs: int | None, device: str, gpu_share: float = 1.0) -> None:
        try:
            import ray
        except ModuleNotFoundError as fault:
            raise ValueError("--ray needs Ray, which is not installed: pip install 'likewise[cluster]', or leave --ray out") from fault
        if not 0 < gpu_share <= 1:
            raise ValueError(f"--gpu-share is {gpu_share}: expected a part of a GPU above 0, such as 0.5, or 1 for a whole one")
        options: dict[str, Any] = {"logging_level": "error", "log_to_driver": False}
        self._starts_session = not ray.is_initialized()
        try:
            if self._starts_session and address == LOCAL:
                ray.init(address="local", num_cpus=jobs, include_dashboard=False, **options)
            elif self._starts_session:
                _check_that_it_answers(address)
                ray.init(address=address, **options)
        except (OSError, ValueError) as fault:
            raise ValueError(f"--ray {address}: no Ray cluster answers there ({fault}); --ray local starts one here") from fault
        self._ray = ray
        on_gpu = device.startswith("cuda")
        self._task = ray.remote(perform).options(
            name="likewise piece",
            num_cpus=1,
            num_gpus=gpu_share if on_gpu else 0,
            max_retries=MOST_DEATHS,
            runtime_env={"env_vars": {} if on_gpu else {"OMP_NUM_THREADS": "1"}},
        )
        total: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        slots = int(total.get("GPU", 0) / gpu_share) if on_gpu else int(total.get("CPU", 0))
        if slots < 1:
            raise ValueError(f"--ray {address}: the cluster has no {'GPU' if on_gpu else 'CPU'} to offer; it has {dict(total)}")
        self.jobs = slots if jobs is None else min(jobs, slots)

    def run(self, orders: Orders, on_progress: OnProgress) -> None:
        """Until every piece is done."""
        store, owner = Store(orders.url, orders.comparison), Owner.here()
        context = self._ray.put(orders.context)
        under_way: dict[ObjectRef[PieceResult], Piece] = {}
        try:
            with signs_of_life(orders, owner):
                while True:
                    progress = store.progress()
                    on_progress(progress)
                    if progress.is_complete:
                        return
                    while len(under_way) < self.jobs and (piece := store.claim(progress.due(), owner, progress.claims)) is not None:
                        under_way[self._task.remote(orders.comparison, context, piece, progress)] = piece
                        progress = store.progress()
                    done, _ = self._ray.wait(list(under_way), timeout=BETWEEN_CHECKS) if under_way else ([], [])
                    for task in done:
                        store.finish(under_way.pop(task), self._result(task))
        finally:
            for task in under_way:
                self._ray.cancel(task, force=True)
            store.release(owner.name)
            store.close()

    def close(self) -> None:
        if self._starts_session:
            self._ray.shutdown()

    def _result(self, task: ObjectRef[PieceResult]) -> PieceResult:
        try:
            result: PieceResult = self._ray.get(task)
        except OSError as fault:  # of the machine where it ran
            raise OSError(fault.errno, str(fault).strip().splitlines()[-1]) from fault
        except self._ray.exceptions.RayError as fault:  # retried before; the task's own faults are findings, not these
            return PieceResult({"time": {}}, failure=f"its Ray task was lost {1 + MOST_DEATHS} times: {str(fault).strip().splitlines()[0]}")
        return result


def _check_that_it_answers(address: str) -> None:
    """Raises where nothing listens: Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon:
        with socket.create_connection((host, int(port)), timeout=ANSWERS_WITHIN):
            pass


def perform(comparison: str, context: Context, piece: Piece, progress: Progress) -> PieceResult:
    """One piece in a Ray worker."""
    if not Path(context.folder).is_dir():
        return PieceResult(
            {"time": {}}, failure=f"{context.folder} is not there on this machine: --out has to be a folder that all machines share"
        )
    if comparison not in _workshops:
        _workshops.clear()
        _workshops[comparison] = Workshop(context)
    return _workshops[comparison].perform(piece, progress)
