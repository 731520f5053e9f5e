"""Which pieces follow from which."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, get_args

import pytest

from likewise.comparison.baselines import INITIALISED
from likewise.comparison.conditions import tuning_in_words
from likewise.comparison.folder import difference
from likewise.comparison.plan import Claim, Piece, Plan, Source, why_apart
from likewise.comparison.plan_progress import Progress
from likewise.comparison.request import PAPER_METHODS, methods_of
from likewise.comparison.tuning import draw_sets
from likewise.configuration import with_settings
from likewise.methods import METHODS, HeadKind, load_method
from likewise.protocols import Tune

from .tiny import tiny_protocol

NAMES = ("contrastive", "raw_vthm")


def plan_of(
    *,
    trials: int = 4,
    folds: int = 2,
    tune: Tune = "all",
    seeds: int = 2,
    sweeps: dict[str, tuple[Any, ...]] | None = None,
    methods: tuple[str, ...] = NAMES,
) -> Plan:
    found = tuple(map(load_method, methods))
    return Plan(
        data=(Source("glyphs", "glyphs", {"fingerprint": "f", "test_digest": "t"}),),
        methods=(*found, INITIALISED),
        protocol=tiny_protocol(),
        trials=trials,
        folds=folds,
        tune=tune,
        seeds=seeds,
        sweeps=sweeps or {},
        sets={method.name: draw_sets(method, trials=trials, tune=tune, pretrained=False) for method in found} if trials else {},
    )


def score_of(piece: Piece) -> float:
    """The second set, whose rate lies between others, is best, then the third."""
    return (1, 4, 3, 2)[piece.number % 4] / 10 + piece.fold / 100


def by_rate(best: dict[str, float]) -> Callable[[Piece, Progress], float]:
    """Scores of methods that do best at these rates, and the worse the farther from it."""

    def score(piece: Piece, progress: Progress) -> float:
        rate = progress.settings(piece.data, piece.method, piece.number)["rates.base"] if piece.kind == "trial" else 1.0
        return 1 / (1 + abs(math.log(rate / best[piece.method]))) if piece.method in best else 0.0

    return score


class Simulation:
    """Does every piece as soon as it is due, with made-up scores."""

    def __init__(
        self, plan: Plan, *, fails: str = " ", score: Callable[[Piece, Progress], float] = lambda piece, progress: score_of(piece)
    ) -> None:
        self.plan, self.fails, self.score = plan, fails, score
        self.claims: dict[str, Claim] = {}

    @property
    def progress(self) -> Progress:
        return Progress(self.plan, self.claims)

    def do(self, piece: Piece) -> None:
        score = self.score(piece, self.progress)
        failure = "no luck" if re.fullmatch(self.fails, piece.key) else None
        self.claims[piece.key] = Claim(piece, "", 0, 0.0, 1.0, None if failure else score, failure)

    def run(self) -> list[list[Piece]]:
        """Rounds of what was due together."""
        rounds = []
        while due := self.progress.due():
            rounds.append(due)
            for piece in due:
                self.do(piece)
        return rounds


def test_tuning_then_training_then_scores() -> None:
    simulation = Simulation(plan_of())
    rounds = simulation.run()
    kinds = [sorted({(piece.kind, piece.fold) for piece in found}) for found in rounds]
    # the untrained network needs no tuning and comes with the first
    assert kinds == [[("final", 0), ("trial", 0)], [("trial", 1)], [("final", 0)], [("items", 0), ("score", 0)]]
    assert {piece.method for piece in rounds[0] if piece.kind == "final"} == {"untrained"}
    assert {piece.number for piece in rounds[1]} == {1, 2}  # the better half
    assert simulation.progress.choice("glyphs", "raw_vthm") == 1
    assert simulation.progress.is_complete


def test_one_fold_is_enough() -> None:
    simulation = Simulation(plan_of(folds=1, tune="rate", trials=3), score=by_rate({"contrastive": 1.0, "raw_vthm": 1.0}))
    kinds = [sorted({(piece.kind, piece.fold) for piece in together}) for together in simulation.run()]
    assert kinds == [[("final", 0), ("trial", 0)], [("final", 0)], [("items", 0), ("score", 0)]]
    assert simulation.progress.settings("glyphs", "raw_vthm", simulation.progress.choice("glyphs", "raw_vthm")) == {"rates.base": 1.0}


@pytest.mark.parametrize(
    ("best", "beyond"),
    [
        ({"contrastive": 1.0, "raw_vthm": 1.0}, {}),
        ({"contrastive": 9.0, "raw_vthm": 1.0}, {3: 10.0}),
        ({"contrastive": 1.0, "raw_vthm": 0.1}, {4: 0.1}),
        ({"contrastive": 50.0, "raw_vthm": 0.01}, {3: 10.0, 4: 0.1}),
    ],
)
def test_a_best_rate_at_an_edge_widens_the_rates_of_all_once(best: dict[str, float], beyond: dict[int, float]) -> None:
    """Rates 0.3, 1 and 3 are tried; then one beyond an edge where somebody did best, and nothing further, though it be best."""
    simulation = Simulation(plan_of(folds=1, tune="rate", trials=3), score=by_rate(best))
    came = [piece for together in simulation.run() for piece in together if piece.kind == "trial"]
    progress = simulation.progress
    assert progress.rates_beyond("glyphs") == beyond
    for name in NAMES:
        numbers = [piece.number for piece in came if piece.method == name]
        assert sorted(numbers) == [0, 1, 2, *beyond]
        tried = [progress.settings("glyphs", name, number)["rates.base"] for number in progress.set_numbers("glyphs", name)]
        nearest = min(tried, key=lambda rate: abs(math.log(rate / best[name])))
        assert progress.settings("glyphs", name, progress.choice("glyphs", name))["rates.base"] == nearest


def test_a_rate_beyond_has_the_other_values_of_the_methods_best_set() -> None:
    simulation = Simulation(plan_of(trials=4, folds=2), score=by_rate({"contrastive": 50.0, "raw_vthm": 1.0}))
    simulation.run()
    progress, plan = simulation.progress, simulation.plan
    highest = plan.rates.index(max(plan.rates))
    assert progress.settings("glyphs", "contrastive", 4) == plan.sets["contrastive"][highest] | {"rates.base": 10.0}
    assert progress.settings("glyphs", "raw_vthm", 4) == plan.sets["raw_vthm"][0] | {"rates.base": 10.0}
    assert progress.choice("glyphs", "contrastive") == 4
    assert progress.choice("glyphs", "raw_vthm") == 0


def test_nothing_is_trained_before_every_method_has_shown_where_it_does_best() -> None:
    """Whatever the order of trials: a method may yet have to try one more rate. But trials that are certain need not wait."""
    plan = plan_of(folds=1, tune="rate", trials=3)
    for order in (0, -1):
        simulation = Simulation(plan, score=by_rate({"contrastive": 50.0, "raw_vthm": 1.0}))
        began, widened = False, False
        while due := simulation.progress.due():
            finals = [piece for piece in due if piece.kind == "final" and piece.method != "untrained"]
            open_trials = [piece for piece in due if piece.kind == "trial" and piece.number < 3]
            assert not (finals and open_trials)
            widened = widened or any(piece.kind == "trial" and piece.number == 3 and open_trials for piece in due)
            began = began or bool(finals)
            trials = [piece for piece in due if piece.kind == "trial"]
            simulation.do((sorted(trials, key=lambda piece: piece.method) or due)[order])
        assert began
        assert widened == (order == 0)  # contrastive came first and was at an edge while the other still tried its rates


def with_more(plan: Plan, *, methods: tuple[str, ...] = (), seeds: int = 2, looked: int = 1) -> Plan:
    asked = plan_of(methods=(*NAMES, *methods), seeds=seeds, trials=plan.trials, folds=plan.folds, tune=plan.tune)
    return plan.extended(asked, time="now", command="more", looked=looked)


def test_a_method_that_is_added_widens_nothing_and_tries_what_the_others_did() -> None:
    """Whether the others' rates were widened or not: their choices stand."""
    for best, beyond in ((1.0, {}), (50.0, {3: 10.0})):
        simulation = Simulation(plan_of(folds=1, tune="rate", trials=3), score=by_rate(dict.fromkeys(NAMES, best) | {"margin": 0.01}))
        simulation.run()
        chosen = {name: simulation.progress.choice("glyphs", name) for name in NAMES}
        simulation.plan = with_more(simulation.plan, methods=("margin",))
        assert not simulation.progress.is_decided
        came = [piece for together in simulation.run() for piece in together]
        assert {piece.method for piece in came} == {"margin"}
        assert sorted(piece.number for piece in came if piece.kind == "trial") == [0, 1, 2, *beyond]
        assert simulation.progress.rates_beyond("glyphs") == beyond
        assert {name: simulation.progress.choice("glyphs", name) for name in NAMES} == chosen
        assert simulation.progress.settings("glyphs", "margin", simulation.progress.choice("glyphs", "margin")) == {"rates.base": 0.3}
        assert simulation.progress.is_complete


