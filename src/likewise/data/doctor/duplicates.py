"""Duplicates: items that are the same file, the same pixels, or nearly the same picture.

Near duplicates are found in three steps, none of which compares all pairs:
1. A 63-bit perceptual hash: the signs, above or below their median, of the 8 x 8 lowest cosine frequencies (without the mean) of a
   32 x 32 grey thumbnail.
2. Candidates: hashes that differ in at most 6 bits agree in at least one of 7 bands of 9 bits, so only items of one band are compared.
3. Candidates count if their thumbnails correlate by at least .99 (.995 for pictures of at most 64 pixels): photographs of one bird do
   not, nor a character drawn by two hands.

Measured on CUB with 295 changed copies each: JPEG 30, contrast x .7, grey, colour x 1.5 are all found, half the size (with JPEG 50) 99.7 %,
brightness x 1.3 (which clips) 79 %, a cut of 1 % at each edge 21 %; larger cuts, mirrored and turned copies are not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

SIDE = 32  # of a thumbnail
BANDS, BAND_BITS = 7, 9
LEAST_CORRELATION = 0.99
SMALL, LEAST_CORRELATION_SMALL = 64, 0.995  # pictures up to so many pixels hold so little that two of them may well be alike
FLAT = 1.0  # grey levels of standard deviation: less is a blank picture, which looks like any other
BLOCK = 4_000_000  # pairs compared at once

DuplicateKind = Literal["file", "pixels", "near"]
Thumbnails = npt.NDArray[np.uint8]  # (items, 32, 32)
Bits = npt.NDArray[np.bool_]  # (items, 63)


@dataclass(frozen=True)
class DuplicateGroup:
    """Items that are one picture."""

    kind: DuplicateKind  # the same bytes; other bytes but the same pixels; nearly the same
    items: tuple[int, ...]  # ascending
    correlation: float = 1.0  # of the thumbnails, the least that ties the group together


def find_duplicates(
    files: Sequence[Hashable] | None,
    pixels: Sequence[Hashable],
    thumbnails: Thumbnails | None,
    items: Sequence[int],
    *,
    is_small: npt.NDArray[np.bool_] | None = None,  # (items,) pictures with a longer side up to SMALL
) -> list[DuplicateGroup]:
    """The groups among `items`: by what is equal in `files`, then in `pixels`, then by thumbnails.

    `files`, `pixels` and `thumbnails` are by item; None leaves the step out. Of a group only its first item goes on to the next
    step, so that every tie is told once.
    """
    groups: list[DuplicateGroup] = []
    first = list(items)
    steps: tuple[tuple[DuplicateKind, Sequence[Hashable] | None], ...] = (("file", files), ("pixels", pixels))
    for kind, digests in steps:
        if digests is None:
            continue
        same: defaultdict[Hashable, list[int]] = defaultdict(list)
        for item in first:
            same[digests[item]].append(item)
        groups += [DuplicateGroup(kind, tuple(members)) for members in same.values() if len(members) > 1]
        first = [members[0] for members in same.values()]
    if thumbnails is not None and len(first) > 1:
        chosen = np.array(first)
        small = None if is_small is None else is_small[chosen]
        pairs = [(int(chosen[a]), int(chosen[b]), correlation) for a, b, correlation in near_pairs(thumbnails[chosen], small)]
        groups += [DuplicateGroup("near", members, least) for members, least in tied_together(pairs)]
    return groups


def near_pairs(thumbnails: Thumbnails, is_small: npt.NDArray[np.bool_] | None = None) -> list[tuple[int, int, float]]:
    """Pairs (first < second, correlation) of thumbnails that are nearly the same. Blank ones are near to none."""
    vectors = thumbnails.reshape(-1, SIDE * SIDE).astype(np.float32)
    vectors -= vectors.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors /= np.maximum(lengths, 1e-6)
    kept = np.flatnonzero(lengths[:, 0] >= FLAT * SIDE)  # a length is the deviation times the root of the number of pixels
    least = np.where(np.zeros(len(thumbnails), np.bool_) if is_small is None else is_small, LEAST_CORRELATION_SMALL, LEAST_CORRELATION)
    pairs: list[tuple[int, int, float]] = []
    for firsts, seconds in close_hashes(perceptual_hashes(thumbnails[kept])):
        a, b = kept[firsts], kept[seconds]
        for start in range(0, len(a), BLOCK // SIDE**2):
            part = slice(start, start + BLOCK // SIDE**2)
            correlations = np.einsum("nd,nd->n", vectors[a[part]], vectors[b[part]])
            near = correlations >= np.maximum(least[a[part]], least[b[part]])
            pairs.extend(zip(a[part][near].tolist(), b[part][near].tolist(), correlations[near].tolist(), strict=True))
    return sorted(pairs)


def perceptual_hashes(thumbnails: Thumbnails) -> Bits:
    """63 bits for each thumbnail."""
    cosines = np.cos(np.pi / SIDE * np.arange(8)[:, None] * (np.arange(SIDE) + 0.5)).astype(np.float32)  # the lowest rows of the DCT
    cosines[0] *= np.sqrt(0.5)  # as long as the others
    waves = (cosines @ thumbnails.astype(np.float32) @ cosines.T).reshape(-1, 64)[:, 1:]
    bits: Bits = waves > np.median(waves, axis=1, keepdims=True)
    return bits


def close_hashes(bits: Bits) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Every pair of places, first < second, whose hashes differ in fewer bits than there are bands; each pair once."""
    bands = bits.reshape(-1, BANDS, BAND_BITS) @ (1 << np.arange(BAND_BITS))  # (items, bands)
    signs = np.where(bits, np.float32(1), np.float32(-1))  # their product counts equal bits less unequal ones
    least = BANDS * BAND_BITS - 2 * (BANDS - 1)
    for band in range(BANDS):
        order = np.argsort(bands[:, band], kind="stable")
        starts = np.flatnonzero(np.diff(bands[order, band])) + 1
        for bucket in np.split(order, starts):
            rows = max(1, BLOCK // max(1, len(bucket)))
            for start in range(0, len(bucket) - 1, rows):
                block, others = bucket[start : start + rows], bucket[start:]
                a, b = np.nonzero(signs[block] @ signs[others].T >= least)
                first, second = block[a[a < b]], others[b[a < b]]
                told = (bands[first, :band] == bands[second, :band]).any(axis=1)  # in an earlier band
                yield first[~told], second[~told]


def tied_together(pairs: list[tuple[int, int, float]]) -> Iterator[tuple[tuple[int, ...], float]]:
    """Items tied together by pairs, and the least correlation among their pairs."""
    leader: dict[int, int] = {}

    def lead(item: int) -> int:
        while leader.setdefault(item, item) != item:
            leader[item] = leader[leader[item]]
            item = leader[item]
        return item

    for a, b, _ in pairs:
        leader[lead(b)] = lead(a)
    members: defaultdict[int, set[int]] = defaultdict(set)
    least: defaultdict[int, float] = defaultdict(lambda: 1.0)
    for a, b, correlation in pairs:
        members[lead(a)] |= {a, b}
        least[lead(a)] = min(least[lead(a)], correlation)
    for leading, items in members.items():
        yield tuple(sorted(items)), least[leading]
