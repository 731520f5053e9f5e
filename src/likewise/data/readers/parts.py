"""The words people use for the parts of a data set, as our parts: train, test, query, gallery."""

from __future__ import annotations

from collections.abc import Sequence

from likewise.checks import known_name
from likewise.data.dataset import Part

_WORDS: dict[str, Part | None] = {
    "train": "train",
    "training": "train",
    "test": "test",
    "testing": "test",
    "query": "query",
    "gallery": "gallery",
    "val": None,
    "valid": None,
    "validation": None,
}


def is_part_word(word: str) -> bool:
    return word.strip().lower() in _WORDS


def parts_of(words: Sequence[str]) -> tuple[list[Part], tuple[str, ...]]:
    """Each word's part, and notes.

    A validation part is the test part where there is no other (as in open-metric-learning). Beside a test part it belongs to training:
    tuning happens on folds of the training classes.
    """
    cleaned = [word.strip().lower() for word in words]
    for word in dict.fromkeys(cleaned):
        known_name("part", word, _WORDS)
    present = {_WORDS[word] for word in cleaned}
    validation: Part = "train" if present & {"test", "query", "gallery"} else "test"
    notes: tuple[str, ...] = ()
    if None in present and validation == "train":
        num = sum(_WORDS[word] is None for word in cleaned)
        notes = (f"{num:,} validation items were added to train: tuning uses folds of the training classes",)
    return [_WORDS[word] or validation for word in cleaned], notes