def test_seeds_that_are_added_close_the_test_classes_until_they_are_trained() -> None:
    simulation = Simulation(plan_of(seeds=1))
    simulation.run()
    simulation.plan = with_more(simulation.plan, seeds=3)
    rounds = [{(piece.kind, piece.number) for piece in together} for together in simulation.run()]
    assert rounds == [{("final", 1), ("final", 2)}, {("score", 1), ("score", 2)}]


def test_what_a_plan_grows_by() -> None:
    plan = plan_of(seeds=2)
    assert with_more(plan) is plan
    assert plan.extended(replace(plan, seeds=1), time="now", command="less", looked=0) is plan
    grown = with_more(plan, methods=("margin",), seeds=5)
    assert grown.seeds == 5
    assert [method.name for method in grown.methods] == [*NAMES, "margin", "untrained"]
    assert [values["rates.base"] for values in grown.sets["margin"]] == list(plan.rates)
    assert grown.extensions[0].in_words == "margin added, 5 seeds a method"
    assert Plan.from_table(json.loads(json.dumps(grown.as_table()))) == grown


def test_looks_are_counted_by_what_was_scored_between_extensions() -> None:
    plan = plan_of()
    assert plan.num_looks == 1
    assert with_more(plan, seeds=3, looked=0).num_looks == 1
    twice = with_more(with_more(plan, seeds=3, looked=4), seeds=4, looked=4)  # nothing was scored between the two
    assert twice.num_looks == 2
    assert with_more(twice, seeds=5, looked=8).num_looks == 3


