"""A run: what is trained on what, what is opened when, and what is left on the disk."""

from __future__ import annotations

import csv
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from typer.testing import CliRunner

from likewise.cli import app
from likewise.data.dataset import Dataset, Files, Pixels
from likewise.data.ledger import read_ledger
from likewise.data.readers import read
from likewise.data.splits import Split, split
from likewise.evaluation import evaluate
from likewise.evaluation.metrics import DEFAULT_METRICS
from likewise.models.backbones import make_backbone
from likewise.models.embedder import Embedder
from likewise.models.network import NetworkSpec, make_network
from likewise.training import feeds
from likewise.training.feeds import Feed, make_feed
from likewise.training.loop import Listener, Row, Training
from likewise.training.runs.run_embeddings import embeddings_to_score
from likewise.training.scoring import protocol_scores
from likewise.training.train import TrainingStopped, held_out_items, hold_out, train
from likewise.training.watchdogs import Diverged

from .test_tensorboard import scalars
from .tiny import HELD_OUT, PROTOCOL, assert_equal_weights, events, held, pictures, vectors, vectors_file, weights_of


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train("raw", pictures(noise=150), protocol=HELD_OUT, out=tmp_path_factory.mktemp("runs") / "raw", device="cpu").folder


@pytest.mark.fast
def test_a_run_folder_holds_everything(run: Path) -> None:
    assert sorted(path.name for path in run.iterdir()) == [
        *(".test_openings.jsonl.lock", "README.md", "config.json", "embedder", "environment.json", "log.csv", "scores.json", "split.json"),
        *("tensorboard", "test_openings.jsonl", "test_openings.last.json", "test_queries.npz"),
    ]
    config = held(run, "config.json")
    assert (config["method"]["name"], config["protocol"]["name"], config["seed"], config["weights"]) == ("raw", "tiny", 0, None)
    assert config["data"] == {"name": "pictures", "fingerprint": pictures(noise=150).fingerprint()}
    environment = held(run, "environment.json")
    assert environment["command"] == sys.argv
    assert environment["versions"]["torch"] == torch.__version__
    assert Split.from_json(held(run, "split.json"), pictures(noise=150)).num_train_classes == 12


