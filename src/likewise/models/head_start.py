"""Head start: heads whose projection begins as the PCA of what it is fed, whitened or not, instead of as a random matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import torch
from torch import Tensor, nn

from likewise.models.backbones import Level
from likewise.models.embedding import embed_batches
from likewise.models.network import Member, Network, make_network
from likewise.models.whitening import Whitening, whiten

STARTABLE = ("linear", "layer_norm", "none")  # heads with nothing random before the projection


@torch.no_grad()
def started_from_features(network: Network, inputs: Callable[[], Iterable[Tensor]], *, power: float, seed: int) -> Network:
    """The network with its projections started: a level of a member embeds as `whiten(kind="pca", power=power)` of what its projection is
    fed: with power 0 as the features themselves, centred; with 1/2 as the half-whitened.

    inputs: gives batches of the items that it will be trained on, and of no others, on the network's device; asked once for each level of
    each member. Where these vary in fewer directions than the network has dimensions, it has that many if they are whitened; else further
    directions are drawn, orthogonal to those, so that what few items do not vary in is not lost on others.
    """
    spec = network.spec
    if spec.head not in STARTABLE:
        raise ValueError(
            f"head {spec.head!r} has random layers before its projection and cannot start from its features: "
            f"--set head.kind=linear, or --set head_start=random"
        )
    if spec.head == "none":
        return network
    if not spec.unit_features:
        raise ValueError("a network without unit_features cannot start from its features, which are of length 1: set unit_features=True")
    whitenings: dict[str, Whitening] = {}
    lengths: dict[str, float] = {}
    for number, member in enumerate(network.members):
        assert isinstance(member, Member)
        for level in spec.levels:
            place = f"members.{number}.heads.{level}.{len(member.heads[level]) - 1}"  # type: ignore[arg-type]
            fed = embed_batches(_Fed(member, level), inputs())
            whitenings[place] = whiten(fed, kind="pca", power=power)
            if power == 0:
                whitenings[place] = Whitening(whitenings[place].mean, completed(whitenings[place].matrix, spec.dim))
            lengths[place] = float(((fed - whitenings[place].mean) @ whitenings[place].matrix[:, : spec.dim]).square().sum(1).mean().sqrt())
    dim = min(spec.dim, *(whitening.width for whitening in whitenings.values()))
    state = network.state_dict()
    for place, whitening in whitenings.items():
        matrix = whitening.matrix[:, :dim].double() / lengths[place]  # embeddings of length about 1, before they are brought to it
        state |= {f"{place}.weight": matrix.T, f"{place}.bias": -whitening.mean.double() @ matrix}
    started = make_network(replace(spec, dim=dim), seed=seed)
    started.load_state_dict(state)
    return started.to(whitening.mean.device)


def completed(directions: Tensor, dim: int) -> Tensor:
    """Orthonormal columns, followed by others orthogonal to them until there are `dim`, or as many as there can be; the same every time."""
    features, width = directions.shape
    missing = min(dim, features) - width
    if missing <= 0:
        return directions
    drawn = torch.randn(features, missing, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(directions.device)
    basis, _ = torch.linalg.qr(torch.cat([directions.double(), drawn], dim=1))
    return torch.cat([directions, basis[:, width:].to(directions.dtype)], dim=1)


class _Fed(nn.Module):
    """What the projection of one level of a member is fed."""

    def __init__(self, member: Member, level: Level) -> None:
        super().__init__()
        self.member, self.level = member, level

    def forward(self, inputs: Tensor, levels: tuple[Level, ...] | None = None) -> Tensor:
        (features,) = self.member.backbone(inputs, (self.level,))
        fed: Tensor = self.member.heads[self.level][:-1](features)  # type: ignore[index]
        return fed
