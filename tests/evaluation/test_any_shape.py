"""Classes of any size: one of thousands, thousands of one, and both at once, against a brute force, and within a bound of memory."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from likewise.evaluation import pack_bits, per_query, similarity
from likewise.evaluation.ranks import hamming_rows, positives, rank_counter, whole_rows

KS = (1, 3, 20)
NAMES = ("R@1", "R@3", "R@20", "RP", "MAP@R", "mAP")


def nearness(queries, items, metric):
    """(Q, G) float64, each pair by itself, so that copies tie exactly."""
    queries, items = queries.astype(np.float64), items.astype(np.float64)
    if metric == "hamming":
        return -((queries[:, None] > 0) != (items[None] > 0)).sum(axis=2).astype(np.float64)
    if metric == "euclidean":
        return -((queries[:, None] - items[None]) ** 2).sum(axis=2)
    lengths = [np.sqrt((rows**2).sum(axis=1)) for rows in (queries, items)]
    return (queries[:, None] * items[None]).sum(axis=2) / (lengths[0][:, None] * lengths[1])


def brute_force(queries, labels, items, item_labels, metric, exclude_self):
    near = nearness(queries, items, metric)
    scores = np.zeros((len(NAMES), len(queries)))
    for i, row in enumerate(near):
        order = np.lexsort((np.arange(len(row)), -row))
        hits = (item_labels[order] == labels[i])[order != i if exclude_self else slice(None)]
        total = hits.sum()
        if total:
            precision = np.where(hits, hits.cumsum() / np.arange(1, len(hits) + 1), 0)
            values = [hits[:k].any() for k in KS] + [hits[:total].mean(), precision[:total].sum() / total, precision.sum() / total]
            scores[:, i] = values
    return scores


def drawn_labels(rng, shape, num):
    if shape == "one class":
        return np.zeros(num, dtype=np.int64)
    if shape == "all alone":
        return rng.permutation(num)
    if shape == "one and its rest":
        return np.where(rng.random(num) < 0.8, -3, rng.integers(0, num, size=num))
    if shape == "two of very different sizes":
        return np.where(np.arange(num) < 4, 9, 2)[rng.permutation(num)]
    return rng.integers(0, rng.integers(2, num), size=num)


SHAPES = ("one class", "all alone", "one and its rest", "two of very different sizes", "any", "any")


@pytest.fixture(params=["as they are", "small"])
def limits(request, monkeypatch):
    """What is held at once, and from where on which way is taken: small, so that a few items take all of them, in many parts."""
    if request.param == "small":
        monkeypatch.setattr(positives, "MOST_OF_A_CLASS", 64)
        monkeypatch.setattr(positives, "MOST_ROWS", 16)
        monkeypatch.setattr(rank_counter, "MOST_COUNTED", 4)
        monkeypatch.setattr(rank_counter, "FEW_POSITIVES", 2)
        monkeypatch.setattr(rank_counter, "MOST_COMPARED", 8)
        monkeypatch.setattr(rank_counter, "MOST_NEIGHBOURS", 20)
        monkeypatch.setattr(rank_counter, "MOST_ENTRIES_CPU", 100)
        for rows in (whole_rows, hamming_rows):
            monkeypatch.setattr(rows, "ROWS_AT_ONCE_CPU", 700)
            monkeypatch.setattr(rows, "SORTED_AT_ONCE_CPU", 250)
        monkeypatch.setattr(similarity, "MOST_KEPT_CPU", 0)
        monkeypatch.setattr(similarity, "COLUMNS_MADE_ANEW", 7)
        monkeypatch.setattr(hamming_rows, "MOST_KEPT", 0)
        monkeypatch.setattr(hamming_rows, "COLUMNS_MADE_ANEW", 7)


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "hamming"])
def test_any_shape_equals_a_brute_force(metric, limits):
    rng = np.random.default_rng(7)
    for shape in SHAPES:
        num = int(rng.integers(60, 120))
        vectors = rng.normal(size=(num, 9)).astype(np.float32)
        if rng.random() < 0.7:
            vectors = vectors[rng.integers(0, num // 3, size=num)]  # copies, within classes and across them
        labels = drawn_labels(rng, shape, num)
        for gallery_from in (None, num // 3):
            queries, items = (vectors, vectors) if gallery_from is None else (vectors[:gallery_from], vectors[gallery_from:])
            codes, item_codes = (labels, labels) if gallery_from is None else (labels[:gallery_from], labels[gallery_from:])
            expected = dict(zip(NAMES, brute_force(queries, codes, items, item_codes, metric, gallery_from is None), strict=True))
            given = [torch.from_numpy(rows) for rows in (queries, items)]
            given = [pack_bits(rows) for rows in given] if metric == "hamming" else given
            gallery = {} if gallery_from is None else {"gallery": given[1], "gallery_labels": item_codes}
            for metrics in (("R@K",), ("R@K", "MAP@R"), ("RP",), ("R@K", "RP", "MAP@R", "mAP")):
                found = per_query(given[0], codes, ks=KS, metrics=metrics, metric=metric, **gallery)
                for name, values in found.scores.items():
                    np.testing.assert_allclose(values.numpy(), expected[name], rtol=1e-12, atol=0, err_msg=f"{shape} {name} {metrics}")


# In a process of its own, whose peak is its own. The first call is small: what libraries load once is no part of it.
MEASURED = """
import json, resource, sys
import numpy as np, torch
from likewise.evaluation import diagnose, evaluate, pack_bits, per_query
from likewise.evaluation.calibration import calibrate

