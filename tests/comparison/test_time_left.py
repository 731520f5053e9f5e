"""The time left, held against comparisons whose pieces take known times."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import fmean

import pytest

from likewise.comparison.baselines import BASELINES
from likewise.comparison.plan import LOOKS, Claim, Piece, Plan
from likewise.comparison.plan_progress import Progress
from likewise.comparison.request import PAPER_METHODS
from likewise.comparison.time_left import is_at_most, seconds_left

from .test_plan import by_rate, plan_of

ASKED = 5  # pieces between two times that the time left is asked for
EVERYONE = lambda owner: False  # noqa: E731  # nobody is gone


@dataclass
class Run:
    """A comparison by so many workers, on a clock of its own; it is asked for the time left after the first piece and now and then."""

    plan: Plan
    workers: int
    seconds: Callable[[Piece], float]
    score: Callable[[Piece, Progress], float]
    packing: float = 0.0  # that each worker's first training and first score take longer
    asked: list[tuple[float, float | None]] = field(default_factory=list)  # when, and what was said

    def run(self) -> float:
        """When the last piece is done."""
        claims: dict[str, Claim] = {}
        idle, busy, now = [f"worker {number}" for number in range(self.workers)], [], 0.0
        fresh = {(owner, looks) for owner in idle for looks in (True, False)}
        while True:
            progress = Progress(self.plan, claims)
            due = [piece for piece in progress.due() if piece.key not in claims]
            while idle and due:
                owner, piece = idle.pop(0), due.pop(0)
                claims[piece.key] = Claim(piece, owner, 0, now, None, None, None)
                first = (owner, piece.kind in LOOKS)
                heapq.heappush(busy, (now + self.seconds(piece) + self.packing * (first in fresh), owner, piece.key))
                fresh.discard(first)
            if not busy:
                assert progress.is_complete
                return now
            now, owner, key = heapq.heappop(busy)
            score = self.score(claims[key].piece, Progress(self.plan, claims))
            claims[key] = replace(claims[key], finished=now, score=score)
            idle.append(owner)
            if len(claims) % ASKED == 1 or not self.asked:
                self.asked.append((now, seconds_left(Progress(self.plan, claims), now=now, is_gone=EVERYONE)))


def paces(slowest: float) -> Callable[[Piece], float]:
    """Ten seconds a training with the first method, up to `slowest` times as long with the last; a score takes a third of the mean."""
    trainings = [10 * slowest ** (place / (len(PAPER_METHODS) - 1)) for place in range(len(PAPER_METHODS))]

    def seconds(piece: Piece) -> float:
        if piece.kind == "items" or (piece.kind != "score" and piece.method in BASELINES):
            return 0.5
        if piece.kind == "score":
            return fmean(trainings) / 3
        return trainings[PAPER_METHODS.index(piece.method)] * (0.55 if piece.kind == "trial" else 1.0)

    return seconds


WIDENED = by_rate(dict.fromkeys(PAPER_METHODS, 1.0) | {PAPER_METHODS[0]: 9.0, PAPER_METHODS[1]: 0.1})
INSIDE = by_rate(dict.fromkeys(PAPER_METHODS, 1.0))


@pytest.mark.parametrize("slowest", [1.0, 3.0], ids=["alike", "unlike"])
@pytest.mark.parametrize("score", [WIDENED, INSIDE], ids=["widened", "inside"])
@pytest.mark.parametrize(
    ("trials", "folds", "workers", "packing"),
    [
        *((trials, folds, workers, 0.0) for trials, folds in ((3, 1), (4, 2), (0, 1)) for workers in (1, 2, 8)),
        (3, 1, 1, 60.0),
        (3, 1, 2, 20.0),
    ],
)
def test_after_a_quarter_it_is_right_within_a_third(
    workers: int, slowest: float, score: Callable[[Piece, Progress], float], trials: int, folds: int, packing: float
) -> None:
    plan = plan_of(trials=trials, folds=folds, tune="rate", seeds=3, methods=PAPER_METHODS)
    run = Run(plan, workers, paces(slowest), score, packing)
    end = run.run()
    assert run.asked[0][1] is not None  # from the first piece on
    for now, left in run.asked:
        assert left is not None
        if 0.25 * end <= now <= 0.9 * end:
            assert left == pytest.approx(end - now, rel=1 / 3, abs=0.06 * end), f"{now / end:.0%} of the time"


def test_an_ensemble_is_known_to_take_longer() -> None:
    """Before any of its trainings is done: by its members."""
    methods = ("contrastive", "raw_vthm", "dreml")
    plan = plan_of(trials=0, seeds=1, methods=methods)
    run = Run(plan, 1, lambda piece: 10.0 * plan.cost(piece), INSIDE)
    end = run.run()
    now, left = run.asked[0]
    assert left == pytest.approx(end - now)
    assert end == pytest.approx(10 * (1 + 1 + plan.by_name["dreml"].ensemble.members + 0.05 + 4 * 0.4 + 0.05))


def test_workers_that_are_gone_do_not_count() -> None:
    plan = plan_of(trials=0, seeds=4, methods=("contrastive",))
    done = Piece("final", "glyphs", "", "contrastive", 0)
    under_way = [replace(done, number=number) for number in (1, 2)]
    claims = {piece.key: Claim(piece, f"worker {piece.number}", 0, 100.0, None, None, None) for piece in under_way}
    claims[done.key] = Claim(done, "worker 1", 0, 0.0, 10.0, 0.5, None)
    together = seconds_left(Progress(plan, claims), now=100.0, is_gone=EVERYONE)
    alone = seconds_left(Progress(plan, claims), now=100.0, is_gone=lambda owner: owner == "worker 2")
    assert alone == pytest.approx(3 * 10 + 4 * 0.5 + 8 * 4 + 0.5)  # trainings, untrained networks, scores, pictures
    assert together == pytest.approx(10 + 10 + 0.5 + 4 * 4 + 0.5)


def test_nothing_is_said_before_a_piece_is_done() -> None:
    assert seconds_left(Progress(plan_of(), {}), now=0.0) is None


def test_a_piece_that_is_overdue_is_nearly_done() -> None:
    plan = plan_of(trials=0, seeds=2, methods=("contrastive",))
    first, second = (Piece("final", "glyphs", "", "contrastive", number) for number in range(2))
    claims = {first.key: Claim(first, "a", 0, 0.0, 10.0, 0.5, None), second.key: Claim(second, "a", 0, 10.0, None, None, None)}
    early, late, later = (seconds_left(Progress(plan, claims), now=now, is_gone=EVERYONE) for now in (12.0, 40.0, 4000.0))
    assert early is not None
    assert late is not None
    assert early - late == pytest.approx(8.0 - 1.0)
    assert later == late
    assert math.isfinite(late)


def test_first_pieces_of_workers_give_an_upper_limit() -> None:
    """What each of them packed and compiled comes once."""
    plan = plan_of(trials=0, seeds=3, methods=("contrastive",))
    pieces = [Piece("final", "glyphs", "", "contrastive", number) for number in range(3)]
    owners = ("a", "b", "a")
    claims = {piece.key: Claim(piece, owner, 0, 0.0, 10.0, 0.5, None) for piece, owner in zip(pieces, owners, strict=True)}
    assert is_at_most(Progress(plan, {piece.key: claims[piece.key] for piece in pieces[:2]}))
    assert not is_at_most(Progress(plan, claims))


@pytest.mark.parametrize("jump", [0.0, -3600.0, -1e9])
def test_a_clock_that_is_put_back_leaves_a_time_that_can_be(jump: float) -> None:
    """Pieces that began, or ended, after now: the rest takes what such pieces usually take, not the jump besides."""
    plan = plan_of(trials=0, seeds=2)
    done, under_way = (Piece("final", "glyphs", "", "contrastive", seed) for seed in range(2))
    claims = {
        done.key: Claim(done, "one", 0, 1000.0, 1010.0, 0.5, None),
        under_way.key: Claim(under_way, "one", 0, 1010.0, None, None, None),
    }
    before = seconds_left(Progress(plan, claims), now=1010.0, is_gone=EVERYONE)
    after = seconds_left(Progress(plan, claims), now=1010.0 + jump, is_gone=EVERYONE)
    assert before is not None
    assert after == pytest.approx(before)
    claims[done.key] = replace(claims[done.key], finished=1000.0 + jump)  # put back while it was under way
    left = seconds_left(Progress(plan, claims), now=1010.0 + jump, is_gone=EVERYONE)
    assert left is not None
    assert 0 <= left <= 2 * before
