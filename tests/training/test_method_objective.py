"""What a method minimises: one objective a level and member, each member with its meta-classes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from likewise.objectives import objective
from likewise.training.method_objective import Objectives

from .tiny import method


def partitions(*, num_classes: int = 50, meta_classes: int = 12, seed: int = 0, members: int = 4) -> np.ndarray:
    chosen = method("dreml", ensemble__members=members, ensemble__meta_classes=meta_classes)
    return Objectives(chosen, num_classes=num_classes, dim=8, steps=10, seed=seed, gather=False).meta_classes.numpy()


@pytest.mark.parametrize(("num_classes", "meta_classes"), [(50, 12), (48, 12), (13, 12), (5, 12)])
def test_meta_classes_differ_in_size_by_at_most_one(num_classes: int, meta_classes: int) -> None:
    for partition in partitions(num_classes=num_classes, meta_classes=meta_classes):
        sizes = np.bincount(partition)
        assert partition.shape == (num_classes,)
        assert len(sizes) == min(meta_classes, num_classes)
        assert sizes.max() - sizes.min() <= 1


def test_meta_classes_differ_by_member_and_depend_on_the_seed_only() -> None:
    first = partitions()
    assert len({partition.tobytes() for partition in first}) == 4
    torch.manual_seed(123)
    np.random.default_rng(5).random()
    assert np.array_equal(partitions(), first)
    assert np.array_equal(partitions(members=2), first[:2])  # more members change nothing for those before
    assert not np.array_equal(partitions(seed=1), first)


def test_without_an_ensemble_the_classes_are_themselves() -> None:
    found = Objectives(method("raw"), num_classes=7, dim=8, steps=10, seed=0, gather=False)
    assert found.meta_classes.tolist() == [list(range(7))]


def test_a_members_loss_is_of_its_meta_classes() -> None:
    chosen = method("dreml", ensemble__members=2, ensemble__meta_classes=3)
    found = Objectives(chosen, num_classes=9, dim=4, steps=10, seed=0, gather=False)
    labels = torch.arange(9)
    embeddings = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
    for member in range(2):
        own = found.of_level[member][0]  # type: ignore[index]
        expected = own(embeddings, found.meta_classes[member][labels])
        torch.testing.assert_close(found(member, (embeddings,), labels, labels), expected)
    assert found(0, (embeddings,), labels, labels) != found(1, (embeddings,), labels, labels)


def test_levels_have_proxies_of_their_own_and_their_losses_are_added() -> None:
    chosen = method("proxy_softmax", head__levels=["low", "mid", "high"])
    found = Objectives(chosen, num_classes=5, dim=4, steps=10, seed=0, gather=False)
    proxies, own = found.groups()
    assert (len(proxies), own) == (3, [])
    assert not torch.equal(proxies[0], proxies[1])
    labels = torch.arange(5)
    levels = tuple(torch.randn(5, 4, generator=torch.Generator().manual_seed(number)) for number in range(3))
    apart = [found.of_level[0][number](vectors, labels) for number, vectors in enumerate(levels)]  # type: ignore[index]
    torch.testing.assert_close(found(0, levels, labels, labels), sum(apart, torch.zeros(())))


def test_norm_brings_embeddings_to_that_length() -> None:
    """A loss that is not of unit vectors then sees vectors of that length, however long they were."""
    found = Objectives(method("n_pairs", norm=3.0), num_classes=3, dim=4, steps=10, seed=0, gather=False)
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    vectors = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    scaled = found(0, (7 * vectors,), labels, labels)
    torch.testing.assert_close(found(0, (vectors,), labels, labels), scaled)
    plain = found.of_level[0][0](3 * torch.nn.functional.normalize(vectors), labels)  # type: ignore[index]
    torch.testing.assert_close(scaled, plain)


def test_a_loss_of_parts_sees_all_levels_joined() -> None:
    """The parts of each level in turn, in the proportions that the head has."""
    chosen = method("bier", head__levels=["mid", "high"], head__parts=[1, 3])
    found = Objectives(chosen, num_classes=5, dim=8, steps=10, seed=0, gather=False)
    generator = torch.Generator().manual_seed(0)
    embeddings = tuple(torch.randn(10, 8, generator=generator) for _ in range(2))
    labels = torch.arange(5).repeat(2)
    assert [len(of_member) for of_member in found.of_level] == [1]  # type: ignore[arg-type]
    expected = objective("boosted_binomial", parts=(1, 3, 1, 3), shrinkage=0.06)(torch.cat(embeddings, dim=1), labels)
    torch.testing.assert_close(found(0, embeddings, labels, labels), expected)
