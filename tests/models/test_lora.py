"""Low-rank adapters: the network starts as it was, learns through them alone, and is of its old shape afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from likewise.models.backbones import BACKBONES
from likewise.models.lora import RANK, add_adapters, merge_adapters
from likewise.models.network import Network, NetworkSpec, make_network

OF_IMAGES = [name for name in BACKBONES if name.startswith(("resnet", "bn_", "efficientnet"))]


@pytest.fixture
def images() -> Tensor:
    return torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))


def network_of(backbone: str = "resnet18") -> Network:
    return make_network(NetworkSpec(backbone, dim=8), seed=0).eval()


def disturb(network: nn.Module) -> None:
    """As a training would: every adapter away from its start."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in adapters(network):
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)


def adapters(network: nn.Module) -> Iterator[nn.Parameter]:
    return (parameter for name, parameter in network.named_parameters() if name.endswith((".up", ".down")))


@pytest.mark.parametrize("backbone", OF_IMAGES)
def test_starts_as_it_was_and_merged_equals_adapted(backbone: str, images: Tensor) -> None:
    network = network_of(backbone)
    with torch.no_grad():
        before = network(images)
        names, shapes = zip(*((name, value.shape) for name, value in network.state_dict().items()), strict=True)
        add_adapters(network, seed=0)
        assert torch.equal(network(images), before)
        disturb(network)
        adapted = network(images)
        assert (adapted - before).abs().max() > 1e-3
        merge_adapters(network)
        torch.testing.assert_close(network(images), adapted, atol=1e-5, rtol=0)
    after = network.state_dict()
    assert set(after) == set(names)
    assert all(after[name].shape == shape for name, shape in zip(names, shapes, strict=True))


def test_a_change_is_of_low_rank() -> None:
    network = network_of("efficientnet_lite0")
    before = {name: value.clone() for name, value in network.state_dict().items()}
    add_adapters(network, seed=0)
    disturb(network)
    merge_adapters(network)
    changes = {name: (value - before[name]).flatten(1) for name, value in network.state_dict().items() if value.ndim == 4}
    changed = {name: change for name, change in changes.items() if change.abs().max() > 0}
    assert len(changed) > 20
    assert all(".backbone." in name and before[name].shape[2:] == (1, 1) for name in changed)
    ranks = {name: int(torch.linalg.matrix_rank(change, rtol=1e-4)) for name, change in changed.items()}
    assert set(ranks.values()) == {RANK}


def test_adapters_and_heads_alone_learn() -> None:
    network = network_of()
    add_adapters(network, seed=0)
    learning = {name for name, parameter in network.named_parameters() if parameter.requires_grad}
    assert learning
    assert all(name.endswith((".up", ".down")) or ".heads." in name for name in learning)


def test_the_seed_decides_the_start() -> None:
    first, again, other = (network_of() for _ in range(3))
    for network, seed in ((first, 0), (again, 0), (other, 1)):
        add_adapters(network, seed=seed)
    pairs = list(zip(adapters(first), adapters(again), adapters(other), strict=True))
    assert all(torch.equal(a, b) for a, b, _ in pairs)
    assert not all(torch.equal(a, c) for a, _, c in pairs)


def test_faults_in_words() -> None:
    with pytest.raises(ValueError, match="neither linear layers nor 1x1"):
        add_adapters(make_network(NetworkSpec("identity", dim=8, in_features=4), seed=0), seed=0)
    with pytest.raises(ValueError, match="rank=0"):
        add_adapters(network_of(), seed=0, rank=0)
