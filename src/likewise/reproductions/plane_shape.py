"""The shape of classes in the plane: how much they differ in size (NRA, section IV-B)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def class_radii(coordinates: npt.NDArray[np.floating], labels: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The mean distance of each class's items to their centre, classes in rising order of their labels.

    coordinates (items, dim), in any number of dimensions.
    """
    points = np.asarray(coordinates, dtype=np.float64)
    members = [points[labels == label] for label in np.unique(labels)]
    return np.array([np.linalg.norm(own - own.mean(axis=0), axis=1).mean() for own in members])


def size_variation(coordinates: npt.NDArray[np.floating], labels: npt.NDArray[np.int64]) -> float:
    """Standard deviation of the radii of classes over their mean: 0 where all classes are of one size, whatever the scale."""
    radii = class_radii(coordinates, labels)
    return float(radii.std(ddof=1) / radii.mean())