torch.set_num_threads(2)
rng = np.random.default_rng(0)

def shape(large, rest):
    labels = np.concatenate([np.zeros(large, dtype=np.int64), 1 + np.arange(rest) // 3])
    vectors = rng.normal(size=(labels.max() + 1, 16)).astype(np.float32)[labels] + rng.normal(size=(len(labels), 16)).astype(np.float32)
    return torch.from_numpy(vectors), labels

def everything(vectors, labels):
    yield "R@K", lambda: per_query(vectors, labels, metrics=("R@K",))
    yield "RP, MAP@R", lambda: per_query(vectors, labels, metrics=("RP", "MAP@R"))
    yield "all", lambda: per_query(vectors, labels)
    yield "euclidean", lambda: per_query(vectors, labels, metrics=("R@K",), metric="euclidean")
    third = len(labels) // 3
    ends = dict(gallery=vectors[third:], gallery_labels=labels[third:])
    yield "gallery", lambda: per_query(vectors[:third], labels[:third], **ends)
    yield "hamming", lambda: per_query(pack_bits(vectors), labels, metric="hamming")
    yield "one class", lambda: per_query(vectors, labels * 0)
    yield "alone", lambda: per_query(vectors, np.arange(len(labels)))
    yield "diagnosis", lambda: diagnose(vectors[::3], labels[::3])
    yield "calibration", lambda: calibrate(vectors, labels)

def reranked(large, rest):
    vectors, labels = shape(large, rest)
    return evaluate(vectors, labels, metrics=("mAP",), rerank="alpha_qe")

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)

for _, run in everything(*shape(100, 200)):
    run()
reranked(60, 100)
before, peaks = peak(), {}
for name, run in everything(*shape(int(sys.argv[1]), 900)):
    run()
    peaks[name] = peak() - before
reranked(1000, 300)
peaks["re-ranking"] = peak() - before
print(json.dumps(peaks))
"""


def test_memory_follows_from_the_block():
    """6,000 items of one class: a number of 8 bytes for each pair of them is 275 MiB, and scores took several of these."""
    run = subprocess.run([sys.executable, "-c", MEASURED, "6000"], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    peaks = json.loads(run.stdout)
    assert max(peaks.values()) < 400, peaks
