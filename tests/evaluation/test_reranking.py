"""Every re-ranker against a dense loop over all pairs in float64, and the scores of re-ranked lists against lists written out."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import likewise
from likewise.cli import app
from likewise.evaluation.reranking import RERANKERS, DatabaseAugmentation, k_reciprocal, make_reranker, reranked_scores
from likewise.evaluation.reranking.k_reciprocal import KReciprocal
from likewise.evaluation.retrieval import per_query
from likewise.evaluation.scores import score

SETTINGS = {
    "alpha_qe": [{}, {"alpha": 0.0, "num_neighbours": 3}, {"num_neighbours": 500}],
    "database_augmentation": [{}, {"alpha": 1.0, "num_neighbours": 4, "with_queries": False}],
    "k_reciprocal": [{}, {"k1": 7, "k2": 1, "original_weight": 0.01}, {"k1": 5, "k2": 9, "original_weight": 1.0}, {"k1": 500}],
}
EVERY = [pytest.param(name, settings, id=f"{name}-{i}") for name in SETTINGS for i, settings in enumerate(SETTINGS[name])]


# The loops.


def similarities(queries, items):
    units = []
    for rows in (queries, items):
        rows = rows.astype(np.float64)
        lengths = np.sqrt((rows**2).sum(axis=1))
        units.append(rows / np.where(lengths > 0, lengths, 1)[:, None])
    return np.array([[sum(a * b) for b in units[1]] for a in units[0]]), *units


def in_order(nearness, own, k):
    return sorted((j for j in range(len(nearness)) if j != own), key=lambda j: (-nearness[j], j))[:k]


def loop_expanded(queries, items, is_one_set, alpha, num_neighbours):
    near, unit_queries, unit_items = similarities(queries, items)
    expanded = []
    for i, query in enumerate(unit_queries):
        total = query.copy()
        for j in in_order(near[i], i if is_one_set else None, num_neighbours):
            total += max(near[i][j], 0) ** alpha * unit_items[j]
        expanded.append(total / np.sqrt(sum(total**2)))
    return np.array(expanded)


def loop_search(queries, items, is_one_set, k):
    near = similarities(queries, items)[0]
    index = [in_order(row, i if is_one_set else None, k) for i, row in enumerate(near)]
    return np.array(index), np.array([[row[j] for j in listed] for row, listed in zip(near, index, strict=True)])


def loop_alpha_qe(queries, gallery, k, settings):
    items = queries if gallery is None else gallery
    expanded = loop_expanded(queries, items, gallery is None, settings.alpha, settings.num_neighbours)
    return loop_search(expanded, items, gallery is None, k)


def loop_database_augmentation(queries, gallery, k, settings):
    items = queries if gallery is None else gallery
    augmented = loop_expanded(items, items, True, settings.alpha, settings.num_neighbours)
    if settings.with_queries:
        queries = loop_expanded(queries, items, gallery is None, settings.alpha, settings.num_neighbours)
    return loop_search(queries, augmented, gallery is None, k)


def loop_k_reciprocal(queries, gallery, k, settings):
    everything = queries if gallery is None else np.concatenate([queries, gallery])
    first_item = 0 if gallery is None else len(queries)
    num = len(everything)
    near = similarities(everything, everything)[0]
    distance = 1 - near
    distance /= distance.max(axis=1, keepdims=True)
    order = [[i, *in_order(near[i], i, num)] for i in range(num)]

    def reciprocal(i, size):
        return {j for j in order[i][: size + 1] if i in order[j][: size + 1]}

    weights = np.zeros((num, num))
    for i in range(num):
        members = reciprocal(i, settings.k1)
        expanded = set(members)
        for candidate in members:
            others = reciprocal(candidate, round(settings.k1 / 2))
            if 3 * len(others & members) > 2 * len(others):
                expanded |= others
        for j in expanded:
            weights[i, j] = np.exp(-distance[i, j])
        weights[i] /= weights[i].sum()
    averaged = np.array([np.mean([weights[j] for j in order[i][: settings.k2]], axis=0) for i in range(num)])
    index, value = [], []
    for i in range(len(queries)):
        mixed = {}
        for j in range(first_item, num):
            if gallery is None and j == i:
                continue
            jaccard = 1 - np.minimum(averaged[i], averaged[j]).sum() / np.maximum(averaged[i], averaged[j]).sum()
            mixed[j] = (1 - settings.original_weight) * jaccard + settings.original_weight * distance[i, j]
            mixed[j] = round(mixed[j] * 2**40) / 2**40
        listed = sorted(mixed, key=lambda j: (mixed[j], -near[i][j], j))[:k]
        index.append([j - first_item for j in listed])
        value.append([1 - mixed[j] for j in listed])
    return np.array(index), np.array(value)


LOOPS = {"alpha_qe": loop_alpha_qe, "database_augmentation": loop_database_augmentation, "k_reciprocal": loop_k_reciprocal}


def clustered(seed=0, num=70, dtype=np.float64):
    """Vectors with classes, some exact copies among them."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 7, size=num)
    vectors = rng.normal(size=(7, 12))[labels] + 0.7 * rng.normal(size=(num, 12))
    copies = rng.integers(0, num, size=(2, 6))
    vectors[copies[0]], labels[copies[0]] = vectors[copies[1]], labels[copies[1]]
    return vectors.astype(dtype), labels


