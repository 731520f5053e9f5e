"""How far a score can be trusted: intervals, and a paired test between two embeddings of the same test set.

What could have come out otherwise is the class by default. Queries of one class stand or fall together, and what a metric is asked is how
it does on classes it has not seen: an interval over queries is too narrow for that.

A score is the mean over the matched queries, sum_c n_c y_c / sum_c n_c with y_c the mean of class c and n_c its number of queries. Its
interval is that of `noise`, by Student's t with the skewness of the classes taken out: the percentiles of bootstrap samples, which are
usual, cover 81 to 91 % with ten classes where 95 is meant (benchmarks/verdicts.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from likewise.evaluation.certainty.noise import Array, measured, of_differences, of_means
from likewise.evaluation.retrieval import PerQuery
from likewise.wording import count_of, listed

Unit = Literal["class", "query"]

FEW = 10  # from so many classes on, intervals cover what they say: benchmarks/verdicts.py
CHUNK_ELEMENTS = 1 << 22  # samples x units drawn at once


@dataclass(frozen=True)
class Interval:
    """A score and where it would lie with other classes (or queries, or seeds) of the same kind."""

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


def class_tables(runs: Sequence[PerQuery], unit: Unit = "class") -> tuple[dict[str, Array], Array]:
    """Mean score of every class in every run, (runs, classes) by score, and how many queries each class has.

    Weighed by these, the mean over classes is the mean over queries. Queries without a match, and classes of nothing else, are left out.
    Where the unit is the query, each stands for a class of its own.
    """
    matched = runs[0].matched.cpu().numpy()
    if not matched.any():
        raise ValueError("no query has a match, so there is no score: the labels of queries and gallery must have classes in common")
    labels = runs[0].labels.cpu().numpy()[matched] if unit == "class" else np.arange(matched.sum())
    codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)[1:]
    tables = {
        name: np.stack([np.bincount(codes, weights=run.scores[name].cpu().numpy()[matched], minlength=len(sizes)) / sizes for run in runs])
        for name in runs[0].scores
    }
    return tables, sizes.astype(np.float64)


def mean_intervals(runs: Sequence[PerQuery], *, unit: Unit = "class", level: float = 0.95) -> dict[str, Interval]:
    """The interval of every score at `level`, over classes and, with several runs of the same queries, over seeds.

    A score has none where no noise is seen: one class, or the same score in every class and run, which is no proof that others would
    have it. With one run the noise of seeds is not in it.
    """
    _check(unit, level)
    tables, sizes = class_tables(runs, unit)
    known = {}
    for name, table in tables.items():
        if not np.isfinite(table).all() or not np.ptp(table):
            continue
        spread = of_means(measured([table], sizes))
        low, high = (float(limit[0]) for limit in spread.limits(1 - level))
        if low < high:
            known[name] = Interval(max(0.0, low), float(spread.value[0]), min(1.0, high))
    return known


def intervals_in_doubt(queries: PerQuery, known: dict[str, Interval], *, unit: Unit = "class") -> tuple[str, ...]:
    """What the intervals over classes cannot say, in words."""
    num_units = len(class_tables([queries], unit)[1])
    one, many = ("class", "classes") if unit == "class" else ("query", "queries")
    if num_units == 1:
        return (f"one {one} leaves every score without an interval: how much {many} differ is not known",)
    without = [name for name in queries.scores if name not in known]
    doubts = [few_in_words(num_units, unit)] if num_units < FEW else []
    if without:
        every = f"every {one} scores the same there, which is no proof that others would"
        doubts.append(f"{listed(without)} {'has' if len(without) == 1 else 'have'} no interval: {every}")
    return tuple(doubts)


def few_in_words(num_units: int, unit: Unit = "class") -> str:
    """What intervals over fewer than FEW classes are worth."""
    units = count_of(num_units, "class", "classes") if unit == "class" else count_of(num_units, "query", "queries")
    return f"{units} are few: intervals over them are wide, and may still miss more often than once in twenty; take at least {FEW}"


def paired_test(
    per_query_a: PerQuery, per_query_b: PerQuery, *, unit: Unit = "class", samples: int = 10_000, level: float = 0.95, seed: int = 0
) -> dict[str, PairedResult]:
    """Is b better than a on the same queries? For every score that both have.

    The p-value is two-sided, of a sign-flip permutation test: if a and b did equally well, each class's difference D_c = S_c^b - S_c^a
    could as well have had the other sign. p = (1 + #{samples with |sum_c +-D_c| >= |sum_c D_c|}) / (1 + samples), so it is never below
    1 / (1 + samples).
    The interval of the difference is that of `noise` over the same units; NaN where there is one.
    """
    _check(unit, level)
    if samples < 1:
        raise ValueError(f"samples must be at least 1, got {samples}")
    names = [name for name in per_query_a.scores if name in per_query_b.scores]
    if not names:
        raise ValueError(f"the two have no score in common: {', '.join(per_query_a.scores)} and {', '.join(per_query_b.scores)}")
    _check_same_queries(per_query_a, per_query_b)
    (first, sizes), (second, _) = (class_tables([queries], unit) for queries in (per_query_a, per_query_b))
    sums = np.stack([sizes * (second[name] - first[name])[0] for name in names], axis=1)  # (units, scores)
    observed = sums.sum(axis=0)
    # Sums of the same terms in another order differ in the last bits: a flip that gives the same sum must count as such.
    rounding = 1e-12 * np.abs(sums).sum(axis=0)
    as_far = np.zeros(len(names))
    for signs in _signs(len(sizes), samples, seed):
        as_far += (np.abs(signs @ sums) >= np.abs(observed) - rounding).sum(axis=0)
    p_value = (1 + as_far) / (1 + samples)
    result = {}
    for i, name in enumerate(names):
        low, high = of_differences(measured([first[name], second[name]], sizes), np.array(0)).limits(1 - level)
        result[name] = PairedResult(float(observed[i] / sizes.sum()), float(low[1]), float(high[1]), float(p_value[i]))
    return result


def _signs(num_units: int, samples: int, seed: int) -> Iterator[Array]:
    rng = np.random.default_rng(seed)
    for count in _chunks(num_units, samples):
        yield rng.choice([-1.0, 1.0], size=(count, num_units))


def _chunks(num_units: int, samples: int) -> Iterator[int]:
    most = max(1, CHUNK_ELEMENTS // num_units)
    for start in range(0, samples, most):
        yield min(most, samples - start)


def _check(unit: str, level: float) -> None:
    if unit not in ("class", "query"):
        raise ValueError(f'unit must be "class" or "query", got {unit!r}')
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
