"""Embedding on a Ray cluster: the images of a data set in parts, each a task, the vectors in the order of the images.

Images have to be at the same path on every machine. The model travels with the tasks. A worker that dies costs the part that it was at,
which another does again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.data.dataset import Dataset, Files
from likewise.data.packing.packed import NoneDecoded, Problem
from likewise.files import file_digest
from likewise.models.backbones import Level
from likewise.models.embedder import MANY, Embedder
from likewise.progress import ProgressCallback
from likewise.ray_session import RaySession

PART = 256  # images of a task, or a few more; at least MANY, so that each goes through onnxruntime as the whole does on one machine
PARTS_A_SLOT = 2  # under way at once, so that a worker that is free finds its next part
MOST_DEATHS = 5  # of workers at one part: then the fault is the part's
assert PART >= MANY

Rows = npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]
Found = tuple[Rows | None, Numbers, tuple[Problem, ...]]  # None: no image of the part can be decoded

_embedders: dict[str, Embedder] = {}  # of a Ray worker's process, which serves one task after the other


@dataclass(frozen=True)
class Shipped:
    """An embedder's folder as it travels."""

    digest: str
    files: dict[str, bytes]

    @classmethod
    def of(cls, embedder: Embedder) -> Shipped:
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder) / "embedder"
            embedder.save(home)
            files = {path.name: path.read_bytes() for path in home.iterdir()}
            return cls(file_digest(home / "embedder.json"), files)

    def load(self, device: str) -> Embedder:
        with tempfile.TemporaryDirectory() as folder:
            for name, content in self.files.items():
                (Path(folder) / name).write_bytes(content)
            return Embedder.load(folder, device)


class RayEmbedder:
    """Embeds data sets as `Embedder.embed_images` does, with the cores or the GPUs of a cluster."""

    def __init__(self, embedder: Embedder, session: RaySession, device: str = "auto") -> None:
        """device: that of the tasks: cpu, cuda, or auto: cuda where the cluster has one, whatever this machine has."""
        if device not in ("auto", "cpu", "cuda"):
            raise ValueError(f"device is {device!r}: expected cpu, cuda or auto; which GPU of a cluster is Ray's to say")
        on_gpu = session.has_gpus if device == "auto" else device == "cuda"
        self._device = "cuda" if on_gpu else "cpu"
        self._session = session
        self._most = PARTS_A_SLOT * session.slots(on_gpu=on_gpu)
        self._task = session.task(embed_part, name="likewise embedding", on_gpu=on_gpu, max_retries=MOST_DEATHS)
        self._shipped = session.ray.put(Shipped.of(embedder))

    @property
    def num_at_once(self) -> int:
        """Images that keep the whole cluster busy."""
        return self._most * PART

    def embed_images(
        self,
        dataset: Dataset,
        *,
        levels: tuple[Level, ...] | None = None,
        mirror: bool = False,
        on_progress: ProgressCallback | None = None,
    ) -> tuple[Rows, Numbers, tuple[Problem, ...]]:
        """See `Embedder.embed_images`."""
        if not isinstance(dataset.items, Files):
            raise ValueError(f"{dataset.name} holds no image files: --ray is for files; leave it out")
        parts = np.array_split(np.arange(len(dataset)), max(1, len(dataset) // PART))
        found: dict[int, Found] = {}
        under_way: dict[Any, int] = {}  # tasks, and the numbers of their parts
        waiting, done = list(reversed(range(len(parts)))), 0
        try:
            while waiting or under_way:
                while waiting and len(under_way) < self._most:
                    number = waiting.pop()
                    task = self._task.remote(self._shipped, dataset.subset(parts[number]), levels, mirror, self._device)
                    under_way[task] = number
                finished, _ = self._session.ray.wait(list(under_way), timeout=1.0)  # now and then Python is to see a Ctrl-C
                for task in finished:
                    number = under_way.pop(task)
                    found[number] = self._result(task, dataset)
                    done += len(parts[number])
                    if on_progress is not None:
                        on_progress("embedding", done, len(dataset))
        finally:
            for task in under_way:
                self._session.ray.cancel(task, force=True)
        return _joined(dataset, parts, [found[number] for number in range(len(parts))])

    def _result(self, task: Any, dataset: Dataset) -> Found:
        try:
            found: Found = self._session.ray.get(task)
        except self._session.ray.exceptions.RayError as fault:
            raise OSError(f"{dataset.name}: a part of it was lost on the cluster: {str(fault).strip().splitlines()[-1]}") from fault
        return found


def embed_part(shipped: Shipped, part: Dataset, levels: tuple[Level, ...] | None, mirror: bool, device: str) -> Found:
    """One part in a Ray worker."""
    if shipped.digest not in _embedders:
        _embedders.clear()
        _embedders[shipped.digest] = shipped.load(device)
    try:
        return _embedders[shipped.digest].embed_images(part, levels=levels, mirror=mirror, num_threads=1)
    except NoneDecoded as fault:
        return None, np.zeros(0, np.int64), fault.problems


def _joined(dataset: Dataset, parts: Sequence[Numbers], found: Sequence[Found]) -> tuple[Rows, Numbers, tuple[Problem, ...]]:
    problems = tuple(problem for _, _, some in found for problem in some)
    rows = [some for some, _, _ in found if some is not None]
    if not rows:
        raise NoneDecoded(f"{dataset.name}: none of {len(dataset)} images can be decoded", problems)
    return np.concatenate(rows), np.concatenate([part[kept] for part, (_, kept, _) in zip(parts, found, strict=True)]), problems