def test_every_reranker_has_a_loop():
    assert set(LOOPS) == set(SETTINGS) == set(RERANKERS) == set(likewise.RERANKERS)


@pytest.mark.parametrize(("name", "settings"), EVERY)
@pytest.mark.parametrize("has_gallery", [False, True])
def test_equals_the_loop(name, settings, has_gallery, monkeypatch):
    monkeypatch.setattr(k_reciprocal, "AT_ONCE", 1000)  # several blocks
    vectors = clustered()[0]
    queries, gallery = (vectors[:25], vectors[25:]) if has_gallery else (vectors, None)
    reranker = RERANKERS[name](**settings)
    k = 45 if has_gallery else 69
    index, similarity = likewise.rerank(queries, gallery, k, how=reranker)
    expected, value = LOOPS[name](queries, gallery, k, reranker)
    np.testing.assert_array_equal(index.numpy(), expected)
    np.testing.assert_allclose(similarity.numpy(), value, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("name", "settings"), EVERY)
def test_in_float32_the_order_is_the_same(name, settings):
    vectors = clustered(1, 60, np.float32)[0]
    reranker = RERANKERS[name](**settings)
    index, similarity = likewise.rerank(torch.from_numpy(vectors), None, 12, how=reranker)
    expected, value = LOOPS[name](vectors, None, 12, reranker)
    assert similarity.dtype == torch.float32
    if name == "k_reciprocal":  # the others search with vectors rounded to float32, which may part copies
        np.testing.assert_array_equal(index.numpy(), expected)
    np.testing.assert_allclose(similarity.numpy(), value, rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", RERANKERS)
def test_the_first_k_do_not_depend_on_k_nor_on_blocks(name, monkeypatch):
    vectors = clustered(2, 300, np.float32)[0]
    all_index, all_similarity = likewise.rerank(vectors, None, 299, how=name)
    monkeypatch.setattr(k_reciprocal, "AT_ONCE", 5000)
    for k in (1, 10, 120):
        index, similarity = likewise.rerank(vectors, None, k, how=name)
        np.testing.assert_array_equal(index.numpy(), all_index[:, :k].numpy())
        np.testing.assert_allclose(similarity.numpy(), all_similarity[:, :k].numpy(), atol=1e-6)
    for row, listed in enumerate(all_index.tolist()):
        assert sorted([*listed, row]) == list(range(300))


def test_equal_sets_of_copies_tie_however_they_were_summed():
    vectors = np.random.default_rng(0).normal(size=(10, 2))[np.arange(80) % 10]
    settings = KReciprocal(k1=11, k2=5)
    np.testing.assert_array_equal(likewise.rerank(vectors, None, 50, how=settings)[0], loop_k_reciprocal(vectors, None, 50, settings)[0])


@pytest.mark.parametrize("name", RERANKERS)
def test_copies_and_zero_vectors(name):
    """All alike: lists by index, and nothing divides by zero."""
    for vectors in (np.ones((30, 4), dtype=np.float32), np.zeros((30, 4), dtype=np.float32)):
        index, similarity = likewise.rerank(vectors, None, 5, how=name)
        assert similarity.isfinite().all()
        assert (index != torch.arange(30)[:, None]).all()
    one = likewise.rerank(np.ones((1, 4)), np.eye(4), 4, how=name)[0]
    assert sorted(one[0].tolist()) == [0, 1, 2, 3]


def test_bits_are_reranked_as_vectors_of_signs():
    rng = np.random.default_rng(8)
    labels = np.arange(90) % 9
    bits = rng.normal(size=(9, 32))[labels] + rng.normal(size=(90, 32)) > 0
    packed, signs = np.packbits(bits, axis=1), np.where(bits, np.float32(1), np.float32(-1))
    for part in ({}, {"gallery": slice(30, None)}):
        gallery = {name: rows[part["gallery"]] for name, rows in (("gallery", packed), ("gallery_labels", labels)) if part}
        of_signs = gallery | ({"gallery": signs[part["gallery"]]} if part else {})
        settings = {"metrics": ("R@K", "MAP@R", "mAP"), "rerank": list(RERANKERS)}
        ours = likewise.evaluate(packed, labels, metric="hamming", **gallery, **settings)
        expected = likewise.evaluate(signs, labels, **of_signs, **settings)
        assert ours == pytest.approx(expected, rel=1e-12)
        assert any("after" in name for name in ours)


def test_reranking_helps_noisy_classes():
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(40), 12)
    vectors = rng.normal(size=(40, 32))[labels] + 1.9 * rng.normal(size=(480, 32))
    scores = likewise.evaluate(vectors, labels, metrics=("MAP@R",), rerank=list(RERANKERS))
    for name in RERANKERS:
        assert scores[f"MAP@R after {name}"] > 1.1 * scores["MAP@R"], (name, scores)


