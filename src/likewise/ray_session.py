"""A session with Ray: a cluster of this machine alone, one that runs already, or the session that this process has."""

from __future__ import annotations

import socket
from typing import Any, Self

from likewise.addresses import without_secrets

LOCAL = "local"
ANSWERS_WITHIN = 5.0  # seconds for a cluster to answer


class RaySession:
    """`address`: "local" for a cluster of this machine alone, started here, or that of a running cluster.

    A session that this process has already is used as it is, and left as it was found.
    """

    def __init__(self, address: str, *, num_cpus: int | None = None) -> None:
        try:
            import ray
        except ModuleNotFoundError as fault:
            raise ValueError("--ray needs Ray, which is not installed: pip install 'likewise[cluster]', or leave --ray out") from fault
        options: dict[str, Any] = {"logging_level": "error", "log_to_driver": False}
        self.address = without_secrets(address)  # as it is shown
        self._starts = not ray.is_initialized()
        try:
            if self._starts and address == LOCAL:
                ray.init(address="local", num_cpus=num_cpus, include_dashboard=False, **options)
            elif self._starts:
                _check_that_it_answers(address)
                ray.init(address=address, **options)
        except (OSError, ValueError) as fault:
            raise ValueError(
                f"--ray {self.address}: no Ray cluster answers there ({without_secrets(str(fault))}); --ray local starts one here"
            ) from fault
        self.ray = ray

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None:
        self.close()

    @property
    def has_gpus(self) -> bool:
        return self._resources().get("GPU", 0) >= 1

    def slots(self, *, on_gpu: bool, gpu_share: float = 1.0) -> int:
        """Tasks that the cluster takes at once, each with a core or with this part of a GPU; a ValueError where it takes none."""
        total = self._resources()
        slots = int(total.get("GPU", 0) / gpu_share) if on_gpu else int(total.get("CPU", 0))
        if slots < 1:
            raise ValueError(f"--ray {self.address}: the cluster has no {'GPU' if on_gpu else 'CPU'} to offer; it has {total}")
        return slots

    def task(self, function: Any, *, name: str, on_gpu: bool, gpu_share: float = 1.0, max_retries: int) -> Any:
        """The function as a task that takes a core, or a part of a GPU besides; begun again where its process dies, so many times."""
        return self.ray.remote(function).options(
            name=name,
            num_cpus=1,
            num_gpus=gpu_share if on_gpu else 0,
            max_retries=max_retries,
            runtime_env={"env_vars": {} if on_gpu else {"OMP_NUM_THREADS": "1"}},
        )

    def _resources(self) -> dict[str, float]:
        total: dict[str, float] = self.ray.cluster_resources()  # type: ignore[no-untyped-call]
        return total

    def close(self) -> None:
        if self._starts:
            self.ray.shutdown()


def _check_that_it_answers(address: str) -> None:
    """Raises where nothing listens: Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon:
        with socket.create_connection((host, int(port)), timeout=ANSWERS_WITHIN):
            pass
