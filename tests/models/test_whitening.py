"""Whitening: against scikit-learn and SciPy, by what it promises, and what it refuses."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.linalg
import torch
from sklearn.decomposition import PCA

import likewise
from likewise.models import whitening as module
from likewise.models.whitening import SHRINKAGES, Whitening, whiten, whitenings_by_shrinkage

Array = npt.NDArray[Any]


def clouds(
    *, classes: int = 12, items: int = 9, dim: int = 7, seed: int = 0, within: float = 0.5, skew: float = 1.0
) -> tuple[Array, npt.NDArray[np.int64]]:
    """Classes around centres of their own, which vary more in some directions than in others."""
    draw = np.random.default_rng(seed)
    spread = within * np.geomspace(1, skew, dim)
    labels = np.repeat(np.arange(classes), items)
    vectors = draw.normal(size=(classes, dim))[labels] + spread * draw.normal(size=(len(labels), dim)) + 0.7
    order = draw.permutation(len(labels))
    return vectors[order].astype(np.float32), labels[order]


def unit(vectors: Array) -> Array:
    lengths: Array = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float64) / lengths


def scatter_by_loop(units: Array, labels: npt.NDArray[np.int64]) -> Array:
    total = np.zeros((units.shape[1],) * 2)
    for label in np.unique(labels):
        own = units[labels == label]
        for row in own:
            total += np.outer(row - own.mean(0), row - own.mean(0))
    return total / len(units)


@pytest.mark.parametrize("shrinkage", [0.0, 0.1, 1.0, 20.0])
def test_within_equals_scipys_matrix_root(shrinkage: float) -> None:
    vectors, labels = clouds()
    units = unit(vectors)
    scatter = scatter_by_loop(units, labels)
    mean_eigenvalue = np.linalg.eigvalsh(scatter).mean()
    root = scipy.linalg.inv(scipy.linalg.sqrtm(scatter + shrinkage * mean_eigenvalue * np.eye(7)))
    others, _ = clouds(seed=5)
    expected = unit((unit(others) - units.mean(0)) @ root)
    np.testing.assert_allclose(likewise.whiten(vectors, labels, shrinkage=shrinkage)(others), expected, atol=2e-6)


@pytest.mark.parametrize("dim", [None, 3])
def test_pca_equals_scikit_learns(dim: int | None) -> None:
    vectors, _ = clouds()
    others, _ = clouds(seed=5)
    peer = PCA(n_components=dim, whiten=True, svd_solver="full").fit(unit(vectors))
    found, expected = whiten(vectors, dim=dim, power=1.0)(others), unit(peer.transform(unit(others)))
    signs = np.sign((found * expected).sum(0))  # of eigenvectors, which are free
    np.testing.assert_allclose(found * signs, expected, atol=2e-6)
    halved = peer.transform(unit(others)) * np.sqrt(np.sqrt(peer.explained_variance_))
    np.testing.assert_allclose(whiten(vectors, dim=dim)(others) * signs, unit(halved), atol=2e-6)


def test_without_shrinkage_classes_vary_alike_in_every_direction() -> None:
    vectors, labels = clouds(skew=30.0)
    made = whiten(vectors, labels, shrinkage=1e-9)
    whitened = (unit(vectors) - made.mean.numpy()) @ made.matrix.double().numpy()
    np.testing.assert_allclose(scatter_by_loop(whitened, labels), np.eye(7), atol=1e-5)
    centred = whiten(vectors, labels, shrinkage=1e9)(vectors)
    np.testing.assert_allclose(centred, unit(unit(vectors) - unit(vectors).mean(0)), atol=1e-5)


def test_half_whitened_directions_vary_by_their_root() -> None:
    vectors, _ = clouds(skew=30.0)
    before = np.linalg.svd(unit(vectors) - unit(vectors).mean(0), compute_uv=False)
    made = whiten(vectors)
    half = (unit(vectors) - made.mean.numpy()) @ made.matrix.double().numpy()
    after = np.linalg.svd(half, compute_uv=False)
    np.testing.assert_allclose(after / after[0], np.sqrt(before / before[0]), rtol=1e-5)
    plain = whiten(vectors, power=0.0)(vectors)  # a rotation of what is centred
    centred = unit(unit(vectors) - unit(vectors).mean(0))
    np.testing.assert_allclose(plain @ plain.T, centred @ centred.T, atol=1e-5)


def test_within_keeps_the_directions_in_which_the_whitened_vary_most() -> None:
    vectors, labels = clouds(skew=30.0)
    whole, few = whiten(vectors, labels), whiten(vectors, labels, dim=3)
    assert (whole.width, few.width) == (7, 3)
    spread = (unit(vectors) - whole.mean.numpy()) @ whole.matrix.double().numpy()
    kept = (unit(vectors) - few.mean.numpy()) @ few.matrix.double().numpy()
    np.testing.assert_allclose(np.linalg.svd(kept, compute_uv=False), np.linalg.svd(spread, compute_uv=False)[:3], rtol=1e-5)
    rotated = whiten(vectors, labels, dim=7)(vectors)
    np.testing.assert_allclose(rotated @ rotated.T, whole(vectors) @ whole(vectors).T, atol=1e-5)


def test_it_helps_classes_that_it_has_not_seen() -> None:
    """Where classes vary much in a few directions that all share."""
    vectors, labels = clouds(classes=60, skew=40.0, within=0.1, dim=12)
    seen = labels < 30
    metrics: dict[str, Any] = {"metrics": ("MAP@R",)}
    before = likewise.evaluate(vectors[~seen], labels[~seen], **metrics)["MAP@R"]
    after = likewise.evaluate(whiten(vectors[seen], labels[seen])(vectors[~seen]), labels[~seen], **metrics)["MAP@R"]
    assert after > before + 0.1


@pytest.mark.parametrize("block", [1, 5, 4096])
def test_blocks_change_nothing(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, labels = clouds(classes=20)
    whole = [whiten(vectors, labels, shrinkage="auto"), whiten(vectors)]
    monkeypatch.setattr(module, "BLOCK", block)
    for made, expected in zip([whiten(vectors, labels, shrinkage="auto"), whiten(vectors)], whole, strict=True):
        np.testing.assert_allclose(made(vectors), expected(vectors), atol=1e-6)


def test_kinds_of_vectors_and_labels() -> None:
    """NumPy gives NumPy, a tensor a tensor, of its type; nothing that is given is changed, read-only arrays are taken."""
    vectors, labels = clouds()
    vectors.flags.writeable = False
    kept = vectors.copy()
    names = np.array([f"class {label:02}" for label in labels])
    made = whiten(vectors, labels)
    expected = made(vectors)
    assert isinstance(expected, np.ndarray)
    assert expected.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(expected, axis=1), 1, rtol=1e-6)
    tensor = torch.from_numpy(kept.copy()).requires_grad_()
    for given_labels in (torch.from_numpy(labels), names.tolist(), names, labels + 2**40):
        again = whiten(tensor, given_labels)
        found = again(tensor)
        assert isinstance(found, torch.Tensor)
        assert found.dtype == torch.float32
        np.testing.assert_allclose(found.detach().numpy(), expected, atol=1e-6)
    assert made(vectors.astype(np.float64)).dtype == np.float64
    assert made(tensor.double()).dtype == torch.float64
    assert made(tensor.bfloat16()).dtype == torch.bfloat16
    np.testing.assert_allclose(made(7 * vectors), expected, atol=1e-6)  # lengths do not count
    np.testing.assert_allclose(whiten(np.round(100 * vectors).astype(np.int64), labels)(vectors), expected, atol=0.05)
    assert made(vectors[:0]).shape == (0, 7)
    np.testing.assert_array_equal(vectors, kept)


def test_float32_also_under_autocast() -> None:
    vectors = torch.from_numpy(clouds()[0])
    made = whiten(vectors)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(made(vectors), made(vectors), rtol=0, atol=0)
        found = made(vectors)
    torch.testing.assert_close(found, made(vectors), rtol=0, atol=0)


def test_fewer_items_than_dimensions_and_one_class() -> None:
    vectors, labels = clouds(classes=3, items=4, dim=40)
    whitened = whiten(vectors, labels)(vectors)
    assert whitened.shape == (12, 40)
    assert np.isfinite(whitened).all()
    assert whiten(vectors).width == 11  # centred
    one = whiten(vectors, np.zeros(12, np.int64))
    units = unit(vectors)
    scatter = (units - units.mean(0)).T @ (units - units.mean(0)) / 12
    root = scipy.linalg.inv(scipy.linalg.sqrtm(scatter + np.linalg.eigvalsh(scatter).mean() * np.eye(40)).real)
    np.testing.assert_allclose(one(vectors), unit((units - units.mean(0)) @ root), atol=5e-6)


def test_auto_takes_the_best_on_held_out_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Written out: the folds are those of the seed, the score is that of likewise.evaluate; and nothing is seen of what is held out."""
    vectors, labels = clouds(classes=24, items=6, skew=60.0, within=0.1, dim=10)
    fold_of = dict(zip(np.random.default_rng(0).permutation(24).tolist(), np.arange(24) % 4, strict=True))
    fold = np.array([fold_of[label] for label in labels.tolist()])
    expected = {}
    for shrinkage in SHRINKAGES:
        scores = []
        for held_out in (fold == number for number in range(4)):
            made = whiten(vectors[~held_out], labels[~held_out], shrinkage=shrinkage)
            scores.append(likewise.evaluate(made(vectors[held_out]), labels[held_out], metrics=("MAP@R",))["MAP@R"])
        expected[shrinkage] = np.mean(scores)
    told: list[dict[float, float]] = []
    true = module.scores_of_shrinkages

    def watched(*given: Any, **settings: Any) -> dict[float, float]:
        told.append(true(*given, **settings))
        return told[-1]

    monkeypatch.setattr(module, "scores_of_shrinkages", watched)
    chosen = whiten(vectors, labels, shrinkage="auto")
    assert told[0] == pytest.approx(expected, abs=1e-9)
    assert len(set(told[0].values())) == len(SHRINKAGES)
    assert chosen.shrinkage == max(expected, key=lambda shrinkage: expected[shrinkage]) != 1.0
    np.testing.assert_allclose(chosen(vectors), whiten(vectors, labels, shrinkage=chosen.shrinkage)(vectors), atol=1e-6)
    assert whiten(vectors, labels, shrinkage="auto").shrinkage == chosen.shrinkage


