"""Ray runner: the pieces as Ray tasks, on this machine or on a cluster.

The tasks compute; this process alone claims pieces and writes results, so that only it needs the store. The comparison's folder, the
data set and pretrained weights have to be at the same path on every machine; features of a frozen backbone are computed by each machine
for itself, unless LIKEWISE_CACHE is a folder that they share.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from likewise.comparison.plan import Piece
from likewise.comparison.plan_progress import OnProgress, Progress
from likewise.comparison.running.store import Owner, PieceResult, Store
from likewise.comparison.running.workers import MOST_DEATHS, Orders, signs_of_life
from likewise.comparison.running.workshop import Context, Workshop
from likewise.ray_session import RaySession

if TYPE_CHECKING:
    from ray import ObjectRef

BETWEEN_CHECKS = 0.2  # seconds between two looks at the tasks

_workshops: dict[str, Workshop] = {}  # of a Ray worker's process, which serves one task after the other


class RayRunner:
    """address: see RaySession.
    jobs: pieces at once; None: as many as the cluster takes.  gpu_share: what part of a GPU a piece takes, where it uses one.
    """

    def __init__(self, address: str, *, jobs: int | None, device: str, gpu_share: float = 1.0) -> None:
        if not 0 < gpu_share <= 1:
            raise ValueError(f"--gpu-share is {gpu_share}: expected a part of a GPU above 0, such as 0.5, or 1 for a whole one")
        on_gpu = device.startswith("cuda")
        self._session = RaySession(address, num_cpus=jobs)
        self._ray = self._session.ray
        self._task = self._session.task(perform, name="likewise piece", on_gpu=on_gpu, gpu_share=gpu_share, max_retries=MOST_DEATHS)
        slots = self._session.slots(on_gpu=on_gpu, gpu_share=gpu_share)
        self.jobs = slots if jobs is None else min(jobs, slots)

    def run(self, orders: Orders, on_progress: OnProgress) -> None:
        """Until every piece is done, or the time is over and those under way are."""
        store, owner = Store(orders.url, orders.comparison), Owner.here()
        context = self._ray.put(orders.context)
        under_way: dict[ObjectRef[PieceResult], Piece] = {}
        try:
            with signs_of_life(orders, owner):
                while True:
                    progress = store.progress()
                    on_progress(progress)
                    if progress.is_complete or (orders.are_over and not under_way):
                        return
                    room = 0 if orders.are_over else self.jobs
                    while len(under_way) < room and (piece := store.claim(progress.due(), owner, progress.claims)) is not None:
                        network = store.network_digest(piece)
                        under_way[self._task.remote(orders.comparison, context, piece, progress, network)] = piece
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
        self._session.close()

    def _result(self, task: ObjectRef[PieceResult]) -> PieceResult:
        try:
            result: PieceResult = self._ray.get(task)
        except OSError as fault:  # of the machine where it ran
            raise OSError(fault.errno, str(fault).strip().splitlines()[-1]) from fault
        except self._ray.exceptions.RayError as fault:  # retried before; the task's own faults are findings, not these
            return PieceResult({"time": {}}, failure=f"its Ray task was lost {1 + MOST_DEATHS} times: {str(fault).strip().splitlines()[0]}")
        return result


def perform(comparison: str, context: Context, piece: Piece, progress: Progress, network: str) -> PieceResult:
    """One piece in a Ray worker."""
    if not Path(context.folder).is_dir():
        return PieceResult(
            {"time": {}}, failure=f"{context.folder} is not there on this machine: --out has to be a folder that all machines share"
        )
    if comparison not in _workshops or _workshops[comparison].context.own_code.keys() != context.own_code.keys():
        _workshops.clear()
        _workshops[comparison] = Workshop(context)
    return _workshops[comparison].perform(piece, progress, network=network)
