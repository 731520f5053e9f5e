"""What a person with little data should know beside the scores, in words."""

from __future__ import annotations

import numpy as np

from likewise.evaluation.uncertainty import FEW
from likewise.training.feeds import Int64s
from likewise.wording import count_of

FEW_IMAGES = 4  # of a class: what most samplers draw of it


def training_notes(labels: Int64s, *, batch: int) -> list[str]:
    """Of the labels of the training items: a batch larger than all of them, and classes of few images."""
    notes = []
    if batch > len(labels):
        notes.append(
            f"a batch of {batch:,} images is more than the {len(labels):,} there are to train on: every step takes all of them, some "
            "perhaps several times"
        )
    sizes = np.unique(labels, return_counts=True)[1]
    small = int((sizes < FEW_IMAGES).sum())
    if 2 * small > len(sizes):
        alone = int((sizes == 1).sum())
        alone_in_words = f", {alone:,} a single one, which gives no pair of like images" if alone else ""
        notes.append(
            f"{small:,} of {len(sizes):,} training classes have fewer than {FEW_IMAGES} images{alone_in_words}: little to learn from"
        )
    return notes


def test_notes(num_classes: int) -> list[str]:
    """Of few test classes: what their scores are worth."""
    if not 0 < num_classes < FEW:
        return []
    classes = count_of(num_classes, "test class is", "test classes are")
    return [
        f"{classes} few: each is about {100 / num_classes:.0f} % of the scores, which say little about other classes; take at least {FEW}"
    ]


test_notes.__test__ = False  # type: ignore[attr-defined]  # no test case, whatever pytest thinks of the name
