"""Sizes of classes in the plane, against circles whose radii are known."""

from __future__ import annotations

import numpy as np
import pytest

from likewise.reproductions.plane_shape import class_radii, size_variation


def circles(*radii: float) -> tuple[np.ndarray, np.ndarray]:
    """A circle of points a class, far from each other."""
    angles = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    points = [radius * np.stack([np.cos(angles), np.sin(angles)], axis=1) + 100 * number for number, radius in enumerate(radii)]
    return np.concatenate(points), np.repeat(np.arange(len(radii)), len(angles))


def test_radii_are_those_of_circles() -> None:
    np.testing.assert_allclose(class_radii(*circles(1.0, 2.0, 5.0)), [1.0, 2.0, 5.0])


def test_variation_knows_no_scale() -> None:
    points, labels = circles(1.0, 2.0, 6.0)
    expected = np.std([1, 2, 6], ddof=1) / 3
    assert size_variation(points, labels) == pytest.approx(expected)
    assert size_variation(1000 * points + 7, labels) == pytest.approx(expected)
    assert size_variation(*circles(3.0, 3.0, 3.0)) == pytest.approx(0.0, abs=1e-12)
