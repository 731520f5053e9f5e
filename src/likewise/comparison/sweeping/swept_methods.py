"""One method over the points of a sweep: which is best, which are within noise of it, and where the method has no place."""

from __future__ import annotations

from dataclasses import dataclass, field

from likewise.comparison.sweeping.sweeps import Settings
from likewise.evaluation.certainty.verdict import Verdict


@dataclass(frozen=True)
class LeftOut:
    """A method that is not in the table at a point of a sweep ("" outside of sweeps), and why."""

    dataset: str
    point: str
    method: str
    title: str
    why: str


@dataclass(frozen=True)
class SweptMethod:
    """One method on one data set over the points of a sweep."""

    dataset: str
    sweep: str  # "loss.alpha"; "loss.alpha x loss.margin"
    method: str
    title: str
    points: dict[str, Settings]  # those that it was scored at, by their names, in the order of the sweep
    verdict: Verdict | None  # by MAP@R, of points by their names; None for fewer than two
    left_out: dict[str, str] = field(default_factory=dict)  # the other points, and why

    @property
    def is_told(self) -> bool:
        """Whether these data can tell the points apart at all."""
        return self.verdict is not None and not self.verdict.lacking

    def standing(self, point: str) -> str:
        """Beside the method's best point, as `results.Standing` has it of methods; empty where nothing is known."""
        if self.verdict is None or point not in self.verdict.means:
            return ""
        if point == self.verdict.best:
            return "leads" if set(self.verdict.within_noise) - set(self.verdict.equivalent) else "best"
        if point in self.verdict.equivalent:
            return "equal for all purposes"
        return "behind" if point in self.verdict.behind else "within noise"
