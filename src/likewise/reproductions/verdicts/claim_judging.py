"""Judging: what the figures of every seed and test class say of a claim, and the sentence that says why.

A claim asks that differences lie within limits (`PaperClaim.requires`). It is confirmed where the interval of each lies within its limits,
contradicted where any interval lies wholly outside, and open otherwise. The intervals are those of `evaluation.certainty.planned`: they
hold the noise of seeds and of test classes, and all of one claim hold at once, so that a claim that is true is contradicted in at most one
of twenty cases, and one that is false is confirmed in at most one of twenty.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy import stats

from likewise.evaluation.certainty.planned import PlannedInterval, planned_by_seed, planned_differences, planned_mean
from likewise.evaluation.certainty.verdict import level_at
from likewise.reproductions.paper_claims import Competitors, Faster, Ordered, PaperClaim, Reordered, Requirement, Separates
from likewise.reproductions.reproduction import ClaimVerdict
from likewise.wording import count_of, listed, ordinal

LEVEL = 0.95
ROUNDING = 1e-12  # differences below are none
MOST_LISTED = 6  # differences, or means, that a sentence of evidence has in full

MIRRORED: dict[ClaimVerdict, ClaimVerdict] = {"confirmed": "contradicted", "contradicted": "confirmed", "open": "open"}

Array = npt.NDArray[np.float64]
Found = list[tuple[Requirement, PlannedInterval]]


@dataclass(frozen=True, eq=False)
class Ground:
    """What a claim is judged by in one place: the figures of those that stand against each other, by name."""

    score: str
    tables: Mapping[str, Array]  # (seeds, test classes), in [0, 1]; empty for a score that belongs to no class
    values: Mapping[str, Sequence[float]]  # the score of each seed
    seconds: Mapping[str, Sequence[float]]  # of training, one a seed
    class_sizes: Array | None = None  # queries of each class: they weigh
    x: Mapping[str, float] = field(default_factory=dict)
    published: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)  # name -> why there are no figures of it, and never will be here
    waiting: Mapping[str, str] = field(default_factory=dict)  # name -> what it waits for
    titles: Mapping[str, str] = field(default_factory=dict)
    look: int = 1  # the how many-th time that the claim is judged here, as seeds were added

    @property
    def competitors(self) -> Competitors:
        return Competitors(tuple(self.values), self.x, self.published)

    def title(self, name: str) -> str:
        return self.titles.get(name) or name

    @property
    def fewest_seeds(self) -> int:
        return min(map(len, self.values.values()), default=0)


def judge(claim: PaperClaim, ground: Ground) -> tuple[ClaimVerdict, str]:
    """The verdict on a claim, and its evidence in words; of a claim that could not be asked, what it lacks."""
    absent = {name: why for name, why in {**ground.missing, **ground.waiting}.items() if not claim.names or name in claim.names}
    if isinstance(claim, Separates):
        return _separates(claim, ground) if claim.figures.keys() & ground.values.keys() else ("not run", _lacks(absent, ground))
    requirements = claim.requires(ground.competitors)
    if not requirements:
        return "not run", _lacks(absent, ground)
    found = _intervals(claim, requirements, ground)
    verdict = verdict_on(found, in_points=not isinstance(claim, Faster))
    if isinstance(claim, Reordered):  # that not all of it is true
        verdict = MIRRORED[verdict]
    untold = [name for name in absent if name in claim.names or name in ground.waiting]
    if verdict == ("contradicted" if isinstance(claim, Reordered) else "confirmed") and untold:
        verdict = "open"  # not all of it was asked
    return verdict, _evidence(claim, found, ground, absent)


def verdict_on(found: Found, *, in_points: bool = True) -> ClaimVerdict:
    """From what is required and the interval of each: a score's are in [-1, 1], and points are hundredths."""
    scale = 0.01 if in_points else 1.0
    holds, fails = [], []
    for requirement, interval in found:
        low, high = scale * requirement.low, scale * requirement.high
        # Where only one side is limited, the limit itself is not enough: "better" means more than equal.
        inside = interval.low >= low - ROUNDING if math.isfinite(high) else interval.low > low + ROUNDING
        holds.append(interval.is_known and inside and interval.high <= high + ROUNDING)
        fails.append(interval.is_known and (interval.high < low - ROUNDING or interval.low > high + ROUNDING))
    return "contradicted" if any(fails) else "confirmed" if all(holds) else "open"


def _intervals(claim: PaperClaim, requirements: Sequence[Requirement], ground: Ground) -> Found:
    pairs = [(requirement.first, requirement.second) for requirement in requirements]
    named = {name for pair in pairs for name in pair}
    if isinstance(claim, Faster):
        logs = {name: np.log(ground.seconds[name]).tolist() for name in named}
        intervals = planned_by_seed(logs, pairs, level=LEVEL, look=ground.look)
    elif ground.tables:
        tables = {name: ground.tables[name] for name in named}
        intervals = planned_differences(tables, pairs, level=LEVEL, look=ground.look, weights=ground.class_sizes)
    else:
        intervals = planned_by_seed({name: ground.values[name] for name in named}, pairs, level=LEVEL, look=ground.look)
    return [(requirement, intervals[pair]) for requirement, pair in zip(requirements, pairs, strict=True)]


