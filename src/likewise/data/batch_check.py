"""Batch doctor: is every image of a batch there with its own label?

The sampler of a published benchmark appended fewer images than labels for small classes, so that most labels of its batches were
wrong. Hence every batch is compared with the dataset before it is used. All of it happens on the CPU, in some microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

Numbers = Tensor | npt.NDArray[Any] | Sequence[int]


def check_batch(
    images: Sized,
    labels: Numbers,
    indices: Numbers,
    dataset_labels: Numbers,
    *,
    needs_positive_pair: bool = True,
    needs_two_classes: bool = True,
) -> None:
    """Raises ValueError, in words and with the first wrong item, unless the batch is what the dataset says.

    `indices` are the items' positions in the dataset whose labels are `dataset_labels`: what the sampler yielded. Everything
    but the images is to be given as it is before it goes to a GPU: nothing here waits for a device.
    """
    given, where, truth = _numbers(labels, "labels"), _numbers(indices, "indices"), _numbers(dataset_labels, "dataset_labels")
    if not len(images) == len(given) == len(where):
        raise ValueError(
            f"a batch of {len(images)} images, {len(given)} labels and {len(where)} indices: expected equally many;"
            " something between the sampler and here drops or repeats items"
        )
    if len(given) == 0:
        raise ValueError("a batch of no images: expected at least one")
    if where.min() < 0 or where.max() >= len(truth):
        place = int(np.flatnonzero((where < 0) | (where >= len(truth)))[0])
        raise ValueError(
            f"item {place} of the batch has index {where[place]}, the dataset has 0 to {len(truth) - 1}: the sampler was made for another"
            " dataset; give it the labels of the very dataset that is read"
        )
    expected = truth[where]
    if not np.array_equal(given, expected):
        wrong = np.flatnonzero(given != expected)
        place = int(wrong[0])
        raise ValueError(
            f"item {place} of the batch (index {where[place]}) has label {given[place]}, the dataset says {expected[place]}"
            f" ({len(wrong)} of {len(given)} labels are wrong): images and labels are out of step, or the labels are of another dataset"
        )
    ordered = np.sort(given)
    same = ordered[1:] == ordered[:-1]
    if needs_two_classes and same.all():
        raise ValueError(
            f"all {len(given)} images of the batch are of class {given[0]}: expected at least two classes, or nothing is to be told apart"
        )
    if needs_positive_pair and not same.any():
        raise ValueError(
            f"the {len(given)} images of the batch are of as many classes: this method needs two images of one class;"
            " use a group sampler, or a larger batch"
        )


def _numbers(values: Numbers, name: str) -> npt.NDArray[Any]:
    if isinstance(values, Tensor):
        if values.device.type != "cpu":
            raise ValueError(f"{name} are on {values.device}: check the batch on the CPU, before it is moved, so that nothing waits")
        array = values.numpy()
    else:
        array = np.asarray(values)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise ValueError(f"{name} are {array.dtype} of shape {array.shape}: expected whole numbers of shape (items,)")
    return array
