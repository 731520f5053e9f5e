"""Board: the methods of one data set in order, the best first, and what can be said of them in words."""

from __future__ import annotations

import math
from dataclasses import dataclass

from likewise.comparison.pieces import UNTRAINED
from likewise.comparison.results import ComparisonResults, Estimate, MethodResult
from likewise.data.doctor import count_of

REPORT = "report.html"  # in the comparison's folder
LEADING = ("MAP@R", "R@1", "RP", "mAP", "NMI", "AMI")  # the first that every method has decides the order
NONE = "\N{EN DASH}"  # where there is no value
COLUMNS = ("MAP@R", "R@1", "RP", "mAP", "NMI", "AMI")  # before any other score


@dataclass(frozen=True)
class Board:
    dataset: str
    leading: str  # the score that decides the order
    scores: tuple[str, ...]  # all scores, the leading one first
    equal: tuple[MethodResult, ...]  # under equal conditions, best first
    apart: tuple[MethodResult, ...]  # the others, best first
    point: dict[str, int]  # of a sweep, where there is nothing but a sweep

    @property
    def best(self) -> MethodResult | None:
        return self.equal[0] if self.equal else None

    @property
    def winner(self) -> MethodResult | None:
        """What to put to work: the best that was trained, though none ran under equal conditions."""
        return next((method for method in self.methods if method.name != UNTRAINED), None)

    @property
    def methods(self) -> tuple[MethodResult, ...]:
        return self.equal + self.apart

    def group(self, method: MethodResult) -> str:
        """Where a method stands: "best", "within noise of the best", or nothing to say."""
        if method.apart:
            return ""
        if method is self.best:
            return "best"
        return "within noise of the best" if method.within_noise else ""


def datasets_of(results: ComparisonResults) -> tuple[str, ...]:
    return tuple(dict.fromkeys(method.dataset for method in results.methods))


def board_of(results: ComparisonResults, dataset: str) -> Board:
    """The methods outside sweeps; where all belong to sweeps, those at the largest value of the first thing swept."""
    methods = [method for method in results.methods if method.dataset == dataset]
    point: dict[str, int] = {}
    if all(method.sweep for method in methods):
        point = max((method.sweep for method in methods), key=lambda sweep: list(sweep.values()))
    chosen = [method for method in methods if method.sweep == point]
    names = list(dict.fromkeys(name for method in chosen for name in method.scores))
    leading = next((name for name in LEADING if all(name in method.scores for method in chosen)), names[0])
    columns = [leading, *(name for name in COLUMNS if name in names), *names]
    order = sorted(chosen, key=lambda method: (-worth(method.scores.get(leading)), method.name))
    return Board(
        dataset,
        leading,
        tuple(dict.fromkeys(columns)),
        tuple(method for method in order if not method.apart),
        tuple(method for method in order if method.apart),
        point,
    )


def worth(estimate: Estimate | None) -> float:
    """What a score counts for in an order: a training that came to nothing is behind all others."""
    return -1.0 if estimate is None or math.isnan(estimate.mean) else estimate.mean


def headline(board: Board) -> str:
    """Which method is best, and what is within noise of it."""
    best = board.best
    if best is None:
        return f"On {board.dataset} no two methods ran under equal conditions."
    score = best.scores[board.leading]
    near = [method.title for method in board.equal[1:] if method.within_noise]
    clear = [method for method in board.equal[1:] if not method.within_noise]
    says = f"{best.title} is best on {board.dataset}: {board.leading} {percent(score.mean)} ({interval(score)})."
    if not board.equal[1:]:
        return says + " It is the only method under these conditions."
    if not near:
        return says + " No other method is within noise of it."
    rest = f" The other {count_of(len(clear), 'method is', 'methods are')} clearly behind." if clear else ""
    if not clear and len(near) > 1:
        return says + " But every other method is within noise of it: these data do not tell them apart."
    return says + f" Within noise of it: {listed(near)}." + rest


def conditions_in_words(results: ComparisonResults) -> str:
    seeds = count_of(results.num_seeds, "seed", "seeds")
    tuned = (
        f"{count_of(results.num_trials, 'tuning trial', 'tuning trials')} a method on "
        f"{count_of(results.num_folds, 'fold', 'folds')} of the training classes"
        if results.num_trials
        else "no tuning: every method with the values of its file"
    )
    return f"{seeds} a method, {tuned}."


def percent(value: float, *, digits: int = 2) -> str:
    return NONE if math.isnan(value) else f"{100 * value:.{digits}f}"


def interval(estimate: Estimate) -> str:
    return f"{percent(estimate.low, digits=1)} to {percent(estimate.high, digits=1)}"


def mean_seconds(method: MethodResult) -> float:
    return sum(method.seconds) / len(method.seconds) if method.seconds else math.nan


def seconds_in_words(seconds: float) -> str:
    if math.isnan(seconds):
        return NONE
    if seconds < 100:
        return f"{seconds:.1f} s"
    if seconds < 6000:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def bytes_in_words(count: int) -> str:
    if not count:
        return NONE
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
