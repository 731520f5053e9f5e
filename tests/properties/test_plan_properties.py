"""Any plan, done in any order and with failures, ends with every piece done once; draws of tuning are what they say."""

from __future__ import annotations

import itertools
import json
import math
import random
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as some

from likewise.comparison.plan import Claim, Piece, Plan
from likewise.comparison.plan_progress import Progress
from likewise.comparison.tuning import LADDER, RATES, draw_sets, edge_of, expected_best, next_rate, survivors, trial_score, winner
from likewise.configuration import Choice, with_settings
from likewise.methods import METHODS, load_method

from ..comparison.test_plan import plan_of

KINDS = ("trial", "final", "items", "score")
scores = some.one_of(some.none(), some.floats(0, 1), some.just(float("nan")))


@given(
    some.integers(0, 5).filter(lambda trials: trials != 1),
    some.integers(1, 3),
    some.sampled_from(["rate", "all"]),
    some.integers(1, 3),
    some.integers(0, 2**20),
    some.floats(0, 0.4),
)
def test_every_piece_is_done_once_in_any_order(trials: int, folds: int, tune: Any, seeds: int, chance: int, failing: float) -> None:
    plan = plan_of(trials=trials, folds=folds, tune=tune, seeds=seeds)
    draw = random.Random(chance)
    claims: dict[str, Claim] = {}
    opened = False
    for _ in range(1000):
        progress = Progress(plan, claims)
        due = progress.due()
        assert len({piece.key for piece in due}) == len(due)
        if not due:
            break
        kinds = [KINDS.index(piece.kind) for piece in due if piece.kind in ("trial", "final")]
        assert kinds == sorted(kinds)  # tuning comes before what is trained for good
        piece = draw.choice(due)
        assert piece.key not in claims
        if piece.kind in ("score", "items"):
            assert progress.is_decided
            opened = True
        else:
            assert not opened  # nothing is tuned or trained once a test class was seen
        failed = draw.random() < failing and piece.kind in ("trial", "final")
        claims[piece.key] = Claim(piece, "", 0, 0.0, 1.0, None if failed else draw.random(), "no luck" if failed else None)
    progress = Progress(plan, claims)
    assert progress.is_complete
    finals = {piece.key for piece in progress.final_pieces()}
    scored = {piece.key.replace("score|", "final|", 1) for piece in progress.score_pieces() if piece.kind == "score"}
    assert scored == {key for key in finals if claims[key].failure is None}
    same = Progress(Plan.from_table(json.loads(json.dumps(plan.as_table()))), dict(sorted(claims.items())))
    assert same.decisions == progress.decisions


@given(some.sampled_from(["trial", "final", "score", "items"]), some.text(max_size=9), some.text(max_size=9), some.integers(0, 9))
def test_a_key_is_its_piece(kind: Any, data: str, method: str, number: int) -> None:
    assume("|" not in method)  # the names of data sets may hold anything, those of methods are names of files
    piece = Piece(kind, data, "dim=64", method, number, number // 2)
    assert Piece.from_key(piece.key) == piece


@given(some.sampled_from(sorted(METHODS)), some.integers(2, 9), some.booleans())
def test_draws_are_within_what_a_method_may_try(name: str, trials: int, pretrained: bool) -> None:
    method = load_method(name)
    drawn = draw_sets(method, trials=trials, tune="all", pretrained=pretrained)
    assert drawn == draw_sets(method, trials=trials, tune="all", pretrained=pretrained)
    assert drawn[: trials - 1] == draw_sets(method, trials=trials - 1, tune="all", pretrained=pretrained)  # more trials only add
    for values in drawn[1:]:
        with_settings(method, values)
        assert RATES.low <= values["rates.base"] <= RATES.high
        for key, space in method.search.items():
            if key in values:
                assert values[key] in space.choices if isinstance(space, Choice) else space.low <= values[key] <= space.high


@given(some.lists(some.floats(0, 1), min_size=1, max_size=30))
def test_the_expected_best_rises_to_the_best(found: list[float]) -> None:
    best = expected_best(found)
    assert math.isclose(best[0], math.fsum(found) / len(found), abs_tol=1e-12)
    assert math.isclose(best[-1], max(found), abs_tol=1e-12)
    assert all(before <= after + 1e-12 for before, after in itertools.pairwise(best))


@given(some.dictionaries(some.integers(0, 40), scores, max_size=20))
def test_the_better_half_goes_on(first: dict[int, float | None]) -> None:
    kept = survivors(first)
    sound = {number: score for number, score in first.items() if score is not None and not math.isnan(score)}
    assert len(kept) == math.ceil(len(sound) / 2)
    assert set(kept) <= sound.keys()
    left = [score for number, score in sound.items() if number not in kept]
    assert not left or max(left) <= min(sound[number] for number in kept)


@given(some.dictionaries(some.integers(0, 20), some.lists(scores, max_size=3), max_size=12), some.integers(1, 3))
def test_the_winner_has_the_best_mean_of_those_without_fault(found: dict[int, list[float | None]], num_folds: int) -> None:
    means = {number: trial_score(values, num_folds=num_folds) for number, values in found.items() if len(values) <= num_folds}
    whole = {number: mean for number, mean in means.items() if mean is not None}
    chosen = winner({number: found[number] for number in means}, num_folds=num_folds)
    assert chosen is None if not whole else whole[chosen] == max(whole.values())  # type: ignore[index]


@given(some.permutations(LADDER), some.integers(1, len(LADDER)), some.lists(scores, min_size=len(LADDER), max_size=len(LADDER)))
def test_edges_are_edges_in_any_order(rates: list[float], count: int, found: list[float | None]) -> None:
    tried, of_rate = rates[:count], dict(zip(rates, found, strict=True))
    at = edge_of(tried, [of_rate[rate] for rate in tried])
    sound = [rate for rate in tried if of_rate[rate] is not None and not math.isnan(of_rate[rate] or 0.0)]
    if not sound:
        assert at == ""
    elif len({of_rate[rate] for rate in sound}) == len(sound):
        best = max(sound, key=lambda rate: of_rate[rate] or 0.0)
        assert at == ("highest" if best == max(tried) else "lowest" if best == min(tried) else "")
    assert next_rate(tried, above=True) > max(tried)
    assert next_rate(tried, above=False) < min(tried)