def test_auto_with_few_classes_is_one() -> None:
    vectors, labels = clouds(classes=9, skew=60.0)
    assert whiten(vectors, labels, shrinkage="auto").shrinkage == 1.0
    alone = np.arange(len(labels))
    alone[:20] = np.arange(20) // 2  # ten classes of two, all others alone
    assert whiten(vectors, alone, shrinkage="auto").shrinkage in SHRINKAGES


def test_auto_scores_whole_classes_of_large_data(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, labels = clouds(classes=24, items=6)
    monkeypatch.setattr(module, "MOST_SCORED", 3)
    scored: list[torch.Tensor] = []
    true = module.per_query
    monkeypatch.setattr(module, "per_query", lambda rows, codes, **rest: scored.append(codes) or true(rows, codes, **rest))
    whiten(vectors, labels, shrinkage="auto")
    assert {tuple(torch.unique(codes, return_counts=True)[1].tolist()) for codes in scored} == {(6, 6)}


@pytest.mark.parametrize(
    ("vectors", "labels", "settings", "message"),
    [
        (np.ones((5, 3), np.float32), None, {}, "all 5 vectors point the same way: there is nothing to whiten"),
        (np.ones((6, 3), np.float32), [0, 0, 0, 1, 1, 1], {}, "the vectors of every class point the same way"),
        (np.repeat(np.eye(3), 2, axis=0), [0, 0, 1, 1, 2, 2], {}, "the vectors of every class point the same way"),
        (clouds()[0][:4], [0, 1, 2, 3], {}, "every one of the 4 classes has a single vector"),
        (clouds()[0][:4], [0, 1, 1], {}, "3 labels for 4 vectors"),
        (clouds()[0][:4], [0, 0, 1, 1], {"shrinkage": 0.0}, "shrinkage=0: classes vary within themselves in 2 of 7 directions"),
        (clouds()[0][:4], [0, 0, 1, 1], {"shrinkage": -1.0}, "shrinkage=-1.0: expected a number not below 0"),
        (clouds()[0][:4], [0, 0, 1, 1], {"shrinkage": "best"}, "shrinkage='best': expected a number not below 0, such as 1.0, or 'auto'"),
        (clouds()[0], None, {"shrinkage": 0.5}, "shrinkage=0.5 with kind='pca': it is of kind 'within'"),
        (clouds()[0], None, {"kind": "within"}, "kind='within' without labels"),
        (clouds()[0], None, {"kind": "pka"}, "unknown kind of whitening 'pka': did you mean 'pca'?"),
        (clouds()[0], None, {"power": 2.0}, "power=2.0: expected a number from 0"),
        (clouds()[0], None, {"dim": 8}, "dim=8: 108 vectors of 7 dimensions vary in 7; give at most that many"),
        (clouds()[0], clouds()[1], {"dim": 8}, "dim=8: the vectors have 7 dimensions"),
        (clouds()[0], None, {"dim": 0}, "dim=0: expected at least 1"),
        ([[1.0, 2.0]], None, {}, "vectors must be a NumPy array or a tensor, not list"),
        (np.ones(5), None, {}, "vectors must be numbers (items, dimensions), not float64 (5,)"),
        (np.ones((0, 3)), None, {}, "vectors must be numbers (items, dimensions), not float64 (0, 3)"),
        (np.array([["a"]]), None, {}, "vectors must be numbers"),
        (np.array([[1.0, np.nan], [1.0, 2.0], [np.inf, 0.0]]), None, {}, "vectors hold NaN or infinity in 2 of 3 rows (0, 2)"),
    ],
)
def test_refused_in_words(vectors: Any, labels: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        whiten(vectors, labels, **settings)


def test_vectors_of_another_length_are_refused() -> None:
    made = Whitening(torch.zeros(3), torch.eye(3, 2))
    assert "3 -> 2" in repr(made)
    for wrong in (np.zeros((2, 4)), torch.zeros(2, 4), torch.zeros(3)):
        with pytest.raises(ValueError, match=r"this whitening takes \(items, 3\)"):
            made(wrong)


def test_whitenings_by_shrinkage_are_those_of_whiten() -> None:
    rng = np.random.default_rng(0)
    vectors, labels = rng.normal(size=(60, 5)).astype(np.float32), np.arange(60) // 6
    by_shrinkage = whitenings_by_shrinkage(vectors, labels)
    assert set(by_shrinkage) == set(SHRINKAGES)
    for shrinkage, whitening in by_shrinkage.items():
        expected = likewise.whiten(vectors, labels, shrinkage=shrinkage)
        assert whitening.shrinkage == shrinkage
        np.testing.assert_array_equal(whitening(vectors), expected(vectors))
