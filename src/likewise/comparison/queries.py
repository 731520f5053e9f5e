"""Queries: the test scores of an embedding, all of them and each query's."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from likewise.comparison.pieces import BY
from likewise.data.guard import TestPart
from likewise.evaluation.evaluate import CLUSTERING_METRICS, evaluate
from likewise.evaluation.retrieval import RETRIEVAL_METRICS, PerQuery, per_query
from likewise.protocols import Protocol
from likewise.training.feeds import Feed


def scores_on_test(vectors: torch.Tensor, feed: Feed, part: TestPart, protocol: Protocol) -> tuple[dict[str, float], PerQuery]:
    """The protocol's scores of the test embeddings, MAP@R in any case, and each query's."""
    labels = torch.from_numpy(feed.labels)
    halves = halves_of(part, part.indices[feed.indices])
    query, gallery = halves["query"], halves["gallery"]
    searched, searched_labels = (None, None) if gallery is None else (vectors[torch.from_numpy(gallery)], labels[torch.from_numpy(gallery)])
    if query is not None:
        vectors, labels = vectors[torch.from_numpy(query)], labels[torch.from_numpy(query)]
    available = len(vectors) - 1 if searched is None else len(searched)
    queries = per_query(
        vectors,
        labels,
        gallery=searched,
        gallery_labels=searched_labels,
        ks=[k for k in protocol.ks if k <= available] or [1],
        metrics=[name for name in RETRIEVAL_METRICS if name in protocol.metrics or name == BY],
    )
    if not queries.matched.any():
        raise ValueError("no test image has another one of its class: nothing can be found again; classes need at least two images")
    scores = {name: float(values[queries.matched].mean()) for name, values in queries.scores.items()}
    clustering = [name for name in CLUSTERING_METRICS if name in protocol.metrics]
    if clustering and len(labels.unique()) < len(labels):
        scores |= evaluate(vectors, labels, metrics=clustering)
    return scores, PerQuery({name: held.cpu() for name, held in queries.scores.items()}, queries.matched.cpu(), queries.labels.cpu())


def pack_queries(queries: PerQuery) -> bytes:
    """Scores of the queries as bytes; `unpack_queries` reads them."""
    held = io.BytesIO()
    arrays: dict[str, Any] = {f"score {name}": values.numpy() for name, values in queries.scores.items()}
    np.savez_compressed(held, matched=queries.matched.numpy(), labels=queries.labels.numpy(), **arrays)
    return held.getvalue()


def unpack_queries(packed: bytes) -> PerQuery:
    with np.load(io.BytesIO(packed), allow_pickle=False) as held:
        scores = {name.removeprefix("score "): torch.from_numpy(held[name]) for name in held.files if name.startswith("score ")}
        return PerQuery(scores, torch.from_numpy(held["matched"]), torch.from_numpy(held["labels"]))


def halves_of(part: TestPart, indices: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[np.int64] | None]:
    """Positions of queries and gallery among the items with these indices, where the test part has the two."""
    return {
        name: None if half is None else np.flatnonzero(np.isin(indices, half))
        for name, half in (("query", part.query), ("gallery", part.gallery))
    }
