"""The batch doctor: a wrong batch is named by its first wrong item, a right one passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from likewise.data.batch_check import check_batch

DATASET = np.array([4, 4, 4, 9, 9, 2, 7])
INDICES = [0, 2, 3, 5]
LABELS = [4, 4, 9, 2]


def check(images: int = 4, labels: Any = LABELS, indices: Any = INDICES, dataset: Any = DATASET, **options: bool) -> None:
    check_batch(torch.zeros(images, 3, 2, 2), labels, indices, dataset, **options)


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_a_right_batch_passes(kind: Any) -> None:
    check(labels=kind(LABELS), indices=kind(INDICES), dataset=kind(DATASET.tolist()))


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ({"images": 3}, "3 images, 4 labels and 4 indices: expected equally many"),
        ({"labels": [4, 4, 9]}, "4 images, 3 labels and 4 indices"),
        ({"indices": [0, 2, 3]}, "4 images, 4 labels and 3 indices"),
        ({"images": 0, "labels": [], "indices": []}, "no images"),
        ({"labels": [4, 4, 2, 9]}, r"item 2 of the batch \(index 3\) has label 2, the dataset says 9 \(2 of 4 labels are wrong\)"),
        ({"indices": [0, 2, 3, 7]}, "item 3 of the batch has index 7, the dataset has 0 to 6"),
        ({"indices": [0, 2, -1, 5], "labels": [4, 4, 7, 2]}, "item 2 of the batch has index -1"),  # numpy alone would count from the end
        ({"images": 2, "labels": [4, 4], "indices": [0, 1]}, "all 2 images of the batch are of class 4: expected at least two classes"),
        (
            {"images": 3, "labels": [4, 9, 2], "indices": [0, 3, 5]},
            "the 3 images of the batch are of as many classes: .* two images of one",
        ),
        ({"labels": torch.tensor([4.0, 4.0, 9.0, 2.0])}, "labels are float32 of shape"),
        ({"labels": np.array([LABELS])}, r"labels are int64 of shape \(1, 4\)"),
        ({"labels": torch.zeros(4, dtype=torch.int64, device="meta")}, "labels are on meta: check the batch on the CPU"),
    ],
)
def test_a_wrong_batch_is_told_in_words(batch: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check(**batch)


def test_what_a_method_does_not_need_is_not_asked() -> None:
    check(images=3, labels=[4, 9, 2], indices=[0, 3, 5], needs_positive_pair=False)
    check(images=2, labels=[4, 4], indices=[0, 1], needs_two_classes=False)


def test_the_published_fault_is_found() -> None:
    """min(k, n) images of a class with always k labels (the sampler of the benchmark in our fourth paper)."""
    k, members = 3, {4: [0, 1, 2], 9: [3, 4], 2: [5]}
    indices = [item for items in members.values() for item in items[:k]]
    labels = [label for label in members for _ in range(k)]
    with pytest.raises(ValueError, match="6 images, 9 labels"):
        check(images=6, labels=labels, indices=indices)
    with pytest.raises(ValueError, match=r"item 5 of the batch \(index 5\) has label 9, the dataset says 2"):
        check(images=6, labels=labels[:6], indices=indices)  # even if a later step cuts the labels to fit
