"""Network: backbone and heads, at several levels and as an ensemble, to one unit vector an item."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from likewise.checks import known_name
from likewise.models.backbones import LEVELS, Backbone, Level, make_backbone
from likewise.models.heads import HEADS
from likewise.models.pooling import POOLINGS
from likewise.models.weight_files import fit_weights, read_weights


@dataclass(frozen=True)
class NetworkSpec:
    """All that is needed to build a network again."""

    backbone: str
    pooling: str = "avg"
    head: str = "linear"
    dim: int = 512  # of one level of one member
    levels: tuple[Level, ...] = ("high",)
    num_members: int = 1  # of an ensemble; members share nothing
    in_features: int | None = None  # the length of the vectors, where these are the input
    binary: bool = False  # embeddings are given as sign bits

    def __post_init__(self) -> None:
        known_name("pooling", self.pooling, POOLINGS)
        known_name("head", self.head, HEADS)
        for name in ("dim", "num_members"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: expected at least 1")
        check_levels(self.levels, LEVELS)


def check_levels(levels: tuple[Level, ...], available: tuple[Level, ...]) -> None:
    """Levels must be some of the available, each once, from low to high: the order of their concatenation."""
    for level in levels:
        known_name("level", level, LEVELS)
    if not levels or levels != tuple(level for level in available if level in levels):
        raise ValueError(f"levels={levels!r}: expected at least one of {', '.join(available)}, each once and in this order")


class Member(nn.Module):
    """A backbone with one head a level."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        self.levels = spec.levels
        self.backbone: Backbone = make_backbone(spec.backbone, in_features=spec.in_features)
        if spec.head == "rll" and not self.backbone.gives_maps and spec.levels != ("high",):
            raise ValueError(f"head='rll' needs feature maps below the high level, and {spec.backbone!r} gives vectors: take head='linear'")
        channels = self.backbone.channels
        make_head = HEADS[spec.head]
        self.heads = nn.ModuleDict(
            {level: make_head(channels[level], spec.dim, pooling=spec.pooling, level=level) for level in spec.levels}
        )
        self.widths: dict[Level, int] = {level: channels[level] if spec.head == "none" else spec.dim for level in spec.levels}

    def forward(self, inputs: Tensor, levels: tuple[Level, ...] | None = None) -> tuple[Tensor, ...]:
        """One un-normalised float32 embedding (N, dim) a level; all levels unless given."""
        levels = self.levels if levels is None else levels
        features = self.backbone(inputs, levels)
        return tuple(self.heads[level](feature) for level, feature in zip(levels, features, strict=True))


class Network(nn.Module):
    """One member, or an ensemble of them (DREML)."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        self.spec = spec
        members = [Member(spec) for _ in range(spec.num_members)]
        self.members = nn.ModuleList(members)
        self.widths = members[0].widths

    @property
    def width(self) -> int:
        """Length of an embedding of all levels and members."""
        return self.width_of(self.spec.levels)

    def width_of(self, levels: tuple[Level, ...]) -> int:
        """Length of an embedding of these levels and all members."""
        return self.spec.num_members * sum(self.widths[level] for level in levels)

    def forward(self, inputs: Tensor, levels: tuple[Level, ...] | None = None) -> Tensor:
        """(N, width) unit rows. The levels of a member are concatenated un-normalised, then normalised, so that a level weighs as much
        as its length; members weigh alike: the cosine of two rows is the mean of the members' cosines.
        """
        parts = [nn.functional.normalize(torch.cat(member(inputs, levels), dim=1)) for member in self.members]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1) / math.sqrt(len(parts))


def make_network(spec: NetworkSpec, *, seed: int, weights: Path | None = None) -> Network:
    """The network on the CPU, its initial values decided by the seed alone; `weights` go into the backbone of every member."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would also seed GPUs, which were not forked
        network = Network(spec)
    if weights is not None:
        state = read_weights(weights)
        for backbone in (module for module in network.modules() if isinstance(module, Backbone)):
            fit_weights(backbone.named_as_in_files, state, weights, ignore=backbone.classifier)
    return network
