"""Average linkage at a threshold: the groups are SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist
from sklearn.metrics import adjusted_rand_score

from likewise.evaluation import linkage as linkage_module
from likewise.evaluation.linkage import average_linkage


def made(seed: int) -> np.ndarray:
    """Classes of any tightness with a common direction; of every third seed a third of the vectors twice."""
    rng = np.random.default_rng(seed)
    count, classes, width = int(rng.integers(2, 250)), int(rng.integers(1, 20)), int(rng.integers(2, 24))
    rows = rng.normal(size=(classes, width))[rng.integers(0, classes, count)] + rng.uniform(0, 2)
    rows = rows + rng.uniform(0.1, 1.5) * rng.normal(size=(count, width))
    rows = np.concatenate([rows, rows[: count // 3]]) if seed % 3 == 0 else rows
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("block", [1 << 24, 50])
def test_the_groups_are_scipys(seed: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linkage_module, "BLOCK", block)
    rows = made(seed)
    tree = linkage(pdist(rows.astype(np.float64), "cosine"), "average")
    for threshold in (-0.2, 0.1, 0.5, 0.8, 0.95):
        found = average_linkage(torch.from_numpy(rows), threshold).numpy()
        assert adjusted_rand_score(fcluster(tree, 1 - threshold, "distance"), found) == 1.0
        firsts = [int(np.flatnonzero(found == group)[0]) for group in range(int(found.max()) + 1)]
        assert firsts == sorted(firsts)


def test_it_does_not_chain() -> None:
    """A row of points, each near the next: connected components would be one group."""
    angles = np.arange(40) * 0.15
    rows = torch.from_numpy(np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32))
    groups = average_linkage(rows, 0.9)
    assert int(groups.max()) + 1 > 4
    for group in range(int(groups.max()) + 1):
        members = rows[groups == group]
        assert float((members @ members.T).mean()) >= 0.9


def test_equals_and_rings_of_equals() -> None:
    equal = torch.nn.functional.normalize(torch.ones(3000, 4))
    assert average_linkage(equal, 1 - 1e-6).max() == 0
    corners = torch.eye(7) - 1 / 7  # all as far from each other
    assert average_linkage(torch.nn.functional.normalize(corners), -0.2).max() == 0
    assert average_linkage(torch.nn.functional.normalize(corners), 0.0).tolist() == list(range(7))
    assert average_linkage(torch.ones(1, 2), 0.5).tolist() == [0]
    assert average_linkage(torch.ones(0, 2), 0.5).tolist() == []


def test_progress() -> None:
    told: list[tuple[str, int, int]] = []
    rows = torch.from_numpy(made(1))
    average_linkage(rows, 0.5, on_progress=lambda *step: told.append(step))
    assert told[0][0] == "comparing"
    assert told[-1] == ("joining groups", len(rows), len(rows))
