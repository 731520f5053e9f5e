"""The graph in 8 bits: smaller, nearly the same vectors, and its loss measured on classes that it was not fitted to."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import likewise
from likewise.cli import app
from likewise.data.readers import read
from likewise.exporting.exporter import export
from likewise.exporting.int8 import FEWEST_CLASSES, items_for_int8
from likewise.exporting.onnx_model import OnnxEmbedder

from ..optional import needs_package
from .small_models import MODELS, picture, small


@pytest.fixture(autouse=True)
def installed() -> None:
    needs_package("onnxruntime")
    needs_package("onnx")


def class_folders(folder: Path, num_classes: int, num_images: int = 4) -> Path:
    """Every class of a pattern of its own, under changing light."""
    rng = np.random.default_rng(0)
    for code in range(num_classes):
        pattern = np.asarray(picture(60 + code, 70)).astype(float)
        for number in range(num_images):
            path = folder / f"class {code:02}" / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            changed = pattern * rng.uniform(0.6, 1.2) + rng.normal(0, 40, pattern.shape)
            Image.fromarray(changed.clip(0, 255).astype(np.uint8)).save(path)
    return folder


def test_measured_on_other_classes_than_it_was_fitted_to(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    images = class_folders(tmp_path / "images", 10)
    told: list[tuple[str, int, int]] = []
    exported = export(small(), tmp_path / "out", int8=images, on_progress=lambda *step: told.append(step))
    trial = exported.int8
    assert trial is not None
    assert (trial.num_fitted, trial.num_items, trial.num_classes, trial.apart) == (8, 32, 8, True)
    before, after = ((tmp_path / "out" / name).read_bytes() for name in ("model.onnx", "model_int8.onnx"))
    assert trial.num_bytes == (len(before), len(after))
    assert len(after) < 0.8 * len(before)
    dataset = read(images)
    items = items_for_int8(dataset).measured
    labels = dataset.labels[items]
    for graph, scores in ((before, trial.before), (after, trial.after)):
        run = OnnxEmbedder(graph)
        vectors = np.stack([run(np.asarray(Image.open(dataset.items.paths[item]))) for item in items])  # type: ignore[union-attr]
        expected = likewise.evaluate(vectors, labels, ks=(1,), metrics=("R@K", "MAP@R"))
        assert scores == {name: pytest.approx(expected[name]) for name in ("R@1", "MAP@R")}
    assert trial.change.estimate == pytest.approx(trial.after["R@1"] - trial.before["R@1"])
    described = json.loads((tmp_path / "out" / "export.json").read_text())
    assert described["int8"]["words"] == list(trial.words)
    assert trial.words[0] in (tmp_path / "out" / "README.md").read_text()
    assert ("measuring int8", 32, 32) in told
    assert not caplog.records
    assert logging.root.manager.disable == logging.NOTSET


def test_vectors_are_nearly_the_same_and_only_the_network_is_in_8_bits(tmp_path: Path) -> None:
    model = small()
    export(model, tmp_path / "out", int8=class_folders(tmp_path / "images", 6))
    run = OnnxEmbedder((tmp_path / "out" / "model_int8.onnx").read_bytes())
    pictures = [picture(*size) for size in ((60, 70), (33, 190), (1, 1), (500, 400))]
    given = np.stack([run(np.asarray(image)) for image in pictures])
    similarity = (given * np.concatenate([model.embed([image]) for image in pictures])).sum(1)
    assert similarity.min() > 0.95
    assert similarity.min() < 1 - 1e-6
    onnx = __import__("onnx")
    nodes = onnx.load(tmp_path / "out" / "model_int8.onnx").graph.node
    rounded = {result for node in nodes if node.op_type == "DequantizeLinear" for result in node.output}
    assert len(rounded) > 10
    assert not [node.name for node in nodes if node.name.startswith("/preparation/") and rounded & set(node.input)]


def test_few_classes_are_fitted_and_measured_alike(tmp_path: Path) -> None:
    dataset = read(class_folders(tmp_path / "few", FEWEST_CLASSES - 1))
    items = items_for_int8(dataset)
    assert not items.apart
    assert (items.fitted == items.measured).all()
    trial = export(small(), tmp_path / "out", int8=dataset).int8
    assert trial is not None
    assert "images of the same classes" in trial.words[0]


def test_of_a_run_training_items_are_fitted_and_test_items_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LIKEWISE_STATE", str(tmp_path / "state"))
    data = "glyphs:classes=12,images=4"
    run = likewise.train("raw_vthm", data, protocol="quick", settings={"steps": 2, "batch": 8}, out=tmp_path / "run")
    trial = likewise.export(tmp_path / "run", tmp_path / "out", int8=data).int8
    assert trial is not None
    assert trial.num_items == run.num_test_items
    assert trial.before["R@1"] == pytest.approx(run.scores["R@1"])
    openings = (tmp_path / "run" / "test_openings.jsonl").read_text()
    assert '"resumed"' in openings  # on record, as the same look
    notes: list[str] = []
    likewise.export(tmp_path / "run", tmp_path / "out", int8="glyphs:classes=10,images=4", on_note=notes.append)
    assert len(notes) == 1
    assert "is not what" in notes[0]


@pytest.mark.parametrize(
    ("name", "reason"), [("vectors", "int8 of a network of vectors"), ("bits", "int8 of an embedder of bits: rounding would flip")]
)
def test_what_is_not_quantised_is_refused_before_anything_is_done(name: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=reason):
        export(MODELS[name](), tmp_path / "out", int8=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_images_that_say_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="R@1 takes at least two classes, with two images of some"):
        export(small(), tmp_path / "out", int8=class_folders(tmp_path / "one", 1))
    np.savez(tmp_path / "a.npz", embeddings=np.eye(4, dtype=np.float32), labels=np.array([0, 0, 1, 1]))
    with pytest.raises(ValueError, match="holds vectors: to quantise a network of images, give images with their classes"):
        export(small(), tmp_path / "out", int8=tmp_path / "a.npz")
    (tmp_path / "flat").mkdir()
    picture(20, 20).save(tmp_path / "flat" / "a.png")
    small().save(tmp_path / "model")
    told = CliRunner().invoke(app, ["export", str(tmp_path / "model"), "-o", str(tmp_path / "out"), "--int8", str(tmp_path / "flat")])
    assert told.exit_code == 2
    assert "lie directly in" in told.stderr
    assert not (tmp_path / "out").exists()
