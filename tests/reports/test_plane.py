"""The plane itself, and how ranks become a loss: what is drawn is what the network and the loss give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score
from sklearn.neighbors import NearestNeighbors

from likewise.comparison.results import ComparisonResults
from likewise.losses.nonlinear_rank import NonlinearRank
from likewise.pairs import Pairs, Side
from likewise.reports.comparison_report import compare, write_report
from likewise.reports.embedding_map import PLANE, embedding_map
from likewise.reports.figures.plane import PlanePanel, plane_figure, planes_of
from likewise.reports.figures.rank_curves import rank_curves, rank_curves_figure

from ..comparison.tiny import DATA, tiny_protocol

RNG = np.random.default_rng(0)


def panel(num_items: int = 60, num_classes: int = 10, **changes: object) -> PlanePanel:
    given = {
        "title": "Softmax",
        "coordinates": RNG.normal(size=(num_items, 2)).astype(np.float32) * 7,
        "labels": np.arange(num_items) % num_classes,
        "class_names": tuple(f"class {i}" for i in range(num_classes)),
        "score": "mAP 12.3",
    }
    return PlanePanel(**(given | changes))  # type: ignore[arg-type]


def test_every_item_is_drawn_where_it_is(tmp_path: Path) -> None:
    shown = panel()
    figure = plane_figure([shown, panel(title="NRA")], path=tmp_path / "plane")
    first, second = figure.axes
    assert first.get_title() == "Softmax, mAP 12.3"
    assert second.get_title() == "NRA, mAP 12.3"
    for label, drawn in enumerate(first.collections):
        np.testing.assert_allclose(drawn.get_offsets(), shown.coordinates[shown.labels == label])
    assert [entry.get_text() for entry in figure.legends[0].get_texts()] == list(shown.class_names)
    colours = {tuple(drawn.get_facecolor()[0][:3]) for drawn in first.collections}
    assert len(colours) == 10
    assert (tmp_path / "plane.png").stat().st_size > 10_000
    assert (tmp_path / "plane.svg").read_text().count("Softmax, mAP 12.3") == 1


def test_of_many_items_the_same_few_are_drawn() -> None:
    many = panel(500)
    drawn = [np.concatenate([part.get_offsets() for part in plane_figure([many], most_items=100).axes[0].collections]) for _ in range(2)]
    assert len(drawn[0]) == 100
    np.testing.assert_array_equal(*drawn)


def test_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"coordinates of shape \(60, 3\) for 60 labels"):
        panel(coordinates=np.zeros((60, 3), np.float32))
    with pytest.raises(ValueError, match="no panel"):
        plane_figure([])


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> ComparisonResults:
    """By distance, in two dimensions."""
    protocol = tiny_protocol(trials=0, dim=2, backbone="lenet", compared_by="euclidean", metrics=("R@K", "mAP"), steps=10)
    out = tmp_path_factory.mktemp("plane") / "out"
    return compare(("softmax", "contrastive"), DATA, protocol=protocol, seeds=2, jobs=1, out=out, device="cpu", keep_networks=True)


def test_a_comparison_keeps_the_plane_of_every_seed(compared: ComparisonResults) -> None:
    assert compared.folder is not None
    for method in compared.methods:
        assert len(method.planes) == 2
        first, second = (np.load(path) for path in method.planes)
        assert first.dtype == np.float32
        assert first.shape == second.shape == (len(compared.items["glyphs"].labels), 2)
        assert not np.array_equal(first, second)
        assert np.linalg.norm(first, axis=1).std() > 1e-3  # not brought to length 1
    shown = planes_of(compared, "glyphs")
    assert {panel.title for panel in shown} == {"Softmax", "Contrastive", "Untrained network"}
    assert (compared.folder / "plots" / "plane.png").is_file()


def test_items_are_compared_by_their_distances(compared: ComparisonResults) -> None:
    labels = compared.items["glyphs"].labels
    for method in compared.methods:
        for seed, path in enumerate(method.planes):
            plane = np.load(path)
            found = NearestNeighbors(n_neighbors=2).fit(plane).kneighbors(plane, return_distance=False)
            nearest = np.where(found[:, 0] == np.arange(len(plane)), found[:, 1], found[:, 0])
            expected = (labels[nearest] == labels).mean()
            assert method.scores["R@1"].values[seed] == pytest.approx(expected, abs=1.5 / len(labels))
            precision = []
            for query in range(len(plane)):
                others = np.delete(np.arange(len(plane)), query)
                apart = np.linalg.norm(plane[others].astype(np.float64) - plane[query], axis=1)
                precision.append(average_precision_score(labels[others] == labels[query], -apart))
            assert method.scores["mAP"].values[seed] == pytest.approx(np.mean(precision), abs=1e-3)


def test_the_map_of_two_dimensions_is_the_plane(compared: ComparisonResults) -> None:
    items = compared.items["glyphs"]
    methods = list(compared.board("glyphs").methods)
    found = embedding_map(methods, {}, items.labels)
    assert found.kind == PLANE
    for method in methods:
        plane = np.load(method.planes[0])[found.items]
        places = found.places[method.name].astype(np.float64)
        scale = 1000 / np.ptp(plane, axis=0).max()
        np.testing.assert_allclose(places - places[0], (plane - plane[0]) * scale, atol=1.1)
    assert compared.folder is not None
    page = write_report(compared, compared.folder).read_text()
    assert "It is the plane itself" in page
    assert "t-SNE" not in page
    assert "Euclidean distance of embeddings that are not brought to length 1" in page


def on_rank(loss: NonlinearRank, rank: float) -> float:
    """The loss of an anchor whose farthest positive has this rank: a nearest positive at distance 1, the only negative, farthest, at 2."""
    distance = torch.tensor([[1.0, 1.0 + rank, 2.0]], dtype=torch.float64)
    similarity = 1 - distance.square() / 2
    positive = torch.tensor([[True, True, False]])
    pairs = Pairs(Side(similarity, positive), Side(similarity, ~positive), anchor_labels=torch.zeros(1, dtype=torch.long), dim=2)
    return float(loss.per_anchor(pairs)[0])


@pytest.mark.parametrize("alpha", [1.0, 2.5, 4.0])
def test_the_curves_are_the_loss(alpha: float) -> None:
    ranks, transferred, lost = rank_curves(alpha, num=11)
    expected = [0.5 * (2 * r) ** alpha if r < 0.5 else 1 - 0.5 * (2 * (1 - r)) ** alpha for r in ranks]  # eq. 10
    np.testing.assert_allclose(transferred, expected, atol=1e-12)
    loss = NonlinearRank(alpha=alpha)
    of_loss = [on_rank(loss, rank) + np.log(1 + loss.eps) for rank in ranks[1:]]  # less what the negative costs, at rank 1
    np.testing.assert_allclose(lost[1:], of_loss, atol=1e-6)


def test_the_figure_of_ranks(tmp_path: Path) -> None:
    figure = rank_curves_figure((1.0, 4.0), marked=4.0, path=tmp_path / "ranks")
    left, right = figure.axes
    np.testing.assert_allclose(left.lines[0].get_ydata(), left.lines[0].get_xdata(), atol=1e-12)  # alpha = 1: a straight line
    np.testing.assert_allclose(right.lines[1].get_ydata(), rank_curves(4.0)[2])
    assert [entry.get_text() for entry in left.get_legend().get_texts()] == ["1", "4"]
    assert (tmp_path / "ranks.png").is_file()
    with pytest.raises(ValueError, match="alphas is empty"):
        rank_curves_figure(())
