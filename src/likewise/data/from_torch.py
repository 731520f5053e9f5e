"""A torch Dataset of (item, label) pairs as a data set of ours: paths where it has them, else pixels or vectors in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from torch import Tensor

from likewise.data.dataset import Dataset, Features, Files, Pixels

Array = npt.NDArray[Any]


def dataset_of_torch(given: Any, name: str, parts: Sequence[str] | None) -> Dataset:
    """See `Dataset.from_torch`."""
    for needed in ("__len__", "__getitem__"):
        if not hasattr(given, needed):
            raise ValueError(
                f"{name}: a {type(given).__name__} has no {needed}: expected a torch Dataset of (item, label) that has a length"
            )
    if not len(given):
        raise ValueError(f"{name}: there is nothing in it")
    samples = getattr(given, "samples", None)  # of torchvision's folders: (path, label)
    if isinstance(samples, Sequence) and all(isinstance(path, str | Path) for path, _ in samples):
        items: Files | Pixels | Features = Files(tuple(Path(path) for path, _ in samples))
        labels = [label for _, label in samples]
    else:
        arrays, labels = [], []
        for number, (item, label) in enumerate(_pairs(given, name)):
            arrays.append(_array(item, f"{name}, item {number}"))
            labels.append(label)
        items = _together(arrays, name)
    codes, class_names = _classes(labels, getattr(given, "classes", None), name)
    return Dataset(name, items, codes, class_names, None if parts is None else np.array(parts, dtype=np.str_))


def _pairs(given: Any, name: str) -> Iterator[tuple[Any, Any]]:
    for number in range(len(given)):
        pair = given[number]
        if not isinstance(pair, tuple | list) or len(pair) < 2:
            raise ValueError(f"{name}, item {number}: expected (item, label), not {type(pair).__name__}")
        yield pair[0], pair[1]


def _array(item: Any, what: str) -> Array:
    """A vector, or the pixels of an image (height, width) or (height, width, 3) in 8 bits."""
    if isinstance(item, Image.Image):
        return np.asarray(item if item.mode == "L" else item.convert("RGB"))
    array = item.detach().cpu().numpy() if isinstance(item, Tensor) else np.asarray(item)
    if array.ndim == 1 and array.dtype.kind in "fiu":
        return array.astype(np.float32)
    if isinstance(item, Tensor) and array.ndim == 3 and array.shape[0] in (1, 3):  # torch has channels first
        array = array[0] if array.shape[0] == 1 else array.transpose(1, 2, 0)
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] != 3):
        raise ValueError(f"{what} is of shape {array.shape}: expected a vector, a Pillow image, or pixels of one or three channels")
    if array.dtype.kind == "f":
        if not np.isfinite(array).all() or array.min() < 0 or array.max() > 1:
            raise ValueError(
                f"{what} holds numbers from {array.min():.3g} to {array.max():.3g}: expected pixels from 0 to 1 or in 8 bits; give the "
                "data set without Normalize, which the protocol does itself"
            )
        array = (array * 255).round()
    elif array.dtype != np.uint8:
        raise ValueError(f"{what} holds {array.dtype}: expected pixels in 8 bits, or numbers from 0 to 1")
    return array.astype(np.uint8)


def _together(arrays: list[Array], name: str) -> Pixels | Features:
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        first, second = sorted(shapes)[:2]
        raise ValueError(
            f"{name} has items of different shapes, such as {first} and {second}: expected one; for images of many sizes give a folder, or "
            "a data set that has .samples, as torchvision's ImageFolder"
        )
    together = np.stack(arrays)
    return Features(together) if together.ndim == 2 else Pixels(together)


def _classes(labels: list[Any], names: Any, name: str) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Codes and class names: the data set's own where its labels count them, else the labels as they are."""
    plain = [label.item() if isinstance(label, Tensor | np.generic) and label.ndim == 0 else label for label in labels]
    for number, label in enumerate(plain):
        if not isinstance(label, int | str) or isinstance(label, bool):
            raise ValueError(f"{name}, item {number}: the label is {label!r}: expected a whole number or a text, one an item")
    if isinstance(names, Sequence) and all(isinstance(label, int) and 0 <= label < len(names) for label in plain):
        return np.array(plain, dtype=np.int64), tuple(map(str, names))
    known = sorted(set(plain), key=lambda label: (isinstance(label, str), label))
    code = {label: number for number, label in enumerate(known)}
    return np.array([code[label] for label in plain], dtype=np.int64), tuple(map(str, known))