# Scores.


def written_out(vectors, labels, gallery, gallery_labels, how, depth):
    """The whole list of every query, and its scores by their definition."""
    is_one_set = gallery is None
    items, item_labels = (vectors, labels) if is_one_set else (gallery, gallery_labels)
    head = likewise.rerank(vectors, gallery, depth, how=how)[0].numpy()
    near = similarities(vectors, items)[0]
    rows = []
    for i in range(len(vectors)):
        rest = [j for j in in_order(near[i], i if is_one_set else None, len(items)) if j not in set(head[i])]
        hits = np.array([item_labels[j] == labels[i] for j in [*head[i], *rest]])
        num = hits.sum()
        if not num:
            continue
        precision = hits.cumsum() / np.arange(1, len(hits) + 1)
        within = hits & (np.arange(len(hits)) < num)
        rows.append([hits[0], hits[:4].any(), within.sum() / num, (precision * within).sum() / num, (precision * hits).sum() / num])
    return dict(zip(("R@1", "R@4", "RP", "MAP@R", "mAP"), np.mean(rows, axis=0), strict=True))


@pytest.mark.parametrize("has_gallery", [False, True])
@pytest.mark.parametrize("depth", [5, 30])
@pytest.mark.parametrize("name", RERANKERS)
def test_scores_are_those_of_the_list_written_out(name, depth, has_gallery, monkeypatch):
    monkeypatch.setattr(reranked_scores, "LEAST_DEPTH", depth)
    monkeypatch.setattr(reranked_scores, "MOST_DEPTH", depth)
    monkeypatch.setattr(reranked_scores, "ORDERED_AT_ONCE", 400)
    vectors, labels = clustered(4, 90)
    labels[:3] = [50, 51, 52]  # queries without a match
    queries, gallery = ((vectors[:30], labels[:30]), (vectors[30:], labels[30:])) if has_gallery else ((vectors, labels), (None, None))
    expected = written_out(*queries, *gallery, name, depth)
    arguments = {"gallery": gallery[0], "gallery_labels": gallery[1], "ks": (1, 4), "rerank": name}
    scores = likewise.evaluate(*queries, metrics=("R@K", "RP", "MAP@R", "mAP"), **arguments)
    np.testing.assert_allclose([scores[f"{key} after {name}"] for key in expected], list(expected.values()), rtol=0, atol=1e-12)
    without = likewise.evaluate(*queries, metrics=("R@K", "RP", "MAP@R"), **arguments)
    for key in ("R@1", "R@4", "RP", "MAP@R"):
        assert without[f"{key} after {name}"] == pytest.approx(scores[f"{key} after {name}"], abs=1e-12)
        assert without[key] == scores[key]


