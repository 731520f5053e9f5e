"""Losses of an embedding's parts against what they come down to in plainer cases."""

from __future__ import annotations

import pytest
import torch

import likewise
from likewise.unit_vectors import part_widths

from .oracles import batch


def test_widths_are_in_proportion_and_none_is_without_a_dimension() -> None:
    assert part_widths((3, 5, 8), 512) == [96, 160, 256]
    assert part_widths((3, 5, 8), 64) == [12, 20, 32]
    assert part_widths((1, 1, 1), 128 * 3) == [128] * 3
    for dim in range(3, 40):
        widths = part_widths((1, 9, 30), dim)
        assert sum(widths) == dim
        assert min(widths) >= 1


def test_boosting_one_part_is_binomial_deviance() -> None:
    embeddings, labels = batch("unbalanced", 3)
    found = likewise.objective("boosted_binomial", parts=(1,))(embeddings, labels)
    torch.testing.assert_close(found, likewise.objective("binomial_deviance")(embeddings, labels), rtol=1e-12, atol=0)


def test_a_later_part_learns_nothing_from_pairs_that_the_first_gets_right() -> None:
    """Classes apart by far in the first part: the second, in which they coincide, gets a gradient that is next to none."""
    labels = torch.arange(3).repeat_interleave(2)
    right = torch.eye(3, dtype=torch.float64)[labels]
    embeddings = torch.cat([right, torch.ones(6, 3, dtype=torch.float64) + 0.1 * right], dim=1)
    gradients = []
    for first in (embeddings[:, :3], torch.ones(6, 3, dtype=torch.float64) + 0.1 * right):
        x = torch.cat([first, embeddings[:, 3:]], dim=1).requires_grad_()
        likewise.objective("boosted_binomial", parts=(1, 1))(x, labels).backward()
        assert x.grad is not None
        gradients.append(x.grad[:, 3:].abs().max())
    assert gradients[0] < 1e-8 * gradients[1]


def test_a_cascade_of_one_level_is_the_contrastive_loss() -> None:
    """d^2 = 2 - 2 s: a margin of squared distances is a threshold of similarities."""
    embeddings, labels = batch("balanced", 3)
    found = likewise.objective("hard_aware_cascade", parts=(1,), hardest=(1.0,), margin=0.8)(embeddings, labels)
    torch.testing.assert_close(found, likewise.objective("contrastive", threshold=0.6)(embeddings, labels), rtol=1e-9, atol=0)


@pytest.mark.parametrize("hardest", [(1.0, 0.5), (0.5, 0.5, 0.2), (1.0, 0.0, 0.2), (1.0, 0.5, 1.2)])
def test_shares_of_a_cascade_that_cannot_be(hardest: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"hard_aware_cascade hardest=\(.*: expected"):
        likewise.objective("hard_aware_cascade", hardest=hardest)
