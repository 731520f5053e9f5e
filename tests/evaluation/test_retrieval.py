"""Retrieval scores against a loop over the definitions, pytorch-metric-learning and scikit-learn."""

from operator import mul

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from likewise.evaluation import PerQuery, pack_bits, per_query
from likewise.evaluation.ranks import rank_counter

from ..optional import needs_package

ALL = ("R@K", "RP", "MAP@R", "mAP")
KS = (1, 2, 4, 8)


def nearness(query, items, metric):
    """Of one vector to each of many, all lists of numbers."""
    if metric == "cosine":
        lengths = [sum(a * a for a in vector) ** 0.5 for vector in (query, *items)]
        return [sum(map(mul, query, item)) / (lengths[0] * length) for item, length in zip(items, lengths[1:], strict=True)]
    if metric == "hamming":
        return [-sum((a > 0) != (b > 0) for a, b in zip(query, item, strict=True)) for item in items]
    return [-sum((a - b) ** 2 for a, b in zip(query, item, strict=True)) for item in items]


def loop(vectors, labels, gallery=None, gallery_labels=None, metric="cosine"):
    """Scores straight from their definitions over the sorted list of every query, in float64."""
    items, item_labels = (vectors, labels) if gallery is None else (gallery, gallery_labels)
    vectors, items = np.asarray(vectors, dtype=np.float64).tolist(), np.asarray(items, dtype=np.float64).tolist()
    scores = {name: np.zeros(len(vectors)) for name in (*(f"R@{k}" for k in KS), "RP", "MAP@R", "mAP")}
    matched = np.zeros(len(vectors), dtype=bool)
    for i, query in enumerate(vectors):
        near = nearness(query, items, metric)
        order = sorted((j for j in range(len(items)) if gallery is not None or j != i), key=lambda j: (-near[j], j))
        hits = [bool(item_labels[j] == labels[i]) for j in order]
        num = sum(hits)
        if not num:
            continue
        matched[i] = True
        for k in KS:
            scores[f"R@{k}"][i] = any(hits[:k])
        scores["RP"][i] = sum(hits[:num]) / num
        precisions = [sum(hits[: rank + 1]) / (rank + 1) if hit else 0.0 for rank, hit in enumerate(hits)]
        scores["MAP@R"][i] = sum(precisions[:num]) / num
        scores["mAP"][i] = sum(precisions) / num
    return scores, matched


def compare(found, expected):
    scores, matched = expected
    np.testing.assert_array_equal(found.matched.numpy(), matched)
    for name, values in found.scores.items():
        assert values.dtype == torch.float64
        np.testing.assert_allclose(values.numpy(), scores[name], rtol=1e-12, atol=0, err_msg=name)


def case(kind):
    """Vectors and labels: plain, with singletons, with exact copies across classes, very unbalanced, and all of them ties."""
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(160, 12)).astype(np.float32)
    labels = rng.integers(0, 8, size=160)
    if kind == "singletons":
        labels = rng.integers(0, 120, size=160)
    elif kind == "copies":
        vectors = vectors[rng.integers(0, 25, size=160)]
    elif kind == "unbalanced":
        labels = np.where(rng.random(160) < 0.7, 0, rng.integers(1, 30, size=160))
    elif kind == "collapsed":
        vectors[:] = vectors[0]
    elif kind == "one class":
        labels[:] = 5
    else:
        assert kind == "plain"
    return vectors, labels


KINDS = ("plain", "singletons", "copies", "unbalanced", "collapsed", "one class")
SETS = (ALL, ("R@K",), ("RP", "MAP@R"), ("R@K", "MAP@R"), ("mAP",))


