import numpy as np
import pytest
import torch
from torch import Tensor

from likewise.evaluation import diagnostics, pack_bits
from likewise.evaluation.diagnostics import QUANTILES, Diagnosis, diagnose


def unbalanced(*, dim: int = 6, spread: float = 0.7, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Classes of 1 to 12 items, shuffled."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.repeat_interleave(torch.arange(12) * 5, torch.arange(1, 13))
    rows = torch.randn(12, dim, generator=generator, dtype=torch.float64)[labels // 5]
    rows = rows + spread * torch.randn(len(labels), dim, generator=generator, dtype=torch.float64)
    order = torch.randperm(len(labels), generator=generator)
    return rows[order], labels[order]


def brute_force_distances(rows: Tensor, labels: Tensor, metric: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = torch.nn.functional.normalize(rows, dim=1) if metric == "cosine" else rows
    matrix = torch.stack([(rows - row).norm(dim=1) for row in rows]).numpy()
    same = (labels[:, None] == labels).numpy()
    once = np.triu(np.ones_like(same), 1)
    return matrix, matrix[same & once], matrix[~same & once]


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("tile", [(512, 8192), (7, 10), (20, 5)])
def test_distances_equal_a_brute_force(metric: str, tile: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "TILE", tile)
    rows, labels = unbalanced()
    found = diagnose(rows, labels, metric=metric, bins=40)
    _, intra, inter = brute_force_distances(rows, labels, metric)
    edges = found.edges.numpy()
    fine = (edges[1] - edges[0]) / diagnostics.FINE
    for ours, values in ((found.intra, intra), (found.inter, inter)):
        assert ours.num_pairs == len(values)
        assert ours.mean == pytest.approx(values.mean())
        assert ours.histogram.tolist() == np.histogram(values, bins=edges)[0].tolist()
        assert list(ours.quantiles) == list(QUANTILES)
        expected = np.quantile(values, QUANTILES, method="lower")
        assert list(ours.quantiles.values()) == pytest.approx(expected, abs=fine)
    closer = (intra[:, None] < inter).mean() + (intra[:, None] == inter).mean() / 2
    assert found.separation == pytest.approx(closer, abs=0.005)
    assert 0.6 < closer < 0.99


def test_distances_of_bits() -> None:
    rows, labels = unbalanced(dim=19)
    bits = np.pad((rows > 0).numpy(), ((0, 0), (0, 5)))
    found = diagnose(pack_bits(rows), labels, metric="hamming", bins=24)
    distances = (bits[:, None] != bits[None]).sum(axis=2)
    same = (labels[:, None] == labels).numpy()
    once = np.triu(np.ones_like(same), 1)
    edges = found.edges.numpy()
    assert edges.tolist() == list(range(25))
    for ours, values in ((found.intra, distances[same & once]), (found.inter, distances[~same & once])):
        assert ours.mean == values.mean()
        assert ours.histogram.tolist() == np.histogram(values, bins=edges)[0].tolist()
        assert list(ours.quantiles.values()) == pytest.approx(np.quantile(values, QUANTILES, method="lower"), abs=0.01)
    assert found.occurrence.sum() == 10 * len(labels)
    np.fill_diagonal(distances, 1000)
    nearest_positive = np.where(same, distances, 1000).min(axis=1)
    assert found.worst_queries
    for query in found.worst_queries:
        assert query.gap == nearest_positive[query.index] - distances[query.index].min()


def test_spectrum_equals_the_singular_value_decomposition() -> None:
    rows, labels = unbalanced()
    found = diagnose(rows, labels, metric="euclidean")
    expected = torch.linalg.svdvals(rows - rows.mean(dim=0))
    torch.testing.assert_close(found.singular_values, expected)
    share = (expected / expected.sum()).numpy()
    assert found.effective_rank == pytest.approx(np.exp(-(share * np.log(share)).sum()))


def test_effective_rank_of_known_shapes() -> None:
    cross = torch.cat([torch.eye(5), -torch.eye(5)])
    labels = torch.arange(10) % 2
    assert diagnose(cross, labels).effective_rank == pytest.approx(5.0)
    line = torch.arange(10.0)[:, None] * torch.ones(5)
    assert diagnose(line, labels, metric="euclidean").effective_rank == pytest.approx(1.0)
    for value in (1 / 3, 1e-20, 1e18):
        assert diagnose(torch.full((10, 5), value), labels).effective_rank == 0.0
    assert diagnose(1e-5 * cross, labels, metric="euclidean").effective_rank == pytest.approx(5.0)


def test_hubness_equals_a_loop() -> None:
    rows, labels = unbalanced()
    found = diagnose(rows, labels, neighbours=4, worst=3)
    matrix, _, _ = brute_force_distances(rows, labels, "cosine")
    np.fill_diagonal(matrix, np.inf)
    occurrence = np.zeros(len(rows), dtype=int)
    for row in matrix:
        for neighbour in np.argsort(row, kind="stable")[:4]:
            occurrence[neighbour] += 1
    assert found.occurrence.tolist() == occurrence.tolist()
    centred = occurrence - occurrence.mean()
    assert found.hub_skewness == pytest.approx((centred**3).mean() / occurrence.std() ** 3)
    assert found.anti_hub_share == pytest.approx((occurrence == 0).mean())
    hubs = np.argsort(-occurrence, kind="stable")[:3]
    assert found.hubs == [(int(hub), int(occurrence[hub])) for hub in hubs]


@pytest.mark.parametrize("tile", [(512, 8192), (9, 4)])
def test_class_recall_and_worst_queries_equal_a_loop(tile: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "TILE", tile)
    rows, labels = unbalanced(spread=1.0)
    found = diagnose(rows, labels, neighbours=3, worst=1000)
    matrix, _, _ = brute_force_distances(rows, labels, "cosine")
    np.fill_diagonal(matrix, np.inf)
    names = labels.numpy()
    hits: dict[int, list[bool]] = {}
    gaps: dict[int, float] = {}
    for query, row in enumerate(matrix):
        positives = (names == names[query]) & (np.arange(len(names)) != query)
        if positives.any():
            hit = bool(names[row.argmin()] == names[query])
            hits.setdefault(int(names[query]), []).append(hit)
            if not hit:
                gaps[query] = float(row[positives].min() - row.min())
    recalls = {recall.label: (recall.num_items, recall.recall_at_1) for recall in found.class_recall}
    assert recalls == {str(name): (len(own), pytest.approx(np.mean(own))) for name, own in hits.items()}
    values = [recall.recall_at_1 for recall in found.class_recall]
    assert values == sorted(values)
    assert values[0] < values[-1]
    assert "0" not in recalls  # the class of one item
    assert [query.index for query in found.worst_queries] == sorted(gaps, key=lambda query: -gaps[query])
    for query in found.worst_queries:
        assert query.gap == pytest.approx(gaps[query.index], abs=1e-9)
        assert query.label == str(names[query.index])
        assert query.neighbours == np.argsort(matrix[query.index], kind="stable")[:3].tolist()
        assert query.neighbour_labels == [str(names[neighbour]) for neighbour in query.neighbours]


def test_string_labels_keep_their_names() -> None:
    rows, labels = unbalanced(spread=0.1)
    found = diagnose(rows.numpy(), np.array([f"bird {label}" for label in labels.tolist()]), worst=2)
    assert {recall.label for recall in found.class_recall} == {f"bird {5 * number}" for number in range(1, 12)}


def clustered(num_classes: int, dim: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(num_classes).repeat(6)
    return torch.randn(num_classes, dim, generator=generator)[labels] + 0.1 * torch.randn(6 * num_classes, dim, generator=generator), labels


def warned(found: Diagnosis, words: str) -> bool:
    return any(words in warning for warning in found.warnings)


def test_a_sound_embedding_gets_no_warning() -> None:
    assert diagnose(*clustered(40, 16)).warnings == []


def test_two_classes_on_a_line_are_no_collapse() -> None:
    rows = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).repeat(10, 1)
    assert not warned(diagnose(rows, torch.arange(20) % 2), "collapse")


def test_warnings_name_what_is_wrong() -> None:
    rows, labels = clustered(40, 16)
    flat = rows.clone()
    flat[:, 1:] *= 1e-3
    assert warned(diagnose(flat, labels, metric="euclidean"), "dimensional collapse")
    wide, of_wide = clustered(80, 64)
    assert not warned(diagnose(wide, of_wide), "dimensional collapse")
    wide[:, 4:] *= 1e-3
    assert 2.5 < diagnose(wide, of_wide).effective_rank < 5  # not a line, but few of the 63 directions that 80 classes could use
    assert warned(diagnose(wide, of_wide), "dimensional collapse")
    assert warned(diagnose(torch.ones_like(rows), labels), "collapsed to one point")
    assert warned(diagnose(rows + 100, labels), "almost on one point")
    assert warned(diagnose(rows, labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))]), "R@1 is 0 for")
    odd = torch.arange(len(rows)) % 7 == 0
    assert warned(diagnose(rows * ~odd[:, None], labels), "embeddings are all zero")
    assert warned(diagnose(torch.eye(8), torch.arange(8) // 2), "tells nothing of the classes")


def test_a_hub_is_warned_of() -> None:
    """A centre that is nearest to all points of a sphere in many dimensions."""
    generator = torch.Generator().manual_seed(0)
    sphere = torch.nn.functional.normalize(torch.randn(120, 100, generator=generator), dim=1)
    found = diagnose(torch.cat([torch.zeros(1, 100), sphere]), torch.arange(121) % 2, metric="euclidean", neighbours=2)
    assert found.hubs[0] == (0, 120)
    assert warned(found, "item 0 is among the 2 nearest of 120 items")
    assert warned(found, "nobody's neighbour")


def test_few_items() -> None:
    found = diagnose(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), [0, 0])
    assert found.neighbours == 1
    assert found.inter.num_pairs == 0
    assert found.inter.quantiles == {}
    assert np.isnan(found.separation)
    assert found.intra.mean == pytest.approx(2**0.5)


def test_faults_are_named() -> None:
    rows, labels = unbalanced()
    with pytest.raises(ValueError, match="77 labels for 78 embeddings"):
        diagnose(rows, labels[1:])
    with pytest.raises(ValueError, match="expected packed bits"):
        diagnose(rows, labels, metric="hamming")
    with pytest.raises(ValueError, match="metric is 'dot'"):
        diagnose(rows, labels, metric="dot")
    with pytest.raises(ValueError, match="at least two"):
        diagnose(rows[:1], labels[:1])
    with pytest.raises(ValueError, match="neighbours is 0"):
        diagnose(rows, labels, neighbours=0)
    with pytest.raises(ValueError, match="worst is -1"):
        diagnose(rows, labels, worst=-1)
    rows[3, 2] = torch.nan
    with pytest.raises(ValueError, match="row 3 of embeddings holds NaN"):
        diagnose(rows, labels)
