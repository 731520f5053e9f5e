"""How long a comparison will still take, told by the pieces that are done: their times, what is left to do, and who works on it."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from likewise.comparison.baselines import is_baseline
from likewise.comparison.plan import LOOKS, Claim, Piece, Plan
from likewise.comparison.plan_progress import Progress
from likewise.comparison.running.store import Owner

RECENT = 2.0  # whoever finished a piece that many usual pieces ago still counts as working
OVERDUE = 0.1  # of its usual time is what a piece is given that has taken longer already


def seconds_left(
    progress: Progress, *, now: float, is_gone: Callable[[str], bool] = lambda owner: Owner.from_name(owner).is_gone
) -> float | None:
    """Until the last piece is done; None before the first is.

    now: the time of the claims' clock, which may have been put back since.  is_gone: whether the process of this name has ended.
    """
    done = [claim for claim in progress.claims.values() if claim.finished is not None]
    under_way = {claim.piece: claim for claim in progress.claims.values() if claim.finished is None and not is_gone(claim.owner)}
    if not done:
        return None
    times = Times(progress.plan, done, under_way.values(), now=now)

    def rest(piece: Piece) -> float:
        usual = times.of(piece)
        return max(usual - max(0.0, now - under_way[piece].claimed), OVERDUE * usual) if piece in under_way else usual

    due = [piece for piece in progress.expected() if not progress.is_done(piece)]
    looks = [rest(piece) for piece in due if piece.kind in LOOKS]
    further = [
        progress.num_rates_foreseen(source.name) * times.of(Piece("trial", source.name, "", method))
        for source in progress.plan.data
        for method in progress.plan.sets
    ]
    trainings = sorted((piece for piece in due if piece.kind not in LOOKS), key=lambda piece: piece not in under_way)
    return _shared([*further, *map(rest, trainings)], times.num_workers) + _shared(looks, times.num_workers)


def is_at_most(progress: Progress) -> bool:
    """Whether the time left is an upper limit: each training that is done was its worker's first, and how much of it went into reading,
    packing and compiling, which come once, cannot be told yet.
    """
    trainings = [claim for claim in progress.claims.values() if claim.finished is not None and claim.piece.kind not in LOOKS]
    return len({claim.owner for claim in trainings}) == len(trainings)


def _shared(seconds: Sequence[float], num_workers: int) -> float:
    """How long so many take for these pieces: each, as soon as it is free, takes the next."""
    free = [0.0] * num_workers
    for piece in seconds:
        heapq.heapreplace(free, free[0] + piece)
    return max(free)


@dataclass(frozen=True)
class Spent:
    """The time of a piece so far; `is_first` of a worker's trainings or looks: then it also read and packed the data."""

    piece: Piece
    seconds: float
    is_first: bool


class Times:
    """How long pieces take, from those that are done, and from those under way where they take longer than was to be expected.

    What first pieces take beyond others is taken off, as soon as there are others to tell it by.
    """

    def __init__(self, plan: Plan, done: Sequence[Claim], under_way: Iterable[Claim], *, now: float) -> None:
        self.plan = plan
        under_way = list(under_way)
        self.num_workers = _num_workers(done, under_way, now=now)
        first: dict[tuple[str, bool], Piece] = {}
        for claim in sorted([*done, *under_way], key=lambda claim: claim.claimed):
            first.setdefault((claim.owner, claim.piece.kind in LOOKS), claim.piece)

        def spent(claim: Claim) -> Spent:
            end = now if claim.finished is None else claim.finished
            return Spent(claim.piece, max(0.0, end - claim.claimed), first[claim.owner, claim.piece.kind in LOOKS] == claim.piece)

        measured = [spent(claim) for claim in done]
        later = [entry for entry in measured if entry.piece.kind in LOOKS and not entry.is_first]
        if not later:  # the first scores tell more of packing than of scoring
            measured = [entry for entry in measured if entry.piece.kind not in LOOKS] or measured
        start = {looks: self._start([entry for entry in measured if (entry.piece.kind in LOOKS) == looks]) for looks in (True, False)}

        def without_start(entry: Spent) -> tuple[Piece, float]:
            beyond = start[entry.piece.kind in LOOKS] if entry.is_first else 0.0
            return entry.piece, max(entry.seconds - beyond, OVERDUE * entry.seconds)

        self._done = [without_start(entry) for entry in measured]
        self._under_way = [without_start(spent(claim)) for claim in under_way]
        self._memory: dict[tuple[str, ...], float] = {}

    def _start(self, done: Sequence[Spent]) -> float:
        """How much longer first pieces take, by others of their kind; of trainings, which differ, by those of the same method."""
        beyond = []
        for entry in done:
            others = [
                (other.piece, other.seconds)
                for other in done
                if not other.is_first
                and other.piece.kind == entry.piece.kind
                and (other.piece.method == entry.piece.method or entry.piece.kind in LOOKS)
            ]
            if entry.is_first and others:
                beyond.append(entry.seconds - self.plan.cost(entry.piece) * self._rate(others))
        return max(0.0, median(beyond)) if beyond else 0.0

    def of(self, piece: Piece) -> float:
        """What this piece will take: as others like it did, or else as its cost has it beside those that are done."""
        like = (piece.kind, piece.data, piece.point, piece.method)
        if like not in self._memory:
            self._memory[like] = self._estimate(piece)
        return self._memory[like]

    def _estimate(self, piece: Piece) -> float:
        is_training = self._is_training(piece)
        if self.plan.protocol.equal == "time" and self.plan.protocol.seconds and is_training:
            return self.plan.cost(piece) * self.plan.protocol.seconds
        same = [entry for entry in self._done if entry[0].kind == piece.kind and self._is_training(entry[0]) == is_training]
        own = [seconds for other, seconds in same if (other.data, other.point, other.method) == (piece.data, piece.point, piece.method)]
        if own:
            return fmean(own)
        cost = self.plan.cost(piece)
        if not is_training and same:
            return cost * self._rate(same)
        trainings = [entry for entry in self._done if self._is_training(entry[0])]
        of_method = [entry for entry in trainings if entry[0].method == piece.method]
        if is_training and of_method:
            return cost * self._rate(of_method)
        so_far = [seconds / self.plan.cost(other) for other, seconds in self._under_way if other.method == piece.method and is_training]
        return cost * max([self._rate(trainings or self._done), *so_far])

    def _is_training(self, piece: Piece) -> bool:
        return piece.kind not in LOOKS and not is_baseline(self.plan.by_name[piece.method])

    def _rate(self, evidence: Sequence[tuple[Piece, float]]) -> float:
        """Seconds for a cost of 1: the mean over methods, as all of them will come, of each one's median."""
        by_method: dict[str, list[float]] = {}
        for piece, seconds in evidence:
            by_method.setdefault(piece.method, []).append(seconds / self.plan.cost(piece))
        return fmean(map(median, by_method.values()))


def _num_workers(done: Sequence[Claim], under_way: Iterable[Claim], *, now: float) -> int:
    """Processes that have a piece under way, or have just finished one and wait for the next."""
    ends = {claim: now if claim.finished is None else claim.finished for claim in done}
    recently = now - RECENT * median(max(0.0, end - claim.claimed) for claim, end in ends.items())
    return max(1, len({claim.owner for claim in under_way} | {claim.owner for claim, end in ends.items() if end >= recently}))
