"""likewise.adapt: the chosen rung as an embedder, the test classes looked at once, a folder that goes on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import likewise
from likewise.adaptation import adapt as adapt_module
from likewise.adaptation import rung_conditions as conditions_module
from likewise.adaptation.adapt import adapt, read_adaptation
from likewise.adaptation.card import card_text
from likewise.adaptation.fitting import Fitter
from likewise.cli import app
from likewise.data.dataset import Dataset, Features
from likewise.data.ledger import read_ledger
from likewise.data.splits import SPLIT_SEED, split

from .small import protocol_file, vectors


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions_module, "FROZEN", protocol_file(tmp_path))
    monkeypatch.setenv("LIKEWISE_STATE", str(tmp_path / "state"))


@pytest.fixture
def data() -> Dataset:
    return vectors("stretched", classes=40)


def test_the_embedder_is_the_whitening_of_the_training_classes(data: Dataset, tmp_path: Path) -> None:
    result = likewise.adapt(data, out=tmp_path / "out", minutes=0)
    assert result.chosen == "within-class whitening"
    assert isinstance(data.items, Features)
    train = split(data, seed=SPLIT_SEED).train
    whitening = likewise.whiten(data.items.array[train], data.labels[train], shrinkage=result.ladder.setting.shrinkage or 0)
    embedded = likewise.Embedder.load(tmp_path / "out").embed(data.items.array)
    np.testing.assert_allclose(embedded, whitening(data.items.array), atol=1e-5)


def test_the_test_classes_are_scored_once_with_and_without(data: Dataset, tmp_path: Path) -> None:
    result = adapt(data, out=tmp_path / "out", minutes=0)
    assert isinstance(data.items, Features)
    test = np.setdiff1d(np.arange(len(data)), split(data, seed=SPLIT_SEED).train)
    of_test = torch.from_numpy(data.items.array[test]), data.labels[test]
    assert result.as_they_are["MAP@R"] == pytest.approx(likewise.evaluate(*of_test, metrics=("MAP@R",))["MAP@R"])
    embedded = likewise.Embedder.load(tmp_path / "out").embed(of_test[0])
    assert result.scores["MAP@R"] == pytest.approx(likewise.evaluate(embedded, of_test[1], metrics=("MAP@R",))["MAP@R"], abs=1e-6)
    assert result.scores["MAP@R"] > result.as_they_are["MAP@R"]
    events = [json.loads(line)["event"] for line in (tmp_path / "out" / "test_openings.jsonl").read_text().splitlines()]
    assert events == ["key", "opened"]
    assert [look.what for look in read_ledger().looks] == ["adapt"]
    assert result.look is not None
    assert result.look.number == 1


def test_nothing_of_the_test_classes_decides(data: Dataset, tmp_path: Path) -> None:
    """With their vectors changed, all that was found on the training classes is the same to the last digit."""
    assert isinstance(data.items, Features)
    test = np.setdiff1d(np.arange(len(data)), split(data, seed=SPLIT_SEED).train)
    train_first = np.concatenate([np.setdiff1d(np.arange(len(data)), test), test])
    marked = replace(data.subset(train_first), parts=np.where(np.isin(train_first, test), "test", "train"))
    changed = marked.items.array.copy()  # type: ignore[union-attr]
    changed[-len(test) :] = np.random.default_rng(9).normal(size=(len(test), changed.shape[1]))
    other = replace(marked, items=Features(changed))
    first, second = (adapt(given, out=tmp_path / name, minutes=1) for name, given in (("a", marked), ("b", other)))
    assert first.ladder.chosen == second.ladder.chosen
    assert first.scores != second.scores
    train = np.arange(len(data) - len(test))
    embedded = [likewise.Embedder.load(tmp_path / name).embed(marked.items.array[train]) for name in "ab"]  # type: ignore[union-attr]
    # folds are drawn by the fingerprint of the training part alone
    assert [replace(step, seconds=0) for step in first.ladder.steps] == [replace(step, seconds=0) for step in second.ladder.steps]
    np.testing.assert_array_equal(*embedded)


def test_the_same_command_goes_on_and_looks_no_second_time(data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = adapt(data, out=tmp_path / "out", minutes=0)
    assert first.ladder.steps[-1].outcome == "no time"

    def interrupted(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Fitter, "fits", interrupted)
        again = adapt(data, out=tmp_path / "out", minutes=0)  # nothing is fitted again
    assert again.scores == first.scores
    with monkeypatch.context() as patch:
        patch.setattr(Fitter, "fits", interrupted)
        with pytest.raises(KeyboardInterrupt):
            adapt(data, out=tmp_path / "out", minutes=5)
    longer = adapt(data, out=tmp_path / "out", minutes=5)
    assert longer.ladder.steps[-1].outcome != "no time"
    assert len(read_ledger().looks) == 1
    with pytest.raises(ValueError, match="holds another run"):
        adapt(data, out=tmp_path / "out", minutes=0, method="supcon")


def test_all_train_has_no_score_and_looks_at_nothing(data: Dataset, tmp_path: Path) -> None:
    result = adapt(data, out=tmp_path / "out", minutes=0, split="all-train")
    assert result.scores == {}
    assert result.look is None
    assert any("every class was trained on" in note for note in result.notes)
    assert read_ledger().looks == ()
    assert likewise.Embedder.load(tmp_path / "out").network.whitening is not None


def test_too_few_classes_leave_the_features_as_they_are(tmp_path: Path) -> None:
    result = adapt(vectors("stretched", classes=6), out=tmp_path / "out", minutes=0)
    assert result.ladder.chosen == "features"
    assert result.sentence.startswith("what pays here cannot be told, and the features stay as they are; PCA")
    assert "cannot be judged on so few classes" in result.sentence
    assert result.scores == result.as_they_are


def test_never_worse_on_many_data_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where labels mean nothing, closed forms are as good as nothing: at most one of eight ladders may climb by chance."""
    monkeypatch.setattr(adapt_module, "REPEATS", 2)
    results = [adapt(vectors("noise", seed=seed), out=tmp_path / str(seed), minutes=0) for seed in range(8)]
    assert sum(result.ladder.chosen != "features" for result in results) <= 1


