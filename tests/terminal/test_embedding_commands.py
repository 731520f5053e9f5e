"""likewise embed and evaluate: what is embedded, with which labels and parts, and what becomes of it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from likewise.cli import app
from likewise.data.augmentation import Augmentation
from likewise.data.readers import read
from likewise.data.splits import split
from likewise.models.embedder import Embedder, Preprocessing
from likewise.models.network import NetworkSpec, make_network
from likewise.protocols import load_protocol
from likewise.training.train import train


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
    note = "note: images: 1 image could not be decoded and was left out: "
    assert told.stderr.startswith(note + str(images / "a" / "broken.png"))
    assert run("evaluate", model, images, "--ks", "1,2", "--json").stderr.startswith(note)


@pytest.fixture
def flat(images: Path, tmp_path: Path) -> Path:
    """Three images without a class."""
    for number in range(3):
        pixels = np.random.default_rng(10 + number).integers(0, 256, (40, 40, 3), dtype=np.uint8)
        (tmp_path / "flat").mkdir(exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "flat" / f"{number}.png")
    return tmp_path / "flat"


def written(path: Path) -> dict[str, Any]:
    """The columns of a file of embeddings, as lists, empty where Parquet has null."""
    if path.suffix == ".npz":
        with np.load(path) as file:
            return {name: file[name] if name == "embeddings" else file[name].tolist() for name in file}
    table = pyarrow.parquet.read_table(path)
    names = {"embedding": "embeddings", "label": "labels", "item": "items", "split": "split"}
    columns = {names[name]: [value or "" for value in table[name].to_pylist()] for name in table.column_names if name != "embedding"}
    return columns | {"embeddings": np.array(table["embedding"].to_pylist(), dtype=np.float32)}


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_images_without_a_class_have_no_label(model: Path, flat: Path, tmp_path: Path, suffix: str) -> None:
    """One file, several, a flat folder, a list, a table's column: the same vectors as from Python."""
    files = sorted(flat.iterdir())
    (tmp_path / "list.txt").write_text("".join(f"flat/{file.name}\n" for file in files))
    (tmp_path / "table.csv").write_text("path,price\n" + "".join(f"flat/{file.name},3\n" for file in files))
    expected = Embedder.load(model).embed(files)
    for given, rows in (
        ((files[1],), [1]),
        ((files[2], files[0]), [2, 0]),
        ((flat,), [0, 1, 2]),
        ((f"images:{flat}",), [0, 1, 2]),
        ((tmp_path / "list.txt",), [0, 1, 2]),
        ((tmp_path / "table.csv",), [0, 1, 2]),
    ):
        told = run("embed", model, *given, "-o", tmp_path / f"out{suffix}")
        assert told.stderr == ""
        found = written(tmp_path / f"out{suffix}")
        assert found.keys() == {"embeddings", "items"}
        assert [Path(item).name for item in found["items"]] == [f"{row}.png" for row in rows]
        assert found["embeddings"] == pytest.approx(expected[rows], abs=1e-5)
    scored = CliRunner().invoke(app, ["evaluate", str(tmp_path / f"out{suffix}")])
    assert scored.exit_code == 2
    assert "label" in scored.stderr


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_labels_where_they_are_known(model: Path, images: Path, flat: Path, tmp_path: Path, suffix: str) -> None:
    """What has none is empty there, and left out, with a note, where labels are needed."""
    out = tmp_path / f"out{suffix}"
    run("embed", model, flat, images, "-o", out)
    assert written(out)["labels"] == ["", "", "", "a", "a", "b", "b"]
    told = run("evaluate", out, "--ks", "1,2", "--json")
    assert json.loads(told.stdout)["num_items"] == 4
    assert "note: 3 of 7 embeddings have no label; they are left out" in told.stderr
    dataset = read(out)
    assert (len(dataset), dataset.notes) == (4, ("3 of 7 vectors have no label; they are left out",))
    assert read(out, labelled=False).labels.tolist() == [-1, -1, -1, 0, 0, 1, 1]


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A run on eight classes of four images, and its images; beside the classes lies an image without."""
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    for number in range(33):
        path = tmp_path / "mine" / (f"class {number // 4}" if number < 32 else "") / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (20, 20, 3), dtype=np.uint8)).save(path)
    protocol = replace(load_protocol("quick"), side=16, steps=2, batch=8, dim=4, ks=(1, 2))
    train("raw", tmp_path / "mine", protocol=protocol, out=tmp_path / "run", device="cpu")
    return tmp_path / "run", tmp_path / "mine"


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_vectors_keep_the_split_of_their_images(trained: tuple[Path, Path], flat: Path, tmp_path: Path, suffix: str) -> None:
    """Also beside images that the run does not know: those have no part, and are neither trained nor tested on."""
    folder, mine = trained
    out = tmp_path / f"vectors{suffix}"
    told = run("embed", folder, mine, flat, "-o", out)
    assert told.stdout.startswith("36 embeddings")
    found = written(out)
    own = split(read(mine), seed=0)
    expected = {str(path): part for path, part in zip(read(mine).items.paths, own.item_parts(read(mine)), strict=True)}  # type: ignore[union-attr]
    assert set(expected.values()) == {"train", "test"}
    assert {item: part for item, part in zip(found["items"], found["split"], strict=True) if part} == expected
    assert json.loads(run("evaluate", out, "--json").stdout)["num_items"] == 16
    vectors = read(out)
    assert "its split is used, and none is drawn" in " ".join(vectors.notes)
    head = train("contrastive", out, settings={"steps": 2, "batch": 8, "ks": [1, 2]}, out=tmp_path / "head", device="cpu")
    assert any("its split is used" in note for note in head.notes)
    tested = set(vectors.label_names()[split(vectors, seed=0).train].tolist())
    assert tested == set(read(mine).label_names()[own.train].tolist())


def test_vectors_of_a_network_that_knows_every_class(trained: tuple[Path, Path], tmp_path: Path) -> None:
    """A head on them cannot be scored on these classes: none of them is new."""
    _, mine = trained
    protocol = replace(load_protocol("quick"), side=16, steps=2, batch=8, dim=4)
    train("raw", mine, protocol=protocol, out=tmp_path / "all", split="all-train", device="cpu")
    run("embed", tmp_path / "all", mine, "-o", tmp_path / "all.npz")
    with pytest.raises(ValueError, match=r"every item is marked train: .*`likewise train --split all-train` trains on all of them"):
        train("raw", tmp_path / "all.npz", out=tmp_path / "head")
    settings = {"steps": 2, "batch": 8}
    assert train("raw", tmp_path / "all.npz", settings=settings, out=tmp_path / "head", split="all-train", device="cpu").scores == {}


def test_training_and_comparing_say_how_to_arrange_classes(flat: Path, tmp_path: Path) -> None:
    for given in (flat, sorted(flat.iterdir())[0], f"images:{flat}"):
        for command in (
            ("train", "raw", given, "--out", tmp_path / "run"),
            ("compare", given, "--out", tmp_path / "run"),
            ("doctor", given),
        ):
            refused = CliRunner().invoke(app, list(map(str, command)))
            assert refused.exit_code == 2, refused.output
            said = " ".join(refused.stderr.split())
            assert "/CLASS/image.jpg" in said
            assert "`likewise embed` takes them as they are" in said
    assert not (tmp_path / "run").exists()


def test_a_name_of_weights_embeds_without_training(model: Path, flat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless there is a folder of that name."""
    asked: list[str] = []

    def pretrained(name: str, *, device: str) -> Embedder:
        asked.append(name)
        return Embedder.load(model, device=device)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Embedder, "pretrained", pretrained)
    run("embed", "efficientnet_lite0", flat, "-o", "out.npz")
    assert asked == ["efficientnet_lite0"]
    assert written(tmp_path / "out.npz")["embeddings"].shape == (3, 4)
    model.rename(tmp_path / "efficientnet_lite0")
    run("embed", "efficientnet_lite0", flat, "-o", "again.npz")
    assert len(asked) == 1


