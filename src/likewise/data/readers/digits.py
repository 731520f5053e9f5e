"""Digits: 1,797 handwritten digits of 8 x 8 pixels that come with scikit-learn."""

from __future__ import annotations

import numpy as np

from likewise.data.dataset import Dataset, Pixels


def read_digits() -> Dataset:
    """No official parts: `split` draws disjoint classes. 17 grey levels, stretched to 0-255."""
    from sklearn.datasets import load_digits

    loaded = load_digits()
    pixels = np.rint(loaded.images * (255 / 16)).astype(np.uint8)
    return Dataset("digits", Pixels(pixels), loaded.target.astype(np.int64), tuple(str(name) for name in loaded.target_names))
