"""The doctor: each fault of a small data set is found and named; the command tells it and exits as it says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import likewise
from likewise.cli import app
from likewise.data.dataset import Dataset, Features, Files, Pixels
from likewise.data.doctor import DatasetReport, contact_sheet, diagnose_dataset
from likewise.data.doctor.dataset_report import size_histogram


def picture(seed: int) -> Image.Image:
    generator = np.random.default_rng(seed)
    small = Image.fromarray((255 * generator.random((8, 8, 3))).astype(np.uint8))
    return small.resize((100, 80), Image.Resampling.BICUBIC)


def write(path: Path, seed: int, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    picture(seed).save(path, **options)


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    for name in range(4):
        for image in range(3 + name):
            write(tmp_path / "birds" / f"class {name}" / f"{image}.png", 10 * name + image)
    return tmp_path / "birds"


@pytest.fixture
def ill(healthy: Path) -> Path:
    """One of everything."""
    (healthy / "class 0" / "copy.png").write_bytes((healthy / "class 0" / "0.png").read_bytes())  # the same bytes
    write(healthy / "class 1" / "same pixels.png", 10, compress_level=1)  # other bytes
    write(healthy / "class 2" / "like 30.jpg", 30, quality=90)  # near, of another class
    write(healthy / "alone" / "0.png", 99)
    Image.new("RGB", (50, 50), "red").save(healthy / "class 3" / "blank.png")
    whole = (healthy / "class 3" / "0.png").read_bytes()
    (healthy / "class 3" / "cut short.png").write_bytes(whole[: len(whole) // 2])
    (healthy / "class 3" / "empty.png").write_bytes(b"")
    return healthy


def dataset_of(folder: Path, *, train: tuple[str, ...] | None = None) -> Dataset:
    paths = tuple(sorted(folder.rglob("*.*")))
    names = tuple(sorted({path.parent.name for path in paths}))
    labels = np.array([names.index(path.parent.name) for path in paths])
    parts = None if train is None else np.array(["train" if path.parent.name in train else "test" for path in paths])
    return Dataset("birds", Files(paths), labels, names, parts)


def found(report: DatasetReport) -> list[tuple[str, list[str]]]:
    return [(group.kind, [item.name for item in group.items]) for group in report.duplicates]


def test_a_healthy_data_set(healthy: Path) -> None:
    report = diagnose_dataset(dataset_of(healthy))
    assert (report.num_items, report.num_classes, report.class_sizes) == (18, 4, (3, 4, 5, 6))
    assert report.problems == report.remarks == ()
    assert report.parts == ()


def test_each_fault_is_found_and_named(ill: Path) -> None:
    report = diagnose_dataset(dataset_of(ill))
    assert {broken.item.name: broken.reason for broken in report.broken} == {
        "class 3/cut short.png": "broken image: image file is truncated",
        "class 3/empty.png": "the file is empty",
    }
    assert [item.name for item in report.blank] == ["class 3/blank.png"]
    assert report.singletons == ("alone",)
    assert found(report) == [
        ("near", ["class 2/like 30.jpg", "class 3/0.png"]),
        ("file", ["class 0/0.png", "class 0/copy.png"]),
        ("pixels", ["class 1/0.png", "class 1/same pixels.png"]),
    ]
    assert [(group.across_classes, group.across_split, group.is_problem) for group in report.duplicates] == [
        (True, False, True),
        (False, False, True),
        (False, False, True),
    ]
    assert report.problems == (
        "2 images cannot be used: see the reasons",
        "1 image is blank",
        "1 class has a single image: no positive pair in training, nothing to find in a test",
        "1 group of near duplicates under different labels",
        "2 groups of exact duplicates of one class",
    )


def test_what_is_on_both_sides_comes_first(ill: Path) -> None:
    report = diagnose_dataset(dataset_of(ill, train=("alone", "class 0", "class 1", "class 2")))
    assert [(part.part, part.num_items, part.num_classes) for part in report.parts] == [("train", 16, 4), ("test", 9, 1)]
    assert report.duplicates[0].across_split
    assert "1 group of near duplicates in train and in test, under different labels" in report.problems
    by_hand = np.array(["query", "gallery"] * 12 + ["query"])
    assert not any(group.across_split for group in diagnose_dataset(dataset_of(ill), parts=by_hand).duplicates)


def test_near_duplicates_of_one_class_are_a_remark(healthy: Path) -> None:
    write(healthy / "class 0" / "again.jpg", 0, quality=90)
    report = diagnose_dataset(dataset_of(healthy))
    assert found(report) == [("near", ["class 0/0.png", "class 0/again.jpg"])]
    assert report.problems == ()
    assert report.remarks == ("1 group of near duplicates of one class",)


def test_boxes_of_one_file_are_different_items(healthy: Path) -> None:
    path = healthy / "class 0" / "0.png"
    boxes = ((0, 0, 50, 40), (50, 40, 100, 80), (0, 0, 50, 40), (0, 0, 500, 40))
    report = diagnose_dataset(Dataset("boxes", Files((path,) * 4, boxes), np.array([0, 0, 1, 1]), ("a", "b")))
    assert [(group.kind, [item.index for item in group.items]) for group in report.duplicates] == [("file", [0, 2])]
    assert [broken.item.index for broken in report.broken] == [3]


def test_images_in_memory() -> None:
    array = np.stack([np.asarray(picture(seed).convert("L")) for seed in (0, 1, 2, 0, 3)])
    report = diagnose_dataset(Dataset("memory", Pixels(array), np.array([0, 0, 1, 1, 5]), tuple("abcdef")))
    assert found(report) == [("pixels", ["item 0", "item 3"])]
    assert report.empty_classes == ("c", "d", "e")
    assert "3 classes have no images" in report.problems


def test_features() -> None:
    array = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    array[1] = array[4]
    array[2, 1] = np.nan
    array[3] = 0
    data = Dataset("vectors", Features(array), np.array([0, 0, 1, 1, 2, 2]), ("a", "b", "c"))
    report = diagnose_dataset(data)
    assert found(report) == [("pixels", ["item 1", "item 4"])]
    assert [broken.reason for broken in report.broken] == ["holds a number that is not finite", "is all zeros: it has no direction"]
    with pytest.raises(ValueError, match="features, not images"):
        contact_sheet(data, report)


def test_a_file_that_cannot_be_read_is_broken(healthy: Path) -> None:
    data = dataset_of(healthy)
    (healthy / "class 1" / "1.png").unlink()
    report = diagnose_dataset(data)
    assert [(broken.item.name, broken.reason) for broken in report.broken] == [
        ("class 1/1.png", "cannot be read: No such file or directory")
    ]
    contact_sheet(data, report)


def test_what_cannot_be_is_refused(healthy: Path) -> None:
    data = dataset_of(healthy)
    with pytest.raises(ValueError, match="no items"):
        diagnose_dataset(data.subset(np.array([], dtype=np.int64)))
    with pytest.raises(ValueError, match="2 parts for 18 items"):
        diagnose_dataset(data, parts=np.array(["train", "test"]))
    with pytest.raises(ValueError, match="workers=0"):
        diagnose_dataset(data, workers=0)


def test_workers_change_nothing(ill: Path) -> None:
    told: list[tuple[str, int, int]] = []
    data = dataset_of(ill)
    assert diagnose_dataset(data, workers=1, on_progress=lambda *progress: told.append(progress)) == diagnose_dataset(data, workers=3)
    assert told == [("looking", len(data), len(data)), ("comparing", 0, 0)]


def test_size_histogram() -> None:
    labels = np.repeat(np.arange(40), np.r_[np.full(38, 3), 27, 50])
    report = diagnose_dataset(Dataset("sizes", Features(np.ones((len(labels), 1), np.float32)), labels, tuple(map(str, range(40)))))
    bins = size_histogram(report)
    assert len(bins) <= 12
    assert sum(count for _, _, count in bins) == 40
    assert bins[0] == (3, 6, 38)
    assert bins[-1] == (47, 50, 1)


def test_the_contact_sheet_shows_classes_and_duplicates(ill: Path) -> None:
    data = dataset_of(ill)
    report = diagnose_dataset(data)
    sheet = np.asarray(contact_sheet(data, report))
    without = np.asarray(contact_sheet(data.subset(np.arange(3)), diagnose_dataset(data.subset(np.arange(3)))))
    assert sheet.shape[0] > without.shape[0] + 3 * 100  # more rows of classes, and the duplicates
    assert (sheet == (255, 0, 0)).all(axis=2).sum() > 100 * 100  # the red picture, drawn large


def run(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, ["doctor", *map(str, arguments)])


def test_command_tells_and_exits(ill: Path, healthy: Path, tmp_path: Path) -> None:
    result = run(ill)
    assert result.exit_code == 0
    for words in ("class 3/cut short.png", "class 0/copy.png", "class 2/like 30.jpg", "! 1 image is blank", "25 items, 5 classes"):
        assert words in result.stdout
    assert "healthy" not in result.stdout
    assert run(ill, "--strict").exit_code == 1
    for name in ("copy.png", "same pixels.png", "like 30.jpg", "blank.png", "cut short.png", "empty.png", "alone/0.png"):
        next(ill.rglob("alone/0.png" if "/" in name else name)).unlink()
    (ill / "alone").rmdir()
    result = run(healthy, "--strict")
    assert result.exit_code == 0
    assert "healthy: no problems found" in result.stdout


def test_command_writes_what_it_is_told(ill: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    result = run(ill, "--json", "--out", out)
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert told == json.loads((out / "report.json").read_text())
    assert told["class_sizes"] == {"least": 1, "median": 5.0, "most": 9, "histogram": told["class_sizes"]["histogram"]}
    assert told["duplicates"][0]["across_classes"] is True
    assert told["problems"]
    assert sorted(path.name for path in out.iterdir()) == ["contact_sheet.png", "report.json"]
    with Image.open(out / "contact_sheet.png") as sheet:
        sheet.load()
    sheet_alone = tmp_path / "sheet.png"
    assert run(ill, "--contact-sheet", sheet_alone).exit_code == 0
    assert sheet_alone.exists()


def test_command_faults_are_told_in_words(ill: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "features.npz", embeddings=np.eye(4, dtype=np.float32), labels=np.array([0, 0, 1, 1]))
    for arguments, words in (
        ((tmp_path / "absent",), "there is no file or folder"),
        ((ill, "--contact-sheet", tmp_path / "sheet.jpg"), "ends in .png"),
        ((ill, "--contact-sheet", tmp_path / "no" / "sheet.png"), "is not there; make it first"),
        ((tmp_path / "features.npz", "--contact-sheet", tmp_path / "sheet.png"), "features, not images"),
    ):
        result = run(*arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("error: ")
        assert words in result.stderr.replace("\n", " ")
    assert not list(tmp_path.rglob("*sheet*"))


def test_command_prints_names_that_are_not_utf_8(healthy: Path) -> None:
    target = os.fsencode(healthy / "class 0") + b"/caf\xe9 [bold].png"
    with open(target, "wb") as file:
        file.write((healthy / "class 0" / "0.png").read_bytes())
    assert "class 0/caf� [bold].png" in run(healthy).stdout
    assert json.loads(run(healthy, "--json").stdout)["duplicates"]


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    """A real process, interrupted while it looks at slow images."""
    folder, out = tmp_path / "data", tmp_path / "out"
    for name in "ab":
        write(folder / name / "0.png", ord(name))
    script = (
        "import sys, os; from pathlib import Path\n"
        "import likewise.data.doctor.examination as doctor\n"
        "def wait(*_):\n"
        "    print('looking', file=sys.stderr, flush=True)\n"
        "    import time; time.sleep(0.5); return 'slow'\n"
        "doctor._look_at_file = wait; doctor.CHUNK = 1\n"
        "from likewise.cli import app\n"
        f"app(['doctor', {str(folder)!r}, '--out', {str(out)!r}])\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(likewise.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    assert process.stderr.readline() == "looking\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stdout == ""
    assert stderr.splitlines()[-1] == "interrupted"
    assert list(out.iterdir()) == []
