"""What a comparison says in sentences: the headline of a board, what could be told apart, the conditions, the time, an interval."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

from likewise.comparison.plan import DECIDING_SCORE
from likewise.comparison.results import Board, ComparisonResults, Estimate, MethodResult
from likewise.comparison.statistics import LEVEL
from likewise.comparison.sweeping.sweeps import TOGETHER, point_in_words
from likewise.comparison.sweeping.swept_methods import SweptMethod
from likewise.evaluation.certainty.uncertainty import FEW, few_in_words
from likewise.protocols import Protocol
from likewise.wording import NONE, count_of, listed, ordinal, percent, seconds_in_words

FIRST_HIT = "R@1"
MANY_SEEDS = 10
HELPS = 0.9  # more seeds help if they tell a lead less than this part of what is told now

TO_TUNE = f"the same command with --trials {Protocol.trials} and another --out tunes the learning rate of every method alike"


def hits_in_words(results: ComparisonResults, board: Board) -> str:
    """R@1 of the first method, beside that without training, for people who know no metric; empty where there is none.

    "Of 100 images, 96 (94 to 98) have one of their own class as the nearest with RAW + VTHM; without training 94 (91 to 96) do."
    Of fewer than that, where there were no more to test: "Of 24 test images, 23 have ...".
    """
    first, untrained = board.methods[0], board.untrained
    shown = [method.scores[FIRST_HIT] for method in (first, untrained) if method is not None and FIRST_HIT in method.scores]
    if FIRST_HIT not in first.scores or any(math.isnan(score.mean) for score in shown):
        return ""
    is_close = len({round(100 * score.mean) for score in shown}) < len({round(1000 * score.mean) for score in shown})
    many = 1000 if is_close or not 0.02 < shown[0].mean < 0.99 else 100
    items = results.items.get(board.dataset)
    kind = "items" if items is None or items.thumbnails is None else "images"
    if items is not None and items.num_queries < many:
        many, kind = items.num_queries, f"test {kind}"

    def of_many(score: Estimate) -> str:
        spread = "" if score.low is None or score.high is None else f" ({round(many * score.low):,} to {round(many * score.high):,})"
        return f"{round(many * score.mean):,}{spread}"

    where = f"On {board.dataset}, of" if len(results.datasets) > 1 else "Of"
    says = f"{where} {many:,} {kind}, {of_many(shown[0])} have one of their own class as the nearest"
    if first is untrained:
        return f"{says} without any training."
    beside = "" if untrained is None or len(shown) == 1 else f"; without training {of_many(shown[1])} do"
    return f"{says} with {first.title}{beside}."


def headline(board: Board) -> str:
    """Which method leads, what is within noise of it and what is behind; or why these data cannot tell."""
    best, verdict = board.best, board.verdict
    if not board.can_be_tuned:
        return f"On {board.dataset} nothing could be tuned on so few training classes, so that no winner is named."
    if not board.names_winner:
        return f"On {board.dataset} untuned values were compared, so that no winner is named: {TO_TUNE}."
    if best is None:
        return f"On {board.dataset} no two methods ran under equal conditions."
    score = best.scores[board.leading]
    shown = f"{board.leading} {percent(score.mean)}" + (f" ({interval(score)})" if score.low is not None else "")
    says = f"{best.title} {'is best' if best.standing == 'best' else 'leads'} on {board.dataset}: {shown}."
    if not board.equal[1:]:
        return says + " It is the only method under these conditions."
    if verdict is None:
        return says
    parts = [says]
    equal, near, behind = (_titles(board, standing) for standing in ("equal for all purposes", "within noise", "behind"))
    if verdict.undecided:
        parts.append(verdict.undecided)
    elif near and not equal and not behind and len(near) > 1:
        parts.append("But every other method is within noise of it: these data do not tell them apart.")
    elif near:
        parts.append(f"Within noise of it: {listed(near)}.")
    if equal and board.indifferent is not None:
        parts.append(f"Equal to it for all purposes, which is to {points(board.indifferent)}: {listed(equal)}.")
    if behind and not near and not equal:
        parts.append("Every other method is behind it." if len(behind) > 1 else f"{behind[0]} is behind it.")
    elif behind:
        parts.append(f"The other {count_of(len(behind), 'method is', 'methods are')} behind.")
    if verdict.look > 1:
        judged = f"Judged at {100 * verdict.level:.4g} %, as it is the {ordinal(verdict.look)} look of this comparison"
        parts.append(f"{judged}: all looks after the first together err at most {100 * (1 - LEVEL):.2g} times in 100.")
    return " ".join(parts)


def gain_in_words(board: Board) -> str:
    """Whether training pays, beside features as they are and a closed form; empty where these were not judged with the methods.

    A network of random weights is not judged with them: where none that was trained has more, that is said.
    """
    untrained = [method for method in board.equal if not method.is_trained]
    trained = [method for method in board.equal if method.is_trained]
    start = board.untrained
    if start is not None and start.apart and trained and start.scores[board.leading].mean > trained[0].scores[board.leading].mean:
        shown = [f"{board.leading} {percent(method.scores[board.leading].mean)}" for method in (start, trained[0])]
        return f"Training does not pay here: untrained, the network has {shown[0]}, and {trained[0].title}, the best trained, {shown[1]}."
    if not board.names_winner or not untrained or not trained:
        return ""
    best, plain = trained[0], untrained[0]
    score = board.leading

    def over(other: MethodResult) -> float:
        return best.scores[score].mean - other.scores[score].mean

    if board.best is plain:
        beside = f"{best.title}, the best that was trained, has {percent(best.scores[score].mean)}"
        return f"Training does not pay here: nothing beats {plain.title}, for which nothing is trained. {beside}."
    is_told = plain.standing == "behind"
    gains = [f"{points(over(other))} over {other.title}{'' if is_told or other is not plain else ' (within noise)'}" for other in untrained]
    pays = "Training pays here" if is_told else "Whether training pays is not told"
    return f"{pays}: {best.title} gains {listed(gains)}, where nothing is trained."


def levels_in_words(results: ComparisonResults, board: Board) -> list[str]:
    """For each method whose levels were scored one by one: which of them are ahead, by the verdict within its trainings."""
    told = []
    for method in board.methods:
        verdict = results.level_verdicts.get((board.dataset, point_in_words(board.point), method.name))
        if verdict is None:
            continue
        names = {result.name: " + ".join(result.levels) for result in board.methods if result.levels} | {method.name: "all together"}
        parts = [f"{names[verdict.best]} first, with {DECIDING_SCORE} {percent(verdict.means[verdict.best])}"]
        parts += [f"{listed([names[name] for name in verdict.behind])} behind"] if verdict.behind else []
        parts += [f"{listed([names[name] for name in verdict.within_noise])} within noise of it"] if verdict.within_noise else []
        parts += ["one seed leaves the order open"] if verdict.fewest_seeds == 1 else []
        told.append(f"Levels of {method.title}, all from the same trainings: {'; '.join(parts)}.")
    return told


def power_in_words(board: Board) -> str:
    """What these seeds could tell apart, and what more of them would: "With 3 seeds a method a lead of 3.6 points is told from ..."."""
    verdict = board.verdict
    if not board.names_winner or verdict is None or verdict.undecided or verdict.lacking or len(verdict.means) == 1:
        return ""
    seeds, again = verdict.fewest_seeds, verdict.next_look
    if not seeds:
        return ""
    more, told = more_seeds(seeds), verdict.detectable(seeds)
    then = again.detectable(more)
    gained = f"one of {points(then)}" if then < told else "no smaller one"
    says = (
        f"With {count_of(seeds, 'seed', 'seeds')} a method a lead of {points(told)} is told from this noise; "
        f"with {more} seeds, at the {ordinal(again.look)} look, {gained} would be."
    )
    near = [name for name in verdict.within_noise if name not in verdict.equivalent]
    lead = verdict.means[verdict.best] - verdict.means[near[0]] if near else 0.0
    if lead <= 0:
        return says
    title = next(method.title for method in board.equal if method.name == near[0])
    takes = again.seeds_to_tell(lead)
    if takes is None:
        classes = count_of(verdict.num_classes, "test class", "test classes")
        return f"{says} The lead over {title}, {points(lead)}, is too small for any number of seeds on these {classes}."
    return f"{says} The lead over {title}, {points(lead)}, would take about {takes} seeds." if takes > seeds else says


def swept_in_words(swept: SweptMethod) -> str:
    """How the points of one method stand beside each other, and where it is not: "1.2 is best with MAP@R 23.10; behind it: 1 and 1.4." """
    named = dict(zip(swept.points, points_named(list(swept.points)), strict=True))
    parts = []
    found = swept.verdict
    if found is not None:
        near, behind = ([named[point] for point in points] for points in (found.within_noise, found.behind))
        parts.append(f"{named[found.best]} {'leads' if near else 'is best'} with {DECIDING_SCORE} {percent(found.means[found.best])}")
        if found.lacking:
            parts.append(
                "one seed does not tell the values apart" if "seeds" in " ".join(found.lacking.values()) else "one class tells nothing"
            )
        elif near:
            parts.append(f"within noise of it: {listed(near)}" if behind else "no other value is told from it")
        if behind:
            parts.append(f"behind it: {listed(behind)}" if near else f"every other value is behind, by {_from_to(swept)}")
    for why in dict.fromkeys(swept.left_out.values()):
        points = [point for point, reason in swept.left_out.items() if reason == why]
        parts.append(f"not at {listed(points_named(points))}: {why}")
    return f"{'; '.join(parts)}." if parts else ""


def _from_to(swept: SweptMethod) -> str:
    """How far the other points are behind the best."""
    assert swept.verdict is not None
    means = list(swept.verdict.means.values())
    least, most = points(means[0] - means[1]), points(means[0] - means[-1])
    return most if least == most else f"{least.partition(' ')[0]} to {most}"


def points_named(points: Sequence[str]) -> list[str]:
    """Points as they are told apart: of one setting its values alone, of several all of them."""
    return [point if TOGETHER in point else point.partition("=")[2] for point in points]


def command_to_go_on(results: ComparisonResults, board: Board) -> str:
    """What adds seeds to this comparison, where they could tell what is not told yet; else empty."""
    verdict = board.verdict
    if (
        not board.names_winner
        or verdict is None
        or not verdict.fewest_seeds
        or results.folder is None
        or not _titles(board, "within noise")
    ):
        return ""
    seeds = verdict.fewest_seeds
    more = more_seeds(seeds)
    if "seeds" not in " ".join(verdict.lacking.values()) and not verdict.next_look.detectable(more) < HELPS * verdict.detectable(seeds):
        return ""  # the classes are what is few
    words = shlex.split(results.command) if results.command else []
    if len(words) < 2 or words[1] != "compare" or "likewise" not in Path(words[0]).parts[-2:]:
        return f"likewise.compare(..., seeds={more}, out={str(results.folder)!r})"
    kept = _without(words[1:], ("--seeds", "--out", "--methods"))  # the methods are those that are there, some perhaps added since
    return shlex.join(["likewise", *kept, "--seeds", str(more), "--out", str(results.folder)])


def how_to_embed(place: Path, *, vectors: bool) -> str:
    """The command that puts an embedder to work, on images or on vectors."""
    what = "VECTORS.npz --out embedded.npz" if vectors else "IMAGES --out vectors.npz"
    return f"likewise embed {shlex.quote(str(place))} {what}"


def is_of_vectors(results: ComparisonResults, dataset: str) -> bool:
    """Whether there is nothing to see of the items of a data set."""
    items = results.items.get(dataset)
    return items is not None and items.thumbnails is None


def more_seeds(seeds: int) -> int:
    """How many to go on with."""
    return 5 if seeds == 1 else MANY_SEEDS if seeds < MANY_SEEDS else 2 * seeds


def noise_in_words(board: Board) -> str:
    """Which noise the intervals do not hold, where they lack any."""
    seeded = [method for method in board.methods if not method.seedless]
    lacking = {name: {method.scores[name].lacking for method in seeded if name in method.scores} for name in board.scores}
    parts = []
    if "seeds" in lacking[board.leading]:
        parts.append("With one seed, intervals hold the noise of the test classes alone: another seed may lie outside.")
    by_seeds = [name for name, kinds in lacking.items() if kinds == {"classes"}]
    without = [name for name, kinds in lacking.items() if kinds == {"seeds and classes"}]
    if by_seeds:
        parts.append(f"Intervals of {listed(by_seeds)} hold the noise of seeds alone.")
    if without:
        parts.append(f"One seed leaves {listed(without)} without an interval.")
    if board.verdict is not None and 1 < board.verdict.num_classes < FEW:
        parts.append(f"{few_in_words(board.verdict.num_classes)}.")
    return " ".join(parts)


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
    sizes = sorted({len(method.trials) for method in results.methods if method.trials} or {results.num_trials})
    if results.tune == "grid":
        many = f"{sizes[0]} sets of values" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} sets of values, as grids differ in size,"
        alike = f"each combination with the same rates for all ({rates})"
        return f"grids searched: {many} a method, {alike}, on {where} of the training classes"
    num_sets = sizes[-1]
    return f"all settings tuned: {num_sets} sets of values a method with the same rates for all, on {where} of the training classes"


def time_in_words(results: ComparisonResults) -> str:
    """By the clock, and the work of all jobs together: "13.1 min by the clock, in which 2 jobs did 24.7 min of work". Waiting is none."""
    work = sum(seconds for kind, seconds in results.time_spent.items() if kind != "waiting")
    by_others = work > (results.jobs + 1) * results.elapsed  # this process only read what others had done
    jobs = "several jobs" if by_others else count_of(results.jobs, "job", "jobs side by side")
    return f"{seconds_in_words(results.elapsed)} by the clock, in which {jobs} did {seconds_in_words(work)} of work"


def interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return NONE
    return f"{percent(estimate.low, digits=1)} to {percent(estimate.high, digits=1)}"


def points(score: float) -> str:
    """A difference: "1.8 points"."""
    number = f"{100 * score:.1f}" if abs(score) >= 0.0095 else f"{100 * score:.2g}"
    return f"{number} {'point' if number == '1' else 'points'}"


def _titles(board: Board, standing: str) -> list[str]:
    return [method.title for method in board.equal if method.standing == standing]


def _without(words: list[str], options: Collection[str]) -> list[str]:
    """A command line without these options and their values."""
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in options:
            next(rest, None)
        elif word.partition("=")[0] not in options:
            kept.append(word)
    return kept
