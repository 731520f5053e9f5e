"""Duplicates: found where they are, and only there."""

from __future__ import annotations

import io
from itertools import combinations

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from likewise.data.doctor import duplicates
from likewise.data.doctor.duplicates import (
    SIDE,
    DuplicateGroup,
    Thumbnails,
    close_hashes,
    find_duplicates,
    near_pairs,
    perceptual_hashes,
    tied_together,
)


def scene(seed: int, size: tuple[int, int] = (120, 90)) -> Image.Image:
    """A picture with large and small shapes, as photographs have."""
    generator = np.random.default_rng(seed)
    picture = np.zeros((size[1], size[0], 3))
    for scale in (4, 8, 16):
        noise = Image.fromarray((255 * generator.random((scale, scale, 3))).astype(np.uint8)).resize(size, Image.Resampling.BICUBIC)
        picture += np.asarray(noise) / scale
    return Image.fromarray((255 * (picture - picture.min()) / np.ptp(picture)).astype(np.uint8))


def thumbnail(picture: Image.Image) -> Thumbnails:
    return np.asarray(picture.convert("L").resize((SIDE, SIDE), Image.Resampling.BOX))


def jpeg(picture: Image.Image, quality: int) -> Image.Image:
    data = io.BytesIO()
    picture.save(data, format="JPEG", quality=quality)
    return Image.open(data)


CHANGES = {
    "jpeg": lambda picture: jpeg(picture, 40),
    "half": lambda picture: picture.resize((picture.width // 2, picture.height // 2)),
    "contrast": lambda picture: ImageEnhance.Contrast(picture).enhance(0.7),
    "grey": lambda picture: picture.convert("L"),
    "colour": lambda picture: ImageEnhance.Color(picture).enhance(1.5),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_copies_are_near(change: str) -> None:
    originals = [scene(seed) for seed in range(30)]
    thumbnails = np.stack([thumbnail(picture) for picture in originals + [CHANGES[change](picture) for picture in originals]])
    assert [(a, b) for a, b, _ in near_pairs(thumbnails)] == [(i, i + 30) for i in range(30)]


def test_close_hashes_are_those_of_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bands and buckets against a comparison of all pairs: each pair of at most 6 different bits, once."""
    generator = np.random.default_rng(0)
    bits = generator.random((25, 63)) < 0.5
    copies = np.repeat(bits, 12, axis=0)
    for row in copies:
        row[generator.choice(63, size=generator.integers(0, 9), replace=False)] ^= True
    copies = generator.permutation(copies)
    distance = (copies[:, None] != copies[None]).sum(axis=2)
    expected = [(a, b) for a, b in combinations(range(len(copies)), 2) if distance[a, b] <= 6]
    assert {distance[a, b] for a, b in expected} == set(range(7))
    for block in (duplicates.BLOCK, 40):
        monkeypatch.setattr(duplicates, "BLOCK", block)
        found = [(int(a), int(b)) for firsts, seconds in close_hashes(copies) for a, b in zip(firsts, seconds, strict=True)]
        assert sorted(found) == expected


def test_hashes_are_signs_of_cosine_frequencies() -> None:
    from scipy.fft import dctn

    thumbnails = np.stack([thumbnail(scene(seed)) for seed in range(20)])
    waves = dctn(thumbnails.astype(float), axes=(1, 2), norm="ortho")[:, :8, :8].reshape(20, 64)[:, 1:]
    assert (perceptual_hashes(thumbnails) == (waves > np.median(waves, axis=1, keepdims=True))).mean() > 0.999  # but for rounding
    assert perceptual_hashes(thumbnails).sum(axis=1).tolist() == [31] * 20


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = [thumbnail(scene(seed)) for seed in range(8)]
    thumbnails = np.stack(pictures * 6)
    whole = near_pairs(thumbnails)
    assert len(whole) == 8 * 15
    monkeypatch.setattr(duplicates, "BLOCK", SIDE**2)
    assert near_pairs(thumbnails) == whole
    monkeypatch.setattr(duplicates, "BLOCK", 2 * SIDE**2)
    assert near_pairs(thumbnails) == whole


def test_different_pictures_are_not_near() -> None:
    assert near_pairs(np.stack([thumbnail(scene(seed)) for seed in range(300)])) == []


def test_small_pictures_must_be_more_alike() -> None:
    picture, another = thumbnail(scene(0)).astype(float), thumbnail(scene(5)).astype(float)
    mixes = [(1 - share) * picture + share * another for share in np.linspace(0, 0.3, 100)]
    correlations = np.array([np.corrcoef(picture.ravel(), mix.ravel())[0, 1] for mix in mixes])
    thumbnails = np.stack([picture, mixes[np.argmin(abs(correlations - 0.9925))]]).astype(np.uint8)
    assert len(near_pairs(thumbnails)) == 1
    for is_small in ([True, True], [True, False]):
        assert near_pairs(thumbnails, np.array(is_small)) == []


def test_what_is_merely_similar_is_not_near() -> None:
    picture, another = thumbnail(scene(0)).astype(float), thumbnail(scene(5)).astype(float)
    mixes = np.stack([(1 - share) * picture + share * another for share in np.linspace(0, 0.4, 200)])
    correlations = np.array([np.corrcoef(picture.ravel(), mix.ravel())[0, 1] for mix in mixes])
    bits = perceptual_hashes(mixes.astype(np.uint8))
    similar = (correlations < 0.989) & ((bits != bits[0]).sum(axis=1) <= 6)
    assert similar.any()  # close hashes alone would do
    for mix in mixes[similar].astype(np.uint8):
        assert near_pairs(np.stack([picture.astype(np.uint8), mix])) == []


def test_items_are_tied_together_by_any_chain() -> None:
    pairs = [(0, 3, 0.999), (1, 2, 0.998), (2, 3, 0.995), (5, 6, 0.997), (4, 5, 1.0)]
    assert sorted(tied_together(pairs)) == [((0, 1, 2, 3), 0.995), ((4, 5, 6), 0.997)]


def test_blank_pictures_are_near_to_nothing() -> None:
    blank = np.full((4, SIDE, SIDE), 200, np.uint8)
    blank[1:3, 3, 4] = 201  # the same speck twice: it correlates by 1
    assert near_pairs(np.concatenate([blank, thumbnail(scene(1))[None]])) == []
    assert near_pairs(blank[:0]) == []


def test_groups_are_told_once() -> None:
    """Same bytes, then same pixels, then near: of a group only the first goes on."""
    a, b = thumbnail(scene(1)), thumbnail(scene(2))
    near = thumbnail(jpeg(scene(1), 30))
    thumbnails = np.stack([a, b, a, a, near, near, b])
    files = ["a", "b", "a", "a as png", "near", "near 2", "broken"]
    pixels = ["a", "b", "a", "a", "near", "near 2", "broken"]
    found = find_duplicates(files, pixels, thumbnails, [0, 1, 2, 3, 4, 5])  # 6 is not to be looked at
    assert [(group.kind, group.items) for group in found] == [("file", (0, 2)), ("pixels", (0, 3)), ("near", (0, 4, 5))]
    assert found[0].correlation == 1
    assert 0.99 <= found[2].correlation < 1
    assert find_duplicates(None, pixels, None, range(7)) == [DuplicateGroup("pixels", (0, 2, 3))]
