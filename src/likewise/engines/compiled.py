"""The blocked engine with its step fused by torch.compile."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch

from likewise.engines.blocked import Block, Blocked, Step
from likewise.rows import RowFunction


@dataclass(frozen=True)
class Compiled(Blocked):
    """As `Blocked`; every block has the same shape, so that one compilation serves all of them."""

    backend: str = "inductor"

    def step(self, function: RowFunction) -> Step:
        return _compiled(function, self.backend)

    def blocks(self, num_rows: int) -> list[Block]:
        """The last block, where it would be smaller, reaches back over rows that are done already."""
        size = min(self.block, num_rows)
        blocks = [Block(slice(start, start + size)) for start in range(0, num_rows - size + 1, size)]
        left = num_rows % size
        return [*blocks, Block(slice(num_rows - size, num_rows), done=size - left)] if left else blocks


@lru_cache(maxsize=64)
def _compiled(function: RowFunction, backend: str) -> Step:
    compiled: Step = torch.compile(Blocked.step(Blocked(1), function), backend=backend, fullgraph=True, dynamic=False)
    return compiled
