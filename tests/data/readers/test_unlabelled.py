"""Images and vectors without classes: read to be embedded, refused where classes are needed."""

import re
from pathlib import Path

import numpy as np
import pytest

from likewise.data.dataset import Dataset, Features, Files
from likewise.data.doctor import diagnose_dataset
from likewise.data.readers import read, read_to_embed
from likewise.data.splits import all_train, folds, split

from .pictures import draw, write


def names(dataset: Dataset) -> dict[str, str]:
    """File name -> class, empty where it is not known."""
    assert isinstance(dataset.items, Files)
    return dict(zip((path.name for path in dataset.items.paths), dataset.label_names().tolist(), strict=True))


def test_one_file(tmp_path: Path) -> None:
    dataset = read(draw(tmp_path / "a photo.JPG"), labelled=False)
    assert (names(dataset), dataset.name, dataset.class_names) == ({"a photo.JPG": ""}, "a photo.JPG", ())
    assert dataset.labels.tolist() == [-1]


def test_a_flat_folder(tmp_path: Path) -> None:
    for name in ("b.png", "a.png"):
        draw(tmp_path / name)
    write(tmp_path / "notes.md", "")
    assert list(names(read(tmp_path, labelled=False)).items()) == [("a.png", ""), ("b.png", "")]


def test_folders_are_classes_unless_asked_otherwise(tmp_path: Path) -> None:
    """Loose images stay, without a class; `images:` takes no folder for a class."""
    for name in ("2024/1.png", "2025/2.png", "3.png"):
        draw(tmp_path / name)
    assert names(read(tmp_path, labelled=False)) == {"1.png": "2024", "2.png": "2025", "3.png": ""}
    assert set(names(read(f"images:{tmp_path}", labelled=False)).values()) == {""}
    assert names(read(tmp_path)).keys() == {"1.png", "2.png"}


def test_the_labelled_part_is_the_data_set_as_training_reads_it(tmp_path: Path) -> None:
    """So that it is known which images a run was trained on, whatever lies beside them; in parts of their own, too."""
    for root in ("drawn", "parted"):
        for part in ("",) if root == "drawn" else ("train", "test"):
            for name in ("x/1.png", "y/2.png", "a/3.png"):
                draw(tmp_path / root / part / name)
        draw(tmp_path / root / "loose.png")
        whole, trained = read(tmp_path / root, labelled=False), read(tmp_path / root)
        assert len(whole) == len(trained) + 1
        assert whole.subset(np.flatnonzero(whole.is_labelled)).fingerprint() == trained.fingerprint()


def test_a_list_of_paths(tmp_path: Path) -> None:
    draw(tmp_path / "img" / "1.png")
    absolute = draw(tmp_path / "elsewhere" / "2.png")
    listed = write(tmp_path / "list.txt", f"\ufeffimg/1.png\n\n  {absolute}  \nimg/gone.png\n")
    dataset = read(listed, labelled=False)
    assert list(names(dataset)) == ["1.png", "2.png"]
    assert dataset.notes == (f"1 of 3 listed images are missing, first {tmp_path / 'img' / 'gone.png'}; they are left out",)
    with pytest.raises(ValueError, match="restore them"):
        read(listed, labelled=False, strict=True)
    with pytest.raises(ValueError, match="holds no images"):
        read(write(tmp_path / "empty.txt", "\n"), labelled=False)
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="expected the path of an image a line"):
        read(tmp_path / "bytes.txt", labelled=False)


def test_a_column_of_a_table(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        draw(tmp_path / f"{number}.png")
    assert names(read(write(tmp_path / "t.csv", "path,label\n1.png,wren\n2.png,\n3.png,kite\n"), labelled=False)) == {
        "1.png": "wren",
        "2.png": "",
        "3.png": "kite",
    }
    only = write(tmp_path / "u.csv", "file\n1.png\n2.png\n")
    assert names(read(f"table,path_column=file:{only}", labelled=False)) == {"1.png": "", "2.png": ""}
    with pytest.raises(ValueError, match="no column 'path', it has file"):
        read(only, labelled=False)


@pytest.mark.parametrize("suffix", [".npz", ".npy"])
def test_vectors(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"v{suffix}"
    rows = np.eye(3, dtype=np.float32)
    np.savez(file, features=rows) if suffix == ".npz" else np.save(file, rows)
    dataset = read(file, labelled=False)
    assert isinstance(dataset.items, Features)
    assert np.array_equal(dataset.items.array, rows)
    assert dataset.labels.tolist() == [-1] * 3
    with pytest.raises(ValueError, match="labels"):
        read(file)


def test_several_specs_in_their_order(tmp_path: Path) -> None:
    files = [draw(tmp_path / f"{number}.png") for number in (3, 1, 2)]
    draw(tmp_path / "classes" / "a" / "x.png")
    datasets = read_to_embed([str(files[0]), files[1], str(tmp_path / "classes"), str(files[2]), "glyphs:classes=4,images=2"])
    assert [dataset.name for dataset in datasets] == ["2 images", "classes", "2.png", "glyphs"]
    assert [list(names(dataset)) for dataset in datasets[:3]] == [["3.png", "1.png"], ["x.png"], ["2.png"]]
    assert [dataset.num_classes for dataset in datasets] == [0, 1, 0, 4]
    with pytest.raises(ValueError, match="nothing to embed"):
        read_to_embed([])
    with pytest.raises(ValueError, match="is not there"):
        read_to_embed([files[0], tmp_path / "gone.png"])


def test_what_needs_classes_refuses_what_has_none(tmp_path: Path) -> None:
    """By name, with how to arrange them: the readers, and whatever takes a Dataset of one's own making."""
    file = draw(tmp_path / "photo.png")
    with pytest.raises(ValueError, match=r"photo\.png has no classes, .* expected a folder of class folders"):
        read(file)
    with pytest.raises(ValueError, match=r"list\.txt has no classes, .* expected a folder of class folders"):
        read(write(tmp_path / "list.txt", "photo.png"))
    how = (
        f"{tmp_path.name} has no classes: to train and to score, every item needs one; put each into a folder that is named after its class"
    )
    with pytest.raises(ValueError, match=re.escape(how)):
        read(f"images:{tmp_path}")
    with pytest.raises(ValueError, match="`likewise embed` takes them as they are"):
        read(tmp_path)
    rows = Dataset("mine", Features(np.eye(12, dtype=np.float32)), np.arange(12) // 2 - 1, tuple("abcde"))
    for needs in (lambda: split(rows, seed=0), lambda: all_train(rows), lambda: diagnose_dataset(rows)):
        with pytest.raises(ValueError, match=r"2 of the 12 items of mine have no class: .*give a label for each"):
            needs()
    with pytest.raises(ValueError, match="have no class"):
        folds(rows, np.arange(12), k=2, seed=0)
    assert len(folds(rows, np.arange(2, 12), k=2, seed=0)) == 2  # no label but those of the training items is looked at
