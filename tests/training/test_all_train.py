"""A training on every class, for a network that goes to work: nothing is opened, nothing is scored, and every place says so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from likewise.cli import app
from likewise.data.dataset import Dataset
from likewise.data.guard import TestGuard
from likewise.data.ledger import read_ledger
from likewise.models.embedder import Embedder
from likewise.training.runs.run_folder import TrainingResult
from likewise.training.train import NO_TEST, train

from .tiny import HELD_OUT, PROTOCOL, assert_equal_weights, held, method, training, vectors, vectors_file, weights_of

ON_VECTORS = {"backbone": "identity"}


def all_train(out: Path, data: Dataset | Path | None = None, **changes: Any) -> TrainingResult:
    asked = {"protocol": PROTOCOL, "settings": ON_VECTORS, "split": "all-train", "device": "cpu", **changes}
    return train("raw", vectors() if data is None else data, out=out, **asked)


def command(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_every_class_trains(tmp_path: Path) -> None:
    """The network is that of the loop on the whole data set, whatever parts the data set has of its own."""
    data = vectors()
    parts = np.where(data.labels < 12, "train", "test").astype(np.str_)
    alone = training(method("raw"), replace(PROTOCOL, backbone="identity"), dataset=data)
    alone.run()
    for name, given in {"drawn": data, "official": replace(data, parts=parts)}.items():
        all_train(tmp_path / name, given)
        assert_equal_weights(weights_of(tmp_path / name), alone.network.state_dict())
        split = held(tmp_path / name, "split.json")
        assert (split["num_train"], split["num_test"], split["train"]) == (len(data), 0, [[0, len(data)]])


def test_nothing_is_opened_and_no_look_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object, **settings: object) -> None:
        raise AssertionError("the guard was asked")

    monkeypatch.setenv("LIKEWISE_STATE", str(tmp_path / "state"))
    for name in ("issue_key", "open", "enter_look"):
        monkeypatch.setattr(TestGuard, name, refuse)
    result = all_train(tmp_path / "run")
    assert (result.scores, result.look, result.num_test_items) == ({}, None, 0)
    assert not (tmp_path / "run" / "test_openings.jsonl").exists()
    assert not read_ledger().looks


def test_that_there_is_no_score_is_said_everywhere(tmp_path: Path) -> None:
    data = vectors_file(tmp_path / "vectors.npz")
    asked = ("--protocol", "features", "--set", "steps=3", "--split", "all-train", "--device", "cpu", "--out", tmp_path / "run")
    shown = command("train", "raw", data, *asked)
    assert shown.exit_code == 0, shown.output
    for text in (shown.stdout, command("evaluate", tmp_path / "run").stdout):
        assert "trained on every class, no score" in text
        assert NO_TEST in " ".join(text.split())
    stored = held(tmp_path / "run", "scores.json")
    assert (stored["scores"], stored["notes"], stored["best_step"]) == ({}, [NO_TEST], 3)
    assert {"look", "record"}.isdisjoint(stored)
    assert json.loads(command("evaluate", tmp_path / "run", "--json").stdout)["notes"] == [NO_TEST]
    card = (tmp_path / "run" / "README.md").read_text()
    assert NO_TEST in card
    assert "test classes, opened once" not in card


def test_its_own_data_has_no_test_items(tmp_path: Path) -> None:
    data, other = vectors_file(tmp_path / "vectors.npz"), vectors_file(tmp_path / "other.npz", classes=12, seed=1)
    all_train(tmp_path / "run", data)
    refused = command("evaluate", tmp_path / "run", data)
    assert refused.exit_code == 2
    assert "was trained on every class of vectors, so that none of its items is a test item" in " ".join(refused.stderr.split())
    for part in ("train", "all"):
        told = json.loads(command("evaluate", tmp_path / "run", data, "--split", part, "--json").stdout)
        assert (told["num_items"], told["look"]) == (24 * 8, None)
    assert json.loads(command("evaluate", tmp_path / "run", other, "--json").stdout)["num_items"] == 12 * 8
    assert command("embed", tmp_path / "run", data, "-o", tmp_path / "embedded.npz").exit_code == 0
    with np.load(tmp_path / "embedded.npz") as file:
        assert set(file["split"].tolist()) == {"train"}


def test_no_class_is_held_out(tmp_path: Path) -> None:
    all_train(tmp_path / "run", protocol=HELD_OUT)
    assert held(tmp_path / "run", "config.json")["protocol"]["validation"] == 0.0
    assert held(tmp_path / "run", "scores.json")["validation"] is None
    with pytest.raises(ValueError, match=r"validation=0\.2 with --split all-train: every class trains, so none can be held out"):
        all_train(tmp_path / "asked", settings=ON_VECTORS | {"validation": 0.2})


def test_two_classes_are_enough(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--split all-train` trains on all of them"):
        all_train(tmp_path / "run", vectors(classes=2), split="held-out")
    assert all_train(tmp_path / "run", vectors(classes=2)).best_step == PROTOCOL.steps
    with pytest.raises(ValueError, match="only 1 training classes"):
        all_train(tmp_path / "one", vectors(classes=1))


def test_another_split_is_another_run(tmp_path: Path) -> None:
    all_train(tmp_path / "run")
    assert all_train(tmp_path / "run", resume=True).notes == (NO_TEST,)
    with pytest.raises(ValueError, match="its split is 'all-train', now it is absent"):
        all_train(tmp_path / "run", split="held-out", resume=True)
    with pytest.raises(ValueError, match="unknown split 'all': did you mean 'all-train'"):
        all_train(tmp_path / "other", split="all")


def test_a_collapse_is_said(tmp_path: Path) -> None:
    data = vectors()
    alike = replace(data, items=replace(data.items, array=1 + 1e-7 * data.items.array))  # type: ignore[union-attr,type-var,operator]
    notes = all_train(tmp_path / "run", alike, settings=ON_VECTORS | {"learning_rate": 1e-12}).notes
    assert [note.split(" (")[0] for note in notes] == [NO_TEST, "step 6: the embeddings have collapsed"]
    assert Embedder.load(tmp_path / "run").embed(alike).shape == (len(data), 8)
