"""Watchdogs: what goes wrong in a training, said while it does, with what to try."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from likewise.evaluation.diagnostics import spectrum

COLLAPSED_RANK = 1.5  # effective rank of validation embeddings below which they lie on a line
PATIENCE = 5  # validations without a better one


class Diverged(ValueError):
    """A loss, embedding, gradient or weight that is not a finite number."""


def first_bad_tensor(network: nn.Module, inputs: Tensor) -> str:
    """The name of the first tensor that is not finite: a weight, the input, or a module's output in the order of computation."""
    # the running statistics of a layer in training mode are not used: where they are bad, they are not the cause
    used = [
        (f"{place}.{name}", tensor)
        for place, module in network.named_modules()
        if not module.training
        for name, tensor in module.named_buffers(recurse=False)
    ]
    for name, tensor in (*network.named_parameters(), *used):
        if tensor.is_floating_point() and not tensor.isfinite().all():
            return f"weight {name}"
    if not inputs.isfinite().all():
        return "the input batch"
    bad: list[str] = []

    def look(name: str, output: object) -> None:
        tensors = output if isinstance(output, (tuple, list)) else [output]
        if any(isinstance(tensor, Tensor) and not tensor.isfinite().all() for tensor in tensors):
            bad.append(name)

    hooks = [
        module.register_forward_hook(lambda module, given, output, name=name: look(name, output))
        for name, module in network.named_modules()
        if name and not list(module.children())
    ]
    try:
        with torch.no_grad():
            network(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return f"the output of {bad[0]}" if bad else "the loss (weights and embeddings are finite)"


def divergence(step: int, network: nn.Module, inputs: Tensor, checkpoint: str) -> Diverged:
    """The fault to raise where the loss or a weight is not finite."""
    return Diverged(
        f"the training diverged at step {step}: the first tensor that is not finite is {first_bad_tensor(network, inputs)}. "
        f"Try a lower learning rate (--set learning_rate=...), --set clip=1, or --set precision=fp32. {checkpoint}"
    )


def collapse_warning(embeddings: Tensor, step: int) -> str | None:
    _, rank = spectrum(embeddings)
    if rank >= min(COLLAPSED_RANK, embeddings.shape[1]):
        return None
    return (
        f"step {step}: the embeddings have collapsed (effective rank {rank:.2f} of {embeddings.shape[1]}): everything looks alike. "
        "Try a lower learning rate, another miner (hard mining is a usual cause: --set mining.name=semihard), or more classes a batch."
    )


def plateau_warning(scores: Sequence[float], step: int) -> str | None:
    """Said once, when the best score is exactly `PATIENCE` validations old."""
    if not scores or len(scores) - 1 - max(range(len(scores)), key=lambda place: (scores[place], -place)) != PATIENCE:
        return None
    return (
        f"step {step}: no better score on the held-out training classes in {PATIENCE} validations (best {max(scores):.3f}). "
        "The best step is kept; a lower learning rate (--set learning_rate=...) or fewer steps may do as well."
    )
