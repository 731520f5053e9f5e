"""Vectors from numpy files."""

from pathlib import Path

import numpy as np
import pytest

from likewise.data.dataset import Features
from likewise.data.readers import read

from .pictures import write

VECTORS = np.arange(12, dtype=np.float64).reshape(4, 3)


@pytest.mark.parametrize("name", ["features", "embeddings"])
def test_an_archive(tmp_path: Path, name: str) -> None:
    np.savez(tmp_path / "f.npz", **{name: VECTORS}, labels=np.array([10, 9, 10, -1]), split=np.array(["train", "train", "test", "test"]))
    dataset = read(str(tmp_path / "f.npz"))
    assert isinstance(dataset.items, Features)
    assert dataset.items.array.dtype == np.float32
    assert np.array_equal(dataset.items.array, VECTORS)
    assert dataset.class_names == ("-1", "9", "10")
    assert dataset.labels.tolist() == [2, 1, 2, 0]
    assert dataset.parts is not None
    assert dataset.parts.tolist() == ["train", "train", "test", "test"]


def test_labels_as_text_are_kept(tmp_path: Path) -> None:
    np.savez(tmp_path / "f.npz", features=VECTORS, labels=np.array(["007", "ä b", "7", "007"]))
    dataset = read(str(tmp_path / "f.npz"))
    assert [dataset.class_names[label] for label in dataset.labels] == ["007", "ä b", "7", "007"]


@pytest.mark.parametrize("name", ["f.labels.npy", "f_labels.npy", "labels.npy", "f.labels.txt", "labels.txt"])
def test_labels_beside_the_vectors(tmp_path: Path, name: str) -> None:
    np.save(tmp_path / "f.npy", VECTORS)
    if name.endswith(".npy"):
        np.save(tmp_path / name, np.array([1, 0, 1, 0]))
    else:
        write(tmp_path / name, "1\n0\n1\n0\n")
    dataset = read(str(tmp_path / "f.npy"))
    assert dataset.class_names == ("0", "1")
    assert dataset.labels.tolist() == [1, 0, 1, 0]


def test_labels_of_another_name(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", VECTORS)
    with pytest.raises(ValueError, match="no labels lie beside it"):
        read(str(tmp_path / "f.npy"))
    write(tmp_path / "classes.txt", "a\nb\na\nb\n")
    assert read(str(tmp_path / "f.npy"), labels=str(tmp_path / "classes.txt")).class_names == ("a", "b")


def test_nothing_pickled_is_loaded(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (tmp_path / "sprung",))

    trap = np.array([Trap()] * 4, dtype=object)
    np.savez(tmp_path / "f.npz", features=VECTORS, labels=trap)
    np.save(tmp_path / "g.npy", trap)
    for name in ("f.npz", "g.npy"):
        with pytest.raises(ValueError, match="not a readable numpy"):
            read(str(tmp_path / name), labels=tmp_path / "g.npy")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": VECTORS}, "no array features or embeddings, it holds x"),
        ({"features": VECTORS}, "vectors without labels: to train and to score, every vector needs one"),
        ({"features": VECTORS[0], "labels": [1, 2, 3]}, r"shape \(items, dimensions\)"),
        ({"features": VECTORS, "labels": [1, 2, 3]}, r"4 vectors, but labels of shape \(3,\)"),
        ({"features": VECTORS, "labels": [0.5, 1, 2, 3]}, "whole numbers or text"),
        ({"features": VECTORS, "labels": [0, 0, 1, 1], "split": ["train"]}, "but split of shape"),
        ({"features": VECTORS * np.nan, "labels": [0, 0, 1, 1]}, "4 vectors hold NaN"),
        ({"features": VECTORS * 1e300, "labels": [0, 0, 1, 1]}, "what float32 cannot hold"),
    ],
)
def test_faults_are_named(tmp_path: Path, arrays: dict[str, object], words: str) -> None:
    np.savez(tmp_path / "f.npz", **{name: np.asarray(array) for name, array in arrays.items()})
    with pytest.raises(ValueError, match=words):
        read(str(tmp_path / "f.npz"))


def test_a_damaged_file(tmp_path: Path) -> None:
    for name in ("f.npz", "f.npy"):
        (tmp_path / name).write_bytes(b"damaged")
        with pytest.raises(ValueError, match="not a readable numpy"):
            read(str(tmp_path / name), labels=write(tmp_path / "l.txt", "a\n"))


def test_one_kind_named_as_the_other(tmp_path: Path) -> None:
    labels = write(tmp_path / "l.txt", "a\na\nb\nb\n")
    with (tmp_path / "f.npz").open("wb") as file:
        np.save(file, VECTORS)
    with (tmp_path / "f.npy").open("wb") as file:
        np.savez(file, features=VECTORS)
    with pytest.raises(ValueError, match=r"f\.npz is not a readable numpy archive \(it is a single array: name it \.npy\)"):
        read(str(tmp_path / "f.npz"), labels=labels)
    with pytest.raises(ValueError, match=r"f\.npy is not a readable numpy file \(it is an archive: name it \.npz\)"):
        read(str(tmp_path / "f.npy"), labels=labels)


@pytest.mark.parametrize("place", ["compressed bytes", "encrypted"])
def test_a_damaged_archive(tmp_path: Path, place: str) -> None:
    np.savez_compressed(tmp_path / "f.npz", features=np.tile(VECTORS, (50, 1)), labels=np.arange(200))
    data = bytearray((tmp_path / "f.npz").read_bytes())
    if place == "encrypted":
        directory = data.index(b"PK\x01\x02")
        data[6] |= 1  # of the first file's own header
        data[directory + 8] |= 1  # and of its entry in the directory
    else:
        data[60:80] = b"\xff" * 20
    (tmp_path / "f.npz").write_bytes(data)
    with pytest.raises(ValueError, match="not a readable numpy archive"):
        read(str(tmp_path / "f.npz"))
