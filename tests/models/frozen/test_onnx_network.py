"""Networks through onnxruntime give what torch gives."""

import inspect
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn

from likewise.models import BACKBONES
from likewise.models.frozen.onnx_network import TOLERANCE, onnx_network
from likewise.models.network import Network, NetworkSpec
from likewise.models.pooling import POOLINGS

from ...optional import needs_package

OF_IMAGES = [name for name, make in BACKBONES.items() if "in_features" not in inspect.signature(make).parameters]
OF_IMAGES.remove("lenet")  # ONNX has no pooling to so many places whatever the size; torch runs it
SIZE = 64


@pytest.fixture(autouse=True)
def installed() -> None:
    needs_package("onnxruntime")
    needs_package("onnx")


def with_statistics(network: nn.Module) -> nn.Module:
    """Batch norms as after training, so that leaving one out would show."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        for layer in network.modules():
            if isinstance(layer, nn.BatchNorm2d):
                assert layer.running_mean is not None
                assert layer.running_var is not None
                layer.running_mean.normal_(0, 0.2)
                layer.running_var.uniform_(0.5, 2)
    return network.eval()


def images(count: int, size: int = SIZE) -> Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(3))


def fast(network: nn.Module) -> Callable[[Tensor], Tensor]:
    run = onnx_network(network, SIZE)
    assert run is not None
    return run


@pytest.mark.parametrize("name", OF_IMAGES)
def test_every_backbone_of_images_is_run_alike(name: str) -> None:
    network = with_statistics(Network(NetworkSpec(name, head="none")))
    with torch.no_grad():
        expected = network(images(5))
    torch.testing.assert_close(fast(network)(images(5)), expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_every_pooling_is_run_alike(pooling: str) -> None:
    network = with_statistics(Network(NetworkSpec("convnet_small", pooling=pooling, dim=16, levels=("mid", "high"), num_members=2)))
    with torch.no_grad():
        expected = network(images(3))
    torch.testing.assert_close(fast(network)(images(3)), expected, rtol=0, atol=TOLERANCE)


def test_several_threads_at_once() -> None:
    network = with_statistics(Network(NetworkSpec("convnet_small", head="none")))
    run = fast(network)
    batches = [images(count) for count in (1, 7, 3, 8, 2, 5)]
    with torch.no_grad():
        expected = [network(batch) for batch in batches]
    with ThreadPoolExecutor(3) as pool:
        for given, wanted in zip(pool.map(run, batches), expected, strict=True):
            torch.testing.assert_close(given, wanted, rtol=0, atol=TOLERANCE)


def test_the_network_stays_in_its_mode_and_nothing_is_said() -> None:
    network = with_statistics(Network(NetworkSpec("convnet_small", head="none")))
    network.train()
    network.members[0].eval()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        run = fast(network)
    assert network.training
    assert not any(module.training for module in network.members[0].modules())
    assert said == []
    network.eval()
    with torch.no_grad():
        torch.testing.assert_close(run(images(3)), network(images(3)), rtol=0, atol=TOLERANCE)


class Unlike(nn.Module):
    """Gives something else each time, as a graph that is not the network would."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        return inputs.mean((2, 3)) + self.calls


class Unheard(nn.Module):
    """Has no words in ONNX."""

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.linalg.eigvals(inputs.mean(1)).real


@pytest.mark.parametrize("network", [Unlike(), Unheard()])
def test_what_differs_or_cannot_be_said_is_left_to_torch(network: nn.Module) -> None:
    assert onnx_network(network, 8) is None


@pytest.mark.parametrize("package", ["onnxruntime", "onnx"])
def test_without_the_packages_torch_does_it(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, package, None)
    assert onnx_network(Network(NetworkSpec("convnet_small", head="none")).eval(), SIZE) is None
