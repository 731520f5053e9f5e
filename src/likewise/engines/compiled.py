"""The blocked engine with its step fused by torch.compile."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from likewise.engines.blocked import Block, Blocked, Step
from likewise.rows import BlockTensors, CountedFunction, Grouping, RowFunction, pairs_of


@dataclass(frozen=True)
class Compiled(Blocked):
    """As `Blocked`; every block has the same shape, so that one compilation serves all of them."""

    backend: str = "inductor"

    def step(self, function: RowFunction | CountedFunction) -> Step:
        def compiled(similarity: Tensor, tensors: BlockTensors, **more: Any) -> Any:
            columns = tensors["columns"]
            shapes = (similarity.shape, None if columns is None else columns.shape, similarity.dtype, similarity.requires_grad)
            return _compiled(function, self.backend, shapes)(similarity, tensors, **more)

        return compiled

    def width(self, grouping: Grouping, rows: slice) -> int:
        """One width for all blocks."""
        return grouping.largest

    def named(self, columns: Tensor) -> tuple[Tensor, Tensor]:
        """Every column for itself: their number must not change from block to block."""
        return columns.flatten(), torch.arange(columns.numel(), device=columns.device).view_as(columns)

    def blocks(self, num_rows: int) -> list[Block]:
        """The last block, where it would be smaller, reaches back over rows that are done already."""
        size = min(self.block, num_rows)
        blocks = [Block(slice(start, start + size)) for start in range(0, num_rows - size + 1, size)]
        left = num_rows % size
        return [*blocks, Block(slice(num_rows - size, num_rows), done=size - left)] if left else blocks


@lru_cache(maxsize=256)
def _compiled(function: RowFunction | CountedFunction, backend: str, shapes: tuple[object, ...]) -> Step:
    """The step of a function for blocks of these shapes.

    torch counts compilations by code object and refuses the ninth: each step is given a code object of its own, so that any
    number of losses and batch sizes can be compiled in a process.
    """

    def step(similarity: Tensor, tensors: BlockTensors, **more: Any) -> Any:
        return function(pairs_of(similarity, tensors, **more))

    copied = FunctionType(step.__code__.replace(), step.__globals__, closure=step.__closure__)
    compiled: Step = torch.compile(copied, backend=backend, fullgraph=True, dynamic=False)
    return compiled
