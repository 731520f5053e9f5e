"""Everything `likewise evaluate` says about a file of embeddings, as one value: for a terminal (see tables) or as JSON."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch

from likewise.evaluation.binary import unpack_bits
from likewise.evaluation.clustering import CLUSTERING_SCORES, clustering_scores
from likewise.evaluation.diagnostics import Diagnosis, diagnose
from likewise.evaluation.embedding_file import EmbeddingFile
from likewise.evaluation.labels import class_codes
from likewise.evaluation.retrieval import RETRIEVAL_METRICS, per_query
from likewise.evaluation.uncertainty import Interval, bootstrap

Intervals = Literal["class", "query", "none"]
METRICS = (*RETRIEVAL_METRICS, *CLUSTERING_SCORES)


@dataclass(frozen=True)
class Summary:
    num_items: int
    num_classes: int
    dim: int
    num_gallery: int | None  # without a gallery every item queries all others
    num_unmatched: int | None  # None where no retrieval score was asked for
    metric: str
    scores: dict[str, float]
    intervals: dict[str, Interval]  # of the scores that have one
    interval_unit: Intervals
    diagnosis: Diagnosis | None

    def as_json(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and dicts; NaN becomes None, the occurrence of every item is left out."""
        fields = {
            name: getattr(self, name) for name in ("num_items", "num_classes", "dim", "num_gallery", "num_unmatched", "metric", "scores")
        }
        fields["interval_unit"] = self.interval_unit
        fields["intervals"] = {name: {"low": found.low, "high": found.high} for name, found in self.intervals.items()}
        if self.diagnosis is not None:
            told = {name: value for name, value in asdict(self.diagnosis).items() if name != "occurrence"}
            fields["diagnosis"] = _plain(told)
        return fields


def summarise(
    data: EmbeddingFile,
    *,
    ks: Sequence[int] = (1, 2, 4, 8),
    metrics: Sequence[str] = METRICS,
    metric: str = "cosine",
    intervals: Intervals = "class",
    seed: int = 0,
    with_diagnosis: bool = False,
    device: str = "cpu",
    on_step: Callable[[str], None] | None = None,
) -> Summary:
    """Scores, intervals and diagnosis; `on_step` is told what is under way."""
    unknown = [name for name in metrics if name not in METRICS]
    if unknown or not metrics:
        raise ValueError(f"metrics are {', '.join(metrics) or 'none'}: expected some of {', '.join(METRICS)}")
    say = on_step or (lambda _: None)
    embeddings = _tensor(data.embeddings, metric).to(device)
    gallery = None if data.gallery is None else _tensor(data.gallery, metric).to(device)
    codes, gallery_codes = class_codes(data.labels, data.gallery_labels)
    scores: dict[str, float] = {}
    found_intervals: dict[str, Interval] = {}
    num_unmatched = None
    retrieval = [name for name in RETRIEVAL_METRICS if name in metrics]
    if retrieval:
        say("retrieval")
        found = per_query(
            embeddings,
            codes.to(device),
            gallery=gallery,
            gallery_labels=None if gallery is None else gallery_codes.to(device),
            ks=ks,
            metrics=retrieval,
            metric=metric,
        )
        num_unmatched = int((~found.matched).sum())
        if num_unmatched == len(found.matched):
            raise ValueError(f"none of the {len(found.matched)} queries shares its label with another item: check the labels")
        scores |= {name: float(values[found.matched].mean()) for name, values in found.scores.items()}
        if intervals != "none":
            say("intervals")
            found_intervals = bootstrap(found, unit=intervals, seed=seed)
    clustering = [name for name in CLUSTERING_SCORES if name in metrics]
    if clustering:
        say("k-means")
        vectors, by = (unpack_bits(embeddings), "euclidean") if metric == "hamming" else (embeddings, metric)
        scores |= clustering_scores(
            vectors, codes, metrics=clustering, metric=by, seed=seed, on_restart=lambda done: say(f"k-means, {done} restarts done")
        )
    diagnosis = None
    if with_diagnosis:
        say("diagnosis")
        vectors = embeddings if gallery is None else torch.cat([embeddings, gallery])
        names = data.labels if data.gallery_labels is None else np.concatenate([data.labels, data.gallery_labels])
        diagnosis = diagnose(vectors, names, metric=metric)
    return Summary(
        num_items=len(embeddings),
        num_classes=int(torch.unique(codes).numel()),
        dim=embeddings.shape[1],
        num_gallery=None if gallery is None else len(gallery),
        num_unmatched=num_unmatched,
        metric=metric,
        scores=scores,
        intervals=found_intervals,
        interval_unit=intervals if found_intervals else "none",
        diagnosis=diagnosis,
    )


def _tensor(array: np.ndarray, metric: str) -> torch.Tensor:
    """Whole numbers are embeddings too (pixel counts, word counts), unless they are packed bits."""
    numbers = array if metric == "hamming" or array.dtype.kind == "f" else array.astype(np.float32)
    return torch.from_numpy(np.require(numbers, requirements=["C", "W"]))  # Arrow's arrays are read-only


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
