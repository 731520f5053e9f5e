"""Sweeps over settings of methods and protocols: what is varied, who takes part, what is trained, and what is told of it."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.comparison.plan import Plan
from likewise.comparison.plan_progress import Progress
from likewise.comparison.request import methods_of
from likewise.comparison.statistics import verdict_among
from likewise.comparison.sweeping.sweep_notes import absence_notes
from likewise.comparison.sweeping.sweeps import (
    NOT_OF_METHODS,
    NOT_OF_PROTOCOLS,
    checked_sweeps,
    method_at,
    parsed_sweep,
    point_in_words,
    points_of,
    protocol_at,
    reduced,
    settings_of,
    why_absent,
)
from likewise.comparison.sweeping.swept_methods import SweptMethod
from likewise.methods import METHODS, Method, at, has_setting, load_method, typed
from likewise.protocols import PROTOCOLS, Protocol, load_protocol
from likewise.reports.sentences import swept_in_words

from .test_plan import plan_of
from .test_statistics import drawn_runs
from .tiny import tiny_compare, tiny_protocol

DOCUMENTS = Path(__file__).parents[2] / "docs"
QUICK = load_protocol("quick")
SWEEPABLE = [entry.name for entry in fields(Protocol) if entry.name not in NOT_OF_PROTOCOLS]


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("dim=64,128", "dim", [64, 128]),
        ("loss.alpha = 1, 1.2,.4,-.5", "loss.alpha", [1, 1.2, 0.4, -0.5]),
        ("pooling=max,avg+max", "pooling", ["max", "avg+max"]),
        ("normalize=true,false", "normalize", [True, False]),
        ('head.levels=["high"],["low", "high"]', "head.levels", [["high"], ["low", "high"]]),
        ("loss.alpha=1,1.2 x loss.margin=.2,.4", "loss.alpha x loss.margin", [(1, 0.2), (1, 0.4), (1.2, 0.2), (1.2, 0.4)]),
        ("batch=32,64  x  steps=600", "batch x steps", [(32, 600), (64, 600)]),
    ],
)
def test_as_a_command_line_has_them(text: str, name: str, values: list[Any]) -> None:
    assert parsed_sweep(text) == (name, values)


@pytest.mark.parametrize("text", ["dim", "dim=", "=3", "dim=64 x batch", "dim=,"])
def test_what_is_no_sweep(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected NAME=VALUE,VALUE such as dim=64,128"):
        parsed_sweep(text)


@pytest.mark.parametrize("name", METHODS)
def test_every_setting_of_every_method_has_a_point_that_changes_nothing(name: str) -> None:
    """Its own value: written as a point and read again it is the same, and nothing is trained for it."""
    method = load_method(name)
    plain = [entry.name for entry in fields(Method) if entry.name not in NOT_OF_METHODS]
    met = 0
    for setting in [*method.dotted_names, *plain, "loss.name", "sampler.name"]:
        value = at(method, setting)
        if type(value) is type or setting == "mining.generator":  # not given, and without a default; no value that can be written
            continue
        point = point_in_words({setting: value})
        again = typed(method, setting, settings_of(point)[setting])
        assert again == (tuple(value) if isinstance(value, list) else value), setting
        if setting not in ("loss.num_classes",):  # which the training gives
            assert why_absent(method, point) == "", setting
            assert reduced(point, method, QUICK) == "", setting
            assert reduced(point, method, QUICK, tuned=(setting,)) == point
            met += 1
    assert met > 15


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_condition_of_every_protocol_too(name: str) -> None:
    protocol, method = load_protocol(name), load_method("raw")
    for setting in SWEEPABLE:
        value = getattr(protocol, setting)
        point = point_in_words({setting: value})
        assert protocol_at(protocol, point) == protocol, setting
        assert reduced(point, method, protocol) == "", setting


def test_whatever_is_refused_is_a_field() -> None:
    assert set(NOT_OF_PROTOCOLS) <= {entry.name for entry in fields(Protocol)}
    assert set(NOT_OF_METHODS) <= {entry.name for entry in fields(Method)}
    assert {"dim", "batch", "steps", "learning_rate", "weight_decay", "pooling", "optimizer", "backbone", "clip"} <= set(SWEEPABLE)


def test_a_batch_sees_as_many_images_unless_steps_are_named_too() -> None:
    protocol = tiny_protocol(steps=12, batch=16)
    assert protocol_at(protocol, "batch=8") == replace(protocol, batch=8, steps=24)
    assert protocol_at(protocol, "batch=8 x steps=12") == replace(protocol, batch=8)
    method = load_method("raw")
    assert reduced("batch=8 x steps=12", method, protocol) == "batch=8 x steps=12"  # not what "batch=8" is
    assert reduced("batch=16 x steps=9", method, protocol) == "steps=9"
    assert reduced("batch=16 x steps=12", method, protocol) == ""


def test_what_a_method_has_anyway_is_trained_once() -> None:
    """A grid and a sweep of one of its settings meet, and both meet the comparison without sweeps."""
    sweeps = {"loss.alpha": (1.2, 1.4), "loss.alpha x loss.margin": ((1.2, 0.4), (1.4, 0.4), (1.4, 0.2)), "dim": (8, 4)}
    plan = plan_of(trials=0, methods=("ranked_list", "raw"), sweeps=sweeps)
    trained = [point for point, name in plan.trainings if name == "ranked_list"]
    assert trained == ["", "loss.alpha=1.4", "loss.alpha=1.4 x loss.margin=0.2", "dim=4"]
    assert [point for point, name in plan.trainings if name == "raw"] == ["", "loss.alpha=1.2", "loss.alpha=1.4", "dim=4"]
    assert plan.absences["raw", "loss.alpha=1.4 x loss.margin=0.4"] == "no setting loss.margin"
    tuned = plan_of(trials=4, methods=("ranked_list",), sweeps={"loss.alpha": (1.2,)})  # the chosen one may be any other
    assert [point for point, name in tuned.trainings if name == "ranked_list"] == ["", "loss.alpha=1.2"]
    progress = Progress(plan, {})
    piece = next(piece for piece in progress.final_pieces() if piece.point == "loss.alpha=1.4 x loss.margin=0.2")
    assert progress.method_for(piece).loss.settings | {"alpha": 1.4, "margin": 0.2} == progress.method_for(piece).loss.settings


def test_a_plan_of_old_is_read() -> None:
    """As it was stored when dimensions and batches alone could be swept."""
    plan = plan_of(trials=0, sweeps={"dim": (4, 8), "batch": (8,)})
    table = plan.as_table()
    assert table["sweeps"] == {"dim": [4, 8], "batch": [8]}
    again = Plan.from_table(json.loads(json.dumps(table)))
    assert again == plan
    keys = {piece.key for piece in Progress(again, {}).final_pieces()}
    assert {"final|0|0||raw_vthm|glyphs", "final|1|0|dim=4|raw_vthm|glyphs", "final|0|0|batch=8|contrastive|glyphs"} <= keys
    grid = plan_of(trials=0, sweeps={"dim x pooling": ((4, "avg"), (8, "max"))})
    assert Plan.from_table(json.loads(json.dumps(grid.as_table()))).points == grid.points


@pytest.mark.parametrize(
    ("sweeps", "said"),
    [
        ({"alpha": [1]}, r"unknown setting 'alpha': did you mean 'loss.alpha'\?"),
        ({"loss.alfa": [1]}, r"unknown setting of these methods 'loss.alfa': did you mean 'loss.alpha'\?"),
        ({"loss.alpha": ["much"]}, "loss.alpha is 'much': expected float"),
        ({"loss.alpha": [True]}, "loss.alpha is True: expected float"),
        ({"sampler.num_images": [2.5]}, "sampler.num_images is 2.5: expected int"),
        ({"sampler.short": ["cut"]}, "sampler.short is 'cut': expected one of 'fill', 'repeat'"),
        ({"head.kind": ["conv"]}, "head.kind is 'conv': expected one of 'linear'"),
        ({"normalize": [3]}, "normalize is 3: expected bool"),
        ({"mining.name": ["luck"]}, "unknown miner 'luck'"),
        ({"dim": [0]}, "dim=0: expected at least 1"),
        ({"pooling": ["median"]}, "pooling is 'median': expected one of 'avg'"),
        ({"optimizer": ["rmsprob"]}, "optimizer is 'rmsprob': expected one of 'adamw', 'adam', 'sgd', 'rmsprop'"),
        ({"steps": [0]}, "steps=0: expected at least 1"),
        ({"seconds": [3]}, "seconds=3 where steps are equal"),
        ({"frozen": [True]}, "a frozen backbone needs pretrained weights"),
        ({"seeds": [1, 2]}, "sweep 'seeds': it is no part of a training"),
        ({"weights": ["resnet50"]}, "sweep 'weights': it is no part of a training"),
        ({"loss": ["raw"]}, "sweep 'loss': it has settings of its own; name one of them: loss.margin"),
        ({"head": ["linear"]}, "sweep 'head': it has settings of its own; name one of them: head.kind"),
        ({"dim": [4, 4]}, "expected at least one value, and different ones"),
        ({"loss.alpha": [1, 1.0]}, "expected at least one value, and different ones"),
        ({"dim x dim": [(4, 8)]}, "expected different names"),
        ({"dim x batch": [4, 8]}, "4 is no point of it: expected 2 values, one of each name"),
        ({"loss.num_support": [0]}, "no method can be at loss.num_support=0: prototypical num_support=0 leaves classes without a mean"),
    ],
)
def test_what_cannot_be_swept_is_refused_in_words(sweeps: dict[str, list[Any]], said: str) -> None:
    methods = [load_method(name) for name in ("ranked_list", "contrastive", "raw_vthm", "prototypical")]
    with pytest.raises(ValueError, match=said):
        checked_sweeps(sweeps, methods, QUICK, pretrained=False)


def test_another_backbone_has_other_weights() -> None:
    methods = [load_method("raw")]
    assert checked_sweeps({"backbone": ["convnet", "resnet18"]}, methods, QUICK, pretrained=False) == {"backbone": ("convnet", "resnet18")}
    with pytest.raises(ValueError, match="the weights are of convnet_small; make a comparison of its own for each backbone"):
        checked_sweeps({"backbone": ["resnet18"]}, methods, QUICK, pretrained=True)


def test_values_have_the_type_of_their_setting() -> None:
    methods = [load_method(name) for name in ("contrastive", "ranked_list")]
    asked = {"loss.alpha": [1, 1.2], "dim": [4.0], "norm": ["none", 2], "dim x pooling": [(8, "avg")]}
    found = checked_sweeps(asked, methods, QUICK, pretrained=False)
    assert found == {"loss.alpha": (1.0, 1.2), "dim": (4,), "norm": (None, 2.0), "dim x pooling": ((8, "avg"),)}
    assert [type(value) for value in (found["loss.alpha"][0], found["dim"][0])] == [float, int]
    changed = method_at(methods[1], "norm=none x loss.alpha=1")
    assert (changed.norm, changed.loss.settings["alpha"], type(changed.loss.settings["alpha"])) == (None, 1.0, float)


def test_who_takes_no_part_is_noted() -> None:
    methods = [load_method(name) for name in ("contrastive", "ranked_list", "dreml")]
    notes = absence_notes({"loss.alpha": (1.0,), "dim": (4,), "steps": (3,)}, methods)
    assert notes == [
        "the sweep over loss.alpha is without Contrastive and DREML: no setting loss.alpha",
        "the sweep over dim is without DREML: a dimension of its own, 64",
    ]


def test_every_sweep_of_any_setting_has_who_has_it() -> None:
    """Over all methods and all their settings: whoever has a setting takes part with another value of it, unless it refuses that value."""
    names = sorted({name for method in map(load_method, METHODS) for name in method.dotted_names if name.startswith(("loss", "mining"))})
    assert len(names) > 20
    for name in names:
        for method in map(load_method, METHODS):
            if has_setting(method, name):
                value = at(method, name)
                if isinstance(value, float):
                    assert why_absent(method, point_in_words({name: value * 1.01})) == "", (method.name, name)
            else:
                assert why_absent(method, point_in_words({name: 1.0})) == f"no setting {name}"


def swept_over(means: dict[str, float], *, seeds: int = 5) -> SweptMethod:
    """A method whose true score at each value of alpha is known."""
    points = {point_in_words(settings): settings for settings in points_of("loss.alpha", [float(value) for value in means])}
    runs = drawn_runs({f"loss.alpha={value}": mean for value, mean in means.items()})
    runs = {point: found[:seeds] for point, found in runs.items()}
    return SweptMethod("glyphs", "loss.alpha", "raw", "RAW", points, verdict_among(runs))


def test_the_best_point_is_told_and_what_is_near_it() -> None:
    found = swept_over({"0.8": -0.2, "1": -0.1, "1.2": 0.0, "1.4": -0.001})
    assert found.verdict is not None
    assert {found.verdict.best, *found.verdict.within_noise} == {"loss.alpha=1.2", "loss.alpha=1.4"}
    assert set(found.verdict.behind) == {"loss.alpha=0.8", "loss.alpha=1"}
    best, near = (name.partition("=")[2] for name in (found.verdict.best, *found.verdict.within_noise))
    said = swept_in_words(found)
    assert re.fullmatch(rf"{best} leads with MAP@R \d\d\.\d\d; within noise of it: {near}; behind it: 1 and 0\.8\.", said), said
    assert [found.standing(point) for point in ("loss.alpha=0.8", f"loss.alpha={near}", f"loss.alpha={best}")] == [
        "behind",
        "within noise",
        "leads",
    ]


def test_a_clear_best_point_no_clear_one_and_one_seed() -> None:
    clear = swept_over({"1": -0.1, "1.2": 0.0, "1.4": -0.2})
    assert re.fullmatch(r"1\.2 is best with MAP@R \S+; every other value is behind, by \S+ to \S+ points\.", swept_in_words(clear))
    assert clear.standing("loss.alpha=1.2") == "best"
    alike = swept_over({"1": 0.0, "1.2": 0.0, "1.4": 0.0})
    assert re.fullmatch(r"\S+ leads with MAP@R \S+; no other value is told from it\.", swept_in_words(alike))
    single = swept_over({"1": -0.1, "1.2": 0.0}, seeds=1)
    assert re.fullmatch(r"1\.2 leads with MAP@R \S+; one seed does not tell the values apart\.", swept_in_words(single))
    assert (clear.is_told, single.is_told) == (True, False)
    away = replace(clear, left_out={"loss.alpha=9": "too far", "loss.alpha=8": "too far"})
    assert swept_in_words(away).endswith("; not at 9 and 8: too far.")
    assert swept_in_words(replace(away, verdict=None)) == "not at 9 and 8: too far."


def test_equal_points_are_seldom_called_behind() -> None:
    """Truly equal values: at most one sweep of twenty calls any behind; of 60, with the chance 99.9 %, at most 9."""
    random = np.random.default_rng(5)
    wrong = 0
    for _ in range(60):
        runs = drawn_runs({f"loss.alpha={value}": 0.0 for value in range(4)}, seed=int(random.integers(1 << 31)))
        found = verdict_among(runs)
        assert found is not None
        wrong += bool(found.behind)
    assert wrong <= 9


def test_a_comparison_with_sweeps_of_every_kind(tmp_path: Path) -> None:
    sweeps = {
        "loss.alpha": [1, 1.2],
        "batch": [2, 4],
        "batch x steps": [(8, 3)],
        "pooling": ["avg", "max"],
        "side": [16, 12],
        "loss.alpha x loss.margin": [(1.2, 0.2), (1.2, 0.4)],
        "rates.base": [3.0],
    }
    methods = ("ranked_list", "proxy_nca")
    asked: dict[str, Any] = {"methods": methods, "tune": "rate", "trials": 2, "folds": 1, "seeds": 2, "sweeps": sweeps}
    asked["protocol"] = tiny_protocol(metrics=("R@K", "MAP@R"))
    found = tiny_compare(tmp_path / "out", **asked, report=True)
    by_point = {(method.name, point_in_words(method.sweep)): method for method in found.methods}
    base = by_point["ranked_list", ""]
    for same in ("loss.alpha=1.2", "pooling=max", "loss.alpha=1.2 x loss.margin=0.4"):  # its own values
        assert by_point["ranked_list", same].scores == base.scores
    assert by_point["ranked_list", "loss.alpha=1"].scores != base.scores
    assert by_point["ranked_list", "rates.base=3"].settings.keys() == {"rates.base"}  # tuned all the same, and then set
    assert by_point["ranked_list", "batch=4"].adapted == "2 images a class instead of 4"
    assert by_point["ranked_list", "batch=8 x steps=3"].curves[0].steps[-1] == 3
    assert by_point["ranked_list", "batch=4"].curves[0].steps[-1] == 12
    assert ("proxy_nca", "loss.alpha=1") not in by_point
    assert ("ranked_list", "batch=2") not in by_point
    assert ("proxy_nca", "batch=2") in by_point
    left_out = {(entry.method, entry.point): entry.why for entry in found.left_out}
    assert left_out["ranked_list", "batch=2"] == "a batch of 2 images holds no two classes with two images of each"
    assert left_out["proxy_nca", "loss.alpha=1"] == "no setting loss.alpha"
    assert left_out.keys() == {(name, point) for name in methods for point in found_points(sweeps) if (name, point) not in by_point}
    swept = {(entry.sweep, entry.method): entry for entry in found.swept}
    assert list(swept["loss.alpha", "ranked_list"].points) == ["loss.alpha=1", "loss.alpha=1.2"]
    assert ("loss.alpha", "proxy_nca") not in swept
    verdict = swept["pooling", "proxy_nca"].verdict
    assert verdict is not None
    assert verdict.means.keys() == {"pooling=avg", "pooling=max"}
    assert verdict.means["pooling=max"] == pytest.approx(by_point["proxy_nca", ""].scores["MAP@R"].mean)
    notes = "\n".join(found.notes)
    assert "glyphs batch=2 is without Ranked list: a batch of 2 images holds no two classes with two images of each" in notes
    assert "glyphs batch=4: Ranked list with 2 images a class instead of 4, to fit the batch" in notes
    assert found.report is not None
    page = found.report.read_text()
    assert "What settings change" in page
    assert "MAP@R against loss.alpha" in page
    assert "no two classes with two images of each" in page
    table = (tmp_path / "out" / "leaderboard.csv").read_text().splitlines()
    assert {"sweep loss.alpha", "sweep pooling", "verdict of point", "adapted"} <= set(table[0].split(","))
    again = tiny_compare(tmp_path / "out", **asked)
    assert again.methods == found.methods
    assert again.swept == found.swept


def found_points(sweeps: dict[str, list[Any]]) -> list[str]:
    return [point_in_words(settings) for sweep, values in sweeps.items() for settings in points_of(sweep, values)]


def test_the_sweeps_of_the_document_can_be_asked_for() -> None:
    lines = re.findall(r"^likewise compare glyphs .*$", (DOCUMENTS / "sweeps.md").read_text(), flags=re.MULTILINE)
    assert len(lines) > 5
    for line in lines:
        words = shlex.split(line, comments=True)
        methods = methods_of(words[words.index("--methods") + 1] if "--methods" in words else None, "quick")
        sweeps = dict(parsed_sweep(text) for option, text in pairwise(words) if option == "--sweep")
        assert sweeps
        checked_sweeps(sweeps, methods, QUICK, pretrained=False)
