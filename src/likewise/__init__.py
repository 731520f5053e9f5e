"""Likewise: deep metric learning. Learns embeddings in which like things lie close."""

from likewise.losses import LOSSES
from likewise.mining import MINERS
from likewise.objective import Objective, objective

__all__ = ["LOSSES", "MINERS", "Objective", "objective"]
