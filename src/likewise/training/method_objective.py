"""Objectives: what a method minimises, one for each level of each member of its network."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from likewise.losses.loss import traits_of
from likewise.methods import Method
from likewise.objectives import Objective, objective
from likewise.unit_vectors import unit


class Objectives(nn.Module):
    """Loss of a member's embeddings: the sum over its levels, each with an objective (and proxies) of its own.

    A loss of an embedding's parts sees all levels joined instead.
    A member of an ensemble sees its own meta-classes: a random partition of the classes, drawn by the seed and the member's number
    (DREML). `norm` brings the embeddings to that length first.
    """

    meta_classes: Tensor

    def __init__(self, method: Method, *, num_classes: int, dim: int, steps: int, seed: int, gather: bool) -> None:
        super().__init__()
        self.norm = method.norm
        self.joins_levels = bool(traits_of(method.make_loss()).parts)
        members = method.ensemble.members
        partitions = [_partition(num_classes, method.ensemble.meta_classes, seed, member) for member in range(members)]
        self.register_buffer("meta_classes", torch.from_numpy(np.stack(partitions)))  # (members, classes)
        width = dim * len(method.head.levels) if self.joins_levels else dim
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.of_level = nn.ModuleList(
                nn.ModuleList(
                    _objective(method, num_classes=int(partition.max()) + 1, dim=width, steps=steps, gather=gather)
                    for _ in (("joined",) if self.joins_levels else method.head.levels)
                )
                for partition in partitions
            )

    def forward(self, member: int, embeddings: tuple[Tensor, ...], labels: Tensor, items: Tensor) -> Tensor:
        """The loss of one member's embeddings, one of each level, of items with these codes."""
        labels = self.meta_classes[member][labels]
        total = embeddings[0].new_zeros(())
        for level, vectors in enumerate((torch.cat(embeddings, dim=1),) if self.joins_levels else embeddings):
            objective_of_level = self.of_level[member][level]  # type: ignore[index]
            total = total + objective_of_level(vectors if self.norm is None else self.norm * unit(vectors), labels, items=items)
        return total

    def groups(self) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        """The parameters of proxies, and those of the losses themselves."""
        proxies: list[nn.Parameter] = []
        of_losses: list[nn.Parameter] = []
        for name, parameter in self.named_parameters():
            (proxies if ".proxies." in name else of_losses).append(parameter)
        return proxies, of_losses


def _objective(method: Method, *, num_classes: int, dim: int, steps: int, gather: bool) -> Objective:
    return objective(
        method.make_loss(num_classes=num_classes, dim=dim),
        mining=method.make_miner(),
        normalize=False if method.norm is not None else method.normalize,
        num_classes=num_classes,
        dim=dim,
        memory=method.memory or None,
        memory_warm_up=round(method.memory_warm_up * steps) if method.memory else 0,
        gather=gather,
        trusting=True,  # the loop watches the loss
    )


def _partition(num_classes: int, meta_classes: int, seed: int, member: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The meta-class of each class; without meta-classes the class itself. Meta-classes differ in size by at most one class."""
    if not meta_classes:
        return np.arange(num_classes)
    order = np.random.default_rng([seed, member]).permutation(num_classes)
    partition = np.empty(num_classes, dtype=np.int64)
    partition[order] = np.arange(num_classes) % min(meta_classes, num_classes)
    return partition
