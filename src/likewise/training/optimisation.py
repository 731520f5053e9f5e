"""Optimisation: parameter groups with their learning rates, and how the rate goes over the steps."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from likewise.methods import Method
from likewise.models.backbones import freeze_below_high
from likewise.models.lora import add_adapters, is_adapter
from likewise.models.network import Network
from likewise.protocols import Protocol
from likewise.training.method_objective import Objectives

SQUARES_KEPT = 0.9  # of the running mean of squares at each step of rmsprop, as its lecture and the unbiased evaluation's MXNet have it


def choose_parameters(network: Network, protocol: Protocol, *, seed: int) -> None:
    """Leaves to learn what the protocol says of the backbone; heads always learn."""
    if protocol.trains == "high":
        freeze_below_high(network)
    elif protocol.trains == "lora":
        add_adapters(network, seed=seed)


def make_optimizer(
    method: Method, protocol: Protocol, network: Network, objectives: Objectives, *, pretrained: bool
) -> torch.optim.Optimizer:
    """The protocol's optimiser over four kinds of parameters: backbone, new layers, proxies, and the loss's own.

    Each group's rate is the protocol's times the method's multiple. Where the backbone is not pretrained everything is new: the head too
    has the protocol's rate, and proxies and the loss's own keep their ratio to it. Norms, biases and other vectors do not decay, nor do the
    loss's own parameters. A group knows its `base` rate and whether it is `new`. Where the decay is towards the start, the head's groups
    (vectors too: a bias belongs to its matrix) know where they started and how strongly they are pulled there. Adapters are new layers.
    """
    backbone: list[nn.Parameter] = []
    head: list[nn.Parameter] = []
    for name, parameter in network.named_parameters():
        if parameter.requires_grad:
            (backbone if ".backbone." in f".{name}" and not is_adapter(name) else head).append(parameter)
    proxies, of_losses = objectives.groups()
    rates, decay = method.rates, protocol.weight_decay
    to_start = protocol.decay_towards == "start"
    of_head = _groups(head, rate=rates.head if pretrained else 1.0, decay=0.0 if to_start else decay, new=True)
    if to_start:
        for group in of_head:
            group |= {"pull": decay, "start": [parameter.detach().clone() for parameter in group["params"]]}
    groups = [
        *_groups(backbone, rate=1.0, decay=decay, new=False),
        *of_head,
        *_groups(proxies, rate=rates.proxies if pretrained else rates.proxies / rates.head, decay=decay, new=True),
        *_groups(of_losses, rate=rates.loss if pretrained else rates.loss / rates.head, decay=0.0, new=True),
    ]
    for group in groups:
        group["base"] = group["lr"] = group["lr"] * rates.base * protocol.learning_rate
    if not groups:
        raise ValueError(
            f"{method.name} under {protocol.name} has nothing to learn: a backbone without weights needs a head "
            "(`likewise evaluate` scores vectors as they are)"
        )
    if protocol.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=protocol.learning_rate, momentum=protocol.momentum, fused=True)
    if protocol.optimizer == "rmsprop":
        return torch.optim.RMSprop(groups, lr=protocol.learning_rate, alpha=SQUARES_KEPT, eps=protocol.eps)
    kind = torch.optim.AdamW if protocol.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, lr=protocol.learning_rate, eps=protocol.eps, fused=True)


def set_rates(optimizer: torch.optim.Optimizer, method: Method, protocol: Protocol, step: float) -> float:
    """Sets every group's rate for this step (0 is the first; where time is equal, a share of all steps); gives the schedule's factor."""
    factor = schedule_factor(protocol, step)
    only_new = step < method.head_only * protocol.steps
    for group in optimizer.param_groups:
        group["lr"] = 0.0 if only_new and not group["new"] else group["base"] * factor
    return factor


@torch.no_grad()
def pull_to_start(optimizer: torch.optim.Optimizer) -> None:
    """p <- p - rate x pull x (p - start), before the optimiser's own step: as AdamW decays, but towards the start instead of zero.

    Decoupled under every optimiser. The start is in the group, so that a checkpoint has it.
    """
    for group in optimizer.param_groups:
        if "start" in group:
            group["start"] = [start.to(parameter.device) for start, parameter in zip(group["start"], group["params"], strict=True)]
            for start, parameter in zip(group["start"], group["params"], strict=True):
                parameter.lerp_(start, min(1.0, group["lr"] * group["pull"]))


def schedule_factor(protocol: Protocol, step: float) -> float:
    """By what the learning rate is multiplied at this step: 1 throughout, half a cosine to 0, or gamma after each milestone."""
    if protocol.schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * step / protocol.steps))
    if protocol.schedule == "steps":
        return float(protocol.gamma ** sum(step >= milestone * protocol.steps for milestone in protocol.milestones))
    return 1.0


def _groups(parameters: list[nn.Parameter], *, rate: float, decay: float, new: bool) -> list[dict[str, Any]]:
    matrices = [parameter for parameter in parameters if parameter.ndim > 1]
    vectors = [parameter for parameter in parameters if parameter.ndim <= 1]
    both = [(matrices, decay), (vectors, 0.0)]
    return [{"params": chosen, "lr": rate, "weight_decay": weight_decay, "new": new} for chosen, weight_decay in both if chosen]
