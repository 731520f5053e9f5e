"""Head start: heads whose projection begins as the PCA of what it is fed, whitened or not, instead of as a random matrix."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from likewise.models.backbones import Level
from likewise.models.embedding import embed_batches
from likewise.models.heads import projection_place
from likewise.models.network import Member, Network, make_network
from likewise.models.whitening import Whitening, whiten

MOST_KEPT = 8  # starts: as many as a comparison has folds and kinds of heads, about; each is as large as a projection
STARTABLE = ("linear", "layer_norm", "none")  # heads with nothing random before the projection


class Starts:
    """What projections start from, each computed once: trainings on the same features share it, whatever their methods and seeds."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, float, int], tuple[Whitening, float]] = {}

    def of(self, fed: Tensor, *, power: float, dim: int) -> tuple[Whitening, float]:
        """The PCA of what a projection to `dim` dimensions is fed, and the mean length (root of the mean square) of what it then gives."""
        content = fed.detach().cpu().contiguous()
        key = (f"{tuple(fed.shape)} {fed.device} {hashlib.sha256(content.numpy().tobytes()).hexdigest()}", power, dim)
        if key not in self._found:
            whitening = whiten(fed, kind="pca", power=power)
            if power == 0:
                whitening = Whitening(whitening.mean, completed(whitening.matrix, dim))
            length = float(((fed - whitening.mean) @ whitening.matrix[:, :dim]).square().sum(1).mean().sqrt())
            self._found[key] = (whitening, length)
            if len(self._found) > MOST_KEPT:
                del self._found[next(iter(self._found))]
        return self._found[key]


@torch.no_grad()
def started_from_features(
    network: Network, inputs: Callable[[], Iterable[Tensor]], *, power: float, seed: int, starts: Starts | None = None
) -> Network:
    """The network with its projections started: a level of a member embeds as `whiten(kind="pca", power=power)` of what its projection is
    fed: with power 0 as the features themselves, centred; with 1/2 as the half-whitened.

    inputs: gives batches of the items that it will be trained on, and of no others, on the network's device; asked once for each level of
    each member. Where these vary in fewer directions than the network has dimensions, it has that many if they are whitened; else further
    directions are drawn, orthogonal to those, so that what few items do not vary in is not lost on others.
    starts: those of other trainings, which may be on the same items.
    """
    spec = network.spec
    if spec.head not in STARTABLE:
        raise ValueError(
            f"head {spec.head!r} has random layers before its projection and cannot start from its features: "
            f"--set head.kind=linear, or --set head_start=random"
        )
    if spec.learners:
        raise ValueError(f"{spec.learners} attention masks are random at first, and what a head is fed with them: --set head_start=random")
    if spec.head == "none":
        return network
    if not spec.unit_features:
        raise ValueError("a network without unit_features cannot start from its features, which are of length 1: set unit_features=True")
    starts = Starts() if starts is None else starts
    started_at: dict[str, tuple[Whitening, float]] = {}
    for number, member in enumerate(network.members):
        assert isinstance(member, Member)
        for level in spec.levels:
            place = f"members.{number}.heads.{level}.{projection_place(member.heads[level])}"  # type: ignore[arg-type]
            fed = embed_batches(_Fed(member, level), inputs())
            started_at[place] = starts.of(fed, power=power, dim=spec.dim)
    dim = min(spec.dim, *(whitening.width for whitening, _ in started_at.values()))
    state = network.state_dict()
    for place, (whitening, length) in started_at.items():
        matrix = whitening.matrix[:, :dim].double() / length  # embeddings of length about 1, before they are brought to it
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
        head: Any = self.member.heads[self.level]
        fed: Tensor = head[: projection_place(head)](features)
        return fed
