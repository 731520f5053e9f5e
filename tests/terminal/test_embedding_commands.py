from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from likewise.cli import app
from likewise.data.augmentation import Augmentation
from likewise.models.embedder import Embedder, Preprocessing
from likewise.models.network import NetworkSpec, make_network


def run(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def model(tmp_path: Path) -> Path:
    network = make_network(NetworkSpec("convnet", dim=4), seed=0)
    Embedder(network, Preprocessing(32, Augmentation(size=32, crop="centre"))).save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two classes of two images, and one that cannot be decoded."""
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    for number in range(4):
        path = tmp_path / "images" / "ab"[number // 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(path)
    (tmp_path / "images" / "a" / "broken.png").write_bytes(b"no picture")
    return tmp_path / "images"


def test_an_image_that_is_left_out_is_named(model: Path, images: Path, tmp_path: Path) -> None:
    told = run("embed", model, images, "-o", tmp_path / "vectors.npz")
    assert told.stdout == f"4 embeddings of 4 numbers: {tmp_path / 'vectors.npz'}\n"
    note = "note: images: 1 images could not be decoded and were left out, the first: "
    assert told.stderr.startswith(note + str(images / "a" / "broken.png"))
    assert run("evaluate", model, images, "--ks", "1,2", "--json").stderr.startswith(note)
