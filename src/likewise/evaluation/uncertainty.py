"""How far a score can be trusted: bootstrap intervals, and a paired test between two embeddings of the same test set.

The unit that is drawn is the class by default. Queries of one class stand or fall together, and what a metric is asked is how it does on
classes it has not seen: an interval over queries is too narrow for that.

A score is the mean over the matched queries, sum_c S_c / sum_c n_c with S_c the sum of class c's scores and n_c its number of queries; a
bootstrap sample draws as many classes as there are, with replacement and each with all its queries.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from likewise.evaluation.retrieval import PerQuery

Unit = Literal["class", "query"]
Array = np.ndarray

CHUNK_ELEMENTS = 1 << 22  # samples x units drawn at once


@dataclass(frozen=True)
class Interval:
    """A score and where it would lie with other classes (or queries) of the same kind."""

    low: float
    estimate: float
    high: float


@dataclass(frozen=True)
class PairedResult:
    """The second embedding's score less the first's."""

    difference: float
    low: float
    high: float
    p_value: float


def bootstrap(per_query: PerQuery, *, unit: Unit = "class", samples: int = 2000, level: float = 0.95, seed: int = 0) -> dict[str, Interval]:
    """Bootstrap interval of every score at `level`, by percentiles of the samples."""
    _check(unit, samples, level)
    sums, sizes = _units(per_query, unit)
    drawn = np.concatenate([(times @ sums) / (times @ sizes)[:, None] for times in _draws(len(sizes), samples, seed)])
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    estimate = sums.sum(axis=0) / sizes.sum()
    return {name: Interval(float(low[i]), float(estimate[i]), float(high[i])) for i, name in enumerate(per_query.scores)}


def paired_test(
    per_query_a: PerQuery, per_query_b: PerQuery, *, unit: Unit = "class", samples: int = 10_000, level: float = 0.95, seed: int = 0
) -> dict[str, PairedResult]:
    """Is b better than a on the same queries? For every score that both have.

    The p-value is two-sided, of a sign-flip permutation test: if a and b did equally well, each class's difference D_c = S_c^b - S_c^a
    could as well have had the other sign. p = (1 + #{samples with |sum_c +-D_c| >= |sum_c D_c|}) / (1 + samples), so it is never below
    1 / (1 + samples).
    The interval of the difference is a bootstrap over the same units, as in `bootstrap`.
    """
    _check(unit, samples, level)
    names = [name for name in per_query_a.scores if name in per_query_b.scores]
    if not names:
        raise ValueError(f"the two have no score in common: {', '.join(per_query_a.scores)} and {', '.join(per_query_b.scores)}")
    _check_same_queries(per_query_a, per_query_b)
    differences = {name: per_query_b.scores[name] - per_query_a.scores[name] for name in names}
    sums, sizes = _units(PerQuery(differences, per_query_a.matched, per_query_a.labels), unit)
    observed = sums.sum(axis=0)
    drawn = np.concatenate([(times @ sums) / (times @ sizes)[:, None] for times in _draws(len(sizes), samples, seed)])
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    # Sums of the same terms in another order differ in the last bits: a flip that gives the same sum must count as such.
    rounding = 1e-12 * np.abs(sums).sum(axis=0)
    as_far = np.zeros(len(names))
    for signs in _signs(len(sizes), samples, seed):
        as_far += (np.abs(signs @ sums) >= np.abs(observed) - rounding).sum(axis=0)
    p_value = (1 + as_far) / (1 + samples)
    total = sizes.sum()
    return {
        name: PairedResult(float(observed[i] / total), float(low[i]), float(high[i]), float(p_value[i])) for i, name in enumerate(names)
    }


def _units(per_query: PerQuery, unit: Unit) -> tuple[Array, Array]:
    """Sums of scores (units, scores) and numbers of queries (units,) of the classes, or of the queries, that have a match."""
    matched = per_query.matched.cpu().numpy()
    if not matched.any():
        raise ValueError("no query has a match, so there is no score: the labels of queries and gallery must have classes in common")
    scores = np.stack([score.cpu().numpy()[matched] for score in per_query.scores.values()], axis=1)
    if unit == "query":
        return scores, np.ones(len(scores))
    classes, codes = np.unique(per_query.labels.cpu().numpy()[matched], return_inverse=True)
    sums = np.stack([np.bincount(codes, weights=column, minlength=len(classes)) for column in scores.T], axis=1)
    return sums, np.bincount(codes).astype(np.float64)


def _draws(num_units: int, samples: int, seed: int) -> Iterator[Array]:
    """How often each unit is drawn in each sample: (some samples, units), until there are `samples`."""
    rng = np.random.default_rng(seed)
    for count in _chunks(num_units, samples):
        drawn = rng.integers(num_units, size=(count, num_units)) + num_units * np.arange(count)[:, None]
        yield np.bincount(drawn.ravel(), minlength=count * num_units).reshape(count, num_units).astype(np.float64)


def _signs(num_units: int, samples: int, seed: int) -> Iterator[Array]:
    rng = np.random.default_rng([seed, 1])  # not the bootstrap's stream
    for count in _chunks(num_units, samples):
        yield rng.integers(2, size=(count, num_units), dtype=np.int8) * 2.0 - 1.0


def _chunks(num_units: int, samples: int) -> Iterator[int]:
    most = max(1, CHUNK_ELEMENTS // num_units)
    for start in range(0, samples, most):
        yield min(most, samples - start)


def _check(unit: str, samples: int, level: float) -> None:
    if unit not in ("class", "query"):
        raise ValueError(f'unit must be "class" or "query", got {unit!r}')
    if samples < 1:
        raise ValueError(f"samples must be at least 1, got {samples}")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}; 0.95 means 95 %")


def _check_same_queries(a: PerQuery, b: PerQuery) -> None:
    if len(a.labels) != len(b.labels):
        raise ValueError(f"a paired test needs the same queries in the same order, got {len(a.labels)} and {len(b.labels)} queries")
    different = (a.labels.cpu() != b.labels.cpu()) | (a.matched.cpu() != b.matched.cpu())
    if bool(different.any()):
        first = int(different.nonzero()[0])
        raise ValueError(
            f"a paired test needs the same queries in the same order, but {int(different.sum())} of {len(a.labels)} queries differ in "
            f"label or in having a match, the first is query {first}: score both embeddings on one test set"
        )
