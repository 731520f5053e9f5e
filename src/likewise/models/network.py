"""Network: backbone and heads, at several levels and as an ensemble, to one unit vector an item."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import torch
from torch import Tensor, nn

from likewise.checks import known_name
from likewise.models.attention import AttentionMasks, attended
from likewise.models.backbones import LEVELS, Backbone, Level, make_backbone
from likewise.models.heads import HEADS, UnitParts
from likewise.models.pooling import POOLINGS
from likewise.models.weights.weight_files import fit_weights, read_weights
from likewise.models.whitening import Whitening
from likewise.unit_vectors import part_widths


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
    parts: tuple[int, ...] = ()  # proportions of the parts of a level's embedding that have lengths of their own; empty: it is one
    learners: int = 0  # attention masks, each with its share of the dimensions; 0: none
    unit_features: bool = False  # what a head's projection is fed has length 1, and the projection a bias
    whitened: int = 0  # width of the whitening that all levels and members end in; 0: none

    def __post_init__(self) -> None:
        known_name("pooling", self.pooling, POOLINGS)
        known_name("head", self.head, HEADS)
        for name in ("dim", "num_members"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: expected at least 1")
        check_levels(self.levels, LEVELS)
        if self.parts:
            part_widths(self.parts, self.dim)
        if self.learners and (self.dim % self.learners or self.levels != ("high",)):
            raise ValueError(
                f"dim={self.dim} at the levels {', '.join(self.levels)} with learners={self.learners}: "
                "expected the high level alone, and dimensions that can be shared out equally"
            )
        if self.whitened and self.binary:
            raise ValueError("a whitening after a binary network: its signs are what is compared; leave the whitening out, or binary=False")


def check_levels(levels: tuple[Level, ...], available: tuple[Level, ...]) -> None:
    """Levels must be some of the available, each once, from low to high: the order of their concatenation."""
    for level in levels:
        known_name("level", level, LEVELS)
    if not levels or levels != tuple(level for level in available if level in levels):
        raise ValueError(f"levels={levels!r}: expected at least one of {', '.join(available)}, each once and in this order")


def level_combinations(levels: tuple[Level, ...]) -> tuple[tuple[Level, ...], ...]:
    """Every combination of levels, from the single ones to all of them together."""
    return tuple(chosen for count in range(1, len(levels) + 1) for chosen in combinations(levels, count))


class Member(nn.Module):
    """A backbone with one head a level."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        self.levels = spec.levels
        self.backbone: Backbone = make_backbone(spec.backbone, in_features=spec.in_features)
        if spec.head == "rll" and not self.backbone.gives_maps and spec.levels != ("high",):
            raise ValueError(f"head='rll' needs feature maps below the high level, and {spec.backbone!r} gives vectors: take head='linear'")
        channels = self.backbone.channels
        self.heads = nn.ModuleDict({level: _head(spec, channels[level], level) for level in spec.levels})
        self.attention: AttentionMasks | None = None
        if spec.learners:
            self.attention = AttentionMasks(channels["low"], spec.learners, of_maps=self.backbone.gives_maps)
        self.widths: dict[Level, int] = {level: channels[level] if spec.head == "none" else spec.dim for level in spec.levels}

    def forward(self, inputs: Tensor, levels: tuple[Level, ...] | None = None) -> tuple[Tensor, ...]:
        """One un-normalised float32 embedding (N, dim) a level; all levels unless given."""
        levels = self.levels if levels is None else levels
        if self.attention is not None:
            of_learners: Tensor = self.heads["high"](attended(self.backbone, self.attention, inputs))
            return (torch.cat(of_learners.split(len(inputs)), dim=1),)
        features = self.backbone(inputs, levels)
        return tuple(self.heads[level](feature) for level, feature in zip(levels, features, strict=True))


def _head(spec: NetworkSpec, channels: int, level: Level) -> nn.Sequential:
    dim = spec.dim // max(1, spec.learners)
    head = HEADS[spec.head](channels, dim, pooling=spec.pooling, level=level, unit=spec.unit_features)
    return head.append(UnitParts(spec.parts, channels if spec.head == "none" else dim)) if spec.parts else head


