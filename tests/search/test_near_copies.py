"""likewise duplicates: planted copies are found, and only these, in blocks as by a loop over all pairs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import likewise
from likewise.cli import app
from likewise.search.grouping import near_copies
from likewise.search.grouping.contact_pages import MOST_IMAGES, copies_page
from likewise.search.grouping.near_copies import find_copies, light_copy, near_pairs_in_blocks
from likewise.search.index import Index

from .pictures import small_embedder


def patches(path: Path, seed: int) -> Path:
    """Smooth patches of colour, another picture for every seed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    colours = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    Image.fromarray(colours).resize((120, 120), Image.Resampling.BICUBIC).save(path)
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Twelve images of three classes; copies: a file in its class and one in another, a JPEG, and a trimmed JPEG in another class."""
    root = tmp_path / "photos"
    for number in range(12):
        patches(root / f"class {number // 4}" / f"{number % 4}.png", number)
    shutil.copy(root / "class 0" / "0.png", root / "class 0" / "again.png")
    shutil.copy(root / "class 0" / "1.png", root / "class 2" / "astray.png")
    with Image.open(root / "class 1" / "2.png") as image:
        image.save(root / "class 1" / "saved.jpg", quality=90)
    with Image.open(root / "class 2" / "3.png") as image:
        light_copy(image).save(root / "class 0" / "trimmed.jpg", quality=95)
    return root


@pytest.fixture
def index(photos: Path, tmp_path: Path) -> Iterator[Index]:
    """Under whitened vectors: an untrained network finds all images alike."""
    plain = small_embedder(head="none")
    others = [patches(tmp_path / "others" / f"{seed}.png", seed) for seed in range(100, 180)]
    built = Index.build(plain.with_whitening(likewise.whiten(plain.embed(others), dim=24)), photos, out=tmp_path / "index")
    yield built
    built.close()


def named(groups: tuple[near_copies.CopyGroup, ...]) -> dict[frozenset[str], str]:
    return {frozenset(Path(image.path).name for image in group.images): group.kind for group in groups}


PLANTED = {
    frozenset({"0.png", "again.png"}): "file",
    frozenset({"1.png", "astray.png"}): "file",
    frozenset({"2.png", "saved.jpg"}): "near",
    frozenset({"3.png", "trimmed.jpg"}): "near",
}


def test_planted_copies_are_found(index: Index) -> None:
    copies = index.duplicates()
    assert named(copies.groups) == PLANTED
    assert (copies.num_images, copies.num_spare) == (16, 4)
    assert [group.is_across_classes for group in copies.groups] == [True, True, False, False]
    assert {group.labels for group in copies.groups if group.is_across_classes} == {("class 0", "class 2")}
    assert "measured with 16 images" in copies.notes[0]
    for group in copies.groups:
        assert all(image.similarity >= copies.threshold for image in group.images)
        assert group.similarity == pytest.approx(1.0, abs=1e-3) if group.kind == "file" else group.similarity < 0.9999


def test_one_file_is_one_file_whatever_its_vectors(index: Index, photos: Path) -> None:
    again = index.store.items([index.store.find([str(photos / "class 0" / "again.png")]).popitem()[1]])  # type: ignore[attr-defined]
    index.store.add(again, -index.embed([again[0].path]))
    assert named(index.duplicates(0.97).groups) == PLANTED


def test_the_threshold_is_what_light_copies_reach(index: Index) -> None:
    paths = [item.path for item in index.store.items(index.store.ids().tolist())]
    similarities = []
    for path in paths:
        with Image.open(path) as image:
            upright = image.convert("RGB")
        vectors = index.embed([upright, light_copy(upright)])
        similarities.append(float(vectors[0] @ vectors[1]))
    copies = index.duplicates()
    assert copies.threshold == pytest.approx(sorted(similarities)[0], abs=2e-3)  # the lowest of 16 is what 95 % reach at least
    for path in paths:
        patches(Path(path), 99)  # other images
    without = index.duplicates()
    assert without.threshold == near_copies.WITHOUT_FILES
    assert "no image's file is there as it was" in without.notes[0]


def test_a_similarity_and_conditions(index: Index) -> None:
    assert set(named(find_copies(index, similarity=0.9999).groups).values()) == {"file"}
    only = find_copies(index, where="label=class 0")
    assert named(only.groups) == {frozenset({"0.png", "again.png"}): "file"}
    assert find_copies(index, similarity=0.5, where="label=nothing").groups == ()
    for wrong in (0.0, 1.1, -0.5):
        with pytest.raises(ValueError, match="expected a number above 0 and up to 1"):
            find_copies(index, similarity=wrong)


@pytest.mark.parametrize("threshold", [0.2, 0.6, 0.9])
def test_blocks_find_what_a_loop_finds(index: Index, threshold: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_copies, "BLOCK", 5)
    monkeypatch.setattr(near_copies, "TILE", 2)
    ids = index.store.ids()
    vectors = index.store.vectors(ids.tolist()).astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = {(i, j) for i in range(len(ids)) for j in range(i + 1, len(ids)) if vectors[i] @ vectors[j] >= threshold}
    found = [pair for first, second in near_pairs_in_blocks(index.store, ids, threshold) for pair in zip(first, second, strict=True)]
    assert len(found) == len(set(found))
    assert set(found) == expected
    assert named(find_copies(index, similarity=threshold).groups).keys() == tied_by_loop(index, ids, expected)


def tied_by_loop(index: Index, ids: np.ndarray, pairs: set[tuple[int, int]]) -> set[frozenset[str]]:
    """Neighbours of neighbours, files with one digest among them."""
    items = index.store.items(ids.tolist())
    pairs = pairs | {(i, j) for i in range(len(ids)) for j in range(i + 1, len(ids)) if items[i].digest == items[j].digest}
    groups = [{i} for i in range(len(ids))]
    for i, j in pairs:
        one = next(group for group in groups if i in group)
        other = next(group for group in groups if j in group)
        if one is not other:
            groups.remove(other)
            one |= other
    return {frozenset(Path(items[i].path).name for i in group) for group in groups if len(group) > 1}


def test_many_images_meet_their_nearest_only(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_copies, "MOST_COMPARED", 5)
    copies = index.duplicates()
    assert named(copies.groups) == PLANTED
    assert "each was compared with its 32 nearest only" in copies.notes[-1]


def test_the_page(index: Index, photos: Path) -> None:
    copies = index.duplicates()
    page = copies_page("Copies", copies, most=100)
    assert page.count("<img ") == 8
    assert page.count("in different classes: class 0 and class 2") == 2
    assert "of them shown" not in page
    (photos / "class 0" / "again.png").unlink()
    short = copies_page("Copies", copies, most=3)
    assert "The first 3 of 4 groups are shown" in short
    assert "the file is gone" in short
    for number in range(MOST_IMAGES + 3):
        shutil.copy(photos / "class 1" / "0.png", photos / "class 1" / f"more {number}.png")
    index.add(photos)
    many = copies_page("Copies", index.duplicates(), most=100)
    assert f"{MOST_IMAGES + 4} images: the same file, {MOST_IMAGES} of them shown" in many


def test_the_command(index: Index, tmp_path: Path) -> None:
    page = tmp_path / "copies.html"
    result = CliRunner().invoke(app, ["duplicates", str(index.folder), "--html", str(page), "--device", "cpu"])
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    assert "4 groups of copies among 16 images: 2 are one file and 2 are nearly one picture; 4 images could go" in words
    assert "in 2 groups copies lie in different classes" in words
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    result = CliRunner().invoke(app, ["duplicates", str(index.folder), "--json", "--similarity", "0.97", "--where", "label!=class 1"])
    told = json.loads(result.stdout)
    assert (told["images"], told["threshold"], told["where"]) == (11, 0.97, ["label!=class 1"])
    assert told["groups"][0]["across_classes"] is True
    assert set(told["groups"][0]["images"][0]) == {"id", "path", "label", "similarity"}
    wrong = CliRunner().invoke(app, ["duplicates", str(tmp_path / "nowhere")])
    assert wrong.exit_code == 2
