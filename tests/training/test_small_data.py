"""Little data gets its scores, and words about what they are worth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.adaptation.adapt import adapt
from likewise.reports.comparison_report import compare
from likewise.training.small_data import judged_notes, training_notes
from likewise.training.small_data import test_notes as notes_of_test_classes
from likewise.training.train import train

from .tiny import PROTOCOL, vectors

LITTLE: dict[str, Any] = {"protocol": PROTOCOL, "settings": {"backbone": "identity", "batch": 64}, "device": "cpu"}
BATCH = "a batch of 64 vectors is more than the 12 there are to train on: every step takes all of them"
SMALL = "4 of 4 training classes have fewer than 4 vectors: little to learn from"
FEW = "4 test classes are few: each is about 25 % of the scores, which say little about other classes; take at least 10"


@pytest.mark.parametrize(
    ("sizes", "batch", "expected"),
    [
        ([4] * 10, 40, []),
        ([4] * 10, 41, ["a batch of 41 images is more than the 40 there are"]),
        ([4] * 5 + [3] * 5, 32, []),
        ([4] * 4 + [3] * 6, 8, ["6 of 10 training classes have fewer than 4 images: little to learn from"]),
        (
            [9] + [2] * 3 + [1] * 2,
            8,
            ["5 of 6 training classes have fewer than 4 images, 2 a single one, which gives no pair"],
        ),
    ],
)
def test_what_is_noted_of_training_items(sizes: list[int], batch: int, expected: list[str]) -> None:
    notes = training_notes(np.arange(len(sizes)).repeat(sizes), batch=batch)
    assert len(notes) == len(expected)
    assert all(note.startswith(words) for note, words in zip(notes, expected, strict=True))


@pytest.mark.parametrize(("classes", "noted"), [(0, False), (1, True), (9, True), (10, False), (100, False)])
def test_few_test_classes_are_noted(classes: int, noted: bool) -> None:
    assert bool(notes_of_test_classes(classes)) == noted


UNDECIDED = "cannot tell small gains from noise: `likewise {}`, which judges on the {} classes, may keep something else"


@pytest.mark.parametrize(("classes", "noted"), [(0, False), (1, True), (9, True), (10, False)])
def test_few_classes_that_decide_are_noted(classes: int, noted: bool) -> None:
    notes = judged_notes(classes, part="training", other="`likewise compare`")
    assert bool(notes) == noted
    assert all(note.startswith(f"{classes} training class") for note in notes)


def test_compare_and_adapt_say_that_they_may_differ(tmp_path: Path) -> None:
    """Both judge, on other classes: where these are few, neither answer is the last word."""
    few, enough = vectors(classes=12, images=6), vectors(classes=20, images=6)
    adapted = adapt(few, out=tmp_path / "adapted", minutes=0)
    assert [note for note in adapted.notes if note.startswith(f"6 training classes {UNDECIDED.format('compare', 'test')}")]
    assert any(note.startswith("6 test classes are few") for note in adapted.notes)
    compared = compare("raw", few, out=tmp_path / "compared", trials=0, seeds=1, jobs=1, report=False, **LITTLE)
    assert [note for note in compared.notes if note.startswith(f"vectors: 6 test classes {UNDECIDED.format('adapt', 'training')}")]
    notes = adapt(enough, out=tmp_path / "enough", minutes=0).notes
    assert not any("cannot tell" in note or "are few" in note for note in notes)


def test_train_notes_them(tmp_path: Path) -> None:
    result = train("raw", vectors(classes=8, images=3), out=tmp_path / "run", **LITTLE)
    assert result.scores
    assert [note for note in result.notes if note.startswith((BATCH, SMALL, FEW))] == list(result.notes[:3])
    assert len(result.notes[:3]) == 3
    assert FEW in (tmp_path / "run" / "README.md").read_text()
    everything = train("raw", vectors(classes=8, images=3), out=tmp_path / "all", split="all-train", **LITTLE)
    assert not any(note.startswith("4 test classes") for note in everything.notes)
    assert any(note.startswith("a batch of 64 vectors is more than the 24") for note in everything.notes)
    assert not train("raw", vectors(), out=tmp_path / "enough", **LITTLE).notes


def test_compare_notes_them(tmp_path: Path) -> None:
    found = compare("raw", vectors(classes=8, images=3), out=tmp_path / "out", trials=0, seeds=1, jobs=1, report=False, **LITTLE)
    assert [note for note in found.notes if note.startswith((f"vectors: {BATCH}", f"vectors: {SMALL}"))] == list(found.notes[:2])
