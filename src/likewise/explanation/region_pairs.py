"""Pairs of regions that match most: windows of places of both images, by what their pairs of places add to the similarity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from likewise.explanation.place_vectors import Grid

Array = npt.NDArray[np.float64]
SIDES = 3.5  # windows to a side of the image: 2 x 2 places of a map of 7 x 7
LEAST = 0.1  # of what the best pair adds: less is not worth a box


@dataclass(frozen=True)
class ShownBox:
    """A rectangle of an image, in shares of its sides."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class RegionPair:
    """A region of the first image and one of the second."""

    a: ShownBox
    b: ShownBox
    contribution: float  # the sum over their pairs of places: what they add to the similarity


def best_pairs(contributions: Array, grid_a: Grid, grid_b: Grid, num: int) -> tuple[RegionPair, ...]:
    """The windows that add most, largest first: each time the best two that overlap no window of the pairs before.

    contributions: (places of a, places of b). Fewer than `num` where no others add a tenth of what the best does.
    """
    window_a, window_b = _window(grid_a), _window(grid_b)
    sums = _window_sums(contributions.reshape(*grid_a, *grid_b), window_a, axes=(0, 1))
    sums = _window_sums(sums, window_b, axes=(2, 3))
    pairs: list[RegionPair] = []
    while len(pairs) < num:
        row_a, column_a, row_b, column_b = (int(place) for place in np.unravel_index(int(sums.argmax()), sums.shape))
        best = float(sums[row_a, column_a, row_b, column_b])
        if best <= 0 or (pairs and best < LEAST * pairs[0].contribution):
            break
        pairs.append(RegionPair(_box(row_a, column_a, window_a, grid_a), _box(row_b, column_b, window_b, grid_b), best))
        sums[(*_around(row_a, column_a, window_a), slice(None), slice(None))] = -np.inf
        sums[(slice(None), slice(None), *_around(row_b, column_b, window_b))] = -np.inf
    return tuple(pairs)


def _window(grid: Grid) -> Grid:
    rows, columns = (max(1, round(side / SIDES)) for side in grid)
    return rows, columns


def _window_sums(values: Array, window: Grid, axes: tuple[int, int]) -> Array:
    """The sums over all windows of this size, by where they begin."""
    for axis, size in zip(axes, window, strict=True):
        running = np.insert(values.cumsum(axis=axis), 0, 0.0, axis=axis)
        count = values.shape[axis] - size + 1
        values = running.take(range(size, size + count), axis=axis) - running.take(range(count), axis=axis)
    return values


def _around(row: int, column: int, window: Grid) -> tuple[slice, slice]:
    """Where windows begin that overlap the one that begins here."""
    return slice(max(0, row - window[0] + 1), row + window[0]), slice(max(0, column - window[1] + 1), column + window[1])


def _box(row: int, column: int, window: Grid, grid: Grid) -> ShownBox:
    return ShownBox(column / grid[1], row / grid[0], (column + window[1]) / grid[1], (row + window[0]) / grid[0])
