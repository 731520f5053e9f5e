"""Scores of an embedding: the one way from vectors and labels to means, intervals and notes, whoever asks."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from likewise.argument_types import checked_arguments
from likewise.evaluation.binary import unpack_bits
from likewise.evaluation.certainty.uncertainty import Interval, Unit, intervals_in_doubt, mean_intervals
from likewise.evaluation.diagnostics import Diagnosis, diagnose
from likewise.evaluation.embedding_file import EmbeddingFile
from likewise.evaluation.labels import Labels, class_codes
from likewise.evaluation.metrics import CLUSTERING_METRICS, DEFAULT_METRICS, RETRIEVAL_METRICS, check_metrics
from likewise.evaluation.reranking import Reranker, make_reranker
from likewise.evaluation.reranking.reranked_scores import RerankedScores, score_reranked
from likewise.evaluation.retrieval import PerQuery, per_query
from likewise.evaluation.similarity import Embeddings
from likewise.wording import count_of, listed, quoted

KS = (1, 2, 4, 8)


@dataclass(frozen=True)
class Scores:
    """What the metrics say about an embedding, and what they cannot say."""

    means: dict[str, float]  # "R@1", ..., "NMI": in [0, 1]; of retrieval over the matched queries
    per_query: PerQuery | None  # None where no retrieval metric was asked for
    intervals: dict[str, Interval]  # of the retrieval means, where asked for
    left_out: tuple[str, ...]  # what was asked for and has no mean, in words
    in_doubt: tuple[str, ...] = ()  # what the intervals cannot say, in words
    reranked: dict[str, RerankedScores] = field(default_factory=dict)  # retrieval after re-ranking, where asked for, by the re-ranker

    @property
    def num_unmatched(self) -> int | None:
        """Queries whose class the gallery does not hold; None where no retrieval metric was asked for."""
        return None if self.per_query is None else int((~self.per_query.matched).sum())

    @property
    def notes(self) -> tuple[str, ...]:
        """All that a reader of the means should know."""
        if self.per_query is None or not self.num_unmatched or not self.per_query.matched.any():
            return (*self.left_out, *self.in_doubt)
        words = ("query has nothing of its class to find and is", "queries have nothing of their class to find and are")
        return (*self.left_out, f"{count_of(self.num_unmatched, *words)} left out of the means", *self.in_doubt)


def score(
    embeddings: Embeddings,
    labels: Labels,
    *,
    gallery: Embeddings | None = None,
    gallery_labels: Labels | None = None,
    ks: Sequence[int] = KS,
    metrics: Sequence[str] = DEFAULT_METRICS,
    metric: str = "cosine",
    intervals: Unit | None = None,
    seed: int = 0,
    restarts: int | None = None,
    block: int | Literal["auto"] = "auto",
    rerank: Sequence[str | Reranker] = (),
    unscoreable: Literal["error", "note"] = "error",
    on_step: Callable[[str], None] | None = None,
) -> Scores:
    """The scores of embeddings whose labels are known; without a gallery every item queries all others.

    What cannot be asked of so few items is left out, with a note: a K larger than the gallery; clustering where every item is the only
    one of its class. If no query has anything of its class to find, or no metric is left, that is a ValueError, or, with
    unscoreable="note", a note too. intervals: over what, None for no intervals. rerank: re-rankers, as `make_reranker` takes them, whose
    retrieval scores are found too. `on_step` is told what is under way.
    """
    check_metrics(metrics)
    rerankers = {how if isinstance(how, str) else repr(how): make_reranker(how) for how in rerank}
    if rerankers and metric == "euclidean":
        raise ValueError(f"metric is {quoted(metric)} and rerank is {quoted(rerank)}: re-ranking compares by cosine; leave out one of them")
    say = on_step or (lambda _: None)
    retrieval = [name for name in RETRIEVAL_METRICS if name in metrics]
    clustering = [name for name in CLUSTERING_METRICS if name in metrics]
    queries: PerQuery | None = None
    means: dict[str, float] = {}
    bounds: dict[str, Interval] = {}
    reranked: dict[str, RerankedScores] = {}
    left_out: list[str] = []
    in_doubt: tuple[str, ...] = ()
    if retrieval:
        say("retrieval")
        queries = per_query(
            embeddings, labels, gallery=gallery, gallery_labels=gallery_labels, ks=ks, metrics=retrieval, metric=metric, block=block
        )
        left_out += queries.left_out
        if not queries.matched.any():
            where = "any other item" if gallery is None else "any gallery item"
            nothing = f"none of the {len(queries.matched):,} queries shares its label with {where}"
            left_out = [f"{nothing}: retrieval has no score; check the labels"]
            if unscoreable == "error":
                raise ValueError(left_out[0])
        else:
            means |= queries.means
            if intervals is not None and queries.scores:
                bounds = mean_intervals([queries], unit=intervals)
                in_doubt = intervals_in_doubt(queries, bounds, unit=intervals)
            for name, reranker in rerankers.items():
                say(f"re-ranking, {name}")
                # of bits as -1 and +1, cosine orders as Hamming distance does, with the same ties
                vectors = unpack_bits(embeddings) if metric == "hamming" else embeddings
                others = unpack_bits(gallery) if metric == "hamming" and gallery is not None else gallery
                reranked[name] = score_reranked(
                    vectors, labels, reranker, queries, gallery=others, gallery_labels=gallery_labels, unit=intervals, seed=seed
                )
    if clustering:
        codes = class_codes(labels)[0]
        if len(torch.unique(codes)) == len(codes):
            left_out.append(
                f"{listed(clustering)} {'is' if len(clustering) == 1 else 'are'} left out: "
                f"each of the {len(codes):,} items to cluster is the only one of its class"
            )
        else:
            say("k-means")
            means |= _clustering_means(embeddings, codes, clustering, metric, seed=seed, restarts=restarts, on_step=say)
    if not means and unscoreable == "error":
        raise ValueError(f"nothing can be scored: {'; '.join(left_out)}")
    return Scores(means, queries, bounds, tuple(left_out), in_doubt, reranked)


def _clustering_means(
    embeddings: Embeddings,
    codes: Tensor,
    metrics: Sequence[str],
    metric: str,
    *,
    seed: int,
    restarts: int | None,
    on_step: Callable[[str], None],
) -> dict[str, float]:
    from likewise.evaluation.clustering import clustering_scores  # brings scikit-learn along

    vectors, by = (unpack_bits(embeddings), "euclidean") if metric == "hamming" else (embeddings, metric)
    return clustering_scores(
        vectors,
        codes,
        metrics=metrics,
        metric=by,
        seed=seed,
        restarts=restarts,
        on_restart=lambda done: on_step(f"k-means, {done} restarts done"),
    )


@checked_arguments
def evaluate(
    embeddings: Embeddings,
    labels: Labels,
    *,
    gallery: Embeddings | None = None,
    gallery_labels: Labels | None = None,
    ks: Sequence[int] = KS,
    metrics: Sequence[str] = DEFAULT_METRICS,
    metric: str = "cosine",
    seed: int = 0,
    restarts: int | None = None,
    block: int | Literal["auto"] = "auto",
    rerank: str | Reranker | Sequence[str | Reranker] = (),
) -> dict[str, float]:
    """Scores in [0, 1] by name, and "unmatched": how many queries have no item of their class in the gallery.

    Retrieval scores (see `per_query`) are means over the matched queries. NMI and AMI compare k-means clusters (K = number of
    classes) of the embeddings, or of the queries where a gallery is given, with the classes; "NMI_geometric" is NMI as the papers
    normalise it. What cannot be asked of so few items, such as R@8 of a gallery of 7, is left out, with a warning.

    rerank: names in `RERANKERS`, with settings if need be ("k_reciprocal:k1=30"), or re-rankers; the retrieval scores of the lists that
    begin as these say (see `reranked_scores`) are there too, as "R@1 after k_reciprocal".
    """
    scores = score(
        embeddings,
        labels,
        gallery=gallery,
        gallery_labels=gallery_labels,
        ks=ks,
        metrics=metrics,
        metric=metric,
        seed=seed,
        restarts=restarts,
        block=block,
        rerank=(rerank,) if isinstance(rerank, str) or not isinstance(rerank, Sequence) else rerank,
    )
    for note in scores.left_out:
        warnings.warn(note, UserWarning, stacklevel=2)
    unmatched = {} if scores.num_unmatched is None else {"unmatched": scores.num_unmatched}
    clustering = {name: value for name, value in scores.means.items() if name in CLUSTERING_METRICS}
    after = {f"{name} after {how}": value for how, found in scores.reranked.items() for name, value in found.means.items()}
    return {**{name: value for name, value in scores.means.items() if name not in clustering}, **after, **unmatched, **clustering}


@dataclass(frozen=True)
class Summary:
    """Everything `likewise evaluate` says about a file of embeddings."""

    num_items: int
    num_classes: int
    dim: int
    num_gallery: int | None  # without a gallery every item queries all others
    metric: str
    scores: Scores
    interval_unit: Unit | Literal["none"]
    diagnosis: Diagnosis | None

    def as_json(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and dicts; NaN becomes None, the occurrence of every item is left out."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in ("num_items", "num_classes", "dim", "num_gallery")}
        fields |= {"num_unmatched": self.scores.num_unmatched, "metric": self.metric, "scores": self.scores.means}
        fields["interval_unit"] = self.interval_unit
        fields["intervals"] = {name: {"low": interval.low, "high": interval.high} for name, interval in self.scores.intervals.items()}
        fields["notes"] = list(self.scores.notes)
        if self.scores.reranked:
            fields["reranked"] = {name: _of_reranked(found) for name, found in self.scores.reranked.items()}
        if self.diagnosis is not None:
            fields["diagnosis"] = _plain({name: value for name, value in asdict(self.diagnosis).items() if name != "occurrence"})
        return fields


def summarise(
    data: EmbeddingFile,
    *,
    ks: Sequence[int] = KS,
    metrics: Sequence[str] = DEFAULT_METRICS,
    metric: str = "cosine",
    intervals: Unit | Literal["none"] = "class",
    seed: int = 0,
    with_diagnosis: bool = False,
    device: str = "cpu",
    rerank: Sequence[str | Reranker] = (),
    on_step: Callable[[str], None] | None = None,
) -> Summary:
    """Scores, intervals and diagnosis; `on_step` is told what is under way."""
    embeddings = _tensor(data.embeddings, metric).to(device)
    gallery = None if data.gallery is None else _tensor(data.gallery, metric).to(device)
    scores = score(
        embeddings,
        data.labels,
        gallery=gallery,
        gallery_labels=data.gallery_labels,
        ks=ks,
        metrics=metrics,
        metric=metric,
        intervals=None if intervals == "none" else intervals,
        seed=seed,
        rerank=rerank,
        on_step=on_step,
    )
    diagnosis = None
    if with_diagnosis:
        if on_step is not None:
            on_step("diagnosis")
        vectors = embeddings if gallery is None else torch.cat([embeddings, gallery])
        names = data.labels if data.gallery_labels is None else np.concatenate([data.labels, data.gallery_labels])
        diagnosis = diagnose(vectors, names, metric=metric)
    return Summary(
        num_items=len(embeddings),
        num_classes=len(np.unique(data.labels)),
        dim=embeddings.shape[1],
        num_gallery=None if gallery is None else len(gallery),
        metric=metric,
        scores=scores,
        interval_unit=intervals if scores.intervals else "none",
        diagnosis=diagnosis,
    )


def _tensor(array: np.ndarray, metric: str) -> Tensor:
    """Whole numbers are embeddings too (pixel counts, word counts), unless they are packed bits."""
    numbers = array if metric == "hamming" or array.dtype.kind == "f" else array.astype(np.float32)
    return torch.from_numpy(np.require(numbers, requirements=["C", "W"]))  # Arrow's arrays are read-only


def _of_reranked(found: RerankedScores) -> dict[str, Any]:
    differences = {name: {"difference": by.difference, "low": by.low, "high": by.high} for name, by in found.differences.items()}
    return {"depth": found.depth, "scores": found.means, "differences": differences}


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
