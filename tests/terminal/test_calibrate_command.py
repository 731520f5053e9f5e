"""likewise calibrate: what is calibrated on, where it is stored, and that it comes back with the model."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

import likewise
from likewise.cli import app
from likewise.data.augmentation import Augmentation
from likewise.models.embedder import Embedder, Preprocessing
from likewise.models.network import NetworkSpec, make_network
from likewise.protocols import load_protocol
from likewise.terminal.commands import calibrate_command
from likewise.training.train import train


def command(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["calibrate", *map(str, arguments)])


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    network = make_network(NetworkSpec("convnet", dim=8), seed=0)
    Embedder(network, Preprocessing(16, Augmentation(size=16, crop="centre"))).save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Sixteen classes of three images, each class of a colour."""
    rng = np.random.default_rng(0)
    for code in range(16):
        colour = rng.integers(0, 200, 3)
        for number in range(3):
            path = tmp_path / "images" / f"class {code:02}" / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray((colour + rng.integers(0, 56, (20, 20, 3))).astype(np.uint8)).save(path)
    return tmp_path / "images"


def test_stored_beside_the_model_and_loaded_with_it(model: Path, images: Path, tmp_path: Path) -> None:
    assert Embedder.load(model).calibration is None
    told = command(model, images, "--false-accepts", "0.2")
    assert told.exit_code == 0, told.output
    embedder = Embedder.load(model)
    assert embedder.calibration is not None
    paths = sorted(images.rglob("*.png"))
    expected = likewise.calibrate(embedder.embed(paths), [path.parent.name for path in paths], false_accepts=0.2)
    assert embedder.calibration.same.value == pytest.approx(expected.same.value, abs=0.002)
    assert "48 items of 16 classes" in told.stdout
    assert "(a promise takes 28 classes and there are 16)" in " ".join(told.stdout.split())
    page = (model / "calibration.html").read_text()
    assert page.count("<svg") == 3
    assert f"{embedder.calibration.same.value:.3f}" in page
    embedder.save(tmp_path / "copy")
    assert Embedder.load(tmp_path / "copy").calibration == embedder.calibration


@pytest.mark.parametrize("place", ["best", "model", "best/embedder"])
def test_a_comparison_and_an_index_hold_a_model(place: str, model: Path, images: Path, tmp_path: Path) -> None:
    (tmp_path / "holds one" / place).parent.mkdir(parents=True)
    model.rename(tmp_path / "holds one" / place)
    assert command(tmp_path / "holds one", images).exit_code == 0
    assert Embedder.load(tmp_path / "holds one" / place).calibration is not None
    assert (tmp_path / "holds one" / place / "calibration.html").is_file()


def test_as_json_and_the_page_elsewhere(model: Path, images: Path, tmp_path: Path) -> None:
    told = command(model, images, "--json", "--page", tmp_path / "page.html")
    assert likewise.Calibration.from_json(told.stdout) == Embedder.load(model).calibration
    assert (tmp_path / "page.html").is_file()
    assert not (model / "calibration.html").exists()


def test_another_model_in_its_place_is_not_calibrated(model: Path, images: Path) -> None:
    assert command(model, images).exit_code == 0
    embedder = Embedder.load(model)
    calibration = (model / "calibration.json").read_bytes()
    replace(embedder, network=make_network(NetworkSpec("convnet", dim=8), seed=1), calibration=None).save(model)
    assert Embedder.load(model).calibration is None
    (model / "calibration.json").write_bytes(calibration)
    with pytest.raises(ValueError, match="is of another model"):
        Embedder.load(model)
    (model / "calibration.json").write_text("{")
    with pytest.raises(ValueError, match=r"is not a readable JSON file.*calibrate again, or delete it"):
        Embedder.load(model)
    stored = json.loads(calibration)
    assert set(stored) == {"sha256", "calibration", "seal"}


def test_a_run_is_calibrated_on_classes_that_it_was_not_trained_on(model: Path, images: Path, tmp_path: Path) -> None:
    protocol = replace(load_protocol("quick"), side=16, steps=2, batch=8, dim=4, ks=(1, 2))
    train("raw", images, protocol=protocol, out=tmp_path / "run", device="cpu")
    told = command(tmp_path / "run", images)
    assert told.exit_code == 0, told.output
    assert "first look at these test classes, the same that `likewise train` took" in told.stdout
    calibration = Embedder.load(tmp_path / "run").calibration
    assert calibration is not None
    assert calibration.num_classes == 8, "half of the classes are test classes"
    assert (tmp_path / "run" / "embedder" / "calibration.json").is_file()


def test_in_words(model: Path, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is embedded."""
    monkeypatch.setattr(calibrate_command, "embeddings_to_score", None)
    for arguments, words in (
        ((tmp_path / "nothing", images), "is neither a folder nor the name of weights"),
        (("efficientnet_lite0", images), "give one with --out"),
        ((model, images, "--out", tmp_path / "other"), "leave out --out"),
        ((model, images, "--false-accepts", "3"), "false_accepts is 3.0"),
        ((model, images, "--confidence", "1"), "confidence is 1.0"),
        ((model, images, "--page", images), "is a folder: expected the name of a file"),
    ):
        told = command(*arguments)
        assert told.exit_code == 2
        assert words in " ".join(told.stderr.split())
