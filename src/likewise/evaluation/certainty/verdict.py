"""The verdict: which method is best, which are within noise of it and which are behind, and what it would take to tell.

    verdict = likewise.verdict({"a": scores_a, "b": scores_b})     # arrays (seeds, test classes), higher is better
    verdict.best, verdict.within_noise, verdict.behind

Of methods that are truly equal, any is called behind in at most one comparison of twenty (level 0.95): benchmarks/verdicts.py shows it.
Whoever adds seeds or methods and asks again says so (look=2), and all later looks together err in at most one of twenty: see `level_at`.
The noise that stands behind every figure is in `noise`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import torch
from scipy import special

from likewise.argument_types import checked_arguments
from likewise.checks import known_name
from likewise.evaluation.certainty.noise import CERTAIN, Array, Noise, Spread, measured, moderated, of_differences, of_means
from likewise.wording import count_of

Limits = tuple[float, float]
Key = TypeVar("Key")

FEWEST_CLASSES = 3
FOUND = 0.8  # how often a lead that counts as detectable is found
MOST_SEEDS = 100
DRAWS = 20_000
ROUNDING = 1e-12  # of the largest score: differences below are none


@dataclass(frozen=True)
class Verdict:
    """Methods beside the best of them, names in the order of their means.

    `differences` and `pairs` hold all at once with the chance `level`, also after the best was picked by its score; each of `intervals`
    holds by itself. `lacking` says which noise a method's intervals do not contain because it cannot be known: "seeds" (one seed),
    "classes" (one class) or "seeds and classes". Nothing is called behind or equivalent on such intervals.
    """

    level: float  # of this look: see level_at
    best: str
    within_noise: tuple[str, ...]  # these data do not tell them from the best
    behind: tuple[str, ...]
    equivalent: tuple[str, ...]  # the whole interval to the best lies within what was called indifferent
    undecided: str | None  # a sentence: why these data cannot tell the methods apart, and what could
    means: dict[str, float]
    intervals: dict[str, Limits]  # of each mean
    differences: dict[str, Limits]  # of every other method, its mean less the best's: below 0 where it is behind
    pairs: dict[tuple[str, str], Limits]  # of all pairs, the first's mean less the second's; the first has the higher mean
    p_values: dict[str, float]  # 1 - the level at which the method would just be behind; of those whose noise is known
    chance_best: dict[str, float]  # how likely each is truly the best, by what is known; empty where noise is lacking
    lacking: dict[str, str]
    num_seeds: dict[str, int]
    num_classes: int
    look: int
    _noise: Noise = field(repr=False, compare=False)

    @property
    def fewest_seeds(self) -> int:
        """Of a method that seeds change; 0 where there is none."""
        seeded = np.isfinite(self._noise.seed_freedom)
        return min((count for count, counts in zip(self.num_seeds.values(), seeded, strict=True) if counts), default=0)

    def detectable(self, seeds: int) -> float:
        """The lead over a typical other method that so many seeds of each would tell from noise four times in five, at the noise seen here.

        Infinite for one seed. NaN where one method stands alone, or one seed or class leaves the noise unknown.
        """
        if isinstance(seeds, bool) or not isinstance(seeds, int | np.integer) or seeds < 1:
            raise ValueError(f"seeds must be a whole number from 1 on, got {seeds!r}")
        if len(self.means) == 1 or self.lacking:
            return float("nan")
        return detectable(self._noise, int(seeds), 1 - self.level)

    @property
    def next_look(self) -> Verdict:
        """The same at the level of the next look, which is what more seeds would be judged at."""
        alpha = (1 - self.level) * _divisor(self.look) / _divisor(self.look + 1)
        return replace(self, level=1 - alpha, look=self.look + 1)

    def seeds_to_tell(self, lead: float) -> int | None:
        """The fewest seeds that would tell such a lead; None where no number up to 100 does, which leaves more test classes."""
        if not lead > 0:
            raise ValueError(f"lead must be above 0, got {lead!r}")
        choices = range(2, MOST_SEEDS + 1)
        place = bisect_left(choices, -lead, key=lambda seeds: -self.detectable(seeds))
        return choices[place] if place < len(choices) and self.detectable(choices[place]) <= lead else None


@checked_arguments
def verdict(
    scores: Mapping[str, Any],
    *,
    level: float = 0.95,
    look: int = 1,
    indifferent: float | None = None,
    weights: Any = None,
    seedless: Collection[str] = (),
) -> Verdict:
    """Which of the methods is best, from each one's scores (seeds, test classes); higher is better.

    The classes are the same for all and in the same order; the number of seeds may differ. `weights` (classes,) makes the mean a weighted
    one: with each class's number of queries it is the mean over queries. `seedless` names methods that no seed changes (an untrained
    network, a closed form): their one row is all there is. `indifferent` is a difference in score that would not matter to you. `look`: the
    how many-th verdict it is on these test classes, as seeds or methods were added; later looks are judged at a higher level (level_at).
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}; 0.95 means 95 %")
    if isinstance(look, bool) or not isinstance(look, int | np.integer) or look < 1:
        raise ValueError(f"look must be a whole number from 1 on, got {look!r}: 1 for the first verdict on these test classes")
    level = level_at(int(look), level)
    if indifferent is not None and not indifferent > 0:
        raise ValueError(f"indifferent must be above 0, got {indifferent}: a difference in score that would not matter, such as 0.01")
    tables, class_weights = checked_tables(scores, weights)
    for name in seedless:
        known_name("method in seedless", name, tables)
        if len(tables[name]) != 1 and np.ptp(tables[name], axis=0).any():
            raise ValueError(
                f"{name!r} is named as seedless, but its {len(tables[name])} rows of scores differ: hand in one row, or leave it out"
            )
    alpha = 1 - level

    means = dict(zip(tables, measured(list(tables.values()), class_weights).means.tolist(), strict=True))
    names = sorted(tables, key=lambda name: (-means[name], name))
    noise = measured([tables[name] for name in names], class_weights)
    freedom = np.where([name in seedless for name in names], np.inf, noise.seed_freedom)
    noise = replace(noise, seed_freedom=freedom)
    num_classes = noise.pulls.shape[-1]

    lacking = {}
    for name, known in zip(names, freedom, strict=True):
        kinds = ([] if known > 0 else ["seeds"]) + (["classes"] if num_classes == 1 else [])
        if kinds:
            lacking[name] = " and ".join(kinds)
    best, others = names[0], names[1:]
    to_best = of_differences(noise, np.array(0))
    differences = _by_name(to_best.limits(alpha), names)
    rounding = ROUNDING * max(float(np.abs(table).max()) for table in tables.values())
    sure = [name for name in others if not lacking.keys() & {best, name} and num_classes >= FEWEST_CLASSES]
    behind = tuple(name for name in sure if differences[name][1] < -rounding)
    within = tuple(name for name in others if name not in behind)
    reach = 0.0 if indifferent is None else indifferent
    p_values = np.where(np.abs(to_best.value) <= rounding, 1.0, to_best.p_value())
    result = Verdict(
        level=level,
        best=best,
        within_noise=within,
        behind=behind,
        equivalent=tuple(name for name in sure if reach and -reach <= differences[name][0] and differences[name][1] <= reach),
        undecided=None,
        means={name: means[name] for name in names},
        intervals=_by_name(of_means(noise).limits(alpha), names),
        differences={name: differences[name] for name in others},
        pairs=_pairs(noise, names, alpha),
        p_values={name: float(p) for name, p in zip(names, p_values, strict=True) if name in sure},
        chance_best={} if lacking else dict(zip(names, chances_of_being_best(noise).tolist(), strict=True)),
        lacking=lacking,
        num_seeds={name: len(tables[name]) for name in names},
        num_classes=num_classes,
        look=int(look),
        _noise=noise,
    )
    bounded = all(table.min() >= 0 and table.max() <= 1 for table in tables.values())
    if bounded:  # then no difference is larger than 1, whatever few classes leave open
        result = replace(result, differences=_within_one(result.differences), pairs=_within_one(result.pairs))
    return replace(result, undecided=_undecided(result, to_best, in_points=bounded))


