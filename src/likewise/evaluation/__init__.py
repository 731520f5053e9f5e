"""How good an embedding is: exact nearest neighbours, retrieval and clustering scores, how sure they are, and its geometry."""

from likewise.evaluation.binary import pack_bits
from likewise.evaluation.certainty.uncertainty import mean_intervals, paired_test
from likewise.evaluation.diagnostics import diagnose
from likewise.evaluation.kmeans import kmeans
from likewise.evaluation.nearest import nearest
from likewise.evaluation.retrieval import PerQuery, per_query
from likewise.evaluation.scores import Scores, evaluate, score

__all__ = [
    "PerQuery",
    "Scores",
    "diagnose",
    "evaluate",
    "kmeans",
    "mean_intervals",
    "nearest",
    "pack_bits",
    "paired_test",
    "per_query",
    "score",
]
