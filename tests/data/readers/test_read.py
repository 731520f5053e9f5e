"""Specs: names, options and paths."""

from pathlib import Path

import numpy as np
import pytest

from likewise.data.dataset import Dataset
from likewise.data.readers import READERS, read

from .pictures import draw, write


def test_a_name_with_options_is_the_call_with_options() -> None:
    named, called = read("glyphs:classes=4, images=2,size=16,seed=3"), read("glyphs", classes=4, images=2, size=16, seed=3)
    assert named.fingerprint() == called.fingerprint()
    assert named.fingerprint() != read("glyphs:classes=4,images=2,size=16,seed=4").fingerprint()


@pytest.mark.parametrize(
    ("spec", "options", "words"),
    [
        ("glyph", {}, "did you mean 'glyphs'"),
        ("glyph:classes=4", {}, "did you mean 'glyphs'"),
        ("imagenet", {}, r"^there is no file or folder 'imagenet' here, and no data set or reader of that name: did you mean 'images'"),
        ("zebra", {}, "no data set or reader of that name: known are cars, cub"),
        ("imagenet:/data", {}, "unknown reader 'imagenet'"),
        ("missing.jpg", {}, r"^there is no file or folder 'missing.jpg' here: check the path;"),
        ("glyphs:clases=4", {}, r"did you mean 'classes'.*options: classes, images, size, seed"),
        ("glyphs:zzz=4", {}, "classes, images, size, seed"),
        ("glyphs:classes=many", {}, "expected a whole number"),
        ("glyphs:classes=4.5", {}, "expected a whole number"),
        ("glyphs", {"classes": 4.5}, "expected a whole number"),
        ("glyphs", {"classes": True}, "expected a whole number"),
        ("glyphs:classes", {}, "expected option=value"),
        ("glyphs:classes=4,classes=5", {}, "given twice"),
        ("glyphs:classes=4", {"classes": 5}, "given twice"),
        ("digits:size=4", {}, "digits has no options"),
        ("cub", {}, "cub needs a path"),
        ("cub:", {}, "cub needs a path"),
        ("cub,strict=maybe:/nowhere", {}, "expected true or false"),
        ("/no/such/place", {}, "^there is no file or folder '/no/such/place': check the path;"),
        ("some.csv", {}, "there is no file or folder 'some.csv'"),
        ("C:/data", {}, "there is no file or folder 'C:/data'"),
    ],
)
def test_what_cannot_be_read_is_told(spec: str, options: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read(spec, **options)


@pytest.mark.parametrize("name", ["plain", "with space", "colon:inside", "equals=inside", "comma,inside", "a:b=c,d", "glyphs:x", "ünïcode"])
def test_a_path_of_any_name_is_a_path(tmp_path: Path, name: str) -> None:
    for label in "ab":
        draw(tmp_path / name / label / "1.png")
    assert read(str(tmp_path / name)).class_names == ("a", "b")
    assert read(f"folder:{tmp_path / name}").class_names == ("a", "b")
    assert read(tmp_path / name).class_names == ("a", "b")


def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    draw(tmp_path / "digits" / "a" / "1.png")
    draw(tmp_path / "cub" / "a" / "1.png")
    draw(tmp_path / "x:y" / "a" / "1.png")
    assert len(read("digits")) == 1797  # the reader goes before the folder
    assert len(read("./digits")) == 1
    assert len(read("x:y")) == 1
    with pytest.raises(ValueError, match=r"\./cub for the folder"):
        read("cub")


@pytest.mark.parametrize("spec", ["", " "])
def test_no_name_is_not_the_current_folder(spec: str) -> None:
    with pytest.raises(ValueError, match=r"expected a name or a path; write \. for the folder"):
        read(spec)


def test_options_before_a_path(tmp_path: Path) -> None:
    draw(tmp_path / "1.png")
    table = write(tmp_path / "t.csv", "path,species\n1.png,wren\n")
    assert read(f"table,label_column=species:{table}").class_names == ("wren",)
    assert read(str(table), label_column="species").class_names == ("wren",)
    with pytest.raises(ValueError, match="did you mean 'label_column'"):
        read(str(table), label_colum="species")


def test_a_file_of_no_known_kind(tmp_path: Path) -> None:
    file = write(tmp_path / "t.xlsx", "")
    with pytest.raises(ValueError, match="no known kind"):
        read(str(file))


def test_every_reader_has_words_and_typed_options() -> None:
    for name, reader in READERS.items():
        assert reader.about, name
        assert reader.options.keys() <= {
            *("classes", "images", "size", "seed", "strict", "boxes", "labels", "delimiter", "labelled"),
            *("path_column", "label_column", "split_column"),
        }, name
        assert reader.has_path == (reader.recognises is not None), name


@pytest.mark.parametrize("spec", ["digits", "glyphs:classes=4,images=2"])
def test_built_in_sets_are_sound(spec: str) -> None:
    dataset = read(spec)
    assert isinstance(dataset, Dataset)
    assert dataset.labels.dtype == np.int64
    assert set(dataset.labels.tolist()) == set(range(dataset.num_classes))
    assert dataset.items.array.dtype == np.uint8
    assert dataset.items.array.max() > 200
    assert dataset.fingerprint() == read(spec).fingerprint()


def test_digits_keep_their_levels() -> None:
    dataset = read("digits")
    assert dataset.num_classes == 10
    assert dataset.parts is None
    assert np.unique(dataset.items.array).size == 17
    assert dataset.items.array.max() == 255
