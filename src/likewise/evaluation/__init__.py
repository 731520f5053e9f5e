"""How good an embedding is: exact nearest neighbours, retrieval and clustering scores."""

from likewise.evaluation.binary import hamming_nearest, pack_bits
from likewise.evaluation.evaluate import evaluate
from likewise.evaluation.nearest import nearest
from likewise.evaluation.retrieval import PerQuery, per_query

__all__ = ["PerQuery", "evaluate", "hamming_nearest", "nearest", "pack_bits", "per_query"]