def test_a_reranker_that_changes_nothing_leaves_every_score():
    @dataclasses.dataclass(frozen=True)
    class Unchanged:
        def neighbours(self, queries, gallery, k):
            return likewise.nearest(queries, queries if gallery is None else gallery, k, exclude_self=gallery is None)

    vectors, labels = clustered(5, 400)
    scores = score(vectors, labels, metrics=("R@K", "RP", "MAP@R", "mAP"), rerank=[Unchanged()], intervals="class")
    (after,) = scores.reranked.values()
    assert after.depth == 100
    for name, values in per_query(vectors, labels).scores.items():
        torch.testing.assert_close(after.per_query.scores[name], values, rtol=0, atol=0)
        assert (after.differences[name].low, after.differences[name].high) == (0, 0)


# What a user hands in.


def test_settings_in_words():
    assert make_reranker("k_reciprocal:k1=30:original_weight=0.5") == KReciprocal(k1=30, original_weight=0.5)
    assert make_reranker("database_augmentation:with_queries=false") == DatabaseAugmentation(with_queries=False)
    vectors = clustered()[0]
    for how, words in {
        "k_reciprocl": "did you mean 'k_reciprocal'",
        "k_reciprocal:k3=1": "k3",
        "k_reciprocal:k1": "expected setting=value",
        "k_reciprocal:k1=some": "expected int",
        "k_reciprocal:k1=0": "k1 is 0",
        "k_reciprocal:original_weight=0": "0.01 to 1",
        "alpha_qe:alpha=-1": "alpha is -1",
        "alpha_qe:num_neighbours=0": "num_neighbours is 0",
        KReciprocal: "such as KReciprocal",
        3: "how is 3: expected text or Reranker",
    }.items():
        with pytest.raises(ValueError, match=words):
            likewise.rerank(vectors, how=how)
    with pytest.raises(ValueError, match="k is 70 but the gallery has only 69 items besides the query"):
        likewise.rerank(vectors, k=70)
    with pytest.raises(ValueError, match="re-ranking compares by cosine"):
        likewise.evaluate(vectors, clustered()[1], metric="euclidean", rerank="alpha_qe")


def test_the_command_shows_before_and_after(tmp_path):
    vectors, labels = clustered(6, 120)
    np.savez(tmp_path / "vectors.npz", embeddings=vectors, labels=labels)
    arguments = ["evaluate", str(tmp_path / "vectors.npz"), "--metrics", "R@K,MAP@R", "--rerank", "alpha_qe, k_reciprocal:k1=10"]
    told = CliRunner().invoke(app, arguments)
    assert told.exit_code == 0, told.output
    assert "After alpha_qe" in told.output
    assert "After k_reciprocal:k1=10" in told.output
    assert "the first 100 of each list re-ranked" in told.output
    report = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    expected = likewise.evaluate(vectors, labels, metrics=("R@K", "MAP@R"), rerank=("alpha_qe", "k_reciprocal:k1=10"))
    for name in ("alpha_qe", "k_reciprocal:k1=10"):
        after = report["reranked"][name]
        assert after["scores"] == {key: expected[f"{key} after {name}"] for key in ("R@1", "R@2", "R@4", "R@8", "MAP@R")}
        gain = after["differences"]["MAP@R"]
        assert gain["difference"] == pytest.approx(after["scores"]["MAP@R"] - report["scores"]["MAP@R"])
        assert gain["low"] <= gain["difference"] <= gain["high"]
    wrong = CliRunner().invoke(app, [*arguments[:-1], "alphaqe"])
    assert wrong.exit_code == 2
    assert "alpha_qe" in wrong.output
