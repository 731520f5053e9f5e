import importlib

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score, normalized_mutual_info_score
from torch import Tensor

from likewise.evaluation.clustering import adjusted_mutual_information, clustering_scores
from likewise.evaluation.kmeans import kmeans, plus_plus

kmeans_module = importlib.import_module("likewise.evaluation.kmeans")  # the package also has the function of that name


def blobs(num_classes: int, each: int, dim: int, *, spread: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(num_classes).repeat(each)
    centres = torch.randn(num_classes, dim, generator=generator)
    return centres[labels] + spread * torch.randn(len(labels), dim, generator=generator), labels


def exact_inertia(rows: Tensor, assignment: Tensor, centroids: Tensor) -> float:
    return float((rows.double() - centroids.double()[assignment]).square().sum())


@pytest.mark.parametrize("backend", ["torch", "faiss"])
def test_separable_data_reach_the_optimum_that_scikit_learn_reaches(backend: str) -> None:
    rows, labels = blobs(12, 20, 16, spread=0.05)
    assignment, centroids, inertia = kmeans(rows, 12, seed=0, restarts=10, backend=backend)  # type: ignore[arg-type]
    peer = KMeans(12, n_init=10, random_state=0).fit(rows.numpy())
    assert assignment.dtype == torch.int64
    assert adjusted_rand_score(labels, assignment) == 1.0
    assert inertia == pytest.approx(peer.inertia_, rel=1e-4)
    assert exact_inertia(rows, assignment, centroids) == pytest.approx(inertia, rel=1e-5)


@pytest.mark.parametrize(("count", "k"), [(600, 8), (600, 60), (400, 150)])
def test_random_data_come_out_about_as_well_as_in_scikit_learn(count: int, k: int) -> None:
    rows = torch.randn(count, 10, generator=torch.Generator().manual_seed(count + k))
    ours = np.mean([kmeans(rows, k, seed=seed).inertia for seed in range(5)])
    theirs = np.mean([KMeans(k, n_init=1, init="k-means++", random_state=seed).fit(rows.numpy()).inertia_ for seed in range(5)])
    assert ours < 1.03 * theirs  # scikit-learn seeds greedily, with several trials a centre


def test_the_result_is_a_fixed_point_of_plain_lloyd() -> None:
    """The comparisons that are left out must not have mattered."""
    rows, _ = blobs(40, 30, 12, spread=1.0)
    rows = rows.double()
    assignment, centroids, _ = kmeans(rows, 40, seed=3, iterations=500, tolerance=0.0)
    assert torch.equal(torch.cdist(rows, centroids).argmin(dim=1), assignment)
    means = torch.stack([rows[assignment == cluster].mean(dim=0) for cluster in range(40)])
    torch.testing.assert_close(means, centroids)


def test_every_iteration_equals_plain_lloyd() -> None:
    rows, _ = blobs(30, 20, 8, spread=1.2, seed=1)
    rows = rows.double()
    mean = rows.mean(dim=0)
    centroids = rows[plus_plus(rows - mean, 30, generator=torch.Generator().manual_seed(5), trials=5).chosen]
    for iterations in range(1, 16):
        expected = torch.cdist(rows, centroids).argmin(dim=1)
        centroids = torch.stack([rows[expected == cluster].mean(dim=0) for cluster in range(30)])
        found = kmeans(rows, 30, seed=5, iterations=iterations, tolerance=0.0)
        torch.testing.assert_close(found.centroids, centroids)
        assert torch.equal(found.assignment, torch.cdist(rows, centroids).argmin(dim=1))


@pytest.mark.parametrize("elements", [64, 1000])
def test_block_size_changes_nothing(elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = blobs(15, 12, 9, spread=0.8)
    whole = kmeans(rows.double(), 15, seed=1)
    monkeypatch.setitem(kmeans_module.BLOCK_ELEMENTS, "cpu", elements)
    blocked = kmeans(rows.double(), 15, seed=1)
    assert torch.equal(whole.assignment, blocked.assignment)
    torch.testing.assert_close(whole.centroids, blocked.centroids)


def test_same_seed_same_result_and_another_seed_another() -> None:
    rows = torch.randn(300, 6, generator=torch.Generator().manual_seed(0))
    first, again, other = (kmeans(rows, 20, seed=seed) for seed in (4, 4, 5))
    assert torch.equal(first.assignment, again.assignment)
    assert torch.equal(first.centroids, again.centroids)
    assert first.inertia != other.inertia


def test_more_restarts_keep_the_best() -> None:
    rows = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
    finished: list[int] = []
    best = [kmeans(rows, 25, seed=0, restarts=restarts, on_restart=finished.append).inertia for restarts in (1, 3, 9)]
    assert best[0] >= best[1] >= best[2]
    assert best[0] > best[2]
    assert finished == [1, 1, 2, 3, *range(1, 10)]


@pytest.mark.slow
def test_seeding_draws_as_k_means_plus_plus_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """All three centres of many draws, both later ones from one batch, against the exact chances of k-means++."""
    monkeypatch.setattr(kmeans_module, "SEEDING_SHARE", 0.5)
    points = torch.tensor([[0.0], [1.0], [3.0], [7.0]], dtype=torch.float64)
    squared = (points - points.T).square()
    chance = torch.zeros(4, 4, 4, dtype=torch.float64)
    for a in range(4):
        for b in range(4):
            after_two = torch.minimum(squared[a], squared[b])
            if a != b:
                chance[a, b] = 0.25 * squared[a, b] / squared[a].sum() * after_two / after_two.sum()
    generator = torch.Generator().manual_seed(0)
    draws = 2_000
    seen = torch.zeros(4, 4, 4, dtype=torch.float64)
    for _ in range(draws):
        a, b, c = plus_plus(points, 3, generator=generator, trials=1).chosen.tolist()
        seen[a, b, c] += 1
    error = (seen / draws - chance).abs()
    assert bool((error <= 4.5 * (chance * (1 - chance) / draws).sqrt()).all())  # 24 possible triples; impossible ones have error 0


def test_the_gain_is_what_a_candidate_takes_off_the_potential() -> None:
    rows = torch.randn(60, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    seeds = plus_plus(rows, 4, generator=torch.Generator().manual_seed(1), trials=2)
    candidates = torch.tensor([3, 17, 40])
    after = torch.minimum(seeds.squared_distance[:, None], torch.cdist(rows, rows[candidates]).square())
    gain = kmeans_module._gain(seeds, rows, rows.square().sum(dim=1), candidates)
    expected = (seeds.squared_distance[:, None] - after).sum(dim=0)
    torch.testing.assert_close(gain, expected)
    coarse = kmeans_module._gain(seeds, rows.bfloat16(), rows.square().sum(dim=1), candidates)
    torch.testing.assert_close(coarse, expected, rtol=0.05, atol=0.0)  # bfloat16 has 8 bits


def test_greedy_seeding_lowers_the_potential() -> None:
    rows, _ = blobs(60, 5, 12, spread=0.5)

    def potential(seed: int, trials: int) -> float:
        return float(plus_plus(rows, 60, generator=torch.Generator().manual_seed(seed), trials=trials).squared_distance.sum())

    plain, greedy = (np.mean([potential(seed, trials) for seed in range(5)]) for trials in (1, 6))
    assert greedy < 0.85 * plain


@pytest.mark.parametrize("trials", [1, 6])
def test_seeds_know_every_rows_nearest_centre(trials: int) -> None:
    rows = torch.randn(500, 7, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    seeds = plus_plus(rows, 90, generator=torch.Generator().manual_seed(3), trials=trials)
    distance, nearest = torch.cdist(rows, rows[seeds.chosen]).min(dim=1)
    assert len(seeds.chosen.unique()) == 90
    assert torch.equal(seeds.nearest, nearest)
    torch.testing.assert_close(seeds.squared_distance, distance.square(), atol=1e-12, rtol=1e-9)


def test_empty_clusters_start_again_at_far_items() -> None:
    rows = torch.tensor([[0.0], [0.1], [5.0], [5.1], [9.0]])
    centroids = torch.tensor([[0.05], [6.0], [100.0]])
    assignment = torch.tensor([0, 0, 1, 1, 1])
    distance = (rows - centroids[assignment]).square().sum(dim=1)
    updated, moved = kmeans_module._update(rows, centroids, assignment, distance=distance, changed=torch.tensor([False, True, False]))
    torch.testing.assert_close(updated, torch.tensor([[0.05], [19.1 / 3], [9.0]]))
    assert moved.tolist() == [False, True, True]


def test_no_cluster_is_left_empty() -> None:
    rows, _ = blobs(5, 40, 3, spread=0.01)
    assert len(kmeans(rows, 120, seed=0).assignment.unique()) == 120


def test_fewer_different_rows_than_clusters() -> None:
    rows = torch.tensor([[0.0, 1.0], [2.0, 3.0]]).repeat(10, 1)
    assignment, centroids, inertia = kmeans(rows, 6, seed=0)
    assert inertia == pytest.approx(0.0, abs=1e-9)
    assert centroids.shape == (6, 2)
    assert exact_inertia(rows, assignment, centroids) == pytest.approx(0.0, abs=1e-9)


def test_a_common_offset_costs_no_accuracy() -> None:
    rows, labels = blobs(8, 25, 6, spread=0.02)
    offset = kmeans(rows + 10_000.0, 8, seed=0, restarts=10)
    assert adjusted_rand_score(labels, offset.assignment) == 1.0


def test_k_of_one_and_of_all_items() -> None:
    rows = torch.randn(9, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(kmeans(rows, 1).centroids, rows.mean(dim=0, keepdim=True))
    assert sorted(kmeans(rows, 9).assignment.tolist()) == list(range(9))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k must lie between 1 and the number of items, 4"),
        ({"k": 5}, "got 5"),
        ({"k": 2, "restarts": 0}, "restarts=0"),
        ({"k": 2, "iterations": 0}, "iterations=0"),
        ({"k": 2, "tolerance": -1.0}, "tolerance"),
        ({"k": 2, "backend": "cuml"}, "backend"),
    ],
)
def test_bad_settings_are_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kmeans(torch.eye(4), **arguments)  # type: ignore[arg-type]


def test_bad_rows_are_named() -> None:
    rows = torch.eye(4)
    rows[2, 1] = torch.nan
    with pytest.raises(ValueError, match="1 embeddings hold NaN or infinity, the first is row 2"):
        kmeans(rows, 2)
    with pytest.raises(ValueError, match=r"torch.int64 of shape \(4, 4\)"):
        kmeans(torch.eye(4).long(), 2)


def random_partitions(count: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    classes = rng.integers(k, size=count)
    return classes, np.where(rng.random(count) < 0.5, classes, rng.integers(k, size=count))


@pytest.mark.parametrize(("count", "k"), [(30, 4), (500, 3), (500, 20), (800, 300)])
def test_ami_equals_scikit_learn(count: int, k: int) -> None:
    classes, clusters = random_partitions(count, k, seed=k)
    assert adjusted_mutual_information(classes, clusters) == pytest.approx(adjusted_mutual_info_score(classes, clusters), abs=1e-9)


@pytest.mark.parametrize(
    ("classes", "clusters"), [([0, 0, 0], [1, 1, 1]), ([0, 1, 2], [0, 0, 0]), ([0, 1, 2], [2, 0, 1]), ([0, 0, 1, 1], [0, 1, 0, 1])]
)
def test_ami_equals_scikit_learn_at_the_edges(classes: list[int], clusters: list[int]) -> None:
    expected = adjusted_mutual_info_score(classes, clusters)
    assert adjusted_mutual_information(np.array(classes), np.array(clusters)) == pytest.approx(expected, abs=1e-12)


def test_scores_equal_scikit_learn_on_the_same_clusters() -> None:
    rows, labels = blobs(10, 30, 8, spread=1.0)
    assignment = kmeans(torch.nn.functional.normalize(rows, dim=1), 10, seed=7, restarts=2).assignment
    scores = clustering_scores(rows, labels, seed=7, restarts=2)
    assert scores == {
        "NMI": pytest.approx(normalized_mutual_info_score(labels, assignment)),
        "NMI_geometric": pytest.approx(normalized_mutual_info_score(labels, assignment, average_method="geometric")),
        "AMI": pytest.approx(adjusted_mutual_info_score(labels, assignment)),
    }
    assert scores["NMI"] != scores["NMI_geometric"]
    assert 0.1 < scores["AMI"] < scores["NMI"] < 1


def test_cosine_ignores_lengths_and_euclidean_does_not() -> None:
    rows, labels = blobs(6, 30, 8, spread=0.1)
    lengths = torch.rand(len(rows), 1, generator=torch.Generator().manual_seed(0)) * 10 + 0.1
    assert clustering_scores(rows * lengths, labels)["NMI"] == 1.0
    assert clustering_scores(rows * lengths, labels, metric="euclidean")["NMI"] < 0.95


def test_string_labels_one_class_and_a_choice_of_scores() -> None:
    rows, labels = blobs(5, 10, 4, spread=0.01)
    assert clustering_scores(rows, [f"class {label}" for label in labels.tolist()], metrics=("NMI",)) == {"NMI": 1.0}
    assert clustering_scores(rows, torch.zeros(50, dtype=torch.int64)) == {"NMI": 1.0, "NMI_geometric": 1.0, "AMI": 1.0}


def test_bad_scores_arguments_are_named() -> None:
    rows, labels = blobs(3, 4, 2, spread=0.1)
    with pytest.raises(ValueError, match=r"'purity'.*: expected some of NMI"):
        clustering_scores(rows, labels, metrics=("NMI", "purity"))
    with pytest.raises(ValueError, match="got 'manhattan'"):
        clustering_scores(rows, labels, metric="manhattan")
    with pytest.raises(ValueError, match="11 labels for 12 embeddings"):
        clustering_scores(rows, labels[1:])
