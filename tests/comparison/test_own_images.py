"""`likewise compare FOLDER`: one's own images need no configuration, and what is wrong with them is told."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from PIL import Image
from typer.testing import CliRunner

from likewise.cli import app

SHORT = ("--methods", "contrastive", "--seeds", "1", "--jobs", "1", "--device", "cpu", "--set", "steps=2", "--set", "batch=8")


@pytest.fixture(autouse=True, scope="module")
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LIKEWISE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def folder_of_images(folder: Path, sizes: dict[str, int]) -> Path:
    """A folder for each class, with so many images that no two are alike."""
    random = np.random.default_rng(0)
    folder.mkdir()
    for name, number in sizes.items():
        (folder / name).mkdir(parents=True)
        for index in range(number):
            Image.fromarray(random.integers(0, 255, (20, 24, 3), dtype=np.uint8)).save(folder / name / f"{index}.png")
    return folder


def compared(images: Path, out: Path) -> Result:
    return CliRunner().invoke(app, ["compare", str(images), *SHORT, "--out", str(out)])


@pytest.fixture(scope="module")
def done_and_out(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """A comparison on images of which some are broken and some the only ones of their class."""
    folder = tmp_path_factory.mktemp("own_images")
    images = folder_of_images(folder / "images", {**{f"class {i}": 4 for i in range(8)}, **{f"lonely {i}": 1 for i in range(6)}})
    for number in range(8):
        (images / f"class {number}" / "broken.jpg").write_bytes(b"no image at all")
    return compared(images, folder / "out"), folder / "out"


def test_broken_and_lonely_images_are_noted(done_and_out: tuple[Result, Path]) -> None:
    """In the terminal and in the report; the protocol is chosen without being asked for."""
    done, out = done_and_out
    assert done.exit_code == 0, done.output
    page = (out / "report.html").read_text()
    assert "<h1>images under folder</h1>" in page
    said = " ".join(done.output.split())
    for words in ("could not be decoded and were left out", "have nothing of their class to find and are left out of the means"):
        assert words in said
        assert words in page


def test_names_of_any_kind(tmp_path: Path) -> None:
    """They are words and do nothing: in paths, in the terminal, in the report."""
    names = ["<script>alert(1)", "Żółw błotny", "two  spaces", "[bold red]markup[/]", "日本", "a|b", "100% $x_1$", "-dash", "'quote\""]
    images = folder_of_images(tmp_path / "im ages [red] é", dict.fromkeys(names, 4))
    done = compared(images, tmp_path / "out put")
    assert done.exit_code == 0, done.output
    assert "im ages [red] é" in done.output
    assert f"likewise embed '{tmp_path}/out put/best'" in done.output
    page = (tmp_path / "out put" / "report.html").read_text()
    assert escape("im ages [red] é under folder") in page
    assert "<script>alert(1)" not in page


def test_the_best_network_embeds_other_images(tmp_path: Path, done_and_out: tuple[Result, Path]) -> None:
    images = folder_of_images(tmp_path / "images", {f"class {i}": 4 for i in range(8)})
    done = CliRunner().invoke(app, ["embed", str(done_and_out[1] / "best"), str(images), "--out", str(tmp_path / "vectors.npz")])
    assert done.exit_code == 0, done.output
    with np.load(tmp_path / "vectors.npz") as held:
        assert held["embeddings"].shape == (32, 128)


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({}, "holds no images: expected"),
        ({"only": 9}, "has 1 class: a class-disjoint split needs at least 4"),
        ({"a": 5, "b": 5}, "has 2 classes: a class-disjoint split needs at least 4"),
        ({f"lonely {i}": 1 for i in range(8)}, "every training class has a single item"),
        ({**dict.fromkeys("abcd", 1), "e": 4}, "has another one of its class to find, so no method could be scored"),
    ],
)
def test_a_folder_that_cannot_be_compared_on(tmp_path: Path, sizes: dict[str, int], said: str) -> None:
    done = compared(folder_of_images(tmp_path / "images", sizes), tmp_path / "out")
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())
    assert "Traceback" not in done.output
    assert not (tmp_path / "out").exists()


def test_fewer_classes_than_a_batch_has(tmp_path: Path) -> None:
    """Two training classes: a batch has more images of each, and the report is there."""
    images = folder_of_images(tmp_path / "images", dict.fromkeys("abcd", 8))
    done = compared(images, tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out" / "report.html").is_file()


def test_what_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "notes.pdf").write_text("no images")
    for path in (tmp_path / "notes.pdf", tmp_path / "nowhere"):
        done = compared(path, tmp_path / "out")
        assert done.exit_code == 2
        assert str(path) in "".join(done.output.split("\n"))
        assert "expected" in done.output
