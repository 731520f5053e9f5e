"""Gradient caching: the gradient of a batch that does not fit into memory.

Embed in micro-batches without a graph; take the loss's gradient by all embeddings; embed each micro-batch again, with a graph, and
send its share of that gradient through it. The result is the gradient of the whole batch, for any objective, at the price of one more
forward pass. Batch norm that is not frozen sees micro-batches: its statistics, and hence the gradient, are then those of micro-batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

Embed = Callable[[Tensor], tuple[Tensor, ...]]


def cached_backward(
    embed: Embed,
    inputs: Tensor,
    loss_of: Callable[[tuple[Tensor, ...]], Tensor],
    *,
    micro_batch: int,
    module: nn.Module,
    backward: Callable[[Tensor], None],
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Adds the batch's gradient to the parameters; gives the loss and the embeddings, both without a graph.

    embed     inputs -> one tensor (items, dim) of each level
    loss_of   those of all items -> the loss
    module    what embeds: its batch norm keeps its running statistics in the first pass
    backward  of the loss by the embeddings (and the objective's parameters)
    """
    shares = inputs.split(micro_batch)
    with torch.no_grad(), _statistics_kept(module):
        embeddings = [embed(share) for share in shares]
    leaves = tuple(torch.cat(level).requires_grad_() for level in zip(*embeddings, strict=True))
    loss = loss_of(leaves)
    backward(loss)
    gradients = [leaf.grad.split(micro_batch) for leaf in leaves if leaf.grad is not None]
    if gradients:
        for share, *gradients_of_share in zip(shares, *gradients, strict=True):
            torch.autograd.backward(list(embed(share)), gradients_of_share)
    return loss.detach(), tuple(leaf.detach() for leaf in leaves)


@contextmanager
def _statistics_kept(module: nn.Module) -> Iterator[None]:
    """Batch norm in training mode normalises as ever, but its running statistics stay."""
    norms = [part for part in module.modules() if isinstance(part, _BatchNorm) and part.training]
    momenta = [norm.momentum for norm in norms]
    counts = [None if norm.num_batches_tracked is None else norm.num_batches_tracked.clone() for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum, count in zip(norms, momenta, counts, strict=True):
            norm.momentum = momentum
            if count is not None and norm.num_batches_tracked is not None:
                norm.num_batches_tracked.copy_(count)