def test_what_was_decided_for_a_look_stays_the_same_when_the_plan_grows() -> None:
    simulation = Simulation(plan_of(seeds=1))
    simulation.run()
    before = simulation.progress
    simulation.plan = with_more(simulation.plan, methods=("margin",), seeds=3)
    after = simulation.progress
    pieces = [replace(piece, kind="score") for piece in before.final_pieces()]
    assert [after.decided_for(piece) for piece in pieces] == [before.decided_for(piece) for piece in pieces]
    assert len({before.decided_for(piece) for piece in pieces}) == len(pieces)
    assert after.decisions != before.decisions


def test_equal_time_is_the_median_methods_and_waits_for_all_of_them() -> None:
    plan = replace(plan_of(folds=1, tune="rate", trials=2, methods=(*NAMES, "margin")), protocol=tiny_protocol(equal="time"))
    assert plan.measures_time
    paces = {"contrastive": (4.0, 2.0), "raw_vthm": (7.0, 9.0), "margin": (50.0, 60.0), "circle": (1.0, 1.0)}
    simulation = Simulation(plan)
    while due := [piece for piece in simulation.progress.due() if piece.kind == "trial"]:
        assert not [piece for piece in simulation.progress.due() if piece.kind == "final" and piece.method != "untrained"]
        simulation.do(due[0])
        claim = simulation.claims[due[0].key]
        simulation.claims[due[0].key] = replace(claim, seconds=paces[due[0].method][due[0].number])
    assert [simulation.progress.is_chosen("glyphs", name) for name in (*NAMES, "margin")] == [True] * 3
    final = Piece("final", "glyphs", "", "contrastive")
    assert simulation.progress.protocol_for(final).seconds == 8.0  # of 3, 8 and 55
    simulation.plan = plan.extended(
        replace(plan_of(folds=1, tune="rate", trials=2, methods=(*NAMES, "margin", "circle")), protocol=plan.protocol),
        time="now",
        command="more",
        looked=1,
    )
    trials = [Piece("trial", "glyphs", "", "circle", number) for number in range(2)]
    for trial in trials:
        simulation.do(trial)
        simulation.claims[trial.key] = replace(simulation.claims[trial.key], seconds=1.0)
    assert simulation.progress.protocol_for(final).seconds == 8.0  # what comes later changes nothing
    given = replace(plan, protocol=tiny_protocol(equal="time", seconds=5.0))
    assert not given.measures_time
    assert Progress(given, {}).protocol_for(final).seconds == 5.0
    failed = Progress(plan, {key: replace(claim, seconds=None) for key, claim in simulation.claims.items()})
    with pytest.raises(ValueError, match="no trial of any method ended"):
        failed.protocol_for(final)