@pytest.mark.parametrize("metric", ["cosine", pytest.param("euclidean", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_loop(kind, metric):
    vectors, labels = case(kind)
    expected = loop(vectors, labels, metric=metric)
    for metrics in SETS:
        for block in ("auto", 23, 64):
            compare(per_query(vectors, labels, ks=KS, metrics=metrics, metric=metric, block=block), expected)


@pytest.mark.parametrize("metric", ["cosine", pytest.param("euclidean", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_gallery_equals_the_loop(kind, metric):
    vectors, labels = case(kind)
    query, item = slice(0, 60), slice(60, None)
    expected = loop(vectors[query], labels[query], vectors[item], labels[item], metric)
    for metrics in SETS:
        for block in ("auto", 17):
            found = per_query(
                vectors[query],
                labels[query],
                gallery=vectors[item],
                gallery_labels=labels[item],
                ks=KS,
                metrics=metrics,
                metric=metric,
                block=block,
            )
            compare(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [0, 3])
def test_sorting_and_counting_agree(monkeypatch, limit):
    for kind in ("copies", "unbalanced", "plain"):
        vectors, labels = case(kind)
        expected = loop(vectors, labels)
        with monkeypatch.context() as patch:
            patch.setattr(rank_counter, "MOST_COUNTED", limit)
            patch.setattr(rank_counter, "FEW_POSITIVES", limit)
            compare(per_query(vectors, labels, ks=KS, metrics=("R@K", "MAP@R"), block=50), expected)
            compare(per_query(vectors, labels, ks=KS, metrics=("R@K", "MAP@R")), expected)
            compare(per_query(vectors, labels, ks=KS, block=50), expected)


def test_near_ties_do_not_depend_on_the_block():
    # Steps of one float32 unit around one direction: matrix products of other shapes give other last bits here.
    rng = np.random.default_rng(2)
    vectors = np.repeat(rng.normal(size=(1, 200)).astype(np.float32), 120, axis=0)
    steps = rng.integers(0, 200, size=120)
    vectors[np.arange(120), steps] = np.nextafter(vectors[np.arange(120), steps], np.float32(np.inf))
    labels = rng.integers(0, 10, size=120)
    first = per_query(vectors, labels, ks=(1, 50))
    for block in (7, 100):
        again = per_query(vectors, labels, ks=(1, 50), block=block)
        for name, values in first.scores.items():
            torch.testing.assert_close(again.scores[name], values, rtol=0, atol=0)


def test_float64_sees_what_float32_cannot():
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(1, 16)) + 1e-9 * rng.normal(size=(80, 16))
    labels = rng.integers(0, 5, size=80)
    compare(per_query(vectors, labels, ks=KS, metric="euclidean"), loop(vectors, labels, metric="euclidean"))


@pytest.mark.parametrize("num_classes", [20, 300])
def test_several_squares_a_block(num_classes):
    rng = np.random.default_rng(4)
    vectors, labels = rng.normal(size=(1300, 16)).astype(np.float32), rng.integers(0, num_classes, size=1300)
    unit = torch.nn.functional.normalize(torch.from_numpy(vectors).double(), dim=1)
    order = (unit @ unit.T).fill_diagonal_(-torch.inf).argsort(dim=1, descending=True)[:, :-1]
    hits = torch.from_numpy(labels)[order] == torch.from_numpy(labels)[:, None]
    precision = torch.where(hits, hits.cumsum(dim=1) / torch.arange(1, 1300), 0.0).double()
    count = hits.sum(dim=1).clamp(min=1)
    within = torch.where(torch.arange(1, 1300) <= count[:, None], precision, 0.0)
    for metrics in (ALL, ("R@K", "MAP@R")):
        found = per_query(vectors, labels, ks=(1, 5, 700), metrics=metrics)
        for k in (1, 5, 700):
            torch.testing.assert_close(found.scores[f"R@{k}"], hits[:, :k].any(dim=1).double())
        torch.testing.assert_close(found.scores["MAP@R"], within.sum(dim=1) / count, rtol=1e-6, atol=1e-12)
        if "mAP" in metrics:
            torch.testing.assert_close(found.scores["mAP"], precision.sum(dim=1) / count, rtol=1e-6, atol=1e-12)


def test_pytorch_metric_learning_agrees():
    needs_package("pytorch_metric_learning")
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    names = {"precision_at_1": "R@1", "r_precision": "RP", "mean_average_precision_at_r": "MAP@R", "mean_average_precision": "mAP"}
    vectors, labels = case("plain")
    unit = torch.nn.functional.normalize(torch.from_numpy(vectors), dim=1)
    theirs = AccuracyCalculator(include=tuple(names), k=len(vectors) - 1, device=torch.device("cpu")).get_accuracy(
        unit, torch.from_numpy(labels)
    )
    ours = per_query(unit, labels)
    for their_name, name in names.items():
        assert theirs[their_name] == pytest.approx(ours.scores[name].mean().item(), abs=1e-6)  # they compute in float32


def test_scikit_learn_agrees():
    vectors, labels = case("plain")
    ours = per_query(vectors, labels, metrics=("mAP",)).scores["mAP"]
    unit = vectors.astype(np.float64) / np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    for i in range(len(vectors)):
        others = np.arange(len(vectors)) != i
        assert ours[i].item() == pytest.approx(average_precision_score(labels[others] == labels[i], unit[others] @ unit[i]), rel=1e-9)


def test_labels_stay_exact_and_may_be_strings():
    vectors, labels = case("plain")
    expected = per_query(vectors, labels)
    for other in (
        labels + 2**62,  # neighbours that float64 merges
        torch.from_numpy(labels) + 2**62,
        (labels + 2**24).astype(np.int32),
        labels.astype(np.uint64) + np.uint64(2**63),
        [f"class {label:03d}" for label in labels],
        np.array([f"class {label:03d}" for label in labels], dtype=object),
    ):
        found = per_query(vectors, other)
        torch.testing.assert_close(found.labels, expected.labels)
        for name, values in expected.scores.items():
            torch.testing.assert_close(found.scores[name], values, rtol=0, atol=0)


def test_query_and_gallery_labels_share_one_code():
    eye = torch.eye(4)
    found = per_query(eye, ["b", "c", "d", "e"], gallery=eye, gallery_labels=["a", "b", "c", "d"], ks=(1, 2, 4))
    assert found.matched.tolist() == [True, True, True, False]
    assert found.scores["R@1"].tolist() == [0, 0, 0, 0]
    assert found.scores["mAP"].tolist() == [1 / 2, 1 / 3, 1 / 4, 0]


def test_a_k_larger_than_the_gallery_is_left_out():
    eye, labels = torch.eye(4), torch.tensor([0, 0, 1, 1])
    found = per_query(eye, labels, ks=(8, 1, 4, 3))
    assert list(found.scores) == ["R@1", "R@3", "RP", "MAP@R", "mAP"]
    assert found.left_out == ("R@4 and R@8 are left out: the gallery has only 3 items besides the query",)
    assert torch.equal(found.scores["R@3"], per_query(eye, labels, ks=(3,)).scores["R@3"])
    apart = per_query(eye, labels, gallery=eye, gallery_labels=labels, ks=(4, 5), metrics=("R@K",))
    assert list(apart.scores) == ["R@4"]
    assert apart.left_out == ("R@5 is left out: the gallery has only 4 items",)


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "hamming"])
def test_matches_are_known_where_no_k_fits(metric):
    rows = torch.tensor([[1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    found = per_query(pack_bits(rows) if metric == "hamming" else rows, [0, 0, 1], ks=(7,), metrics=("R@K",), metric=metric)
    assert found.scores == {}
    assert found.matched.tolist() == [True, True, False]


def test_to_bytes_and_back():
    found = per_query(torch.eye(4), torch.tensor([0, 0, 1, 2]), ks=(1, 2))
    again = PerQuery.from_bytes(found.to_bytes())
    assert list(again.scores) == list(found.scores)
    for name, values in found.scores.items():
        torch.testing.assert_close(again.scores[name], values, rtol=0, atol=0)
    assert torch.equal(again.matched, found.matched)
    assert torch.equal(again.labels, found.labels)


def test_bad_input_is_named():
    eye, labels = torch.eye(4), torch.tensor([0, 0, 1, 1])
    broken = eye.clone()
    broken[3] = torch.inf
    cases = [
        ({"labels": labels[:3]}, "3 labels for 4 embeddings"),
        ({"labels": labels.float()}, "labels are torch.float32: expected integers or strings"),
        ({"labels": [0.5, 1, 2, 3]}, "labels are float64"),
        ({"labels": labels[:, None]}, "labels have shape"),
        ({"embeddings": broken}, "row 3 of embeddings holds NaN or infinity"),
        ({"ks": (0,)}, "ks hold 0"),
        ({"ks": ()}, "ks are empty"),
        ({"metrics": ("R@1",)}, "metrics are .*expected some of"),
        ({"metrics": "mAP"}, "metrics are 'mAP'"),
        ({"gallery": eye}, "gallery without gallery_labels"),
        ({"gallery": eye[:0], "gallery_labels": labels[:0]}, "the gallery"),
        ({"gallery": eye, "gallery_labels": ["a", "b", "c", "d"]}, "labels are integers but gallery_labels are strings"),
        ({"gallery": eye[:, :2], "gallery_labels": labels}, "dimension 4 and the gallery 2"),
        ({"metric": "dot"}, "metric is 'dot'"),
        ({"block": -1}, "block is -1"),
    ]
    for changed, message in cases:
        arguments = {"embeddings": eye, "labels": labels, "ks": (1, 2)} | changed
        with pytest.raises(ValueError, match=message):
            per_query(arguments.pop("embeddings"), arguments.pop("labels"), **arguments)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("metric", ["cosine", pytest.param("euclidean", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_cuda_equals_cpu(kind, metric):
    vectors, labels = (torch.from_numpy(array) for array in case(kind))
    for metrics in SETS:
        on_cpu = per_query(vectors, labels, ks=KS, metrics=metrics, metric=metric)
        on_cuda = per_query(vectors.cuda(), labels.cuda(), ks=KS, metrics=metrics, metric=metric, block=50)
        for name, values in on_cpu.scores.items():
            torch.testing.assert_close(on_cuda.scores[name].cpu(), values, rtol=1e-14, atol=0)