def test_the_card_has_the_command_and_the_scores(run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    card = (run / "README.md").read_text()
    scores = held(run, "scores.json")["scores"]
    assert list(scores) == ["R@1", "R@2", "MAP@R"]
    assert "| R@1 | R@2 | MAP@R |" in card
    assert f"| {' | '.join(f'{value:.1%}' for value in scores.values())} |" in card
    monkeypatch.setattr(sys, "argv", ["/usr/bin/likewise", "train", "raw", "my pictures", "--out", "x"])
    train("raw", pictures(), protocol=PROTOCOL, out=tmp_path / "run", device="cpu")
    card = (tmp_path / "run" / "README.md").read_text()
    assert "\nlikewise train raw 'my pictures' --out x\n" in card
    assert "the last: no classes were held out" in card


def test_the_log_and_tensorboard_hold_the_same(run: Path) -> None:
    rows = list(csv.DictReader((run / "log.csv").read_text().splitlines()))
    assert [int(row["step"]) for row in rows] == [1, 2, 3, 4, 5, 6]
    found = scalars(run / "tensorboard")
    assert found.keys() == {"loss", "images_per_second", "R@1", "MAP@R"}
    for name, points in found.items():
        assert points == [(int(row["step"]), pytest.approx(float(row[name]), rel=1e-5)) for row in rows if row[name]]
    assert [step for step, _ in found["MAP@R"]] == [3, 6]


def test_the_best_step_is_chosen_on_held_out_training_classes(run: Path) -> None:
    rows = list(csv.DictReader((run / "log.csv").read_text().splitlines()))
    validated = {int(row["step"]): float(row["MAP@R"]) for row in rows if row["MAP@R"]}
    end = held(run, "scores.json")
    assert end["best_step"] == max(validated, key=lambda step: validated[step])
    assert end["validation"]["MAP@R"] == pytest.approx(max(validated.values()), rel=1e-5)


def test_the_weights_of_the_best_step_are_kept(tmp_path: Path) -> None:
    """Not the last step's: the embedder that is left is the one validated best."""
    protocol = replace(HELD_OUT, validate_every=1, learning_rate=0.3)
    data = pictures(noise=150)
    result = train("raw", data, protocol=protocol, out=tmp_path / "run", device="cpu")
    assert result.best_step < protocol.steps
    parts = split(data, seed=0)
    _, validation = hold_out(make_feed(parts.train_part(data), protocol), parts, held_out_items(data, parts, protocol))
    assert validation is not None
    rows = Embedder.load(tmp_path / "run").embed(data.subset(parts.train[validation.indices]))
    found = protocol_scores(torch.from_numpy(rows), validation.labels, protocol, metrics=("R@K", "MAP@R")).means
    assert result.validation is not None
    assert found["MAP@R"] == pytest.approx(result.validation["MAP@R"], abs=1e-3)


class Seen:
    """The classes that a training was given, by what for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.trained: set[int] = set()
        self.validated: set[int] = set()
        init = Training.__init__

        def watched(training: Training, *given: Any, **settings: Any) -> None:
            feed: Feed = given[2]
            self.trained |= set(feed.labels.tolist())
            self.validated |= set(settings["validation"].labels.tolist())
            init(training, *given, **settings)

        monkeypatch.setattr(Training, "__init__", watched)


def test_training_held_out_and_test_classes_are_disjoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = Seen(monkeypatch)
    data = pictures()
    train("raw", data, protocol=HELD_OUT, out=tmp_path / "run", device="cpu")
    parts = Split.from_json(held(tmp_path / "run", "split.json"), data)
    training_classes = set(data.labels[parts.train].tolist())
    assert (len(seen.trained), len(seen.validated)) == (9, 3)
    assert not seen.trained & seen.validated
    assert seen.trained | seen.validated == training_classes
    assert len(set(data.labels.tolist()) - training_classes) == 12


def test_the_test_classes_are_opened_once_and_only_after_training(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    while_training: list[bool] = []
    take = Training._update

    def watched(training: Training) -> None:
        while_training.append((tmp_path / "run" / "test_openings.jsonl").exists())
        take(training)

    monkeypatch.setattr(Training, "_update", watched)
    train("raw", pictures(), protocol=HELD_OUT, out=tmp_path / "run", device="cpu")
    assert while_training == [False] * 6
    assert events(tmp_path / "run") == ["key", "opened"]


def test_scoring_again_is_the_same_opening_and_the_same_scores(tmp_path: Path) -> None:
    data = vectors_file(tmp_path / "vectors.npz")
    settings = {"backbone": "mlp", "pooling": "avg"}
    result = train("raw", data, protocol=HELD_OUT, out=tmp_path / "run", settings=settings, device="cpu")
    found, look = embeddings_to_score(tmp_path / "run", str(data))
    assert look == result.look
    assert events(tmp_path / "run") == ["key", "opened", "key", "resumed"]
    assert found.embeddings.shape == (12 * 8, 8)
    again = evaluate(found.embeddings, found.labels, ks=(1, 2), metrics=("R@K", "MAP@R"))
    assert {name: again[name] for name in result.scores} == pytest.approx(result.scores)


def test_other_weights_do_not_open_the_test_classes_again(tmp_path: Path) -> None:
    """Whoever changes the network after the look cannot look again under the same run."""
    data = vectors_file(tmp_path / "vectors.npz")
    for seed, out in ((0, "run"), (1, "other")):
        train("raw", data, protocol=HELD_OUT, out=tmp_path / out, settings={"backbone": "identity"}, seed=seed, device="cpu")
    Embedder.load(tmp_path / "other").save(tmp_path / "run" / "embedder")
    with pytest.raises(ValueError, match=r"stays closed to .* with other settings or weights"):
        embeddings_to_score(tmp_path / "run", str(data))
    assert events(tmp_path / "run")[-1] == "refused"


def test_the_result_and_the_card_say_which_look_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings: dict[str, Any] = {"protocol": PROTOCOL, "settings": {"backbone": "identity"}, "device": "cpu"}
    first = train("raw", vectors(), out="runs/one", **settings)
    second = train("raw", vectors(), out="runs/two", seed=1, **settings)
    assert first.look is not None
    assert second.look is not None
    assert (first.look.number, first.look.look.what, first.look.look.folder) == (1, "train", str(tmp_path / "runs" / "one"))
    words = f"second look at these test classes, after runs/one ({first.look.look.time[:10]})"
    assert second.look.in_words == words
    assert held(tmp_path / "runs" / "two", "scores.json")["look"]["number"] == 2
    assert f"opened once, after training (`test_openings.jsonl`): {words}." in (tmp_path / "runs" / "two" / "README.md").read_text()
    again = train("raw", vectors(), out="runs/one", resume=True, **settings)
    assert again.look == first.look
    assert len(read_ledger().looks) == 2


def test_a_ledger_that_cannot_be_written_stops_no_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv("LIKEWISE_STATE", str(tmp_path / "taken"))
    result = train("raw", vectors(), protocol=PROTOCOL, out=tmp_path / "run", settings={"backbone": "identity"}, device="cpu")
    assert result.scores
    (note,) = result.notes
    assert "could not be entered in the ledger" in note
    assert f"- note: {note}" in (tmp_path / "run" / "README.md").read_text()
    assert events(tmp_path / "run") == ["key", "opened"]


@pytest.mark.parametrize("change", ["deleted", "edited"])
def test_a_record_in_other_hands_is_noticed(change: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"protocol": PROTOCOL, "settings": {"backbone": "identity"}, "device": "cpu", "out": tmp_path / "run"}
    result = train("raw", vectors(), **settings)
    record = tmp_path / "run" / "test_openings.jsonl"
    assert train("raw", vectors(), resume=True, **settings).notes == result.notes == ()
    if change == "deleted":
        record.unlink()
    else:
        record.write_text(record.read_text().replace("final score", "final scare"))
    (note,) = train("raw", vectors(), resume=True, **settings).notes
    assert note == "the record of looks at the test classes (test_openings.jsonl) was deleted or edited after the run had ended"


def test_queries_and_a_gallery_are_scored_apart(tmp_path: Path) -> None:
    data = vectors()
    marks = np.where(data.labels < 12, "train", np.where(np.arange(len(data)) % 8 < 2, "query", "gallery"))
    data = replace(data, parts=marks.astype(np.str_))
    result = train("raw", data, protocol=PROTOCOL, out=tmp_path / "run", settings={"backbone": "identity"}, device="cpu")
    rows = Embedder.load(tmp_path / "run").embed(data)
    query, gallery = marks == "query", marks == "gallery"
    expected = evaluate(
        rows[query],
        data.labels[query],
        gallery=rows[gallery],
        gallery_labels=data.labels[gallery],
        ks=(1, 2),
        metrics=("R@K", "MAP@R"),
    )
    assert result.scores == pytest.approx({name: expected[name] for name in result.scores})
    everything = evaluate(rows[~(marks == "train")], data.labels[~(marks == "train")], ks=(1, 2), metrics=("R@K", "MAP@R"))
    assert result.scores["MAP@R"] != pytest.approx(everything["MAP@R"])


def test_binary_embeddings_are_scored_by_their_bits(tmp_path: Path) -> None:
    """In the end and while it is trained: by Hamming distance, as the embedder's packed bits are."""
    data = pictures(noise=150)
    settings = {"head.binary": True}
    result = train("raw", data, protocol=HELD_OUT, out=tmp_path / "run", settings=settings, device="cpu")
    parts = split(data, seed=0)
    held_out = held_out_items(data, parts, HELD_OUT)
    assert held_out is not None
    test = np.setdiff1d(np.arange(len(data)), parts.train)
    for scores, items in ((result.scores, test), (result.validation, held_out)):
        bits = Embedder.load(tmp_path / "run").embed(data.subset(items))
        expected = evaluate(bits, data.labels[items], ks=(1, 2), metrics=("R@K", "MAP@R"), metric="hamming")
        assert scores == pytest.approx({name: expected[name] for name in scores or ()})


def marked(data: Dataset, test: list[int]) -> Dataset:
    """Only these items are tested on, the other classes trained on."""
    classes = np.unique(data.labels[test])
    kept = np.flatnonzero(~np.isin(data.labels, classes) | np.isin(np.arange(len(data)), test))
    marks = np.where(np.isin(np.arange(len(data)), test), "test", "train").astype(np.str_)
    return replace(data, parts=marks).subset(kept)


def test_few_test_items_are_scored_as_far_as_they_go(tmp_path: Path) -> None:
    """Four test items of two classes have three neighbours each: R@4 and R@8 are left out, and the run ends."""
    data = marked(vectors(), [0, 1, 8, 9])
    protocol = replace(PROTOCOL, ks=(1, 2, 4, 8), metrics=DEFAULT_METRICS)
    result = train("raw", data, protocol=protocol, out=tmp_path / "run", settings={"backbone": "identity"}, device="cpu")
    assert list(result.scores) == ["R@1", "R@2", "RP", "MAP@R", "mAP", "NMI", "AMI"]
    few = "2 test classes are few: each is about 50 % of the scores, which say little about other classes; take at least 10"
    assert result.notes == (few, "R@4 and R@8 are left out: the gallery has only 3 items besides the query")
    assert held(tmp_path / "run", "scores.json")["notes"] == list(result.notes)
    rows = Embedder.load(tmp_path / "run").embed(data.subset(np.flatnonzero(data.parts == "test")))
    expected = evaluate(rows, [0, 0, 1, 1], ks=(1, 2), metrics=DEFAULT_METRICS)
    assert result.scores == pytest.approx({name: expected[name] for name in result.scores})


def test_a_training_whose_test_items_cannot_be_scored_is_kept(tmp_path: Path) -> None:
    """Three test classes of one item each: the run ends with its embedder, and says why there are no scores."""
    data = marked(vectors(), [0, 8, 16])
    result = train("raw", data, protocol=PROTOCOL, out=tmp_path / "run", settings={"backbone": "identity"}, device="cpu")
    note = "none of the 3 queries shares its label with any other item: retrieval has no score; check the labels"
    assert (result.scores, result.notes[1:]) == ({}, (note,))
    assert held(tmp_path / "run", "scores.json")["scores"] == {}
    card = (tmp_path / "run" / "README.md").read_text()
    assert "No scores: see the notes." in card
    assert note in card
    assert note in " ".join(CliRunner().invoke(app, ["evaluate", str(tmp_path / "run")]).output.split())
    assert Embedder.load(tmp_path / "run").embed(data).shape == (len(data), 8)
    again = train("raw", data, protocol=PROTOCOL, out=tmp_path / "run", settings={"backbone": "identity"}, resume=True)
    assert again.notes == result.notes


def test_test_items_without_a_partner_are_noted(tmp_path: Path) -> None:
    data = marked(vectors(), [0, 1, 8])
    result = train("raw", data, protocol=PROTOCOL, out=tmp_path / "run", settings={"backbone": "identity"}, device="cpu")
    assert result.notes[1:] == ("1 query has nothing of its class to find and is left out of the means",)


class Heard(Listener):
    """Everything a training tells, in its order; it is stopped after a step."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.stop_after = stop_after

    def began(self, step: int, steps: int) -> None:
        self.told.append(("began", step, steps))

    def ended(self) -> None:
        self.told.append(("ended",))

    def step(self, step: int) -> None:
        self.told.append(("step", step))

    def row(self, row: Row) -> None:
        self.told.append(("row", row["step"]))

    def wants_to_stop(self) -> bool:
        return ("step", self.stop_after) in self.told


def test_a_listener_is_told_and_may_stop_a_run(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"protocol": PROTOCOL, "out": tmp_path / "run", "settings": {"backbone": "identity"}, "device": "cpu"}
    first, second = Heard(stop_after=3), Heard()
    with pytest.raises(TrainingStopped, match="stopped after step 4 of 6; the same command with --resume goes on from there"):
        train("raw", vectors(), listener=first, **settings)
    train("raw", vectors(), listener=second, resume=True, **settings)
    steps = [(kind, number) for number in range(1, 7) for kind in ("row", "step")]
    assert first.told == [("began", 0, 6), *steps[:8], ("ended",)]
    assert second.told == [("began", 4, 6), *steps[8:], ("ended",)]


def test_a_listener_hears_of_a_run_that_fails(tmp_path: Path) -> None:
    heard = Heard()
    settings = {"backbone": "identity", "learning_rate": 1e30, "optimizer": "sgd"}
    with pytest.raises(Diverged):
        train("n_pairs", vectors(), protocol=PROTOCOL, out=tmp_path / "run", settings=settings, listener=heard, device="cpu")
    assert heard.told[-1] == ("ended",)


def test_what_cannot_be_trained_is_refused_before_images_are_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def packed(*given: Any, **settings: Any) -> None:
        raise AssertionError("packed")

    monkeypatch.setattr(feeds, "pack", packed)
    for change, words in (({"batch": 7}, "batch=7"), ({"few_classes": "error", "batch": 40}, "only 9 training classes")):
        with pytest.raises(ValueError, match=words):
            train("raw", pictures(), protocol=HELD_OUT, out=tmp_path / "run", settings=change, device="cpu")
    with pytest.raises(ValueError, match="chance"):
        train("raw", pictures(), protocol=PROTOCOL, out=tmp_path / "run", settings={"test_augmentation": "resized28"}, device="cpu")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("method", ["raw_vthm", "proxy_anchor", "ranked_list_multilevel", "dreml"])
def test_vectors_under_the_protocol_for_them(method: str, tmp_path: Path) -> None:
    data = vectors_file(tmp_path / "vectors.npz", classes=40)
    settings = {"steps": 5, "validate_every": 5}
    result = train(method, data, protocol="features", out=tmp_path / "run", settings=settings, device="cpu")
    chance = 7 / 159
    assert result.scores["R@1"] > 5 * chance
    assert Embedder.load(tmp_path / "run").preprocessing is None


def test_no_steps_give_the_network_as_it_starts(tmp_path: Path) -> None:
    """The best there is, where it starts from pretrained weights: features without training, scored and ready for use."""
    weights, data = tmp_path / "pretrained.safetensors", pictures(noise=150)
    save_file(make_backbone("convnet_small").state_dict(), weights)
    settings = {"steps": 0, "head.kind": "none", "weights": "optional", "validation": 0.25}
    result = train("raw", data, protocol=PROTOCOL, settings=settings, weights=weights, out=tmp_path / "run", device="cpu")
    expected = make_network(NetworkSpec("convnet_small", pooling="max", head="none", dim=8), seed=0, weights=weights)
    assert_equal_weights(weights_of(tmp_path / "run"), expected.state_dict())
    assert (result.best_step, result.validation) == (0, None)
    assert result.scores["R@1"] > 0
    assert "no step was taken: the embeddings are the backbone's features as they are" in result.notes
    again = train("raw", data, protocol=PROTOCOL, settings={"steps": 0}, out=tmp_path / "random", device="cpu")
    assert any("--set head.kind=none gives the backbone's features themselves" in note for note in again.notes)
    assert CliRunner().invoke(app, ["evaluate", str(tmp_path / "run")]).exit_code == 0


def test_a_memory_of_earlier_batches(tmp_path: Path) -> None:
    result = train("contrastive", pictures(), protocol=PROTOCOL, out=tmp_path / "run", settings={"memory": 48}, device="cpu")
    assert result.scores["R@1"] > 0.5


def test_the_seed_decides_everything(tmp_path: Path) -> None:
    seeds = {"a": 0, "b": 0, "c": 1}
    runs = [train("raw", pictures(noise=150), protocol=PROTOCOL, out=tmp_path / out, seed=seeds[out], device="cpu") for out in seeds]
    first, same, other = ((run.folder / "embedder" / "model.safetensors").read_bytes() for run in runs)
    assert first == same
    assert first != other
    splits = [held(run.folder, "split.json") for run in runs]
    assert splits[0] == splits[1] == splits[2]  # the test classes are the data set's, not the seed's


def test_images_that_cannot_be_decoded_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    data = pictures(classes=8)
    for number, label in enumerate(data.labels.tolist()):
        folder = tmp_path / "images" / f"class {label}"
        folder.mkdir(parents=True, exist_ok=True)
        assert isinstance(data.items, Pixels)
        Image.fromarray(data.items.array[number]).save(folder / f"{number}.png")
    files = read(tmp_path / "images")
    assert isinstance(files.items, Files)
    broken = files.items.paths[split(files, seed=0).train[0]]
    broken.write_bytes(b"not an image")
    result = train("raw", tmp_path / "images", protocol=PROTOCOL, out=tmp_path / "run", settings={"side": 16}, device="cpu")
    assert any("1 image could not be decoded and was left out" in note and broken.name in note for note in result.notes)
    assert broken.name in (tmp_path / "run" / "README.md").read_text()
