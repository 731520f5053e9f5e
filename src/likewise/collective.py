"""Collectives that autograd can pass through.

Their gradient is that of the sum of all ranks' losses. A loss of the global batch, computed on every rank, thus gives each rank
world_size times the single process's gradient of its own embeddings; DistributedDataParallel's mean over ranks takes exactly that
factor out again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class Ranks:
    """The processes that share a global batch, and how much of it each holds."""

    group: dist.ProcessGroup | None  # None: the default group
    sizes: tuple[int, ...]

    @staticmethod
    def sharing(num_rows: int, device: torch.device, group: dist.ProcessGroup | None) -> Ranks:
        """Asks every rank for its number of rows."""
        sizes = [torch.zeros(1, dtype=torch.long, device=device) for _ in range(dist.get_world_size(group))]
        dist.all_gather(sizes, torch.tensor([num_rows], device=device), group=group)
        return Ranks(group, tuple(int(size) for size in sizes))

    @property
    def share(self) -> slice:
        """This rank's rows of the global batch."""
        rank = dist.get_rank(self.group)
        start = sum(self.sizes[:rank])
        return slice(start, start + self.sizes[rank])

    def gather(self, tensor: Tensor) -> Tensor:
        """The ranks' (n_i, ...) tensors one after the other, differentiable."""
        result: Tensor = _GatherRows.apply(tensor, self)  # type: ignore[no-untyped-call]
        return result

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum of all ranks' tensors on every rank, differentiable."""
        result: Tensor = _SumOverRanks.apply(tensor, self.group)  # type: ignore[no-untyped-call]
        return result


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, ranks: Ranks) -> Tensor:
        ctx.ranks = ranks
        padded = tensor.new_zeros((max(ranks.sizes), *tensor.shape[1:]))  # all_gather wants equal shapes
        padded[: tensor.shape[0]] = tensor
        received = [torch.empty_like(padded) for _ in ranks.sizes]
        dist.all_gather(received, padded, group=ranks.group)
        return torch.cat([part[:size] for part, size in zip(received, ranks.sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        gradient = gradient.contiguous().clone()
        dist.all_reduce(gradient, group=ctx.ranks.group)
        return gradient[ctx.ranks.share], None


class _SumOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, group: dist.ProcessGroup | None) -> Tensor:
        ctx.group = group
        total = tensor.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        gradient = gradient.clone()
        dist.all_reduce(gradient, group=ctx.group)
        return gradient, None
