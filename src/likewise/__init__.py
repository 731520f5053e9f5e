"""Likewise: deep metric learning. Learns embeddings in which like things lie close."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from likewise.adaptation.adapt import adapt
    from likewise.discovery.weight_search import discover
    from likewise.evaluation.calibration import Calibration, calibrate
    from likewise.evaluation.certainty.verdict import verdict
    from likewise.evaluation.nearest import nearest
    from likewise.evaluation.reranking import RERANKERS, rerank
    from likewise.evaluation.scores import evaluate
    from likewise.explanation.matching import Explanation, explain
    from likewise.exporting.exporter import export
    from likewise.integrity.check import check
    from likewise.losses import LOSSES
    from likewise.mining import MINERS
    from likewise.models.embedder import Embedder
    from likewise.models.whitening import whiten
    from likewise.objectives import Objective, objective
    from likewise.own_code import trust
    from likewise.pair_weighting import DesignedByWeights, pair_weights
    from likewise.reports.comparison_report import compare
    from likewise.reproductions.reproduce import reproduce
    from likewise.search.index import Index
    from likewise.training.train import train

    __version__: str

__all__ = [
    "LOSSES",
    "MINERS",
    "RERANKERS",
    "Calibration",
    "DesignedByWeights",
    "Embedder",
    "Explanation",
    "Index",
    "Objective",
    "__version__",
    "adapt",
    "calibrate",
    "check",
    "compare",
    "discover",
    "evaluate",
    "explain",
    "export",
    "nearest",
    "objective",
    "pair_weights",
    "reproduce",
    "rerank",
    "train",
    "trust",
    "verdict",
    "whiten",
]

# Each name is imported when it is first asked for: `likewise --help` does not wait for torch. No module of this package may have the name
# of one of them: importing it would put the module in the place of what is asked for.
_WHERE = {
    "LOSSES": "likewise.losses",
    "MINERS": "likewise.mining",
    "RERANKERS": "likewise.evaluation.reranking",
    "Calibration": "likewise.evaluation.calibration",
    "DesignedByWeights": "likewise.pair_weighting",
    "Embedder": "likewise.models.embedder",
    "Explanation": "likewise.explanation.matching",
    "Index": "likewise.search.index",
    "Objective": "likewise.objectives",
    "adapt": "likewise.adaptation.adapt",
    "calibrate": "likewise.evaluation.calibration",
    "check": "likewise.integrity.check",
    "compare": "likewise.reports.comparison_report",
    "discover": "likewise.discovery.weight_search",
    "evaluate": "likewise.evaluation.scores",
    "explain": "likewise.explanation.matching",
    "export": "likewise.exporting.exporter",
    "nearest": "likewise.evaluation.nearest",
    "objective": "likewise.objectives",
    "pair_weights": "likewise.pair_weighting",
    "reproduce": "likewise.reproductions.reproduce",
    "rerank": "likewise.evaluation.reranking",
    "train": "likewise.training.train",
    "trust": "likewise.own_code",
    "verdict": "likewise.evaluation.certainty.verdict",
    "whiten": "likewise.models.whitening",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "__version__":
        from likewise.environment import installed_version

        return installed_version("likewise")
    if name not in _WHERE:
        raise AttributeError(f"module 'likewise' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return __all__
