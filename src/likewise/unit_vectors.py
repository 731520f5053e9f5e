"""Vectors brought to length 1, whole or part by part."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from likewise.rows import statistics_dtype


def unit(vectors: Tensor) -> Tensor:
    """Rows brought to length 1, computed in at least float32; a zero vector stays zero, with a finite gradient."""
    result: Tensor = _Unit.apply(vectors)  # type: ignore[no-untyped-call]
    return result


class _Unit(torch.autograd.Function):
    """y = x / ||x||, whose gradient (g - y (g.y)) / ||x|| takes fewer passes over the vectors than autograd finds."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor) -> Tensor:
        direction, ctx.length = _direction(vectors)
        direction = direction.to(vectors.dtype)
        ctx.save_for_backward(vectors, direction)
        return direction

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        vectors, direction = ctx.saved_tensors
        if torch.is_grad_enabled():  # to be differentiated once more: as a function of the vectors
            direction, length = _direction(vectors)
        else:
            direction, length = direction.to(ctx.length.dtype), ctx.length
        gradient = gradient.to(length.dtype)
        along = torch.linalg.vecdot(gradient, direction)[:, None]
        return torch.addcmul(gradient, direction, along, value=-1).div_(length).to(vectors.dtype)


def _direction(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """x / ||x|| and ||x||, the latter 1 for a zero vector."""
    wide = vectors.to(statistics_dtype(vectors))
    length = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
    length = length.masked_fill(length == 0, 1.0)
    return wide / length, length


def part_widths(shares: Sequence[int], dim: int) -> list[int]:
    """The widths of the parts of an embedding of `dim` dimensions, in these proportions: 3, 5 and 8 of 512 are 96, 160 and 256."""
    if not shares or min(shares) < 1:
        raise ValueError(f"parts={tuple(shares)!r}: expected the proportions of the parts' widths, whole numbers of at least 1")
    if dim < len(shares):
        raise ValueError(f"{dim} dimensions cannot be cut into {len(shares)} parts: raise the dimension, or take fewer parts")
    ends = [0]
    for number in range(1, len(shares) + 1):
        wanted = round(dim * sum(shares[:number]) / sum(shares))
        ends.append(min(max(wanted, ends[-1] + 1), dim - len(shares) + number))  # no part is without a dimension
    return [end - start for start, end in pairwise(ends)]


def unit_parts(vectors: Tensor, shares: Sequence[int]) -> list[Tensor]:
    """The parts of embeddings (n, dim), each of length 1: a (n, width) for each share."""
    return [unit(part) for part in vectors.split(part_widths(shares, vectors.shape[1]), dim=1)]
