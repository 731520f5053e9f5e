"""What a comparison says in sentences: the headline of a board, the conditions, the time, an interval."""

from __future__ import annotations

from likewise.comparison.results import Board, ComparisonResults, Estimate
from likewise.protocols import Protocol
from likewise.wording import count_of, listed, percent, seconds_in_words

TO_TUNE = f"the same command with --trials {Protocol.trials} and another --out tunes the learning rate of every method alike"


def headline(board: Board) -> str:
    """Which method is best, and what is within noise of it."""
    best = board.best
    if not board.names_winner:
        return f"On {board.dataset} untuned values were compared, so that no winner is named: {TO_TUNE}."
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


def look_in_words(results: ComparisonResults, board: Board) -> str:
    """Which look at the test classes of a board this is: "Second look at these test classes, after runs/x (2026-11-16)."."""
    look = results.looks.get(board.dataset)
    return "" if look is None else f"{look.in_words[:1].upper()}{look.in_words[1:]}."


def conditions_in_words(results: ComparisonResults) -> str:
    seeds = count_of(results.num_seeds, "seed", "seeds")
    return f"{seeds} a method; {tuning_in_words(results)}."


def tuning_in_words(results: ComparisonResults) -> str:
    """What was tuned, and on what."""
    if not results.num_trials:
        return "no tuning: every method with the values of its file"
    rates = f"{listed([f'{rate:g}' for rate in results.rates_tried])} times the protocol's"
    where = f"{results.num_folds} folds" if results.num_folds > 1 else "half"
    if results.tune == "rate":
        return f"rates tuned alike, nothing else: {rates}, on {where} of the training classes"
    num_sets = max((len(method.trials) for method in results.methods), default=results.num_trials)
    return f"all settings tuned: {num_sets} sets of values a method with the same rates for all, on {where} of the training classes"


def time_in_words(results: ComparisonResults) -> str:
    """By the clock, and the work of all jobs together: "13.1 min, 24.7 min of work in 2 jobs". Waiting is no work."""
    work = sum(seconds for kind, seconds in results.time_spent.items() if kind != "waiting")
    return f"{seconds_in_words(results.elapsed)}, {seconds_in_words(work)} of work in {count_of(results.jobs, 'job', 'jobs')}"


def interval(estimate: Estimate) -> str:
    return f"{percent(estimate.low, digits=1)} to {percent(estimate.high, digits=1)}"