def _separates(claim: Separates, ground: Ground) -> tuple[ClaimVerdict, str]:
    if not ground.tables:
        return "open", f"{ground.score} belongs to no class: claim a score of retrieval"
    asked = {row: figure for row, figure in claim.figures.items() if row in ground.values}
    level = 1 - (1 - LEVEL) / len(asked)
    intervals = {row: planned_mean(ground.tables[row], level=level, look=ground.look, weights=ground.class_sizes) for row in asked}
    limits = {row: (-math.inf, figure) if claim.below else (figure, math.inf) for row, figure in asked.items()}
    verdict = verdict_on([(Requirement(row, "", *limits[row]), intervals[row]) for row in asked])
    side = "below" if claim.below else "above"
    words = []
    for row, interval in intervals.items():
        between = f" ({100 * interval.low:.1f} to {100 * min(interval.high, 1.0):.1f})" if interval.is_known else ""
        words.append(f"{ground.title(row)} {100 * interval.value:.1f}{between}, asked for {side} {asked[row]:g}")
    return verdict, f"{ground.score}: {'; '.join(words)}; {_by_what(ground)}"


def _evidence(claim: PaperClaim, found: Found, ground: Ground, absent: Mapping[str, str]) -> str:
    is_time = isinstance(claim, Faster)
    sentences = [] if is_time else [f"{ground.score}: {_means(found, ground)}"]
    if ground.fewest_seeds < 2:
        sentences.append("one seed leaves everything open: run at least 3")
    elif len(found) <= MOST_LISTED:
        sentences.append("; ".join(_in_words(requirement, interval, ground, is_time=is_time) for requirement, interval in found))
    else:
        sentences.append(_counted(found, ground))
    if isinstance(claim, Ordered):
        order = claim.order(ground.competitors)
        tau = float(stats.kendalltau(range(len(order)), [-np.mean(ground.values[name]) for name in order]).statistic)
        sentences.append(f"Kendall's tau {tau:.2f}")
    sentences.append(_by_what(ground, by_class=bool(ground.tables) and not is_time))
    if absent:
        sentences.append(_lacks(absent, ground))
    return ". ".join(sentences)


def _means(found: Found, ground: Ground) -> str:
    names = list(dict.fromkeys(name for requirement, _ in found for name in (requirement.first, requirement.second)))
    means = sorted(((float(np.mean(ground.values[name])), name) for name in names), reverse=True)
    words = [f"{ground.title(name)} {100 * mean:.1f}" for mean, name in means]
    if len(words) <= 2 * MOST_LISTED:
        return ", ".join(words)
    return f"{', '.join(words[:MOST_LISTED])}, ... {words[-1]}"


def _in_words(requirement: Requirement, interval: PlannedInterval, ground: Ground, *, is_time: bool) -> str:
    first, second = ground.title(requirement.first), ground.title(requirement.second)
    if is_time:
        value, low, high = (math.exp(limit) for limit in (interval.value, interval.low, interval.high))
        return f"{first} takes {value:.2f} times as long as {second} ({low:.2f} to {high:.2f})"
    value, low, high = (100 * limit for limit in (interval.value, interval.low, interval.high))
    return f"{first} less {second} {value:+.1f} ({low:+.1f} to {high:+.1f})"


def _counted(found: Found, ground: Ground) -> str:
    """Of many differences how many are as claimed, and the worst of those that are not."""
    verdicts = [verdict_on([entry]) for entry in found]
    against = [entry for entry, verdict in zip(found, verdicts, strict=True) if verdict == "contradicted"]
    against.sort(key=lambda entry: -abs(entry[1].value))
    words = [_in_words(requirement, interval, ground, is_time=False) for requirement, interval in against[:MOST_LISTED]]
    words += [f"{len(against) - MOST_LISTED} more"] if len(against) > MOST_LISTED else []
    which = f" ({'; '.join(words)})" if words else ""
    counts = f"of {len(found)} differences {verdicts.count('confirmed')} are as claimed beyond noise"
    return f"{counts}, {len(against)} are not{which}, {verdicts.count('open')} are open"


def _by_what(ground: Ground, *, by_class: bool = True) -> str:
    seeds = sorted({len(values) for values in ground.values.values()})
    words = [count_of(seeds[0], "seed", "seeds") if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"]
    if by_class and ground.tables:
        words.append(count_of(next(iter(ground.tables.values())).shape[1], "test class", "test classes"))
    else:
        words.append("noise of seeds alone")
    level = f"{100 * level_at(ground.look, LEVEL):.4g} % intervals that hold at once"
    return ", ".join((*words, level if ground.look == 1 else f"{level}, as it is judged for the {ordinal(ground.look)} time"))


def _lacks(absent: Mapping[str, str], ground: Ground) -> str:
    if not absent:
        return "there are no figures of what it compares"
    reasons: dict[str, list[str]] = {}
    for name, why in absent.items():
        reasons.setdefault(why, []).append(ground.title(name))
    return f"without {'; '.join(f'{listed(names)} ({why})' for why, names in reasons.items())}"
