"""An image's embedding as a sum of one vector a place, and of one that belongs to no place.

    embedding = sum over places p of v_p + r

Exactly: the heads are taken as they act near this image (see `held_layers`), and the lengths that levels, members and the whitening are
divided by are held. r holds the biases, the norms' shifts and the whitening's mean. The cosine similarity of two images is then

    s = sum over p, q of v_p . w_q  +  sum over p of v_p . r_b  +  sum over q of r_a . w_q  +  r_a . r_b

Levels and members have maps of different sizes. They are brought to one grid, the finest of them or MOST_PLACES a side: a place that covers
several places of the grid is shared out by area, and what is finer is added up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from likewise.explanation.held_layers import held_layer, length_of
from likewise.explanation.place_shares import place_shares
from likewise.models.network import Member, Network

MOST_PLACES = 28  # a side of the grid: 784 x 784 pairs of places
CHUNK = 64  # places of a map at once, where a part is as wide as a grid of channels

Grid = tuple[int, int]  # rows and columns


@dataclass(frozen=True, eq=False)
class PlaceVectors:
    """In float64 on the CPU."""

    grid: Grid
    vectors: Tensor  # (places, width), row by row
    rest: Tensor  # (width,)

    @property
    def embedding(self) -> Tensor:
        return self.vectors.sum(dim=0) + self.rest

    def mapped(self, matrix: Tensor) -> PlaceVectors:
        return PlaceVectors(self.grid, self.vectors @ matrix, self.rest @ matrix)

    def divided(self, by: float | Tensor) -> PlaceVectors:
        return PlaceVectors(self.grid, self.vectors / by, self.rest / by)

    def shifted(self, by: Tensor) -> PlaceVectors:
        return PlaceVectors(self.grid, self.vectors, self.rest + by)

    def of_unit_length(self) -> PlaceVectors:
        return self.divided(length_of(self.embedding[None])[0])


@torch.no_grad()
def place_vectors(network: Network, inputs: Tensor) -> PlaceVectors:
    """Of one image (1, 3, height, width) on the network's device; the network is in evaluation mode."""
    if network.spec.learners:
        raise ValueError("this network masks its feature maps: its embedding is not a sum over places, and has no heat map")
    members: list[Any] = list(network.members)
    features = [member.backbone(inputs, network.spec.levels) for member in members]
    grid = _common_grid([maps for of_member in features for maps in of_member])
    parts = [_of_member(member, maps, grid).of_unit_length() for member, maps in zip(members, features, strict=True)]
    joined = _joined(parts).divided(math.sqrt(len(parts)))
    if network.whitening is None:
        return joined
    mean, matrix = network.whitening.mean.cpu().double(), network.whitening.matrix.cpu().double()
    return joined.of_unit_length().shifted(-mean).mapped(matrix).of_unit_length()


def _common_grid(maps: list[Tensor]) -> Grid:
    height, width = (min(MOST_PLACES, max(one.shape[axis] for one in maps)) for axis in (2, 3))
    return height, width


def _of_member(member: Member, maps: tuple[Tensor, ...], grid: Grid) -> PlaceVectors:
    heads: list[Any] = [member.heads[level] for level in member.levels]
    return _joined([_of_head(head, one[0].cpu().double(), grid) for head, one in zip(heads, maps, strict=True)])


def _of_head(head: nn.Sequential, features: Tensor, grid: Grid) -> PlaceVectors:
    """Of a map (channels, height, width)."""
    pooling, *layers = head
    whole, parts_of = place_shares(pooling, features)
    held = []
    rest = torch.zeros_like(whole)
    for layer in layers:
        held.append(held_layer(layer, whole))
        whole, rest = held[-1].whole, held[-1].of_rest(rest)
    num_places = features.shape[1] * features.shape[2]
    shares = _shared_out(grid, (features.shape[1], features.shape[2]))
    vectors = torch.zeros(grid[0] * grid[1], whole.shape[1], dtype=torch.float64)
    for start in range(0, num_places, CHUNK):
        chunk = slice(start, min(start + CHUNK, num_places))
        parts = parts_of(chunk)
        for step in held:
            parts = step.of_parts(parts)
        vectors += shares[:, chunk] @ parts
    return PlaceVectors(grid, vectors, rest[0])


def _joined(parts: list[PlaceVectors]) -> PlaceVectors:
    """One beside the other."""
    return PlaceVectors(parts[0].grid, torch.cat([part.vectors for part in parts], dim=1), torch.cat([part.rest for part in parts]))


def _shared_out(grid: Grid, source: Grid) -> Tensor:
    """(places of the grid, places of the source): the share of each source place's area that lies in each place of the grid."""
    rows, columns = (_overlap(to, of) for to, of in zip(grid, source, strict=True))
    return torch.kron(rows, columns)


def _overlap(to: int, of: int) -> Tensor:
    """(to, of): how much of each of `of` equal pieces of a line lies in each of `to`."""
    left = torch.maximum(torch.arange(to, dtype=torch.float64)[:, None] / to, torch.arange(of, dtype=torch.float64) / of)
    right = torch.minimum(torch.arange(1, to + 1, dtype=torch.float64)[:, None] / to, torch.arange(1, of + 1, dtype=torch.float64) / of)
    return (right - left).clamp(min=0) * of
