"""Clustering scores: how well k-means on the embeddings finds the classes again (NMI, AMI)."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from sklearn.metrics import mutual_info_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from likewise.evaluation.kmeans import Backend, kmeans
from likewise.evaluation.labels import Labels, class_codes
from likewise.evaluation.metrics import CLUSTERING_METRICS, check_metrics
from likewise.evaluation.similarity import Embeddings, as_embeddings

MANY_CLUSTERS = 1000  # a restart is dear from here on and matters less: NMI varies by 0.002 (standard deviation), by 0.007 at 100 clusters


def clustering_scores(
    embeddings: Embeddings,
    labels: Labels,
    *,
    metrics: Sequence[str] = CLUSTERING_METRICS,
    metric: str = "cosine",
    seed: int = 0,
    restarts: int | None = None,
    backend: Backend = "auto",
    on_restart: Callable[[int], None] | None = None,
) -> dict[str, float]:
    """Agreement of k-means clusters (k = number of classes) with the labels, in [0, 1] (AMI may be slightly negative).

    NMI = I(classes; clusters) / mean of the entropies H(classes) and H(clusters): the arithmetic mean for "NMI" (scikit-learn's default),
    the geometric mean for "NMI_geometric" (what the metric learning papers report). "AMI" = (I - E[I]) / (arithmetic mean - E[I]), with
    E[I] expected of random clusters of the same sizes: unlike NMI it does not grow with the number of clusters.
    metric="cosine" clusters the L2-normalised embeddings, "euclidean" the embeddings as they are. `restarts` is 10 below 1,000 classes,
    else 3.
    One class only scores 1: there is nothing to confuse.
    """
    check_metrics(metrics, CLUSTERING_METRICS)
    if metric not in ("cosine", "euclidean"):
        raise ValueError(f'metric must be "cosine" or "euclidean", got {metric!r}')
    rows = as_embeddings(embeddings, "embeddings")
    codes = class_codes(labels)[0].numpy()
    if len(codes) != len(rows):
        raise ValueError(f"{len(codes)} labels for {len(rows)} embeddings: expected one label an embedding")
    k = int(codes.max()) + 1
    if restarts is None:
        restarts = 10 if k < MANY_CLUSTERS else 3
    if metric == "cosine":
        rows = torch.nn.functional.normalize(rows, dim=1)
    clusters = kmeans(rows, k, seed=seed, restarts=restarts, backend=backend, on_restart=on_restart).assignment.cpu().numpy()
    scores: dict[str, float] = {}
    for name in metrics:
        if name == "AMI":
            scores[name] = adjusted_mutual_information(codes, clusters)
        else:
            average = "geometric" if name == "NMI_geometric" else "arithmetic"
            scores[name] = float(normalized_mutual_info_score(codes, clusters, average_method=average))
    return scores


def adjusted_mutual_information(classes: np.ndarray, clusters: np.ndarray) -> float:
    """AMI as scikit-learn defines it (arithmetic mean), fast for thousands of clusters.

    Only the expected mutual information is our own: scikit-learn goes through every pair of class and cluster (11,316 x 11,316: 25 s), but
    the term depends on their sizes only, and few sizes are different.
    """
    table = contingency_matrix(classes, clusters, sparse=True)
    class_sizes, cluster_sizes = np.asarray(table.sum(axis=1)).ravel(), np.asarray(table.sum(axis=0)).ravel()
    if len(class_sizes) == len(cluster_sizes) == 1:
        return 1.0
    expected = _expected_mutual_information(class_sizes, cluster_sizes)
    mutual = float(mutual_info_score(None, None, contingency=table))
    above = (_entropy(class_sizes) + _entropy(cluster_sizes)) / 2 - expected
    smallest = float(np.finfo(np.float64).eps)
    above = min(above, -smallest) if above < 0 else max(above, smallest)  # every item its own class: 0 / 0 becomes 0, as in scikit-learn
    return (mutual - expected) / above


def _entropy(sizes: np.ndarray) -> float:
    share = sizes / sizes.sum()
    return float(-(share * np.log(share)).sum())


def _expected_mutual_information(class_sizes: np.ndarray, cluster_sizes: np.ndarray) -> float:
    """E[I] = sum over classes a, clusters b and overlaps n of n/N log(N n / (a b)) P(n), P hypergeometric (Vinh et al. 2010)."""
    total = int(class_sizes.sum())
    log_factorial = torch.lgamma(torch.arange(1, total + 2, dtype=torch.float64)).numpy()
    expected = 0.0
    for a, times_a in zip(*np.unique(class_sizes.astype(np.int64), return_counts=True), strict=True):
        for b, times_b in zip(*np.unique(cluster_sizes.astype(np.int64), return_counts=True), strict=True):
            n = np.arange(max(1, a + b - total), min(a, b) + 1)
            log_chance = (
                log_factorial[a]
                + log_factorial[b]
                + log_factorial[total - a]
                + log_factorial[total - b]
                - log_factorial[total]
                - log_factorial[n]
                - log_factorial[a - n]
                - log_factorial[b - n]
                - log_factorial[total - a - b + n]
            )
            term = n / total * (np.log(total) + np.log(n) - np.log(a) - np.log(b)) * np.exp(log_chance)
            expected += float(times_a * times_b * term.sum())
    return expected