class Network(nn.Module):
    """One member, or an ensemble of them (DREML)."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        self.spec = spec
        members = [Member(spec) for _ in range(spec.num_members)]
        self.members = nn.ModuleList(members)
        self.widths = members[0].widths
        joined = self.num_outputs
        self.whitening = Whitening(torch.zeros(joined), torch.eye(joined, spec.whitened)) if spec.whitened else None

    @property
    def width(self) -> int:
        """Length of an embedding of all levels and members."""
        return self.width_of(self.spec.levels)

    @property
    def num_outputs(self) -> int:
        """Length of what the heads of all members give, before any whitening."""
        return self.spec.num_members * sum(self.widths.values())

    def width_of(self, levels: tuple[Level, ...]) -> int:
        """Length of an embedding of these levels and all members."""
        if self.whitening is not None:
            check_whole(levels, self.spec.levels)
            return self.whitening.width
        return self.spec.num_members * sum(self.widths[level] for level in levels)

    def forward(self, inputs: Tensor, levels: tuple[Level, ...] | None = None) -> Tensor:
        """(N, width) unit rows. The levels of a member are concatenated un-normalised, then normalised, so that a level weighs as much
        as its length; members weigh alike: the cosine of two rows is the mean of the members' cosines. A whitening comes last.
        """
        return self._joined([torch.cat(member(inputs, levels), dim=1) for member in self.members], levels)

    def outputs(self, inputs: Tensor) -> Tensor:
        """(N, num_outputs) what the heads give, un-normalised: the levels of the first member, then of the next. Not whitened."""
        return torch.cat([output for member in self.members for output in member(inputs)], dim=1)

    def joined(self, outputs: Tensor, levels: tuple[Level, ...] | None = None) -> Tensor:
        """From `outputs` the unit rows that the network gives, or gives of these levels alone: every combination from one pass."""
        return self._joined(list(self.outputs_of(outputs, levels).unflatten(1, (len(self.members), -1)).unbind(1)), levels)

    def outputs_of(self, outputs: Tensor, levels: tuple[Level, ...] | None) -> Tensor:
        """Of `outputs` those of these levels."""
        if levels is None or levels == self.spec.levels:
            return outputs
        check_levels(levels, self.spec.levels)
        of_levels = outputs.unflatten(1, (len(self.members), -1)).split([self.widths[level] for level in self.spec.levels], dim=2)
        kept = [output for level, output in zip(self.spec.levels, of_levels, strict=True) if level in levels]
        return torch.cat(kept, dim=2).flatten(1)

    def _joined(self, of_members: list[Tensor], levels: tuple[Level, ...] | None) -> Tensor:
        parts = [nn.functional.normalize(part) for part in of_members]
        rows = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1) / math.sqrt(len(parts))
        if self.whitening is None:
            return rows
        check_whole(levels or self.spec.levels, self.spec.levels)
        whitened: Tensor = self.whitening(rows)
        return whitened

    def with_whitening(self, whitening: Whitening) -> Network:
        """A network of its own with these weights, in evaluation mode, that ends in the whitening."""
        if self.whitening is not None:
            raise ValueError("this network ends in a whitening already: give the network without it")
        if whitening.in_features != self.width:
            raise ValueError(
                f"a whitening of {whitening.in_features} dimensions after a network that gives {self.width}: "
                "take it from this network's own embeddings"
            )
        network = make_network(replace(self.spec, whitened=whitening.width), seed=0)
        of_whitening = {f"whitening.{name}": value for name, value in whitening.state_dict().items()}
        network.load_state_dict({**self.state_dict(), **of_whitening})
        return network.to(next(iter(self.state_dict().values()), whitening.mean).device).eval()


def check_whole(levels: tuple[Level, ...], trained: tuple[Level, ...]) -> None:
    """A whitening is of all levels joined: there is none of a part of them."""
    if levels != trained:
        raise ValueError(f"levels={levels!r} of a whitened network: its whitening is of {', '.join(trained)} joined; leave levels out")


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
