"""Packed bits and Hamming neighbours against plain numpy."""

import numpy as np
import pytest
import torch

from likewise.evaluation import hamming_nearest, pack_bits, per_query
from likewise.evaluation.binary import signs, unpack_bits


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
    index, distance = hamming_nearest(pack_bits(vectors()), pack_bits(vectors()), 30, exclude_self=exclude_self, block=block)
    np.testing.assert_array_equal(index.numpy(), order)
    np.testing.assert_array_equal(distance.numpy(), np.take_along_axis(distances, order, axis=1))


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
            hamming_nearest(*arguments)
    with pytest.raises(ValueError, match="expected packed bits"):
        per_query(vectors(), np.arange(120) % 3, metric="hamming")
