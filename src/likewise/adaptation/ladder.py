"""The ladder: rung after rung, each kept only where it gains on held-out training classes beyond noise.

Folds are of the training classes, drawn anew in every repeat. A rung is fitted on the classes outside a fold and scored on those inside;
the best rung so far was scored on the same folds. Closed forms are always tried; what is trained is tried if the time allows, and given
up after a repeat in which it gained nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from likewise.adaptation.fitting import Fitter, part_of
from likewise.adaptation.fold_scores import FoldScore, FoldScores, scores_by_class
from likewise.adaptation.judgement import Judgement, judged_gain, score_interval
from likewise.adaptation.rungs import FEATURES, RUNGS, Rung, Setting
from likewise.adaptation.time_needed import time_needed
from likewise.data.splits import Fold
from likewise.progress import ProgressCallback
from likewise.training.loop import Listener

Outcome = Literal["start", "counts", "nothing", "harms", "cannot tell", "no time", "impossible"]
Folds = Sequence[Sequence[Fold]]  # of each repeat


@dataclass(frozen=True)
class Step:
    """What became of a rung."""

    rung: str
    outcome: Outcome
    setting: Setting = Setting()  # noqa: RUF009  # it is frozen
    over: str = ""  # the best rung so far, which it was compared with
    repeats: int = 0  # draws of folds that all figures here are means over
    score: float | None = None  # MAP@R on held-out training classes
    interval: tuple[float, float] | None = None
    before: float | None = None  # the score of `over` in the same repeats
    gain: float | None = None  # score - before
    gain_interval: tuple[float, float] | None = None
    seconds: float = 0.0  # taken; of one that was not tried for want of time: needed
    reason: str = ""  # why it is impossible

    @staticmethod
    def from_stored(content: Mapping[str, Any]) -> Step:
        """Of JSON, which knows no tuples."""
        values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}
        return Step(**values | {"setting": Setting(**content["setting"])})


@dataclass(frozen=True)
class Ladder:
    """All rungs, and the one that counts."""

    steps: tuple[Step, ...]
    chosen: str
    setting: Setting
    gain: Judgement | None  # of the chosen rung over the features as they are; None: these are chosen

    def to_store(self) -> dict[str, Any]:
        """For JSON, beside the choice of rung and setting."""
        return {"gain": None if self.gain is None else asdict(self.gain), "steps": [asdict(step) for step in self.steps]}

    @staticmethod
    def from_stored(content: Mapping[str, Any]) -> Ladder:
        choice, gain = content["choice"], content["gain"]
        return Ladder(
            tuple(map(Step.from_stored, content["steps"])),
            choice["rung"],
            Setting(**choice["setting"]),
            None if gain is None else Judgement(**gain),
        )


class Climb:
    """A ladder that is being climbed."""

    def __init__(self, fitter: Fitter, folds: Folds, scores: FoldScores, *, until: float, on_progress: ProgressCallback | None) -> None:
        self._fitter, self._folds, self._scores, self._until = fitter, folds, scores, until
        self._tell = on_progress or (lambda what, done, total: None)

    def ladder(self) -> Ladder:
        steps: list[Step] = []
        best, setting = FEATURES, Setting()
        for rung in RUNGS.values():
            if rung.changes_backbone and self._fitter.takes_vectors:
                continue  # the network that made them is not here
            step = self._step(rung, best)
            steps.append(step)
            if step.outcome == "counts":
                best, setting = rung.name, step.setting
        gain = None if best == FEATURES else self._judged(RUNGS[best], FEATURES, len(self._folds))
        return Ladder(tuple(steps), best, setting, gain)

    def _step(self, rung: Rung, best: str) -> Step:
        if rung.name == FEATURES:
            return self._climbed(rung, best)
        try:
            needed = self._seconds_needed(rung)
            if needed and needed > self._until - time.monotonic():
                return Step(rung.name, "no time", over=best, seconds=needed)
            return self._climbed(rung, best)
        except ValueError as fault:  # of this rung on these data: too few images, a training that diverged, maps too large
            return Step(rung.name, "impossible", over=best, reason=str(fault))

    def _climbed(self, rung: Rung, best: str) -> Step:
        """Scores the rung on all folds, or on those of a repeat after which it is clear that nothing comes of it."""
        repeats = 0
        judgement: Judgement | None = None
        while repeats < len(self._folds):
            self._score(rung, repeats)
            repeats += 1
            if rung.name != FEATURES:
                judgement = self._judged(rung, best, repeats)
                if rung.learns != "nothing" and judgement.gain <= 0:
                    break
        num_folds = len(self._folds[0])
        table, queries = self._scores.table(rung, repeats=repeats, folds=num_folds)
        score, low, high = score_interval(table, queries)
        way = self._scores.best_way(rung, [(repeat, fold) for repeat in range(repeats) for fold in range(num_folds)])
        seconds = self._scores.seconds(rung.name)
        step = Step(rung.name, "start", way, repeats=repeats, score=score, interval=(low, high), seconds=seconds)
        if judgement is None:
            return step
        limits = (judgement.low, judgement.high)
        before = score - judgement.gain  # a mean of differences is the difference of the means
        return replace(step, outcome=_outcome(judgement), over=best, before=before, gain=judgement.gain, gain_interval=limits)

    def _judged(self, rung: Rung, best: str, repeats: int) -> Judgement:
        base, queries = self._scores.table(RUNGS[best], repeats=repeats, folds=len(self._folds[0]))
        return judged_gain(base, self._scores.table(rung, repeats=repeats, folds=len(self._folds[0]))[0], queries)

    def _score(self, rung: Rung, repeat: int) -> None:
        """What of a repeat is not in the file yet."""
        folds = self._folds[repeat]
        num_steps = 1 if rung.learns == "nothing" else self._fitter.conditions.protocol(rung).steps
        total, done = len(folds) * len(rung.rates) * num_steps, 0
        what = f"{rung.title}, repeat {repeat + 1} of {len(self._folds)}"
        for number, fold in enumerate(folds):
            for rate in rung.rates:
                if self._is_missing(rung, rate, repeat, number):
                    listener = _Steps(lambda steps, before=done: self._tell(what, before + steps, total))  # type: ignore[misc]
                    self._score_fit(rung, rate, repeat, number, fold, listener)
                done += num_steps
                self._tell(what, done, total)

    def _score_fit(self, rung: Rung, rate: float, repeat: int, number: int, fold: Fold, listener: Listener) -> None:
        feed = self._fitter.feed(rung)
        began = time.perf_counter()
        held_out = part_of(feed, fold.validation)
        fits = self._fitter.fits(rung, part_of(feed, fold.train), rate=rate, seed=repeat, listener=listener)
        for setting, network in fits:
            vectors = self._fitter.embeddings(rung, network, held_out)
            means, queries = scores_by_class(vectors, held_out.labels)
            now = time.perf_counter()
            self._scores.add(FoldScore(rung.name, setting, repeat, number, means, queries, now - began))
            began = now

    def _is_missing(self, rung: Rung, rate: float, repeat: int, fold: int) -> bool:
        return any(self._scores.get(rung.name, setting, repeat, fold) is None for setting in rung.settings(rate))

    def _seconds_needed(self, rung: Rung) -> float:
        """Of all that is missing, and of the fit on all training classes that follows where the rung is chosen; closed forms take none."""
        if rung.learns == "nothing":
            return 0.0
        missing = sum(
            self._is_missing(rung, rate, repeat, number)
            for repeat, folds in enumerate(self._folds)
            for number in range(len(folds))
            for rate in rung.rates
        )
        if not missing:
            return 0.0
        needed = time_needed(self._fitter, rung)
        return needed.once + (missing + 1) * needed.a_fit


class _Steps(Listener):
    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell

    def step(self, step: int) -> None:
        self._tell(step)


def _outcome(judgement: Judgement) -> Outcome:
    if judgement.counts:
        return "counts"
    if judgement.can_tell and judgement.high < 0:
        return "harms"
    return "nothing" if judgement.can_tell or judgement.gain <= 0 else "cannot tell"