def level_at(look: int, level: float = 0.95) -> float:
    """The level of the k-th look at the same test classes: 1 - alpha at the first, 1 - alpha / (k (k - 1)) at each later one.

    The later ones' chances sum to alpha, 1/2 + 1/6 + 1/12 + ... = 1, however many there are. So a first look errs in at most alpha of
    comparisons, as if there were no other, and all later looks together in at most alpha.
    """
    return 1 - (1 - level) / _divisor(look)


def _divisor(look: int) -> int:
    return max(1, look * (look - 1))


def detectable(noise: Noise, seeds: int, alpha: float) -> float:
    """See Verdict.detectable; the best method comes first in `noise`."""
    seeded = np.isfinite(noise.seed_freedom)
    if seeds == 1 and seeded.any():
        return float("inf")
    supposed = replace(
        noise,
        seed_variance=noise.seed_variance * np.where(seeded, noise.seed_freedom + 1, 1) / seeds,
        seed_freedom=np.where(seeded, seeds - 1, np.inf),
    )
    best = np.array(0)
    return _needed(replace(of_differences(supposed, best), class_variance=of_differences(noise, best).class_variance), alpha)


def _needed(to_best: Spread, alpha: float) -> float:
    """The lead that is found with the chance FOUND, over a typical other method."""
    bound = to_best.bound(alpha)
    # The bound is a multiple of an estimated deviation, which has a variance of its own: bound^2 / (2 degrees of freedom) of the true one.
    needed = bound + special.ndtri(FOUND) * np.sqrt(1 + bound**2 / (2 * to_best.freedom))
    return float(np.median((needed * np.sqrt(to_best.variance))[1:]))


