"""The test embeddings of every method that kept them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from likewise.comparison.results import MethodResult, TestItems

Vectors = dict[str, npt.NDArray[np.float32]]  # by method: (items, dim)


def read_vectors(methods: Sequence[MethodResult], items: TestItems) -> Vectors:
    """Those on disk, checked against the items they belong to."""
    found: Vectors = {}
    for method in methods:
        if method.embeddings is None:
            continue
        array = np.load(method.embeddings, allow_pickle=False)
        if array.ndim != 2 or len(array) != len(items.labels):
            raise ValueError(
                f"{method.embeddings} holds an array of shape {array.shape}, but {method.dataset} has {len(items.labels):,} test items: "
                "expected one row an item; was the data set changed after the comparison?"
            )
        if not np.isfinite(array).all():
            continue  # a training that came to nothing has no neighbours to show
        found[method.name] = array.astype(np.float32)
    return found
