"""Packed bits and Hamming neighbours against plain numpy."""

import numpy as np
import pytest
import torch

from likewise.evaluation import binary, nearest, pack_bits, per_query
from likewise.evaluation.binary import signs, unpack_bits

from ..optional import needs_package


def vectors(dim=24, num=120):
    return np.random.default_rng(0).normal(size=(num, dim)).astype(np.float32)


@pytest.mark.parametrize("dim", [8, 24, 61])
def test_pack_bits_as_numpy_packs(dim):
    np.testing.assert_array_equal(pack_bits(vectors(dim)).numpy(), np.packbits(vectors(dim) > 0, axis=1))


def test_signs_are_the_bits_as_vectors():
    x = torch.from_numpy(vectors(16))
    x[0, :3] = torch.tensor([0.0, -0.0, 1e-30])
    assert signs(x)[0, :3].tolist() == [-1, -1, 1]
    torch.testing.assert_close(signs(x), unpack_bits(pack_bits(x)), rtol=0, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("block", [1, 7, 50, "auto"])
@pytest.mark.parametrize("exclude_self", [True, False])
def test_hamming_nearest_with_ties_by_index(block, exclude_self):
    bits = vectors() > 0
    distances = (bits[:, None] != bits[None]).sum(axis=2).astype(np.float64)
    if exclude_self:
        np.fill_diagonal(distances, np.inf)
    order = np.argsort(distances, axis=1, kind="stable")[:, :30]
    index, distance = nearest(pack_bits(vectors()), pack_bits(vectors()), 30, metric="hamming", exclude_self=exclude_self, block=block)
    np.testing.assert_array_equal(index.numpy(), order)
    np.testing.assert_array_equal(distance.numpy(), np.take_along_axis(distances, order, axis=1))


def in_some_order(bits, order, rng):
    """Packed bits as drawn, all alike, few that differ, or ever nearer to (or farther from) the first: each item then beats the k-th."""
    if order == "alike":
        bits[:] = bits[0]
    elif order == "copies":
        bits = bits[rng.integers(0, min(6, len(bits)), size=len(bits))]
    elif order in ("nearer", "farther"):
        distance = (bits != bits[0]).sum(axis=1)
        bits = bits[np.argsort(-distance if order == "nearer" else distance, kind="stable")]
    return np.packbits(bits, axis=1)


@pytest.mark.parametrize("order", ["drawn", "alike", "copies", "nearer", "farther"])
@pytest.mark.parametrize("small", [False, True])
def test_any_order_of_the_gallery(order, small, monkeypatch):
    if small:  # many looks at few items, and groups that do not fill a look
        monkeypatch.setattr(binary, "ROWS", 7)
        monkeypatch.setattr(binary, "COLUMNS", 10)
        monkeypatch.setattr(binary, "FIRST_COLUMNS", 2)
        monkeypatch.setattr(binary, "GROUP", 4)
        monkeypatch.setattr(binary, "SIGNS_AT_ONCE", 1)
    rng = np.random.default_rng(3)
    for num, width, k in ((300, 16, 5), (150, 72, 1), (90, 8, 89), (2, 8, 1)):
        packed = in_some_order(rng.random((num, width)) < 0.5, order, rng)
        bits = np.unpackbits(packed, axis=1)
        distances = (bits[:, None] != bits[None]).sum(axis=2)
        for exclude_self in (False, True):
            if exclude_self:
                np.fill_diagonal(distances, 10_000)
            expected = np.argsort(distances, axis=1, kind="stable")[:, :k]
            index, distance = nearest(torch.from_numpy(packed), torch.from_numpy(packed), k, metric="hamming", exclude_self=exclude_self)
            np.testing.assert_array_equal(index.numpy(), expected)
            np.testing.assert_array_equal(distance.numpy(), np.take_along_axis(distances, expected, axis=1))


@pytest.mark.parametrize("width", [64, 520])
def test_faiss_agrees(width):
    needs_package("faiss")
    import faiss

    rng = np.random.default_rng(5)
    gallery, queries = (rng.integers(0, 256, size=(num, width // 8), dtype=np.uint8) for num in (20_000, 40))
    index = faiss.IndexBinaryFlat(width)
    index.add(gallery)
    theirs = index.search(queries, 25)[0]
    np.testing.assert_array_equal(nearest(torch.from_numpy(queries), gallery, 25, metric="hamming")[1].numpy(), theirs)


@pytest.mark.parametrize("num_classes", [1, 6, 60])
@pytest.mark.parametrize("block", ["auto", 13])
def test_scores_equal_those_of_the_signs(num_classes, block):
    # Cosine of +-1 vectors orders as Hamming distance does, and its ties are exact.
    x, labels = vectors(num=130), np.random.default_rng(1).integers(0, num_classes, size=130)
    plus_minus = np.where(x > 0, 1.0, -1.0).astype(np.float32)
    for own, other, kwargs in (
        (pack_bits(x), plus_minus, {}),
        (pack_bits(x)[:50], plus_minus[:50], {"gallery": (pack_bits(x)[50:], plus_minus[50:]), "gallery_labels": labels[50:]}),
    ):
        packed = {name: value[0] if name == "gallery" else value for name, value in kwargs.items()}
        plain = {name: value[1] if name == "gallery" else value for name, value in kwargs.items()}
        found = per_query(own, labels[: len(own)], metric="hamming", block=block, **packed)
        expected = per_query(other, labels[: len(own)], metric="euclidean", **plain)
        assert found.matched.equal(expected.matched)
        for name, values in expected.scores.items():
            torch.testing.assert_close(found.scores[name], values, rtol=1e-12, atol=0)


def test_bad_input_is_named():
    packed = pack_bits(vectors())
    for arguments, message in [
        ((packed.int(), packed, 1), "expected packed bits"),
        ((packed, packed[:, :2], 1), "3 bytes and the gallery 2"),
        ((packed, packed[:0], 1), "gallery is empty"),
        ((packed, packed, 121), "k is 121 but the gallery has only 120"),
    ]:
        with pytest.raises(ValueError, match=message):
            nearest(*arguments, metric="hamming")
    with pytest.raises(ValueError, match="expected packed bits"):
        per_query(vectors(), np.arange(120) % 3, metric="hamming")
