"""Random numbers by key: what an item draws depends on the seed, the step and the item, and on nothing else.

A counter-based generator: the keys are hashed one after the other (the finaliser of SplitMix64, a bijection of 64 bits that mixes every
bit into every other), so there is no state, no order and no device. An item gets the same numbers in any batch, on any rank, in any
process. A second copy of an item in one batch draws numbers of its own.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def uniforms(items: npt.NDArray[np.int64], *, seed: int, step: int, count: int) -> npt.NDArray[np.float64]:
    """(items, count) numbers in [0, 1), each a multiple of 2^-53."""
    keys = _mixed(np.full(len(items), seed % 2**64, dtype=np.uint64))
    for key in (np.full(len(items), step, dtype=np.int64), items, occurrences(items)):
        keys = _mixed(keys + key.astype(np.uint64))
    words = _mixed(keys[:, None] + np.arange(1, count + 1, dtype=np.uint64) * GOLDEN)
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def occurrences(items: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How often each item stood earlier in the array."""
    order = np.argsort(items, kind="stable")
    places = np.arange(len(items))
    is_first = np.ones(len(items), dtype=bool)
    is_first[1:] = items[order][1:] != items[order][:-1]
    counts = np.empty(len(items), dtype=np.int64)
    counts[order] = places - np.maximum.accumulate(np.where(is_first, places, 0))
    return counts


def _mixed(words: Words) -> Words:
    words = words + GOLDEN
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