def test_the_card_and_the_table_say_it(data: Dataset, tmp_path: Path) -> None:
    assert isinstance(data.items, Features)
    np.savez(tmp_path / "vectors.npz", embeddings=data.items.array, labels=data.labels)
    arguments = ["adapt", str(tmp_path / "vectors.npz"), "--minutes", "0", "--out", str(tmp_path / "out")]
    shown = CliRunner().invoke(app, arguments, terminal_width=140)
    assert shown.exit_code == 0, shown.output
    card = (tmp_path / "out" / "README.md").read_text()
    stored = json.loads((tmp_path / "out" / "ladder.json").read_text())
    for text in (" ".join(shown.output.split()), card):
        assert "hat pays here: within-class whitening (+" in text
        assert "as they are" in text
    assert stored["sentence"].startswith("what pays here")
    assert [step["rung"] for step in stored["steps"]] == ["features", "pca", "within", "head"]


def test_what_was_found_is_read_again_and_shown(data: Dataset, tmp_path: Path) -> None:
    """`likewise evaluate FOLDER`, as of a run; one that was broken off says how to go on."""
    result = adapt(data, out=tmp_path / "out", minutes=0)
    again = read_adaptation(tmp_path / "out")
    assert again is not None
    assert again.ladder == result.ladder
    as_text = [card_text(found, "data") for found in (result, again)]
    assert as_text[0] == as_text[1]
    shown = CliRunner().invoke(app, ["evaluate", str(tmp_path / "out")], terminal_width=140)
    assert shown.exit_code == 0, shown.output
    told = " ".join(shown.output.split())
    assert f"test classes, scored once: R@1 {100 * result.scores['R@1']:.1f} (as they are {100 * result.as_they_are['R@1']:.1f})" in told
    assert result.sentence[1:] in told
    as_json = json.loads(CliRunner().invoke(app, ["evaluate", str(tmp_path / "out"), "--json"]).output)
    assert as_json["scores"] == result.scores
    assert len(read_ledger().looks) == 1  # nothing was looked at again
    (tmp_path / "out" / "ladder.json").unlink()
    broken_off = CliRunner().invoke(app, ["evaluate", str(tmp_path / "out")])
    assert broken_off.exit_code == 2
    assert "has not ended there: the same command goes on" in broken_off.output
    assert read_adaptation(tmp_path / "out" / "embedder") is None
    assert "is an embedder, which is scored on data" in CliRunner().invoke(app, ["evaluate", str(tmp_path / "out" / "embedder")]).output


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"minutes": -1}, "minutes=-1"),
        ({"weights": "resnet50"}, "for vectors"),
        ({"split": "half"}, "half"),
        ({"method": "nothing"}, "nothing"),
    ],
)
def test_faults_in_words(data: Dataset, tmp_path: Path, wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        adapt(data, out=tmp_path / "out", **wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()
