"""A histogram with linear (triangular) bins, so that it has a gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from likewise.pairs import as_number


def soft_histogram(values: Tensor, mask: Tensor, *, low: float, high: float, nodes: int) -> Tensor:
    """How much of each row's masked values (a, k) falls on each of `nodes` evenly spaced points of [low, high]: (a, nodes).

    A value between two nodes is shared by them in proportion to its nearness; values outside count at the ends.
    """
    place = ((values - low) * ((nodes - 1) / (high - low))).clamp(0, nodes - 1)
    left = place.detach().floor().clamp_max(nodes - 2)
    whole = as_number(mask, values.dtype)
    share = (place - left) * whole  # of the right-hand node
    left_node = left.long()
    empty = torch.zeros(*values.shape[:-1], nodes, dtype=values.dtype, device=values.device)
    return empty.scatter_add(-1, left_node, whole - share).scatter_add(-1, left_node + 1, share)