def chances_of_being_best(noise: Noise) -> Array:
    """(methods,): how often each leads when true means are drawn from what is known of them, t distributions by class and by seed."""
    rng = np.random.default_rng(0)
    num_methods = len(noise.means)
    variance, freedom = moderated(noise.seed_variance, noise.seed_freedom)
    covariance = noise.class_scale * noise.pulls @ noise.pulls.T - np.diag(np.minimum(noise.interaction, noise.seed_variance))
    values, vectors = np.linalg.eigh(covariance)
    by_class = rng.standard_normal((DRAWS, num_methods)) @ (vectors * np.sqrt(np.maximum(values, 0))).T
    by_class /= np.sqrt(rng.chisquare(noise.class_freedom, (DRAWS, 1)) / noise.class_freedom)
    by_seed = rng.standard_normal((DRAWS, num_methods)) * np.sqrt(variance)
    finite = np.minimum(freedom, CERTAIN)
    by_seed /= np.sqrt(rng.chisquare(finite, (DRAWS, num_methods)) / finite)
    drawn = noise.means + by_class + by_seed
    leading = drawn == drawn.max(axis=1, keepdims=True)  # several where all is certain and equal
    return np.asarray((leading / leading.sum(axis=1, keepdims=True)).mean(axis=0))


def _undecided(result: Verdict, to_best: Spread, *, in_points: bool) -> str | None:
    """Why these data cannot tell: one seed, too few classes, or too few of either to know how large the noise is."""

    def words(score: float) -> str:
        return f"{100 * score:.1f} points" if in_points else f"{score:.3g}"

    names, num_classes = list(result.means), result.num_classes
    classes = count_of(num_classes, "test class", "test classes")
    if len(names) == 1:
        return None
    without = [name for name in names if "seeds" in result.lacking.get(name, "")]
    if result.best in without or without == names[1:]:
        whose = f"One seed of {result.best}, which leads," if without == [result.best] else "One seed"
        return (
            f"{whose} cannot tell methods apart: what another seed would have given is not known, and the intervals hold only the noise of "
            f"the {classes}. Run at least 3 seeds of every method, better 5."
        )
    if num_classes < FEWEST_CLASSES:
        return f"{classes} cannot tell methods apart: what other classes would have given is not known. Take at least 10 test classes."
    if result.behind or result.lacking:
        return None
    alpha, among = 1 - result.level, f"among {len(names)} methods" if len(names) > 2 else "between two methods"
    told = _needed(to_best, alpha)
    certain = np.full_like(to_best.seed_freedom, np.inf)
    if told < 2 * _needed(replace(to_best, class_freedom=np.inf, seed_freedom=certain), alpha):
        return None  # noise is what stands between them, and it is known well enough
    if _needed(replace(to_best, class_freedom=np.inf), alpha) < _needed(replace(to_best, seed_freedom=certain), alpha):
        needed = f"{among} only a lead of {words(told)} is told from noise"
        return f"{classes} say too little of how much classes differ: {needed}. Take at least 10 test classes."
    seeds = result.fewest_seeds
    more, many = (5, 10) if seeds < 5 else (2 * seeds, 4 * seeds)
    lead = -float(to_best.value[1])
    again = result.next_look
    takes = again.seeds_to_tell(lead) if lead > 0 else None
    then = f"with {more} seeds one of {words(again.detectable(more))} would be, with {many} one of {words(again.detectable(many))}"
    return (
        f"{count_of(seeds, 'seed', 'seeds')} a method say too little of how much seeds differ: {among} only a lead of {words(told)} is "
        f"told from noise; {then}. "
    ) + (
        f"The lead seen here, {words(lead)}, would take about {takes} seeds."
        if takes
        else f"The lead seen here, {words(lead)}, is too small for any number of seeds on these {classes}."
    )


