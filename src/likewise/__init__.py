"""Likewise: deep metric learning. Learns embeddings in which like things lie close."""

from likewise.evaluation import evaluate, nearest
from likewise.losses import LOSSES
from likewise.mining import MINERS
from likewise.objective import Objective, objective
from likewise.weights import DesignedByWeights, pair_weights

__all__ = ["LOSSES", "MINERS", "DesignedByWeights", "Objective", "evaluate", "nearest", "objective", "pair_weights"]
