"""Glyphs: deterministic, every class another picture, and faces that have the character."""

import numpy as np
import pytest

from likewise.data.dataset import Pixels
from likewise.data.readers import read
from likewise.data.readers.glyph_alphabet import ALIKE, ALPHABET, MIN_FACES, candidates, characters_of, choose, font_files, likeness
from likewise.data.splits import split


def pixels(spec: str) -> np.ndarray:
    items = read(spec).items
    assert isinstance(items, Pixels)
    return items.array


def test_the_seed_decides_every_bit() -> None:
    assert np.array_equal(pixels("glyphs:classes=6,images=3,seed=5"), pixels("glyphs:classes=6,images=3,seed=5"))
    assert not np.array_equal(pixels("glyphs:classes=6,images=3,seed=5"), pixels("glyphs:classes=6,images=3,seed=6"))


def test_more_classes_or_images_change_nothing_of_the_first() -> None:
    few = pixels("glyphs:classes=6,images=3").reshape(6, 3, 32, 32)
    many = pixels("glyphs:classes=9,images=5").reshape(9, 5, 32, 32)
    assert np.array_equal(few, many[:6, :3])
    small, large = read("glyphs:classes=6,images=3"), read("glyphs:classes=9,images=5")
    assert small.class_names == large.class_names[:6]
    assert small.parts is not None
    assert large.parts is not None
    assert small.parts[::3].tolist() == large.parts[::5][:6].tolist()


@pytest.mark.parametrize("size", [8, 32, 50])
def test_every_image_has_ink_of_its_own(size: int) -> None:
    images = pixels(f"glyphs:classes=8,images=10,size={size}")
    assert images.shape == (80, size, size)
    assert images.dtype == np.uint8
    assert images.std(axis=(1, 2)).min() > 8
    assert len({image.tobytes() for image in images}) == 80


def test_train_and_test_characters_are_disjoint_halves() -> None:
    dataset = read("glyphs:classes=10,images=2")
    found = split(dataset, seed=0)
    assert found.official
    assert (found.num_train_classes, found.num_test_classes, found.num_shared_classes) == (5, 5, 0)
    assert np.bincount(dataset.labels).tolist() == [2] * 10


def test_all_characters_can_be_drawn() -> None:
    dataset = read(f"glyphs:classes={len(ALPHABET)},images=1,size=12")
    assert len(set(dataset.class_names)) == len(ALPHABET) >= 600
    assert set(dataset.class_names) == set(ALPHABET)
    assert isinstance(dataset.items, Pixels)
    assert dataset.items.array.std(axis=(1, 2)).min() > 4


def test_many_faces_have_each_character() -> None:
    held = [characters_of(file) for file in font_files().values()]
    assert min(sum(ord(character) in codes for codes in held) for character in ALPHABET) >= MIN_FACES
    assert set(ALPHABET) <= set(candidates())


def test_no_two_characters_look_alike() -> None:
    alike = likeness(ALPHABET, faces=("DejaVuSans",), turns=(0, 20))
    np.fill_diagonal(alike, 0)
    assert alike.max() < ALIKE + 0.02  # the font library may change a little


def test_the_choice_drops_look_alikes() -> None:
    latin, greek, cyrillic = "A\u0391\u0410", "B\u0392\u0412", "oO0\u03bf\u043e"
    assert choose(latin + greek + "cC" + "g") == "ABcg"
    assert likeness(latin)[0, 1:].min() > 0.99
    assert len(choose(cyrillic)) <= 2  # a letter o; a zero may be narrower
    assert likeness("AB")[0, 1] < ALIKE


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("glyphs:classes=3", f"expected 4 to {len(ALPHABET)}"),
        ("glyphs:classes=100000", f"expected 4 to {len(ALPHABET)}"),
        ("glyphs:images=0", "at least 1"),
        ("glyphs:size=4", "8 to 512"),
    ],
)
def test_bounds(spec: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read(spec)
