"""What a person with little data should know beside the scores, in words."""

from __future__ import annotations

import numpy as np

from likewise.evaluation.certainty.uncertainty import FEW
from likewise.training.feeds import Int64s
from likewise.wording import count_of

FEW_IMAGES = 4  # of a class: what most samplers draw of it


def training_notes(labels: Int64s, *, batch: int, kind: str = "images") -> list[str]:
    """Of the labels of the training items: a batch larger than all of them, and classes of few.  kind: Dataset.kind."""
    notes = []
    if batch > len(labels):
        notes.append(
            f"a batch of {batch:,} {kind} is more than the {len(labels):,} there are to train on: every step takes all of them, some "
            "perhaps several times"
        )
    sizes = np.unique(labels, return_counts=True)[1]
    small = int((sizes < FEW_IMAGES).sum())
    if 2 * small > len(sizes):
        alone = int((sizes == 1).sum())
        alone_in_words = f", {alone:,} a single one, which gives no pair of like {kind}" if alone else ""
        notes.append(
            f"{small:,} of {len(sizes):,} training classes have fewer than {FEW_IMAGES} {kind}{alone_in_words}: little to learn from"
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


def judged_notes(num_classes: int, *, part: str, other: str) -> list[str]:
    """Where few classes decide what is best: another command, which asks other classes, may come to another answer.

    part: "training" or "test", whose classes decide here.  other: that command, and whom it asks.
    """
    if not 0 < num_classes < FEW:
        return []
    classes = count_of(num_classes, f"{part} class", f"{part} classes")
    return [f"{classes} cannot tell small gains from noise: {other}, may keep something else, and neither is wrong; take at least {FEW}"]


test_notes.__test__ = False  # type: ignore[attr-defined]  # no test case, whatever pytest thinks of the name
