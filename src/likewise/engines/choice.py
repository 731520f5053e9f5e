"""How a batch is carried out, where the user leaves it open: by which engine, and with its positives found beforehand or not."""

from __future__ import annotations

import math
from typing import Literal

from likewise.engines.blocked import CPU_BETWEEN_NUMBERS, Blocked
from likewise.engines.compiled import Compiled
from likewise.engines.dense import Dense, Engine
from likewise.losses.loss import AnyLoss, BatchLoss, Traits
from likewise.rows import Grouping, Rows

# Measured with benchmarks/losses.py; docs/performance.md has the tables.
DENSE_PAIRS = 256 * 256  # up to here one block under plain autograd has the least overhead
COMPACT_PAIRS = 256 * 256  # up to here masks over whole rows cost less than finding each row's positives
COMPACT_SHARE = 0.5  # and where a class has more of the references than this, they do again
CPU_TILE_PAIRS = 64 * 2048  # a tile's dozen temporaries stay in a core's cache
CPU_BLOCK_PAIRS = 2048 * 2048  # 16 MiB of float32
CUDA_BLOCK_PAIRS = 2979 * 65536  # 372 MiB of bf16: large enough that launching kernels does not hold the GPU up
COMPILE_PAIRS = 4096 * 4096  # below, launching the uncompiled kernels costs less than a first compilation ever gives back


def choose_grouping(rows: Rows, loss: AnyLoss, traits: Traits) -> Grouping | None:
    """Where each row's few positives are, for a loss that needs to know and where masks over whole rows cost more than finding out."""
    if rows.relation is not None:
        return None
    wanted = traits.expands_positives or traits.between_references
    worth = rows.num_anchors * rows.num_references > (COMPACT_PAIRS if rows.anchors.is_cpu else COMPILE_PAIRS)
    if not wanted and (not worth or isinstance(loss, BatchLoss)):  # the latter looks at whole rows anyway
        return None
    grouping = Grouping.of(rows.anchor_labels, rows.reference_labels)
    few = grouping.largest <= COMPACT_SHARE * rows.num_references or grouping.largest == rows.num_references  # of one class: no pair at all
    return grouping if wanted or few else None


def choose_engine(
    rows: Rows,
    *,
    block: int | Literal["auto"] | None,
    compile: bool | Literal["auto"],
    expands_positives: bool = False,
    between_references: bool = False,
) -> Engine:
    """The engine for these rows.

    A loss that `expands_positives` holds a number for every positive of every pair: tiles (on a GPU, blocks) shrink by that much.
    Of one that looks `between_references` a block also holds the rows of its positives.
    """
    numbers_per_pair = rows.grouping.largest if expands_positives and rows.grouping is not None else 1
    numbers_per_row = rows.num_references * numbers_per_pair
    on_cpu = rows.anchors.is_cpu
    if compile == "auto":
        compile = rows.anchors.is_cuda and block is not None and rows.num_anchors * numbers_per_row >= COMPILE_PAIRS
    if block is None or (block == "auto" and rows.num_anchors * numbers_per_row <= DENSE_PAIRS):
        if not compile:
            return Dense()
        size = rows.num_anchors
    elif block == "auto":
        # on a CPU a block holds only the similarities; what a loss makes of them is held a tile at a time
        most = CPU_BLOCK_PAIRS // rows.num_references if on_cpu else CUDA_BLOCK_PAIRS // numbers_per_row
        if on_cpu and between_references:
            most = min(most, CPU_BETWEEN_NUMBERS // numbers_per_row)
        most = max(1, most)
        size = math.ceil(rows.num_anchors / math.ceil(rows.num_anchors / most))  # blocks of one size
    else:
        size = min(block, rows.num_anchors)
    if compile:
        return Compiled(size)
    if not on_cpu:
        return Blocked(size)
    height = max(1, CPU_TILE_PAIRS // rows.num_references)
    return Blocked(size, tile=min(size, height), positives=height if expands_positives else None)
