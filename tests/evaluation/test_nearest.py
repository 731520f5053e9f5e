"""`nearest` against a float64 loop, for every block size, with ties, copies and bad input."""

import sys

import numpy as np
import pytest
import torch

from likewise.evaluation import nearest

nearest_module = sys.modules["likewise.evaluation.nearest"]  # the function has the module's name


def loop(queries, gallery, k, metric, exclude_self):
    """Indices and values straight from the definition, in float64."""
    queries, gallery = np.asarray(queries, dtype=np.float64), np.asarray(gallery, dtype=np.float64)
    indices, values = [], []
    for i, query in enumerate(queries):
        if metric == "cosine":
            nearness = [sum(query * item) / (sum(query**2) ** 0.5 * sum(item**2) ** 0.5) for item in gallery]
        else:
            nearness = [-(sum((query - item) ** 2) ** 0.5) for item in gallery]
        order = sorted((j for j in range(len(gallery)) if not (exclude_self and j == i)), key=lambda j: (-nearness[j], j))[:k]
        indices.append(order)
        values.append([nearness[j] if metric == "cosine" else -nearness[j] for j in order])
    return np.array(indices), np.array(values)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def copies(rng, dtype=np.float32):
    """Random rows of which many are exact copies, so that every list has ties in it and at its end."""
    rows = rng.normal(size=(20, 16)).astype(dtype)
    return rows[rng.integers(0, 20, size=150)]


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("exclude_self", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equals_the_loop(rng, metric, exclude_self, dtype):
    vectors = rng.normal(size=(90, 24)).astype(dtype)
    index, value = nearest(vectors, vectors, 7, metric=metric, exclude_self=exclude_self)
    expected, expected_value = loop(vectors, vectors, 7, metric, exclude_self)
    assert index.dtype == torch.int64
    np.testing.assert_array_equal(index.numpy(), expected)
    assert value.numpy().dtype == dtype
    np.testing.assert_allclose(value.numpy(), expected_value, rtol=4 * np.finfo(dtype).eps, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("block", [7, 64, 1000, "auto"])
@pytest.mark.parametrize("k", [1, 40, 149])
def test_copies_tie_by_index_for_every_block(rng, metric, block, k):
    vectors = copies(rng)
    index, _ = nearest(vectors, vectors, k, metric=metric, exclude_self=True, block=block)
    # The loop sums in one order for all, so that copies tie there too.
    np.testing.assert_array_equal(index.numpy(), loop(vectors, vectors, k, metric, True)[0])


def test_near_ties_follow_float64_for_every_block(rng):
    # Rows that differ by less than float32 matrix products can tell: only the exact scores order them.
    base = rng.normal(size=256).astype(np.float32)
    gallery = np.repeat(base[None], 400, axis=0)
    at = rng.integers(0, 256, size=400)
    gallery[np.arange(400), at] = np.nextafter(gallery[np.arange(400), at], np.float32(np.inf))
    queries = rng.normal(size=(5, 256)).astype(np.float32)
    exact = queries.astype(np.float64) @ gallery.astype(np.float64).T
    exact /= np.linalg.norm(queries.astype(np.float64), axis=1)[:, None] * np.linalg.norm(gallery.astype(np.float64), axis=1)
    first = nearest(queries, gallery, 20)[0].numpy()
    chosen = np.take_along_axis(exact, first, axis=1)
    best = -np.sort(-exact, axis=1)[:, :20]
    np.testing.assert_allclose(chosen, best, rtol=0, atol=1e-15)
    for block in (3, 50, 399):
        np.testing.assert_array_equal(nearest(queries, gallery, 20, block=block)[0].numpy(), first)


def test_far_from_the_origin(rng):
    vectors = (rng.normal(size=(60, 8)) + 1000).astype(np.float32)
    np.testing.assert_array_equal(
        nearest(vectors, vectors, 5, metric="euclidean", exclude_self=True)[0].numpy(), loop(vectors, vectors, 5, "euclidean", True)[0]
    )


def test_a_copy_is_at_distance_zero_and_the_query_is_left_out_by_index(rng):
    vectors = rng.normal(size=(30, 8)).astype(np.float32)
    vectors[17] = vectors[3]
    index, distance = nearest(vectors, vectors, 1, metric="euclidean", exclude_self=True)
    assert (index[3].item(), index[17].item()) == (17, 3)
    assert distance[3].item() == 0.0


def test_long_rows_in_two_levels(rng):
    vectors = torch.from_numpy(rng.normal(size=(3000, 8)).astype(np.float32))
    index, _ = nearest(vectors[:20], vectors, 10)
    unit = torch.nn.functional.normalize(vectors.double(), dim=1)
    np.testing.assert_array_equal(index.numpy(), (-(unit[:20] @ unit.T)).argsort(dim=1)[:, :10].numpy())


@pytest.mark.parametrize("exclude_self", [True, False])
@pytest.mark.parametrize("k", [1, 12, 60])
@pytest.mark.parametrize("at_once", [0, 8192])
def test_one_product_for_both_of_its_rows(rng, monkeypatch, k, exclude_self, at_once):
    vectors = torch.from_numpy(copies(rng))
    monkeypatch.setattr(nearest_module, "MOST_AT_ONCE", at_once)
    monkeypatch.setattr(nearest_module, "MIRRORED_SIDE", 32)
    index, similarity = nearest(vectors, vectors, k, exclude_self=exclude_self)
    other, other_similarity = nearest(vectors, vectors.clone(), k, exclude_self=exclude_self)
    torch.testing.assert_close(index, other, rtol=0, atol=0)
    torch.testing.assert_close(similarity, other_similarity, rtol=0, atol=0 if k <= nearest_module.MOST_COMPARED_EXACTLY else 1e-6)


def test_several_squares_a_block(rng):
    vectors = torch.from_numpy(rng.normal(size=(1300, 8)).astype(np.float32))
    unit = torch.nn.functional.normalize(vectors.double(), dim=1)
    expected = (unit @ unit.T).fill_diagonal_(-torch.inf).topk(9, dim=1).indices
    torch.testing.assert_close(nearest(vectors, vectors, 9, exclude_self=True)[0], expected)


def test_fast_ranking_rescored(rng):
    vectors = torch.from_numpy(rng.normal(size=(500, 64)).astype(np.float32))
    exact, fast = nearest(vectors, vectors, 10, exclude_self=True), nearest(vectors, vectors, 10, exclude_self=True, ranking="fast")
    torch.testing.assert_close(fast[0], exact[0], rtol=0, atol=0)
    torch.testing.assert_close(fast[1], exact[1], rtol=0, atol=0)


def test_half_precision_is_upcast(rng):
    vectors = torch.from_numpy(rng.normal(size=(50, 8))).bfloat16()
    index, similarity = nearest(vectors, vectors, 3)
    assert similarity.dtype == torch.float32
    torch.testing.assert_close(index, nearest(vectors.double(), vectors.double(), 3)[0])


def test_zero_vectors_are_similar_to_nothing():
    vectors = torch.tensor([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    index, similarity = nearest(vectors, vectors, 3)
    assert index.tolist() == [[0, 1, 2], [1, 0, 2], [2, 0, 1]]
    assert similarity.tolist() == [[0, 0, 0], [1, 0, -1], [1, 0, -1]]


def test_the_callers_matmul_precision_comes_back():
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        nearest(torch.eye(4), torch.eye(4), 1)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


def test_bad_input_is_named():
    vectors = torch.eye(4)
    broken = vectors.clone()
    broken[2, 1] = torch.nan
    for arguments, message in [
        ((vectors, vectors, 5), "k is 5 but the gallery has only 4 items"),
        ((vectors, vectors, 0), "k is 0"),
        ((broken, vectors, 1), "row 2 of queries holds NaN"),
        ((vectors, broken, 1), "row 2 of gallery holds NaN"),
        ((vectors, vectors[:, :3], 1), "dimension 4 and the gallery 3"),
        ((vectors, vectors[:0], 1), "gallery is empty"),
        ((vectors.long(), vectors, 1), "floating point"),
        ((vectors[0], vectors, 1), "shape"),
    ]:
        with pytest.raises(ValueError, match=message):
            nearest(*arguments)
    with pytest.raises(ValueError, match="only 3 items besides the query"):
        nearest(vectors, vectors, 4, exclude_self=True)
    with pytest.raises(ValueError, match="metric is 'manhattan'"):
        nearest(vectors, vectors, 1, metric="manhattan")
    with pytest.raises(ValueError, match="block is 0"):
        nearest(vectors, vectors, 1, block=0)
    with pytest.raises(ValueError, match="expected query i to be gallery row i"):
        nearest(vectors, vectors[:2], 1, exclude_self=True)
