"""Which engine serves a batch, when the user leaves it open."""

from __future__ import annotations

import math
from typing import Literal

from likewise.engines.blocked import Blocked
from likewise.engines.compiled import Compiled
from likewise.engines.dense import Dense
from likewise.engines.engine import Engine
from likewise.rows import Rows

# Measured with benchmarks/losses.py; docs/performance.md has the tables.
DENSE_PAIRS = 256 * 256  # up to here one block under plain autograd has the least overhead
CPU_TILE_PAIRS = 64 * 2048  # a tile's dozen temporaries stay in a core's cache
CPU_BLOCK_PAIRS = 2048 * 2048  # 16 MiB of float32
CUDA_BLOCK_PAIRS = 2979 * 65536  # 372 MiB of bf16: large enough that launching kernels does not hold the GPU up
COMPILE_PAIRS = 4096 * 4096  # below, launching the uncompiled kernels costs less than a first compilation ever gives back


def choose_engine(rows: Rows, *, block: int | Literal["auto"] | None, compile: bool | Literal["auto"], pairs_per_pair: int = 1) -> Engine:
    """The engine for these rows.

    `pairs_per_pair` is how many numbers the loss holds for each pair (the number of positives for losses that compare
    every positive with the whole row): blocks shrink by that much.
    """
    held = rows.num_references * pairs_per_pair  # numbers a row takes
    on_cpu = rows.anchors.is_cpu
    if compile == "auto":
        compile = rows.anchors.is_cuda and block is not None and rows.num_anchors * held >= COMPILE_PAIRS
    if block is None or (block == "auto" and rows.num_anchors * held <= DENSE_PAIRS):
        if not compile:
            return Dense()
        size = rows.num_anchors
    elif block == "auto":
        # on a CPU a block holds only the similarities; what a loss makes of them is held a tile at a time
        most = max(1, CPU_BLOCK_PAIRS // rows.num_references if on_cpu else CUDA_BLOCK_PAIRS // held)
        size = math.ceil(rows.num_anchors / math.ceil(rows.num_anchors / most))  # blocks of one size
    else:
        size = min(block, rows.num_anchors)
    if compile:
        return Compiled(size)
    return Blocked(size, tile=min(size, max(1, CPU_TILE_PAIRS // held)) if on_cpu else None)
