"""Multi-similarity loss."""

from __future__ import annotations

from dataclasses import dataclass

from likewise.losses.raw import RelativeAbsolute


@dataclass(frozen=True)
class MultiSimilarity(RelativeAbsolute):
    """Multi-similarity loss (Wang et al. 2019): RAW's formula by its later name; its miner is `vthm` with margin .1.

    The paper has beta 50, its code 40.
    """