def test_levels_of_a_run(trained: tuple[Path, Path], tmp_path: Path) -> None:
    """Each combination as if it had been embedded alone, in one table with what it lacks beside all levels together."""
    folder, mine = trained
    protocol = replace(load_protocol("quick"), side=16, steps=2, batch=8, dim=4, ks=(1, 2))
    train("ranked_list_multilevel", mine, protocol=protocol, out=tmp_path / "levels", device="cpu")
    told = json.loads(run("evaluate", tmp_path / "levels", mine, "--levels", "all", "--json").stdout)
    assert [*told["levels"]] == ["low", "mid", "high", "low+mid", "low+high", "mid+high", "low+mid+high"]
    assert told["levels"]["low+mid+high"]["scores"] == told["scores"]
    for name, found in told["levels"].items():
        levels = name.replace("+", ",")
        run("embed", tmp_path / "levels", mine, "--levels", levels, "-o", tmp_path / "alone.npz")
        alone = json.loads(run("evaluate", tmp_path / "alone.npz", "--json").stdout)
        assert found["scores"] == pytest.approx(alone["scores"], abs=1e-6)
        assert found["dim"] == alone["dim"] == 4 * len(name.split("+"))
        assert json.loads(run("evaluate", tmp_path / "levels", mine, "--levels", levels, "--json").stdout)["scores"] == found["scores"]
    table = run("evaluate", tmp_path / "levels", mine, "--levels", "all").stdout
    rows = [line.split() for line in table.splitlines() if line.strip().startswith(("low", "mid", "high"))]
    assert [row[0] for row in rows] == [*told["levels"]]
    assert [row[2] for row in rows] == [f"{100 * found['scores']['R@1']:.1f}" for found in told["levels"].values()]
    for arguments in ((folder, "--levels", "all"), (tmp_path / "alone.npz", "--levels", "all")):
        refused = CliRunner().invoke(app, ["evaluate", *map(str, arguments)])
        assert refused.exit_code == 2
        assert "levels are scored of a run on DATA" in refused.stderr


def test_a_run_that_was_scored_by_distance_says_that_it_is_now_compared_otherwise(tmp_path: Path) -> None:
    data = "glyphs:classes=8,images=4,size=28"
    train("softmax", data, protocol="paper-nra-mnist", settings={"steps": 1, "batch": 8}, out=tmp_path / "run", device="cpu")
    told = run("evaluate", tmp_path / "run", data, "--ks", "1")
    assert "note: protocol paper-nra-mnist compares by distance, before rows are brought to length 1; here they have" in told.stderr
