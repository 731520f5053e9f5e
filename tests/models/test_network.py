"""Poolings, heads, levels, ensembles and seeds."""

import json
import math
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from likewise.models import HEADS, LEVELS, POOLINGS, NetworkSpec, freeze_batch_norm, make_backbone, make_network
from likewise.models.network import level_combinations

IMAGES = torch.randn(5, 3, 32, 32, generator=torch.Generator().manual_seed(3))


def pooled_by_loop(name: str, features: Tensor, exponent: float = 3.0) -> Tensor:
    result = torch.empty(features.shape[:2])
    for i in range(features.shape[0]):
        for c in range(features.shape[1]):
            values = [float(v) for v in features[i, c].flatten()]
            mean, largest = sum(values) / len(values), max(values)
            powers = [max(v, 1e-6) ** exponent for v in values]
            gem = (sum(powers) / len(powers)) ** (1 / exponent)
            result[i, c] = {"avg": mean, "max": largest, "avg+max": mean + largest, "gem": gem}[name]
    return result


@pytest.mark.parametrize("name", POOLINGS)
def test_pooling_equals_a_loop(name: str) -> None:
    features = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
    pool = POOLINGS[name]()
    torch.testing.assert_close(pool(features), pooled_by_loop(name, features))
    vectors = features[:, :, 0, 0]
    torch.testing.assert_close(pool(vectors), vectors, rtol=0, atol=0)
    assert pool(features.bfloat16()).dtype == torch.float32


def test_gem_learns_its_exponent_and_stays_in_float32() -> None:
    pool = POOLINGS["gem"]()
    large = torch.full((1, 1, 2, 2), 300.0)
    with torch.autocast("cpu", dtype=torch.float16):
        pooled = pool(large.half())
    torch.testing.assert_close(pooled, torch.tensor([[300.0]]))  # 300^3 is infinite in float16
    pool(torch.rand(2, 3, 4, 4)).sum().backward()
    assert pool.exponent.grad.abs().item() > 0


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("autocast", [False, True])
def test_heads(head: str, autocast: bool) -> None:
    network = make_network(NetworkSpec("convnet", head=head, dim=16, levels=LEVELS), seed=0)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        embeddings = network.members[0](IMAGES)
        rows = network(IMAGES)
    widths = [64, 128, 256] if head == "none" else [16, 16, 16]
    assert [tuple(e.shape) for e in embeddings] == [(5, width) for width in widths]
    assert rows.shape == (5, network.width) == (5, sum(widths))
    assert {e.dtype for e in (*embeddings, rows)} == {torch.float32}
    torch.testing.assert_close(rows, nn.functional.normalize(torch.cat(embeddings, dim=1)))
    rows.square().sum().backward()
    assert all(p.grad is not None for p in network.parameters())


