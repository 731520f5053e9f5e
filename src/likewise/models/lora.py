"""Low-rank adapters (LoRA; Hu et al., 2021): a backbone learns W + B A with A (rank, in) and B (out, rank) instead of all of W.

On linear layers and on 1x1 convolutions, which are linear at every place. B starts at zero, so that the network starts as it was; in the
end the sum is put in the place of W, and the network is one of the same shape as before.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from likewise.models.backbones import Backbone

RANK = 8


class LowRank(nn.Module):
    """W -> W + B A."""

    def __init__(self, weight: Tensor, rank: int) -> None:
        super().__init__()
        out_features, in_features = weight.shape[:2]
        reach = math.sqrt(3 / in_features)  # A x is as large as x
        self.down = nn.Parameter(torch.empty(rank, in_features).uniform_(-reach, reach).to(weight.device))  # A
        self.up = nn.Parameter(torch.zeros(out_features, rank, device=weight.device))  # B

    def forward(self, weight: Tensor) -> Tensor:
        return weight + (self.up @ self.down).view_as(weight)


def add_adapters(network: nn.Module, *, seed: int, rank: int = RANK) -> None:
    """From here on the backbones of the network learn through adapters alone: their own parameters are frozen."""
    if rank < 1:
        raise ValueError(f"rank={rank}: expected at least 1")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        for backbone in (module for module in network.modules() if isinstance(module, Backbone)):
            backbone.requires_grad_(False)
            layers = [layer for layer in backbone.modules() if _is_linear(layer)]
            if not layers:
                raise ValueError(f"{type(backbone).__name__} has neither linear layers nor 1x1 convolutions to adapt: --set trains=all")
            for layer in layers:
                weight = layer.weight
                assert isinstance(weight, Tensor)
                parametrize.register_parametrization(layer, "weight", LowRank(weight, min(rank, *weight.shape[:2])))


def merge_adapters(network: nn.Module) -> None:
    """Puts W + B A in the place of every W that has an adapter."""
    for layer in list(network.modules()):
        if parametrize.is_parametrized(layer, "weight"):
            parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)


def is_adapter(name: str) -> bool:
    """Whether a parameter of this name is an adapter's."""
    return ".parametrizations." in name and not name.endswith(".original")


def _is_linear(layer: nn.Module) -> bool:
    return isinstance(layer, nn.Linear) or (isinstance(layer, nn.Conv2d) and layer.kernel_size == (1, 1) and layer.groups == 1)
