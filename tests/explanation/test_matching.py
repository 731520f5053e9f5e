"""likewise.explain: the sum, regions and occlusion where it is known what matches, pictures and pages, and faults in words."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import spearmanr
from typer.testing import CliRunner

import likewise
from likewise.cli import app
from likewise.data.augmentation import Augmentation
from likewise.explanation.match_picture import ADDS, heat_layer
from likewise.explanation.region_pairs import ShownBox, best_pairs
from likewise.models import Embedder, NetworkSpec, Preprocessing, make_network

from .made_pairs import embedder, matching_pair, noise, of_textures


def test_the_parts_add_up_to_the_similarity_of_the_embedder() -> None:
    model, (a, b) = of_textures(pooling="gem"), matching_pair()
    found = likewise.explain(model, a, b)
    vectors = model.embed([a, b])
    assert found.similarity == pytest.approx(float(vectors[0] @ vectors[1]), abs=1e-5)
    assert sum(found.parts.values()) == pytest.approx(found.similarity, abs=1e-9)
    assert found.spread.sum() == pytest.approx(found.similarity, abs=1e-9)
    for image, axis, with_rest in ((found.a, 1, found.a_with_rest), (found.b, 0, found.b_with_rest)):
        assert image.heat.sum() == pytest.approx(found.similarity, abs=1e-9)
        alone = found.contributions.sum(axis=axis) + with_rest
        np.testing.assert_allclose(image.heat.ravel(), alone + image.rest / image.heat.size, atol=1e-12)
        np.testing.assert_allclose(image.heat.ravel(), found.spread.sum(axis=axis), atol=1e-12)
        assert abs(image.rest) > 1e-3


def inside(box: ShownBox, corner: str) -> bool:
    """Whether the middle of the box lies in that quarter of the image."""
    across, down = (box.left + box.right) / 2, (box.top + box.bottom) / 2
    return (across < 0.5, down < 0.5) == ("left" in corner, "top" in corner)


@pytest.mark.parametrize("pooling", ["avg", "max", "avg+max", "gem"])
def test_what_matches_is_found(pooling: str) -> None:
    """The texture that both images have: top left in the first, bottom right in the second. Covering it costs most, too."""
    found = likewise.explain(of_textures(pooling=pooling), *matching_pair(), occlusion=True)
    best = found.pairs[0]
    assert inside(best.a, "top left")
    assert inside(best.b, "bottom right")
    assert best.contribution > 2 * (found.pairs[1].contribution if len(found.pairs) > 1 else 0)
    for image, box in ((found.a, best.a), (found.b, best.b)):
        assert image.occlusion is not None
        row, column = np.unravel_index(int(image.occlusion.drops.argmax()), image.occlusion.drops.shape)
        assert (column < 3, row < 3) == (box.left < 0.5, box.top < 0.5)  # of 6 windows a side
        assert image.occlusion.drops.max() > 0.4
        assert image.occlusion.agreement is not None
        assert image.occlusion.agreement > 0.25


def test_occlusion_is_what_the_embedder_says_of_a_covered_image() -> None:
    model, (a, b) = embedder(), (noise(2), noise(3))
    found = likewise.explain(model, a, b, occlusion=True).a.occlusion
    assert found is not None
    assert found.drops.shape == (3, 3)  # windows of 2 of 4 places
    pixels = np.asarray(a).astype(np.float32)
    inputs = torch.from_numpy((pixels / 255 - 0.5) / 0.5).permute(2, 0, 1)[None]
    other = model.embed([b])[0]
    whole = float(model.embed(inputs)[0] @ other)
    for row, column in ((0, 0), (1, 2)):
        covered = inputs.clone()
        covered[0, :, 16 * row : 16 * row + 32, 16 * column : 16 * column + 32] = inputs[0].mean((1, 2))[:, None, None]
        assert found.drops[row, column] == pytest.approx(whole - float(model.embed(covered)[0] @ other), abs=1e-5)
    assert found.agreement == pytest.approx(spearmanr(found.drops.ravel(), found.parts.ravel()).statistic)


def test_regions_by_a_loop() -> None:
    rng = np.random.default_rng(0)
    grid_a, grid_b = (7, 5), (6, 8)
    contributions = rng.normal(size=(35, 48))
    found = best_pairs(contributions, grid_a, grid_b, 1)[0]
    four = contributions.reshape(*grid_a, *grid_b)
    windows = {
        (i, j, k, m): float(four[i : i + 2, j, k : k + 2, m : m + 2].sum())  # 7, 5, 6 and 8 places have windows of 2, 1, 2 and 2
        for i in range(6)
        for j in range(5)
        for k in range(5)
        for m in range(7)
    }
    i, j, k, m = max(windows, key=lambda key: windows[key])
    assert found.contribution == pytest.approx(windows[i, j, k, m])
    assert found.a == ShownBox(j / 5, i / 7, (j + 1) / 5, (i + 2) / 7)
    assert found.b == ShownBox(m / 8, k / 6, (m + 2) / 8, (k + 2) / 6)


def overlap(a: ShownBox, b: ShownBox) -> bool:
    return min(a.right, b.right) - max(a.left, b.left) > 1e-9 and min(a.bottom, b.bottom) - max(a.top, b.top) > 1e-9


def test_regions_do_not_overlap_and_add() -> None:
    rng = np.random.default_rng(1)
    pairs = best_pairs(rng.random((100, 100)), (10, 10), (10, 10), 5)
    assert len(pairs) == 5
    assert [pair.contribution for pair in pairs] == sorted((pair.contribution for pair in pairs), reverse=True)
    for number, pair in enumerate(pairs):
        assert not any(overlap(pair.a, other.a) or overlap(pair.b, other.b) for other in pairs[:number])
    assert best_pairs(-np.ones((16, 16)), (4, 4), (4, 4), 5) == ()


def test_images_are_shown_as_the_network_sees_them() -> None:
    """The centre of a wide image: what is left and right of it is cut off, and the proportions are kept."""
    wide = Image.new("RGB", (300, 100), "white")
    wide.paste((255, 0, 0), (100, 0, 200, 100))
    network = make_network(NetworkSpec("convnet_small", dim=4), seed=0)
    found = likewise.explain(Embedder(network, Preprocessing(32, Augmentation(32, "centre"))), wide, wide)
    shown = np.asarray(found.a.picture)
    assert abs(shown.shape[0] - shown.shape[1]) <= 1
    assert (shown[:, 4:-4] == (255, 0, 0)).all()
    squeezed = likewise.explain(Embedder(network, Preprocessing(32, Augmentation(32, "whole"))), wide, wide)
    assert squeezed.a.picture.width == 3 * squeezed.a.picture.height


def test_heat_is_transparent_where_nothing_is_added() -> None:
    layer = np.asarray(heat_layer(np.array([[0.0, 1.0], [0.0, 0.0]]), 1.0, (64, 64)))
    assert layer[60, 2, 3] < 8
    assert layer[5, 60, 3] > 150
    assert tuple(layer[5, 60, :3]) == tuple(ADDS)


def test_files(tmp_path: Path) -> None:
    found = likewise.explain(embedder(), *matching_pair(), occlusion=True)
    found.save(tmp_path / "match.PNG")
    with Image.open(tmp_path / "match.PNG") as picture:
        assert picture.format == "PNG"
    found.save(tmp_path / "match.html")
    page = (tmp_path / "match.html").read_text(encoding="utf-8")
    assert f"cosine similarity of {found.similarity:.3f}" in page
    assert page.count("aria-label") >= 6
    table = json.loads(json.dumps(found.as_table(), allow_nan=False))
    assert table["similarity"] == found.similarity
    assert np.array(table["a"]["heat"]).sum() == pytest.approx(found.similarity)
    assert table["pairs"][0]["share"] == pytest.approx(found.pairs[0].contribution / found.similarity)
    with pytest.raises(ValueError, match=r"match\.jpg: expected a file that ends in \.html or \.png"):
        found.save(tmp_path / "match.jpg")


def test_what_the_similarity_means() -> None:
    model = embedder()
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(40, 12))
    vectors = np.repeat(centres, 5, axis=0) + 0.3 * rng.normal(size=(200, 12))
    model.calibration = likewise.calibrate(vectors.astype(np.float32), np.repeat(np.arange(40), 5), false_accepts=0.1)
    a, b = noise(4), noise(5)
    same = likewise.explain(model, a, a)
    assert same.similarity == pytest.approx(1)
    assert same.meaning is not None
    assert f"from {model.calibration.same.value:.3f} on" in same.meaning
    assert "so these two pass for one class" in same.meaning
    strict = replace(model.calibration, same=replace(model.calibration.same, value=1.5))
    model.calibration = strict
    other = likewise.explain(model, a, b)
    assert other.meaning is not None
    assert "do not pass" in other.meaning


def test_notes_name_what_was_held() -> None:
    assert any("units that are on or off" in note for note in likewise.explain(embedder(head="mlp"), noise(0), noise(1)).notes)
    plain = likewise.explain(embedder(), noise(0), noise(1))
    assert not any("on or off" in note for note in plain.notes)
    several = likewise.explain(embedder(levels=("low", "high"), num_members=2), noise(0), noise(1))
    assert any("levels low, high of 2 members" in note for note in several.notes)


def test_images_of_different_sizes() -> None:
    """A network that takes images as they are: each has its own grid of places."""
    model = Embedder(embedder().network, Preprocessing(None, Augmentation(None, "whole")))
    found = likewise.explain(model, noise(0, 48, 64), noise(1, 96, 32))
    assert (found.a.grid, found.b.grid) == ((3, 4), (6, 2))
    assert sum(found.parts.values()) == pytest.approx(found.similarity, abs=1e-9)
    assert io.BytesIO(found.png()).getbuffer().nbytes > 1000


def test_faults(tmp_path: Path) -> None:
    vectors = Embedder(make_network(NetworkSpec("mlp", in_features=6, dim=4), seed=0), None)
    with pytest.raises(ValueError, match="this model takes vectors: expected one that takes images"):
        likewise.explain(vectors, noise(0), noise(1))
    with pytest.raises(ValueError, match="this model gives sign bits"):
        likewise.explain(embedder(binary=True), noise(0), noise(1))
    (tmp_path / "words.png").write_text("not an image")
    with pytest.raises(ValueError, match=r"words\.png cannot be embedded: not an image"):
        likewise.explain(embedder(), noise(0), tmp_path / "words.png")
    with pytest.raises(ValueError, match=r"nowhere\.png is not there: expected an image file"):
        likewise.explain(embedder(), tmp_path / "nowhere.png", noise(0))
    with pytest.raises(ValueError, match="neither a folder nor the name of weights"):
        likewise.explain(tmp_path / "model", noise(0), noise(1))


def test_the_command(tmp_path: Path) -> None:
    embedder().save(tmp_path / "model")
    paths = [tmp_path / "a.png", tmp_path / "b.png"]
    for path, image in zip(paths, matching_pair(), strict=True):
        image.save(path)
    arguments = ["explain", str(tmp_path / "model"), *map(str, paths), "-o", str(tmp_path / "match.html")]
    result = CliRunner().invoke(app, [*arguments, "--device", "cpu"])
    assert result.exit_code == 0, result.output
    assert "check by covering parts of an image" in result.stdout
    assert (tmp_path / "match.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    result = CliRunner().invoke(app, [*arguments, "--json", "--no-occlusion", "--pairs", "1", "--device", "cpu"])
    table = json.loads(result.stdout)
    assert len(table["pairs"]) == 1
    assert "occlusion" not in table["a"]
    wrong = CliRunner().invoke(app, [*arguments[:-1], str(tmp_path / "match.txt")])
    assert wrong.exit_code == 2
    assert "expected a file that ends in .html or .png" in wrong.stderr