def test_two_rates_have_no_inside_and_widen_nothing() -> None:
    simulation = Simulation(plan_of(folds=1, tune="rate", trials=2), score=by_rate({"contrastive": 50.0, "raw_vthm": 0.01}))
    simulation.run()
    assert simulation.progress.rates_beyond("glyphs") == {}
    assert simulation.progress.is_complete


def test_every_method_has_the_same_budget() -> None:
    trials = [piece for found in Simulation(plan_of()).run() for piece in found if piece.kind == "trial"]
    counts = {name: sum(piece.method == name for piece in trials) for name in NAMES}
    assert counts == {"contrastive": 6, "raw_vthm": 6}


def test_no_test_class_before_the_last_choice_and_training() -> None:
    """Done one at a time, a score is due only when nothing else is."""
    simulation = Simulation(plan_of())
    while due := simulation.progress.due():
        looks = [piece for piece in due if piece.kind in ("score", "items")]
        assert not looks or len(looks) == len(due)
        assert bool(looks) == simulation.progress.is_decided
        simulation.do(due[-1])


def test_expected_pieces_are_those_that_come() -> None:
    plan = plan_of(sweeps={"dim": (4, 8, 16), "batch": (8,)})

    def without_numbers(keys: Iterable[str]) -> list[str]:
        return sorted(re.sub(r"trial\|\d+", "trial", key) for key in keys)

    came = [piece.key for found in Simulation(plan).run() for piece in found]
    assert len(came) == len(set(came))
    assert without_numbers(came) == without_numbers(piece.key for piece in Progress(plan, {}).expected())
    widened = Simulation(plan, score=by_rate({"contrastive": 50.0, "raw_vthm": 1.0}))
    came = [piece.key for found in widened.run() for piece in found]
    assert without_numbers(came) == without_numbers(piece.key for piece in widened.progress.expected())
    assert len(widened.progress.expected()) == len(Progress(plan, {}).expected()) + 4  # two folds of a further set, for two methods


def test_a_trial_costs_the_share_of_the_classes_it_is_trained_on() -> None:
    trial, final = Piece("trial", "glyphs", "", "raw_vthm"), Piece("final", "glyphs", "", "raw_vthm")
    assert [plan_of(folds=folds).cost(trial) for folds in (1, 2, 4)] == [0.5, 0.5, 0.75]
    assert plan_of().cost(final) == 1.0


def test_a_failed_training_has_no_score_and_the_others_go_on() -> None:
    simulation = Simulation(plan_of(), fails=r"final\|.*\|raw_vthm\|.*")
    rounds = simulation.run()
    assert {piece.method for piece in rounds[-1] if piece.kind == "score"} == {"contrastive", "untrained"}
    assert simulation.progress.is_complete


