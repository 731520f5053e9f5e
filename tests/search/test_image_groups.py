"""likewise cluster: the groups of k-means and of linkage, scored against the classes, and pages of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score, normalized_mutual_info_score
from typer.testing import CliRunner

import likewise
from likewise.cli import app
from likewise.models import Embedder
from likewise.search.grouping.contact_pages import groups_page
from likewise.search.grouping.image_groups import ImageGroups
from likewise.search.index import Index

from .pictures import class_folders, small_embedder


@pytest.fixture
def model(tmp_path: Path) -> Embedder:
    plain = small_embedder(head="none")
    others = class_folders(tmp_path / "others", classes=40, images=2)
    return plain.with_whitening(likewise.whiten(plain.embed(others), dim=16))


@pytest.fixture
def index(model: Embedder, tmp_path: Path) -> Iterator[Index]:
    class_folders(tmp_path / "photos", classes=5, images=6)
    built = Index.build(model, tmp_path / "photos", out=tmp_path / "index")
    yield built
    built.close()


def by_path(groups: ImageGroups) -> tuple[list[int], list[str]]:
    """Group and label of each image, in the order of paths."""
    found = sorted((image.path, number, str(image.label)) for number, group in enumerate(groups.groups) for image in group.images)
    return [number for _, number, _ in found], [label for _, _, label in found]


def test_linkage_is_scipys(index: Index) -> None:
    ids = index.store.ids()
    vectors = index.store.vectors(ids.tolist()).astype(np.float64)
    paths = [item.path for item in index.store.items(ids.tolist())]
    tree = linkage(pdist(vectors, "cosine"), "average")
    for similarity in (0.3, 0.6, 0.9):
        groups = index.cluster(similarity=similarity)
        expected = fcluster(tree, 1 - similarity, "distance")[np.argsort(paths)]
        assert adjusted_rand_score(expected, by_path(groups)[0]) == 1
        assert [len(group.images) for group in groups.groups] == sorted((len(group.images) for group in groups.groups), reverse=True)
        assert groups.num_single == sum(count == 1 for count in np.bincount(expected)[1:])


def test_similarities_and_scores(index: Index) -> None:
    groups = index.cluster(similarity=0.3)
    numbers, labels = by_path(groups)
    assert groups.scores["NMI"] == pytest.approx(normalized_mutual_info_score(labels, numbers))
    assert groups.scores["AMI"] == pytest.approx(adjusted_mutual_info_score(labels, numbers))
    assert groups.scores["NMI"] > 0.9
    for group in groups.groups:
        rows = index.store.vectors([image.id for image in group.images]).astype(np.float64)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        pairs = (rows @ rows.T)[np.triu_indices(len(rows), 1)]
        assert group.similarity == pytest.approx(pairs.mean() if len(pairs) else 1.0, abs=1e-4)
        middle = rows.mean(axis=0) / np.linalg.norm(rows.mean(axis=0))
        np.testing.assert_allclose([image.similarity for image in group.images], rows @ middle, atol=1e-4)
        assert [image.similarity for image in group.images] == sorted((image.similarity for image in group.images), reverse=True)
        assert sum(group.labels.values()) == len(group.images)


def test_k_means(index: Index) -> None:
    groups = index.cluster(5)
    assert len(groups.groups) == 5
    assert groups.threshold is None
    assert groups.scores["AMI"] > 0.9
    assert by_path(index.cluster(5))[0] == by_path(groups)[0]
    assert len(index.cluster(2, where=["label!=class 0"]).groups) == 2
    with pytest.raises(ValueError, match="k is 31: expected from 1 to 30"):
        index.cluster(31)


def test_the_calibrated_threshold(index: Index, model: Embedder, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"not calibrated.*give a similarity, or k for k-means, or run `likewise calibrate`"):
        index.cluster()
    rng = np.random.default_rng(0)
    vectors = np.repeat(rng.normal(size=(40, 16)), 5, axis=0) + 0.5 * rng.normal(size=(200, 16))
    model.calibration = likewise.calibrate(vectors.astype(np.float32), np.repeat(np.arange(40), 5), false_accepts=0.1)
    calibrated = Index.build(model, tmp_path / "photos", out=tmp_path / "calibrated")
    groups = calibrated.cluster()
    assert groups.threshold == model.calibration.same.value
    assert f"mean similarity of {groups.threshold:.3f} on" in groups.notes[0]
    assert by_path(groups) == by_path(calibrated.cluster(similarity=groups.threshold))
    calibrated.close()


def test_images_without_classes(model: Embedder, tmp_path: Path) -> None:
    paths = class_folders(tmp_path / "photos", classes=2, images=3)
    bare = Index.build(model, [str(path) for path in paths])
    groups = bare.cluster(similarity=0.3)
    assert groups.scores == {}
    assert [group.labels for group in groups.groups] == [{}] * len(groups.groups)
    assert "<img " in groups_page("Groups", groups, most=5)
    bare.close()


def test_faults(index: Index) -> None:
    with pytest.raises(ValueError, match=r"k is 3 and similarity is 0\.5: give one of them"):
        index.cluster(3, 0.5)
    with pytest.raises(ValueError, match="expected a number from -1 to 1"):
        index.cluster(similarity=60)
    with pytest.raises(ValueError, match="no image fulfils the conditions"):
        index.cluster(3, where="label=nothing")


def test_the_command(index: Index, tmp_path: Path) -> None:
    page = tmp_path / "groups.html"
    result = CliRunner().invoke(app, ["cluster", str(index.folder), "-k", "5", "--html", str(page), "--show", "2", "--device", "cpu"])
    assert result.exit_code == 0, result.output
    assert "30 images in 5 groups" in result.stdout
    assert "against the classes: NMI" in result.stdout
    written = page.read_text(encoding="utf-8")
    assert "The first 2 of 5 groups are shown" in written
    assert "Group 2:" in written
    assert "Group 3:" not in written
    told = json.loads(CliRunner().invoke(app, ["cluster", str(index.folder), "--similarity", "0.3", "--json"]).stdout)
    assert sum(len(group["images"]) for group in told["groups"]) == told["images"] == 30
    assert set(told["scores"]) == {"NMI", "AMI"}
    bare = CliRunner().invoke(app, ["cluster", str(index.folder)])
    assert bare.exit_code == 2
    assert "not calibrated" in bare.stderr
