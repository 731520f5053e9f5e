"""Engines: how a function of a block of rows is carried out over all rows.

| engine | memory | gradient |
|---|---|---|
| `Dense` | anchors x references | autograd, twice differentiable |
| `Blocked` | block x references | taken block by block in the forward pass, the block then dropped |
| `Compiled` | block x references | as blocked, the block step fused by torch.compile |
"""

from likewise.engines.blocked import Blocked
from likewise.engines.choice import choose_engine, choose_grouping
from likewise.engines.compiled import Compiled
from likewise.engines.dense import Dense, Engine

__all__ = ["Blocked", "Compiled", "Dense", "Engine", "choose_engine", "choose_grouping"]