def test_where_every_set_fails_the_method_file_counts() -> None:
    simulation = Simulation(plan_of(), fails=r"trial\|.*\|raw_vthm\|.*")
    simulation.run()
    assert simulation.progress.choice("glyphs", "raw_vthm") is None
    assert simulation.progress.choice("glyphs", "contrastive") == 1


def grid_truth(best: dict[str, dict[str, float]]) -> Callable[[Piece, Progress], float]:
    """Scores that fall with the distance, in logarithms, from a method's true best values."""

    def score(piece: Piece, progress: Progress) -> float:
        if piece.kind != "trial":
            return 0.0
        values = progress.settings(piece.data, piece.method, piece.number)
        return 1 / (1 + sum(abs(math.log(values[name] / true)) for name, true in best[piece.method].items()))

    return score


@pytest.mark.parametrize("folds", [1, 2])
def test_grids_of_different_sizes_are_searched_whole_and_their_best_found(folds: int) -> None:
    names = ("margin", "ranked_list", "raw")  # 9 and 12 combinations, and no grid at all
    truth = {
        "margin": {"loss.margin": 0.4, "loss.boundary": 1.0, "rates.base": 3.0},
        "ranked_list": {"loss.alpha": 1.4, "loss.margin": 0.2, "rates.base": 10.0},
        "raw": {"rates.base": 1.0},
    }
    plan = plan_of(tune="grid", trials=3, folds=folds, methods=names)
    assert {name: len(sets) for name, sets in plan.sets.items()} == {"margin": 27, "ranked_list": 36, "raw": 3}
    assert plan.rates == (1.0, 3.0, 0.3)
    simulation = Simulation(plan, score=grid_truth(truth))
    tried = [piece for together in simulation.run() for piece in together if piece.kind == "trial" and piece.fold == 0]
    progress = simulation.progress
    assert progress.rates_beyond("glyphs") == {3: 10.0}  # ranked list did best at the highest, so that all try one beyond it
    assert Counter(piece.method for piece in tried) == {"margin": 28, "ranked_list": 37, "raw": 4}
    for name, best in truth.items():
        chosen = progress.settings("glyphs", name, progress.choice("glyphs", name))
        assert {setting: chosen[setting] for setting in best} == best
    assert progress.is_complete
    words = tuning_in_words(plan)
    assert "27 sets of values for Margin, 36 sets of values for Ranked list and 3 sets of values for RAW" in words
    added = replace(plan_of(tune="grid", trials=3, folds=folds, methods=(*names, "proxy_nca")))
    grown = plan.extended(added, time="2026-11-16", command="", looked=1)
    assert grown.sets["proxy_nca"] == added.sets["proxy_nca"]


def test_a_plan_is_named_as_before_there_were_grids_and_levels() -> None:
    table = plan_of(trials=0).as_table()
    assert "levels" not in table
    assert all("grid" not in method for method in table["methods"])
    with_both = replace(plan_of(trials=3, tune="grid", methods=("margin",)), levels=True)
    again = Plan.from_table(json.loads(json.dumps(with_both.as_table())))
    assert again == with_both
    assert again.by_name["margin"].grid == load_method("margin").grid


def test_sweeps_vary_one_thing_and_train_nothing_twice() -> None:
    plan = plan_of(trials=0, sweeps={"dim": (4, 8), "batch": (8, 16, 32)})
    assert plan.points == ("", "dim=4", "dim=8", "batch=8", "batch=16", "batch=32")
    assert {point for point, _ in plan.trainings} == {"", "dim=4", "batch=8", "batch=32"}
    assert plan.at_point("dim=4") == replace(plan.protocol, dim=4)
    for point in plan.points[3:]:
        protocol = plan.at_point(point)
        assert protocol.dim == plan.protocol.dim
        assert protocol.steps == max(1, round(48 / protocol.batch))  # as many images are seen


