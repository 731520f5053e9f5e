"""Devices: where a training runs, in which precision, on how many ranks. The launching and the precision are lightning-fabric's."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous

from likewise.collective import Ranks
from likewise.environment import checked_device, num_ranks
from likewise.protocols import Protocol
from likewise.wording import listed

PRECISIONS = {"bf16": "bf16-mixed", "fp16": "16-mixed", "fp32": "32-true"}
MEETING = 120.0  # seconds in which all ranks have to be there
BUCKET = 25 * 2**20  # numbers that are averaged over ranks in one go


class Devices:
    """One device of this process, and its place among the ranks (torchrun starts them)."""

    def __init__(self, protocol: Protocol, *, device: str = "auto") -> None:
        kind = checked_device(device)
        precision = protocol.precision
        if precision == "auto":
            precision = "bf16" if kind.startswith("cuda") else "fp32"
        if precision == "fp16" and kind == "cpu":
            raise ValueError("precision=fp16 needs a GPU: use bf16 or fp32 on a CPU")
        ranks = num_ranks()
        local = num_ranks("LOCAL_WORLD_SIZE")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fabric's advice on launchers is not the user's concern
            from lightning_fabric import Fabric

            logging.getLogger("lightning_fabric").setLevel(logging.WARNING)

            self.fabric = Fabric(
                accelerator="cpu" if kind == "cpu" else "cuda",
                devices=local if ranks > 1 else ([int(kind.split(":")[1])] if ":" in kind else 1),
                num_nodes=max(ranks // local, 1),
                strategy="ddp" if ranks > 1 else "auto",
                precision=PRECISIONS[precision],  # type: ignore[arg-type]
            )
            if ranks > 1:
                _meet(ranks, backend="gloo" if kind == "cpu" else "nccl")
            self.fabric.launch()

    @property
    def device(self) -> torch.device:
        device: torch.device = self.fabric.device
        return device

    @property
    def rank(self) -> int:
        return int(self.fabric.global_rank)

    @property
    def num_ranks(self) -> int:
        return int(self.fabric.world_size)

    def setup(self, optimizer: torch.optim.Optimizer) -> Any:
        """The optimiser with fabric's loss scaling around it."""
        return self.fabric.setup_optimizers(optimizer)

    def autocast(self) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = self.fabric.autocast()
        return context

    def backward(self, loss: Tensor) -> None:
        self.fabric.backward(loss)

    def clip(self, module: nn.Module, optimizer: Any, largest: float) -> None:
        self.fabric.clip_gradients(module, optimizer, max_norm=largest, error_if_nonfinite=False)

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """The mean over ranks of every gradient. Done here, after the backward passes, rather than by DistributedDataParallel's hooks:
        gradient caching and ensembles go backward several times a step.
        """
        if self.num_ranks == 1:
            return
        for bucket in _buckets([parameter.grad for parameter in parameters if parameter.grad is not None]):
            flat = torch.cat([gradient.flatten() for gradient in bucket])
            dist.all_reduce(flat)
            for gradient, mean in zip(bucket, flat.div_(self.num_ranks).split([gradient.numel() for gradient in bucket]), strict=True):
                gradient.copy_(mean.view_as(gradient))

    def gathered(self, rows: Tensor) -> Tensor:
        """The ranks' rows one after the other: those of the global batch."""
        return rows if self.num_ranks == 1 else Ranks.sharing(len(rows), rows.device, None).gather(rows)

    def from_first(self, content: dict[str, Any]) -> dict[str, Any]:
        """What rank 0 holds, on every rank."""
        shared: dict[str, Any] = self.fabric.broadcast(content)
        return shared

    def share(self, tensors: Iterable[Tensor]) -> None:
        """Rank 0's values for all."""
        if self.num_ranks > 1:
            for tensor in tensors:
                dist.broadcast(tensor.detach(), src=0)

    def any(self, wish: bool, *, asked: bool) -> bool:
        """Whether a rank wishes so; all ranks then do. Asking waits for all of them: they are only `asked` now and then."""
        if self.num_ranks == 1 or not asked:
            return wish and self.num_ranks == 1
        flag = torch.tensor(float(wish), device=self.device)
        dist.all_reduce(flag)
        return bool(flag > 0)

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = self.fabric.strategy.precision.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.fabric.strategy.precision.load_state_dict(state)


def _meet(ranks: int, *, backend: str) -> None:
    """All ranks, before anything is computed; a ValueError where some do not come, for which torch would wait half an hour."""
    if dist.is_initialized():
        return
    lacking = [name for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if lacking:
        raise ValueError(
            f"WORLD_SIZE={ranks} in the environment asks for {ranks} processes, but there is no {listed(lacking)}: start them with "
            "torchrun, or unset WORLD_SIZE"
        )
    master = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    try:
        store, rank, _ = next(rendezvous("env://", timeout=timedelta(seconds=MEETING)))
        dist.init_process_group(backend, store=store, rank=rank, world_size=ranks)
    except (dist.DistError, ValueError, OSError) as fault:
        reason = str(fault).splitlines()[0]
        raise ValueError(
            f"the {ranks} processes that WORLD_SIZE asks for do not meet at {master} within {MEETING:.0f} seconds ({reason}): start all of "
            "them, as torchrun does, or unset WORLD_SIZE"
        ) from fault


def _buckets(gradients: list[Tensor]) -> Iterable[list[Tensor]]:
    bucket: list[Tensor] = []
    for gradient in gradients:
        if bucket and sum(other.numel() for other in bucket) + gradient.numel() > BUCKET:
            yield bucket
            bucket = []
        bucket.append(gradient)
    if bucket:
        yield bucket