def _by_name(limits: tuple[Array, Array], names: list[str]) -> dict[str, Limits]:
    return {name: (float(low), float(high)) for name, low, high in zip(names, *limits, strict=True)}


def _within_one(limits: Mapping[Key, Limits]) -> dict[Key, Limits]:
    return {key: (max(low, -1.0), min(high, 1.0)) for key, (low, high) in limits.items()}


def _pairs(noise: Noise, names: list[str], alpha: float) -> dict[tuple[str, str], Limits]:
    result = {}
    for place, second in enumerate(names):
        for first, limits in _by_name(of_differences(noise, np.array(place)).limits(alpha), names).items():
            result[first, second] = limits
    return {(first, second): result[first, second] for i, first in enumerate(names) for second in names[i + 1 :]}


def checked_tables(scores: Mapping[str, Any], weights: Any) -> tuple[dict[str, Array], Array | None]:
    """Tables (seeds, classes) by name, and the weights, as float64."""
    if not isinstance(scores, Mapping) or not scores:
        raise ValueError(f'scores must be a dict of at least one method, {{"name": scores (seeds, test classes)}}, got {scores!r:.80}')
    tables = {name: _table(name, table) for name, table in scores.items()}
    sizes = {name: table.shape[1] for name, table in tables.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(
            "the methods have scores of different numbers of test classes "
            f"({', '.join(f'{name} {size}' for name, size in sizes.items())}): score all of them on the same classes, in the same order"
        )
    if weights is None:
        return tables, None
    values = _array(weights)
    num_classes = next(iter(sizes.values()))
    if values is None or values.shape != (num_classes,) or not np.isfinite(values).all() or not (values > 0).all():
        raise ValueError(
            f"weights must be {num_classes} numbers above 0, one a test class (how many queries it has), got {_shown(weights, values)}"
        )
    return tables, values


def _table(name: str, scores: Any) -> Array:
    table = _array(scores)
    if table is None or table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"scores of {name!r} must be a table (seeds, test classes) of numbers, got {_shown(scores, table)}")
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        seed, place = bad[0]
        raise ValueError(
            f"scores of {name!r} hold {table[seed, place]} in {len(bad)} of {table.size} places, the first at seed {seed}, class {place}: "
            "leave classes without queries out of every method's scores"
        )
    return table


def _array(values: Any) -> Array | None:
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().double().numpy()
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        return None  # rows of different lengths, or no numbers


def _shown(values: Any, array: Array | None) -> str:
    return f"{values!r:.80}" if array is None else f"an array {array.shape}" if array.size > 8 else f"{values!r:.80}"