def test_own_dimensions_stay_out_of_a_sweep_over_dimensions() -> None:
    plan = plan_of(trials=0, sweeps={"dim": (4,), "batch": (8,)}, methods=("contrastive", "dreml"))
    points = {(piece.method, piece.point) for piece in Progress(plan, {}).final_pieces()}
    assert ("dreml", "dim=4") not in points
    assert {("dreml", ""), ("dreml", "batch=8"), ("contrastive", "dim=4")} <= points


def test_a_plan_survives_the_store() -> None:
    plan = plan_of(sweeps={"dim": (4, 8)}, methods=METHODS)
    again = Plan.from_table(json.loads(json.dumps(plan.as_table())))
    assert again == plan
    assert difference(plan, again) is None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seeds": 5}, "seeds is 2 there and 5 here"),
        ({"protocol": tiny_protocol(steps=9)}, "protocol.steps is 3 there and 9 here"),
        ({"sweeps": {"dim": (4,)}}, r"sweeps.dim is absent there and \[4\] here"),
        (
            {"data": (Source("glyphs", "glyphs", {"fingerprint": "other", "test_digest": "t"}),)},
            "data.glyphs.content is 'f' there and 'other' here",
        ),
    ],
)
def test_the_difference_of_two_plans_is_named(change: dict[str, object], named: str) -> None:
    plan = plan_of()
    found = difference(plan, replace(plan, **change))  # type: ignore[arg-type]
    assert found is not None
    assert re.fullmatch(named, found)


def test_time_by_the_clock_counts_no_moment_twice_and_no_pauses() -> None:
    """Four at once, one after a pause of an hour; what is under way does not count yet."""
    spans = [(0.0, 10.0), (5.0, 15.0), (6.0, 7.0), (8.0, 12.0), (3615.0, 3620.0), (3616.0, None)]
    pieces = [Piece("final", "glyphs", "", "raw", seed) for seed in range(len(spans))]
    claims = {piece.key: Claim(piece, "", 0, *span, None, None) for piece, span in zip(pieces, spans, strict=True)}
    assert Progress(plan_of(), claims).elapsed == 20.0


def test_who_stands_apart() -> None:
    protocol = tiny_protocol()
    assert why_apart(load_method("raw_vthm"), protocol, 8) == ""
    assert why_apart(load_method("dreml"), protocol, 48) == "4 models, 48 dimensions".replace(
        "4", str(load_method("dreml").ensemble.members), 1
    )
    assert why_apart(load_method("ranked_list_multilevel"), protocol, 1536) == "3 levels, 1,536 dimensions"
    assert why_apart(load_method("proxy_softmax_bits"), protocol, 8) == "layer norm in its head, 8 bits"
    assert why_apart(load_method("proxy_softmax"), protocol, 8) == "layer norm in its head"
    raw = load_method("raw")
    for kind in get_args(HeadKind):
        reason = why_apart(with_settings(raw, {"head.kind": kind}), protocol, 8)
        assert bool(reason) == (kind != "linear")
        assert "head" in reason or not reason
    assert why_apart(with_settings(raw, {"head.dim": 8, "memory": 64, "norm": 3.0, "rates.head": 2.0}), protocol, 8) == ""
    assert why_apart(INITIALISED, protocol, 8) == "no training"


def test_piece_keys_tell_all_and_are_read_again() -> None:
    piece = Piece("trial", "birds | of | prey", "dim=4", "raw_vthm", 3, 1)
    assert Piece.from_key(piece.key) == piece


def test_methods_by_name_file_and_group() -> None:
    assert tuple(method.name for method in methods_of(None, "quick")) == PAPER_METHODS
    assert {method.name for method in methods_of("all", "quick")} == set(METHODS)
    papers = {method.name for method in methods_of("papers", "quick")}
    assert set(PAPER_METHODS) < papers < set(METHODS)
    with pytest.raises(ValueError, match="did you mean 'raw_vthm'"):
        methods_of(["raw_vthn"], "quick")
    with pytest.raises(ValueError, match="given twice"):
        methods_of(["raw_vthm", "raw_vthm"], "quick")
    with pytest.raises(ValueError, match="no methods"):
        methods_of([], "quick")
