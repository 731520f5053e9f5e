"""All scores of an embedding in one call."""

from collections.abc import Sequence
from typing import Literal

from likewise.evaluation.binary import unpack_bits
from likewise.evaluation.labels import Labels, class_codes
from likewise.evaluation.retrieval import RETRIEVAL_METRICS, per_query
from likewise.evaluation.similarity import Embeddings, as_embeddings

CLUSTERING_METRICS = ("NMI", "NMI_geometric", "AMI")
METRICS = (*RETRIEVAL_METRICS, *CLUSTERING_METRICS)
DEFAULT_METRICS = (*RETRIEVAL_METRICS, "NMI", "AMI")


def evaluate(
    embeddings: Embeddings,
    labels: Labels,
    *,
    gallery: Embeddings | None = None,
    gallery_labels: Labels | None = None,
    ks: Sequence[int] = (1, 2, 4, 8),
    metrics: Sequence[str] = DEFAULT_METRICS,
    metric: str = "cosine",
    seed: int = 0,
    restarts: int | None = None,
    block: int | Literal["auto"] = "auto",
) -> dict[str, float]:
    """Scores in [0, 1] by name, and "unmatched": how many queries have no item of their class in the gallery.

    Retrieval scores (see `per_query`) are means over the matched queries. NMI and AMI compare k-means clusters (K = number of
    classes) of the embeddings, or of the queries where a gallery is given, with the classes; "NMI_geometric" is NMI as the papers
    normalise it.
    """
    unknown = [name for name in metrics if name not in METRICS]
    if isinstance(metrics, str) or unknown or not metrics:
        raise ValueError(f"metrics are {metrics!r}: expected some of {METRICS}")
    retrieval = [name for name in RETRIEVAL_METRICS if name in metrics]
    clustering = [name for name in CLUSTERING_METRICS if name in metrics]
    scores: dict[str, float] = {}
    if retrieval:
        found = per_query(
            embeddings, labels, gallery=gallery, gallery_labels=gallery_labels, ks=ks, metrics=retrieval, metric=metric, block=block
        )
        num_matched = int(found.matched.sum())
        if num_matched == 0:
            where = "any other item" if gallery is None else "any gallery item"
            raise ValueError(
                f"none of the {len(found.matched)} queries shares its label with {where}: retrieval has no score; check the labels"
            )
        scores |= {name: float(values[found.matched].mean()) for name, values in found.scores.items()}
        scores["unmatched"] = len(found.matched) - num_matched
    if clustering:
        from likewise.evaluation.clustering import clustering_scores

        vectors, by = (unpack_bits(embeddings), "euclidean") if metric == "hamming" else (as_embeddings(embeddings, "embeddings"), metric)
        scores |= clustering_scores(vectors, class_codes(labels)[0], metrics=clustering, metric=by, seed=seed, restarts=restarts)
    return scores
