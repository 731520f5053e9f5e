"""The parts of an embedding: they add up, for every backbone, pooling, head, level, member and whitening, and each place has its own."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from likewise.explanation.place_vectors import PlaceVectors, place_vectors
from likewise.models import BACKBONES, HEADS, LEVELS, POOLINGS, NetworkSpec, make_network
from likewise.models.network import Network
from likewise.models.whitening import Whitening

SIZES = {"convnet_small": 32, "convnet": 32}
OF_IMAGES = [name for name in BACKBONES if name not in ("mlp", "identity")]


def images(side: int = 64, seed: int = 0) -> tuple[Tensor, Tensor]:
    both = torch.randn(2, 3, side, side + 32, generator=torch.Generator().manual_seed(seed))
    return both[:1], both[1:]


def shaken(network: Network, seed: int = 0) -> Network:
    """With biases and norms that are not those of the start, so that none of them can be forgotten."""
    generator = torch.Generator().manual_seed(seed)
    for layer in network.modules():
        for name, value in (("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
            found = getattr(layer, name, None)
            if isinstance(found, Tensor):
                found.data.copy_(value + 0.3 * torch.rand(found.shape, generator=generator))
    return network.eval()


def check_sum(network: Network, side: int) -> None:
    """As the network itself embeds, in float32."""
    parts = [place_vectors(network, one) for one in images(side)]
    with torch.no_grad():
        rows = [network(one)[0] for one in images(side)]
    for found, row in zip(parts, rows, strict=True):
        torch.testing.assert_close(found.embedding, row.double(), rtol=0, atol=1e-5)
    a, b = parts
    total = (a.vectors @ b.vectors.T).sum() + (a.vectors @ b.rest).sum() + (b.vectors @ a.rest).sum() + a.rest @ b.rest
    assert float(total) == pytest.approx(float(rows[0] @ rows[1]), abs=1e-5)


@pytest.mark.parametrize("backbone", OF_IMAGES)
def test_every_backbone(backbone: str) -> None:
    check_sum(shaken(make_network(NetworkSpec(backbone, dim=8, levels=LEVELS), seed=0)), SIZES.get(backbone, 64))


@pytest.mark.parametrize(("pooling", "head", "unit"), list(itertools.product(POOLINGS, HEADS, [False, True])))
@pytest.mark.parametrize("levels", [("high",), ("mid",), LEVELS])
def test_every_pooling_and_head(pooling: str, head: str, unit: bool, levels: tuple[str, ...]) -> None:
    spec = NetworkSpec("convnet_small", pooling=pooling, head=head, dim=8, levels=levels, unit_features=unit)  # type: ignore[arg-type]
    check_sum(shaken(make_network(spec, seed=1)), 32)


@pytest.mark.parametrize("levels", [("high",), LEVELS])
def test_parts_with_lengths_of_their_own(levels: tuple[str, ...]) -> None:
    check_sum(shaken(make_network(NetworkSpec("convnet_small", dim=8, levels=levels, parts=(3, 5)), seed=1)), 32)  # type: ignore[arg-type]


@pytest.mark.parametrize(("members", "levels"), list(itertools.product([1, 3], [("high",), ("low", "high")])))
@pytest.mark.parametrize("is_whitened", [False, True])
def test_members_and_whitening(members: int, levels: tuple[str, ...], is_whitened: bool) -> None:
    spec = NetworkSpec("convnet_small", pooling="avg+max", dim=8, levels=levels, num_members=members)  # type: ignore[arg-type]
    network = shaken(make_network(spec, seed=2))
    if is_whitened:
        generator = torch.Generator().manual_seed(3)
        whitening = Whitening(0.2 * torch.randn(network.width, generator=generator), torch.randn(network.width, 7, generator=generator))
        network = network.with_whitening(whitening)
    check_sum(network, 32)


def parts_by_loop(network: Network, image: Tensor, other: Tensor) -> np.ndarray:
    """What each place of the high level's map adds, as value times gradient of the head's similarity, lengths held: autograd's word."""
    member = network.members[0]
    with torch.no_grad():
        (features,) = member.backbone(image, ("high",))  # type: ignore[operator, union-attr]
    features.requires_grad_()
    row = member.heads["high"](features)  # type: ignore[operator, index, union-attr]
    (row[0] @ other.float() / row.norm().detach()).backward()
    assert features.grad is not None
    return np.asarray((features * features.grad).detach()[0].sum(dim=0).numpy())


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("head", ["linear", "mlp", "none"])
def test_each_place_has_what_autograd_gives_it(pooling: str, head: str) -> None:
    """Value times gradient splits a sum, a maximum, a root of a sum of powers and a ReLU in the one way that adds up."""
    network = shaken(make_network(NetworkSpec("convnet_small", pooling=pooling, head=head, dim=8), seed=4))
    image, _ = images(48)
    other = torch.randn(network.width, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    found = place_vectors(network, image)
    expected = parts_by_loop(network, image, other)
    assert expected.std() > 1e-4
    np.testing.assert_allclose((found.vectors @ other).view(found.grid).numpy(), expected, rtol=0, atol=2e-6)


def test_pairs_of_places_by_a_loop() -> None:
    network = shaken(make_network(NetworkSpec("convnet_small", dim=5), seed=6))
    maps = []
    with torch.no_grad():
        for image in images(32):
            maps.append(network.members[0].backbone(image, ("high",))[0][0].double())  # type: ignore[operator, union-attr]
    projection = network.members[0].heads["high"][1]  # type: ignore[index, union-attr]
    weight, bias = projection.weight.detach().double(), projection.bias.detach().double()
    lengths = [float((weight @ one.mean((1, 2)) + bias).norm()) for one in maps]
    a, b = (place_vectors(network, image) for image in images(32))
    found = a.vectors @ b.vectors.T
    for p, q in itertools.product(range(found.shape[0]), range(found.shape[1])):
        u, v = maps[0].flatten(1)[:, p], maps[1].flatten(1)[:, q]
        expected = float((weight @ u) @ (weight @ v)) / (maps[0][0].numel() * maps[1][0].numel() * lengths[0] * lengths[1])
        assert float(found[p, q]) == pytest.approx(expected, abs=1e-9)


def test_a_maximum_belongs_to_its_place() -> None:
    features = torch.zeros(1, 2, 2, 3)
    features[0, 0, 1, 2], features[0, 1, 0, 0], features[0, 1, 0, 1] = 3.0, 4.0, 4.0

    class Fixed(nn.Module):
        def forward(self, inputs: Tensor, levels: tuple[str, ...]) -> tuple[Tensor, ...]:
            return (features,)

    network = make_network(NetworkSpec("convnet_small", pooling="max", head="none"), seed=0)
    network.members[0].backbone = Fixed()  # type: ignore[union-attr]
    found = place_vectors(network, torch.zeros(1, 3, 8, 8))
    expected = torch.zeros(6, 2)
    expected[5, 0], expected[0, 1], expected[1, 1] = 0.6, 0.4, 0.4  # of length 5; two equal maxima share
    torch.testing.assert_close(found.vectors, expected.double())
    assert float(found.rest.abs().max()) == 0


def test_levels_lie_over_each_other() -> None:
    """A coarse place is shared out over the finer ones that it covers."""
    both = make_network(NetworkSpec("convnet_small", head="none", levels=("mid", "high")), seed=7).eval()
    high = make_network(NetworkSpec("convnet_small", head="none"), seed=7).eval()
    high.load_state_dict(both.state_dict(), strict=False)
    image = images(32)[0][..., :32]
    found: PlaceVectors = place_vectors(both, image)
    coarse = place_vectors(high, image)
    assert (found.grid, coarse.grid) == ((4, 4), (2, 2))
    width = both.widths["mid"]
    of_high = found.vectors[:, width:].view(2, 2, 2, 2, -1)
    torch.testing.assert_close(of_high, of_high[:, :1, :, :1].expand_as(of_high))
    ratio = of_high.sum(dim=(1, 3)).flatten(0, 1) / coarse.vectors
    ratio = ratio[coarse.vectors.abs() > 1e-9]
    torch.testing.assert_close(ratio, ratio[0].expand_as(ratio))


def test_a_head_of_unknown_layers() -> None:
    network = make_network(NetworkSpec("convnet_small", dim=4), seed=0).eval()
    network.members[0].heads["high"].append(nn.Tanh())  # type: ignore[index, operator, union-attr]
    with pytest.raises(ValueError, match="a layer of the kind Tanh, whose output cannot be split"):
        place_vectors(network, images(32)[0])
    network.members[0].heads["high"][0] = nn.AdaptiveMaxPool2d(1)  # type: ignore[index, operator, union-attr]
    with pytest.raises(ValueError, match="begins with AdaptiveMaxPool2d"):
        place_vectors(network, images(32)[0])
