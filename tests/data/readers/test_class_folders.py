"""Folders of class folders."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from likewise.data.dataset import Files
from likewise.data.readers import read

from .pictures import draw, write


def paths(dataset: object) -> list[Path]:
    items = dataset.items  # type: ignore[attr-defined]
    assert isinstance(items, Files)
    return list(items.paths)


def test_classes_of_any_depth_sorted(tmp_path: Path) -> None:
    for name in ("b/2.PNG", "b/10.jpg", "a/x/1.webp", "a/y/1.bmp", "a/0.gif"):
        draw(tmp_path / name)
    write(tmp_path / "b" / "notes.txt", "no image")
    draw(tmp_path / "b" / ".hidden.png")
    draw(tmp_path / ".thumbs" / "c" / "1.png")
    dataset = read(str(tmp_path))
    assert dataset.class_names == ("a", "a/x", "a/y", "b")
    assert [path.relative_to(tmp_path).as_posix() for path in paths(dataset)] == [
        "a/0.gif",
        "a/x/1.webp",
        "a/y/1.bmp",
        "b/10.jpg",
        "b/2.PNG",
    ]
    assert dataset.labels.tolist() == [0, 1, 2, 3, 3]
    assert dataset.parts is None
    assert dataset.notes == ()


def test_the_order_of_the_disk_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a/1.png", "a/2.png", "b/1.png", "c/d/1.png"):
        draw(tmp_path / name)
    before = read(str(tmp_path))
    scandir = os.scandir

    class Backwards:
        def __init__(self, path: object) -> None:
            with scandir(path) as entries:
                self.entries = iter(sorted(entries, key=lambda entry: entry.name, reverse=True))

        def __enter__(self) -> "Backwards":
            return self

        def __exit__(self, *fault: object) -> None: ...

        def __iter__(self) -> "Backwards":
            return self

        def __next__(self) -> object:
            return next(self.entries)

        def close(self) -> None: ...

    monkeypatch.setattr(os, "scandir", Backwards)
    after = read(str(tmp_path))
    assert paths(after) == paths(before)
    assert after.fingerprint() == before.fingerprint()


def test_odd_labels_are_kept(tmp_path: Path) -> None:
    names = ["007", "a b", "ä,ö;\"'", "x=y:z", "日本", "-", "1e3", "new\nline"]
    for name in names:
        draw(tmp_path / name / "1.png")
    dataset = read(str(tmp_path))
    assert set(dataset.class_names) == set(names)
    assert len(dataset.fingerprint()) == 64


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    draw(tmp_path / "a" / "1.png")
    os.rename(tmp_path / "a" / "1.png", os.fsencode(tmp_path / "a") + b"/\xff.png")
    dataset = read(str(tmp_path))
    assert len(dataset) == 1
    assert len(dataset.fingerprint()) == 64


def test_train_and_test_folders_are_the_split(tmp_path: Path) -> None:
    for name in ("Train/cat/1.png", "Train/cat/2.png", "test/dog/old/1.png"):
        draw(tmp_path / name)
    dataset = read(str(tmp_path))
    assert dataset.class_names == ("cat", "dog/old")
    assert dataset.parts is not None
    assert dataset.parts.tolist() == ["train", "train", "test"]


@pytest.mark.parametrize(
    ("tops", "expected"),
    [
        (("train", "val"), {"train": "train", "val": "test"}),
        (("train", "val", "test"), {"train": "train", "val": "train", "test": "test"}),
        (("train", "query", "gallery"), {"train": "train", "query": "query", "gallery": "gallery"}),
        (("train", "test", "birds"), None),
        (("train",), None),
        (("query", "gallery"), None),
    ],
)
def test_which_folders_are_parts(tmp_path: Path, tops: tuple[str, ...], expected: dict[str, str] | None) -> None:
    for top in tops:
        draw(tmp_path / top / "wren" / "1.png")
    dataset = read(str(tmp_path))
    if expected is None:
        assert dataset.parts is None
        assert set(dataset.class_names) == {f"{top}/wren" for top in tops}
    else:
        assert dataset.parts is not None
        found = {path.relative_to(tmp_path).parts[0]: part for path, part in zip(paths(dataset), dataset.parts.tolist(), strict=True)}
        assert found == expected
        assert any("validation" in note for note in dataset.notes) == (len(tops) == 3 and "val" in tops)


def test_links_are_followed_once(tmp_path: Path) -> None:
    draw(tmp_path / "data" / "a" / "1.png")
    draw(tmp_path / "elsewhere" / "1.png")
    (tmp_path / "data" / "b").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "data" / "a" / "up").symlink_to(tmp_path / "data")
    assert read(str(tmp_path / "data")).class_names == ("a", "b")


def test_one_class_is_read_with_a_note(tmp_path: Path) -> None:
    draw(tmp_path / "wren" / "1.png")
    assert "one class, 'wren'" in read(str(tmp_path)).notes[0]


def test_images_without_a_class(tmp_path: Path) -> None:
    draw(tmp_path / "1.png")
    with pytest.raises(ValueError, match="they have no class"):
        read(str(tmp_path))
    draw(tmp_path / "a" / "1.png")
    draw(tmp_path / "b" / "1.png")
    dataset = read(str(tmp_path))
    assert len(dataset) == 2
    assert "1 images lie directly" in dataset.notes[0]
    with pytest.raises(ValueError, match="move them into class folders"):
        read(str(tmp_path), strict=True)


def test_no_images(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    write(tmp_path / "a" / "data.h5", "")  # Pillow knows the name only
    with pytest.raises(ValueError, match="holds no images"):
        read(str(tmp_path))
    with pytest.raises(ValueError, match="is a file"):
        read(f"folder:{write(tmp_path / 'x.txt', '')}")


def test_an_unreadable_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw(tmp_path / "a" / "1.png")
    draw(tmp_path / "secret" / "1.png")
    scandir = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("secret"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(ValueError, match=r"secret cannot be read \(Permission denied\)"):
        read(str(tmp_path))


def test_a_root_that_cannot_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw(tmp_path / "a" / "1.png")

    def refuse(path: str) -> list[str]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "listdir", refuse)
    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(ValueError, match=rf"{tmp_path.name} cannot be read \(Permission denied\)"):
        read(str(tmp_path))


def test_every_extension_it_takes_pillow_can_open(tmp_path: Path) -> None:
    from likewise.data.readers.class_folders import image_extensions

    assert {".jpg", ".jpeg", ".png", ".webp", ".tif", ".bmp", ".gif"} <= image_extensions()
    assert not {".pdf", ".h5", ".mpg", ".txt"} & image_extensions()
    assert all(Image.registered_extensions()[extension] in Image.OPEN for extension in image_extensions())


def test_labels_follow_the_files(tmp_path: Path) -> None:
    for i in range(30):
        draw(tmp_path / f"class {i % 7}" / f"{i}.png")
    dataset = read(str(tmp_path))
    for path, label in zip(paths(dataset), dataset.labels, strict=True):
        assert path.parent.name == dataset.class_names[label]
    assert np.bincount(dataset.labels).tolist() == [5, 5, 4, 4, 4, 4, 4]
