"""Likewise: deep metric learning. Learns embeddings in which like things lie close."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from likewise.evaluation import evaluate, nearest
from likewise.losses import LOSSES
from likewise.mining import MINERS
from likewise.objectives import Objective, objective
from likewise.pair_weighting import DesignedByWeights, pair_weights

if TYPE_CHECKING:
    from likewise.comparison.compare import compare
    from likewise.models.embedder import Embedder
    from likewise.training.train import train

__all__ = [
    "LOSSES",
    "MINERS",
    "DesignedByWeights",
    "Embedder",
    "Objective",
    "compare",
    "evaluate",
    "nearest",
    "objective",
    "pair_weights",
    "train",
]

# What brings heavy libraries along is imported when it is first asked for.
LATER = {
    "Embedder": "likewise.models.embedder",
    "compare": "likewise.comparison.compare",
    "train": "likewise.training.train",
}


def __getattr__(name: str) -> Any:
    if name not in LATER:
        raise AttributeError(f"module 'likewise' has no attribute {name!r}")
    return getattr(import_module(LATER[name]), name)
