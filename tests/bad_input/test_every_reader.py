"""Every reader of data sets meets every bad file in each place where it expects one: a data set, or one sentence.

A new reader fails the first test until it has a layout here.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from likewise.data.doctor import diagnose_dataset
from likewise.data.packing.cache import pack
from likewise.data.readers import READERS, read, read_to_embed

from .bad_files import BAD, bad_files, gzipped_bomb, sound
from .guard import limits_of_the_system, told

Layout = Callable[[Path], dict[Path, str]]  # makes a small data set and gives the files that describe it with their formats
IN_PROCESSES = ("empty", "half", "flipped", "a pipe")  # of .mat, each of which is parsed in a process that imports scipy


def _draw(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (6, 4), "white").save(path)
    return path


def _pictures(root: Path) -> None:
    for number in range(8):
        _draw(root / f"{number}.png")


def _write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def _features(root: Path) -> dict[Path, str]:
    files = {_write(root / f"vectors.{name}", sound(name)): name for name in ("npy", "npz", "parquet")}
    return {**files, _write(root / "labels.txt", sound("labels")): "labels"}


def _table(root: Path) -> dict[Path, str]:
    _pictures(root)
    table = {_write(root / f"t.{name}", sound(name)): name for name in ("csv", "tsv", "parquet")}
    return {**table, _draw(root / "0.png"): "image"}


def _images(root: Path) -> dict[Path, str]:
    _pictures(root)
    return {_write(root / "list.txt", sound("lines")): "lines", root / "0.png": "image"}


def _cub(root: Path) -> dict[Path, str]:
    names = [f"{number:03d}.Bird/{i}.jpg" for number in (1, 101) for i in range(2)]
    for name in names:
        _draw(root / "images" / name)
    texts = {
        "classes.txt": "1 001.Bird\n101 101.Bird\n",
        "images.txt": "".join(f"{i} {name}\n" for i, name in enumerate(names, start=1)),
        "image_class_labels.txt": "1 1\n2 1\n3 101\n4 101\n",
        "bounding_boxes.txt": "".join(f"{i} 1.0 0.0 3.0 2.0\n" for i in range(1, 5)),
    }
    return {_write(root / name, text.encode()): "lines" for name, text in texts.items()}


def _cars(root: Path) -> dict[Path, str]:
    for number in range(4):
        _draw(root / "car_ims" / f"{number}.jpg")
    return {_write(root / "cars_annos.mat", sound("mat")): "mat"}


def _sop(root: Path) -> dict[Path, str]:
    files = {}
    for number, part in enumerate(("train", "test"), start=1):
        lines = "".join(f"{i} {number} 1 bike/{number}_{i}.JPG\n" for i in range(2))
        files[_write(root / f"Ebay_{part}.txt", f"image_id class_id super_class_id path\n{lines}".encode())] = "lines"
        for i in range(2):
            _draw(root / "bike" / f"{number}_{i}.JPG")
    return files


def _inshop(root: Path) -> dict[Path, str]:
    rows = [("1/a.jpg", "id_1", "train"), ("1/b.jpg", "id_1", "train"), ("2/a.jpg", "id_2", "query"), ("2/b.jpg", "id_2", "gallery")]
    for image, _, _ in rows:
        _draw(root / "Img" / "img" / "WOMEN" / image)
    listed = "".join(f"img/WOMEN/{image} {item} {status}\n" for image, item, status in rows)
    boxes = "".join(f"img/WOMEN/{image} 1 2 001 000 005 003\n" for image, _, _ in rows)
    return {
        _write(root / "Eval" / "list_eval_partition.txt", f"4\nimage_name item_id evaluation_status\n{listed}".encode()): "lines",
        _write(root / "Anno" / "list_bbox_inshop.txt", f"4\nimage_name clothes_type pose_type x_1 y_1 x_2 y_2\n{boxes}".encode()): "lines",
    }


def _omniglot(root: Path) -> dict[Path, str]:
    for name in ("images_background/Greek/character01", "images_evaluation/Angelic/character01"):
        for i in range(2):
            _draw(root / name / f"{i}.png")
    return {root / "images_background" / "Greek" / "character01" / "0.png": "image"}


def _mnist(root: Path) -> dict[Path, str]:
    files = {}
    for stem in ("train", "t10k"):
        files[_write(root / f"{stem}-images-idx3-ubyte", sound("idx"))] = "idx"
        labels = bytes([0, 0, 8, 1, 0, 0, 0, 8, *range(8)])
        _write(root / f"{stem}-labels-idx1-ubyte.gz", gzip.compress(labels))
    return files


def _folder(root: Path) -> dict[Path, str]:
    for name in "ab":
        for i in range(2):
            _draw(root / name / f"{i}.png")
    return {root / "a" / "0.png": "image"}


LAYOUTS: dict[str, Layout] = {
    "features": _features,
    "table": _table,
    "images": _images,
    "cub": _cub,
    "cars": _cars,
    "sop": _sop,
    "inshop": _inshop,
    "omniglot": _omniglot,
    "mnist": _mnist,
    "fashion_mnist": _mnist,
    "folder": _folder,
}


def _of_image(words: str, path: Path) -> object:
    """What may lie where an image is expected."""
    if words in ("half", "all but the end", "more behind", "flipped"):
        return path.write_bytes(_damaged(words, _draw(path.with_name("sound.png")).read_bytes()))
    return BAD[words]("npz", path)


def _damaged(words: str, data: bytes) -> bytes:
    middle = len(data) // 2
    return {
        "half": data[:middle],
        "all but the end": data[:-1],
        "more behind": data + bytes(100),
        "flipped": data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :],
    }[words]


def test_every_reader_of_files_has_a_layout() -> None:
    assert {name for name, reader in READERS.items() if reader.has_path} == LAYOUTS.keys(), "a reader without a layout: add it"


def _specs(name: str, root: Path, file: Path) -> list[str]:
    """How the data set is named, where this file is in it."""
    if name in ("features", "table"):
        named = {"labels.txt": "vectors.npy", "0.png": "t.csv"}.get(file.name, file.name)
        return [f"{name}:{root / named}", str(root / named)]
    if name == "images":
        return [f"images:{file}", f"images:{root}", str(file)]
    if name in ("cub", "cars", "inshop"):
        return [f"{name},boxes=true:{root}", str(root)]
    return [f"{name}:{root}"]


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_reader_meets_every_bad_file(name: str, tmp_path: Path) -> None:
    """Whatever was read is packed and looked at by the doctor, too: a bad image is left out there at the latest."""
    root = tmp_path / "sound"
    places = {path.relative_to(root): kind for path, kind in LAYOUTS[name](root).items()}
    for place in places:
        for spec in _specs(name, root, root / place):
            assert told(lambda spec=spec: read(spec, labelled=name != "images")) is None
    for place, kind in places.items():
        for words in BAD if kind == "image" else IN_PROCESSES if kind == "mat" else bad_files(kind):
            for spec in _specs(name, root, root / place):
                kept = (root / place).read_bytes()
                (root / place).unlink()
                if kind == "image":
                    _of_image(words, root / place)
                else:
                    bad_files(kind)[words](root / place)
                sentence = told(lambda spec=spec: _read_and_used(spec, labelled=name != "images"))
                if sentence is not None:
                    assert str(tmp_path) in sentence or root.name in sentence or "images" in sentence, (words, sentence)
                if (root / place).is_dir() and not (root / place).is_symlink():
                    (root / place).rmdir()
                else:
                    (root / place).unlink(missing_ok=True)
                (root / place).write_bytes(kept)
                if kind == "mat":
                    break


def _read_and_used(spec: str, *, labelled: bool) -> None:
    dataset = read(spec, labelled=labelled)
    assert np.isfinite(dataset.items.array).all() if hasattr(dataset.items, "array") else len(dataset) > 0
    if dataset.kind == "images" and labelled:
        diagnose_dataset(dataset, workers=1)


def test_classes_that_a_person_reads_as_one_are_told(tmp_path: Path) -> None:
    for name in ("Wren", "wren ", "caf\u00e9", "cafe\u0301", "owl"):
        _draw(tmp_path / name / "0.png")
    report = diagnose_dataset(read(str(tmp_path)))
    assert sorted(map(sorted, report.alike_names)) == [["Wren", "wren "], ["cafe\u0301", "caf\u00e9"]]
    assert sum("differ only by case, Unicode form or spaces" in problem for problem in report.problems) == 2


def test_strips_are_refused_before_they_grow(tmp_path: Path) -> None:
    """32 of 34,500 x 1 pixels, 3.7 kB together, once took 7 GB."""
    for number in range(32):
        (tmp_path / "ab"[number % 2]).mkdir(exist_ok=True)
        Image.new("L", (34_500, 1)).save(tmp_path / "ab"[number % 2] / f"strip {number}.png")
    _folder(tmp_path)
    dataset = read(str(tmp_path))
    with limits_of_the_system(num_bytes=2**29):
        packed = pack(dataset, folder=tmp_path / "packed", side=72)
        report = diagnose_dataset(dataset)
    assert (len(packed), len(packed.skipped), len(report.broken)) == (4, 32, 32)
    assert {problem.reason for problem in packed.skipped} == {broken.reason for broken in report.broken}
    assert "one side is more than 100 times the other; cut it up (LIKEWISE_MAX_ASPECT raises it)" in report.broken[0].reason


def test_a_bomb_of_mnist(tmp_path: Path) -> None:
    _mnist(tmp_path)
    (tmp_path / "train-images-idx3-ubyte").unlink()
    _write(tmp_path / "train-images-idx3-ubyte.gz", gzipped_bomb())
    assert "LIKEWISE_MAX_EXPANSION" in str(told(lambda: read(f"mnist:{tmp_path}"), "train-images-idx3-ubyte.gz"))


def test_what_is_no_file_is_left_out_and_named(tmp_path: Path) -> None:
    _folder(tmp_path)
    os.mkfifo(tmp_path / "a" / "pipe.png")
    (tmp_path / "a" / "zero.png").symlink_to("/dev/zero")
    (tmp_path / "b" / "loop.png").symlink_to("loop.png")
    dataset = read(str(tmp_path))
    assert len(dataset) == 4
    assert dataset.notes[0].startswith("3 of 7 listed images are missing")
    assert "pipe.png (a pipe where a regular file was expected)" in dataset.notes[0]
    packed = pack(dataset, folder=tmp_path / "packed", side=8)
    assert len(packed) == 4
    for name in ("pipe.png", "zero.png"):
        assert "where a regular file was expected" in str(told(lambda name=name: read_to_embed([tmp_path / "a" / name]), name))