def test_last_layer_is_not_rounded_under_autocast() -> None:
    network = make_network(NetworkSpec("identity", in_features=8, dim=4), seed=0)
    vectors = torch.randn(3, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = network(vectors)
    torch.testing.assert_close(rounded, network(vectors), rtol=0, atol=0)


def test_linear_head_by_hand() -> None:
    network = make_network(NetworkSpec("convnet", pooling="max", dim=7), seed=0).eval()
    member = network.members[0]
    (features,) = member.backbone(IMAGES)
    weight, bias = member.heads["high"][-1].weight, member.heads["high"][-1].bias
    torch.testing.assert_close(member(IMAGES)[0], features.amax((2, 3)) @ weight.T + bias)
    assert bias.abs().max() == 0
    bound = math.sqrt(6 / (256 + 7))  # Xavier
    assert 0.9 * bound < weight.abs().max() <= bound


def test_rll_head_layers() -> None:
    network = make_network(NetworkSpec("convnet", head="rll", dim=16, levels=LEVELS), seed=0)
    heads = network.members[0].heads
    kinds = [type(layer).__name__ for layer in heads["low"]]
    assert kinds == ["AdaptiveAvgPool2d", "Conv2d", "BatchNorm2d", "ReLU", "Flatten", "Linear", "BatchNorm1d", "ReLU", "Projection"]
    assert [tuple(p.shape) for p in heads["low"].parameters() if p.ndim > 1] == [(128, 64, 1, 1), (1024, 2048), (16, 1024)]
    assert [tuple(p.shape) for p in heads["mid"].parameters() if p.ndim > 1] == [(128, 128, 1, 1), (1024, 512), (16, 1024)]
    assert [tuple(p.shape) for p in heads["high"].parameters()] == [(16, 256)]


def test_layer_norm_head_does_not_see_scale_and_shift() -> None:
    network = make_network(NetworkSpec("identity", head="layer_norm", in_features=8, dim=4), seed=0)
    vectors = torch.randn(3, 8)
    torch.testing.assert_close(network.members[0](vectors)[0], network.members[0](5 * vectors + 2)[0], rtol=1e-4, atol=1e-4)


def test_single_levels() -> None:
    network = make_network(NetworkSpec("convnet", dim=16, levels=LEVELS, num_members=2), seed=0).eval()
    parts = [member(IMAGES) for member in network.members]
    for number, level in enumerate(LEVELS):
        rows = network(IMAGES, (level,))
        expected = torch.cat([nn.functional.normalize(part[number]) for part in parts], dim=1) / math.sqrt(2)
        torch.testing.assert_close(rows, expected)
        assert network.width_of((level,)) == 32


def test_every_combination_of_levels_from_one_pass() -> None:
    network = make_network(NetworkSpec("convnet", dim=16, levels=LEVELS, num_members=2), seed=0).eval()
    outputs = network.outputs(IMAGES)
    parts = [member(IMAGES) for member in network.members]
    torch.testing.assert_close(outputs, torch.cat([output for part in parts for output in part], dim=1), rtol=0, atol=0)
    assert outputs.shape == (5, network.num_outputs)
    chosen = level_combinations(network.spec.levels)
    assert [*map("+".join, chosen)] == ["low", "mid", "high", "low+mid", "low+high", "mid+high", "low+mid+high"]
    for levels in chosen:
        torch.testing.assert_close(network.joined(outputs, levels), network(IMAGES, levels))
    torch.testing.assert_close(network.joined(outputs), network(IMAGES))
    with pytest.raises(ValueError, match="each once and in this order"):
        network.joined(outputs, ("high", "low"))


def test_ensemble_members_share_nothing_and_weigh_alike() -> None:
    network = make_network(NetworkSpec("convnet", dim=8, num_members=3), seed=0).eval()
    storages = [p.data_ptr() for p in network.parameters()]
    assert len(storages) == len(set(storages)) == 3 * len(list(network.members[0].parameters()))
    first = [member.backbone.low[0].weight for member in network.members]
    assert not torch.equal(first[0], first[1])
    rows = network(IMAGES)
    assert rows.shape == (5, 24)
    torch.testing.assert_close(rows.norm(dim=1), torch.ones(5))
    cosines = [nn.functional.normalize(member(IMAGES)[0]) for member in network.members]
    torch.testing.assert_close(rows @ rows.T, sum(unit @ unit.T for unit in cosines) / 3)


def test_seed_alone_decides() -> None:
    spec = NetworkSpec("convnet", head="mlp", dim=8)
    torch.manual_seed(5)
    expected_next = torch.rand(3, generator=torch.Generator().manual_seed(5))
    first = make_network(spec, seed=1).state_dict()
    torch.testing.assert_close(torch.rand(3), expected_next, rtol=0, atol=0)  # nobody else's numbers were drawn
    torch.testing.assert_close(make_network(spec, seed=1).state_dict(), first, rtol=0, atol=0)
    other = make_network(spec, seed=2).state_dict()
    assert not torch.equal(other["members.0.heads.high.1.weight"], first["members.0.heads.high.1.weight"])


def test_weights_go_into_every_member(tmp_path: Path) -> None:
    state = make_backbone("convnet").state_dict()
    save_file(dict(state), tmp_path / "w.safetensors")
    network = make_network(NetworkSpec("convnet", num_members=2), seed=0, weights=tmp_path / "w.safetensors")
    for member in network.members:
        torch.testing.assert_close(member.backbone.state_dict(), state, rtol=0, atol=0)
    assert not torch.equal(network.members[0].heads["high"][-1].weight, network.members[1].heads["high"][-1].weight)
    with pytest.raises(ValueError, match="do not fit MLP"):
        make_network(NetworkSpec("mlp", in_features=3), seed=0, weights=tmp_path / "w.safetensors")


def test_resnet_file_with_classifier(tmp_path: Path) -> None:
    state = {**make_backbone("resnet18").state_dict(), "fc.weight": torch.ones(10, 512), "fc.bias": torch.ones(10)}
    torch.save(state, tmp_path / "resnet18.pth")
    network = make_network(NetworkSpec("resnet18", dim=8), seed=0, weights=tmp_path / "resnet18.pth")
    torch.testing.assert_close(network.members[0].backbone.layer4[1].conv2.weight.data, state["layer4.1.conv2.weight"], rtol=0, atol=0)


def test_freeze_leaves_the_heads() -> None:
    network = make_network(NetworkSpec("convnet", head="mlp", dim=8, num_members=2), seed=0)
    freeze_batch_norm(network)
    network.train()
    for member in network.members:
        norm = next(m for m in member.heads.modules() if isinstance(m, nn.BatchNorm1d))
        assert norm.training
        assert norm.weight.requires_grad
        assert not any(m.training for m in member.backbone.modules() if isinstance(m, nn.BatchNorm2d))


@pytest.mark.parametrize("head", ["linear", "rll"])
def test_compiles_in_one_graph(head: str) -> None:
    network = make_network(NetworkSpec("convnet", head=head, pooling="gem", dim=8, levels=LEVELS), seed=0).eval()
    compiled = torch.compile(network, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(IMAGES), network(IMAGES))


def test_spec_is_json() -> None:
    spec = NetworkSpec("mlp", levels=LEVELS, in_features=4)
    assert json.loads(json.dumps(asdict(spec)))["levels"] == list(LEVELS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pooling": "average"}, "unknown pooling 'average': did you mean"),
        ({"head": "lineal"}, "unknown head 'lineal': did you mean 'linear'"),
        ({"dim": 0}, "dim=0: expected at least 1"),
        ({"num_members": 0}, "num_members=0"),
        ({"levels": ("hig",)}, "unknown level 'hig': did you mean 'high'"),
        ({"levels": ("high", "low")}, "each once and in this order"),
        ({"levels": ("low", "low")}, "each once and in this order"),
        ({"levels": ()}, "at least one of low, mid, high"),
    ],
)
def test_spec_refuses(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NetworkSpec("convnet", **settings)


def test_rll_head_refuses_vectors() -> None:
    with pytest.raises(ValueError, match="head='rll' needs feature maps"):
        make_network(NetworkSpec("mlp", head="rll", levels=LEVELS, in_features=4), seed=0)


def test_parts_weigh_as_their_widths() -> None:
    """The cosine of two embeddings is the mean of the cosines of their parts, weighed by the parts' shares."""
    inputs = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    whole = make_network(NetworkSpec("identity", in_features=8, dim=16), seed=0)(inputs)
    network = make_network(NetworkSpec("identity", in_features=8, dim=16, parts=(3, 5, 8)), seed=0)
    parts = [torch.nn.functional.normalize(part) for part in (whole[:, :3], whole[:, 3:8], whole[:, 8:])]
    expected = sum(share * part @ part.T for share, part in zip((3, 5, 8), parts, strict=True)) / 16
    torch.testing.assert_close(network(inputs) @ network(inputs).T, expected)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((3, 0), "parts=(3, 0): expected the proportions of the parts' widths, whole numbers of at least 1"),
        ((1,) * 9, "8 dimensions cannot be cut into 9 parts: raise the dimension, or take fewer parts"),
    ],
)
def test_parts_that_cannot_be(parts: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        NetworkSpec("identity", in_features=8, dim=8, parts=parts)


def test_learners_share_all_but_their_masks() -> None:
    """Each learner is the network on its own masked map, and they weigh alike; two with equal masks are equal."""
    network = make_network(NetworkSpec("convnet", dim=8, learners=2, parts=(1,)), seed=0).eval()
    inputs = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    member = network.members[0]
    (maps,) = member.backbone(inputs, ("low",))
    learners = []
    for mask in member.attention.masks:
        masked = maps * torch.sigmoid(mask(maps))
        features = member.backbone.stage("high", member.backbone.stage("mid", masked))
        learners.append(torch.nn.functional.normalize(member.heads["high"](features)))
    torch.testing.assert_close(network(inputs), torch.cat(learners, dim=1) / 2**0.5)
    assert not torch.allclose(*learners)
    member.attention.masks[1].load_state_dict(member.attention.masks[0].state_dict())
    first, second = network(inputs).split(4, dim=1)
    torch.testing.assert_close(first, second)


@pytest.mark.parametrize(("dim", "levels"), [(9, ("high",)), (8, ("mid", "high"))])
def test_learners_that_cannot_be(dim: int, levels: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="expected the high level alone, and dimensions that can be shared out equally"):
        NetworkSpec("convnet", dim=dim, levels=levels, learners=4)  # type: ignore[arg-type]
