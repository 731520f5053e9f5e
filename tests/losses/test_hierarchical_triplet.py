"""The tree of the hierarchical triplet loss by hand, and its running means."""

from __future__ import annotations

import math

import torch
from torch import Tensor

import likewise
from likewise.losses.hierarchical_triplet import HierarchicalTriplet

LABELS = torch.arange(4).repeat_interleave(2)


def on_circle(*degrees: float) -> Tensor:
    return torch.tensor([[math.cos(math.radians(a)), math.sin(math.radians(a))] for a in degrees], dtype=torch.float64)


def test_classes_that_a_chain_joins_have_one_margin() -> None:
    """Points at 0, 30, 60 and 180 degrees, each a class of two equal items: all spreads are 0, so that t_l = l / 4 of 16 levels.

    Neighbours on the chain are at 2 - 2 cos 30 = 0.268, joined at level 2 (0.5); so are 0 and 60 degrees, although they are at 1. The
    fourth is at 3 from the nearest, joined at level 12.
    """
    loss = HierarchicalTriplet(margin=0.1)
    vectors = on_circle(0, 0, 30, 30, 60, 60, 180, 180)
    margins = loss._margins(vectors[::2], torch.zeros(4, dtype=torch.float64), torch.zeros((), dtype=torch.float64))
    near = ~torch.eye(4, dtype=torch.bool) & (torch.arange(4) < 3) & (torch.arange(4) < 3)[:, None]
    torch.testing.assert_close(margins[near], torch.full((6,), 0.6, dtype=torch.float64))
    torch.testing.assert_close(margins[3, :3], torch.full((3,), 3.1, dtype=torch.float64))
    # by the loss itself: [0 - d^2 + margin]+, each anchor with one positive and six negatives
    far = 2 - 2 * vectors[::2] @ vectors[::2].T
    hinges = torch.relu(margins - far)[~torch.eye(4, dtype=torch.bool)].view(4, 3)
    torch.testing.assert_close(loss.of_vectors(vectors, LABELS), hinges.mean(1).mean() / 2)


def test_the_tree_is_of_running_means_where_classes_are_known() -> None:
    objective = likewise.objective("hierarchical_triplet", num_classes=5, dim=2, momentum=0.75).double()
    first, second = on_circle(0, 0, 40, 40, 80, 80, 180, 180), on_circle(20, 20, 50, 50, 90, 90, 200, 200)
    objective(first, LABELS)
    means = objective.loss.means
    torch.testing.assert_close(means[:4], first[::2])
    assert means[4].isnan().all()  # not seen yet
    objective(second, LABELS)
    torch.testing.assert_close(means[:4], 0.75 * first[::2] + 0.25 * second[::2])
    before = means.clone()
    objective.eval()(first, LABELS)  # nothing is learned from a batch that is only looked at
    torch.testing.assert_close(means, before, equal_nan=True)


def test_a_class_of_one_item_has_the_spread_of_the_others() -> None:
    found = likewise.objective("hierarchical_triplet", num_classes=3, dim=2).double()
    labels = torch.tensor([0, 0, 1])
    value = found(on_circle(0, 20, 90), labels)
    assert value.isfinite()
    assert found.loss.spreads.isnan().tolist() == [False, True, True]
