"""Learning rates: of parameter groups, and over the steps."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import torch
from safetensors.torch import save_file

from likewise.models.backbones import make_backbone
from likewise.protocols import Protocol
from likewise.training.optimisation import schedule_factor, set_rates

from .tiny import PROTOCOL, assert_changed, assert_equal_weights, method, pictures, training

MULTIPLES = {"rates__base": 2.0, "rates__head": 5.0, "rates__proxies": 50.0, "rates__loss": 7.0}
RATE = PROTOCOL.learning_rate


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    torch.manual_seed(3)
    save_file(make_backbone("convnet_small").state_dict(), tmp_path / "convnet.safetensors")
    return tmp_path / "convnet.safetensors"


def rates(found: Any) -> dict[str, tuple[float, float]]:
    """Parameter -> rate and decay at the first step."""
    set_rates(found.optimizer, found.method, found.protocol, 0)
    of = {id(parameter): (group["lr"], group["weight_decay"]) for group in found.optimizer.param_groups for parameter in group["params"]}
    named = [*found.network.named_parameters(), *found.objectives.named_parameters()]
    assert len(named) == len(of)
    return {name: of[id(parameter)] for name, parameter in named}


@pytest.mark.parametrize("pretrained", [True, False], ids=["pretrained", "random"])
def test_groups_have_their_multiples_and_only_matrices_decay(pretrained: bool, weights: Path) -> None:
    """Without weights the head is no newer than the backbone, and proxies keep their ratio to it."""
    protocol = replace(PROTOCOL, weight_decay=0.3, weights="optional")
    found = rates(training(method("proxy_softmax", **MULTIPLES), protocol, weights=weights if pretrained else None))
    head, proxies = (5.0, 50.0) if pretrained else (1.0, 10.0)
    for name, (rate, decay) in found.items():
        multiple = proxies if ".proxies." in name else head if ".heads." in name else 1.0
        assert rate == pytest.approx(2.0 * multiple * RATE), name
        is_norm = any(f".{place}." in name for place in ("low.1", "low.4", "low.7", "mid.1", "high.1"))
        is_vector = name.endswith("bias") or is_norm
        assert decay == (0.0 if is_vector else 0.3), name
    assert any(".proxies." in name for name in found)


def test_the_losss_own_parameters_have_their_rate_and_never_decay(weights: Path) -> None:
    found = rates(training(method("margin", **MULTIPLES), replace(PROTOCOL, weight_decay=0.3, weights="optional"), weights=weights))
    (own,) = [value for name, value in found.items() if name.startswith("of_level")]
    assert own == (pytest.approx(2.0 * 7.0 * RATE), 0.0)


def test_weights_go_into_the_backbone(weights: Path) -> None:
    """Bit for bit, before the first step; the head is the seed's."""
    protocol = replace(PROTOCOL, weights="optional")
    loaded, plain = (training(method("raw"), protocol, weights=file).network for file in (weights, None))
    torch.manual_seed(3)
    assert_equal_weights(dict(loaded.members[0].backbone.state_dict()), make_backbone("convnet_small").state_dict())  # type: ignore[operator,union-attr]
    heads = [network.members[0].heads.state_dict() for network in (loaded, plain)]  # type: ignore[operator,union-attr]
    assert_equal_weights(*heads)


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        (replace(PROTOCOL, schedule="constant", steps=4), [1, 1, 1, 1]),
        (replace(PROTOCOL, schedule="cosine", steps=4), [1, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2]),
        (replace(PROTOCOL, schedule="steps", milestones=(0.5, 0.75), gamma=0.1, steps=4), [1, 1, 0.1, 0.01]),
    ],
    ids=["constant", "cosine", "steps"],
)
def test_schedules(protocol: Protocol, expected: list[float]) -> None:
    assert [schedule_factor(protocol, step) for step in range(4)] == pytest.approx(expected)


def test_the_schedule_reaches_the_optimiser() -> None:
    protocol = replace(PROTOCOL, schedule="steps", milestones=(0.5,), gamma=0.1, steps=4)
    found = training(method("proxy_softmax", **MULTIPLES), protocol)
    seen = []
    for step in range(4):
        set_rates(found.optimizer, found.method, protocol, step)
        seen.append([group["lr"] / group["base"] for group in found.optimizer.param_groups])
    assert seen == [pytest.approx([factor] * len(found.optimizer.param_groups)) for factor in (1, 1, 0.1, 0.1)]


def test_only_the_head_learns() -> None:
    """head_only = 1: to the last step."""
    found = training(method("raw", head_only=1.0), replace(PROTOCOL, frozen_batch_norm=True))
    before = {name: value.clone() for name, value in found.network.state_dict().items()}
    found.run()
    after = found.network.state_dict()
    backbone = [name for name in before if ".backbone." in name]
    assert backbone
    assert_equal_weights({name: after[name] for name in backbone}, {name: before[name] for name in backbone})
    assert_changed(after, before, [name for name in before if ".heads." in name and "weight" in name])


def test_only_new_layers_learn_at_first() -> None:
    """head_only of the steps; then all do."""
    protocol = replace(PROTOCOL, steps=4, frozen_batch_norm=True)
    found = training(method("proxy_softmax", head_only=0.5), protocol)
    backbone = [name for name, _ in found.network.named_parameters() if ".backbone." in name and ".0.weight" in name]
    head = [name for name, _ in found.network.named_parameters() if ".heads." in name and "weight" in name]
    states = [{name: value.clone() for name, value in found.network.state_dict().items()}]
    found.network.train()
    stream = found._stream()
    for _ in range(protocol.steps):
        found._add_gradients(*next(stream))
        found._update()
        states.append({name: value.clone() for name, value in found.network.state_dict().items()})
    for step, (before, after) in enumerate(pairwise(states)):
        assert_changed(after, before, head)
        if step < 2:
            assert_equal_weights({name: after[name] for name in backbone}, {name: before[name] for name in backbone})
        else:
            assert_changed(after, before, backbone)


@pytest.mark.parametrize("frozen", [True, False], ids=["frozen", "moving"])
def test_batch_norm_stays_frozen_over_a_training_and_its_validations(frozen: bool) -> None:
    protocol = replace(PROTOCOL, frozen_batch_norm=frozen, validate_every=2)
    found = training(method("raw"), protocol, held_out=pictures(classes=4, seed=1))
    layers = [layer for layer in found.network.modules() if isinstance(layer, torch.nn.BatchNorm2d)]
    before = [{name: value.clone() for name, value in layer.state_dict().items()} for layer in layers]
    found.run()
    assert len(layers) == 5
    for layer, held in zip(layers, before, strict=True):
        assert layer.training is not frozen
        if frozen:
            assert_equal_weights(layer.state_dict(), held)
        else:
            assert int(layer.num_batches_tracked) > 0  # type: ignore[arg-type]


def test_clip_bounds_the_gradient() -> None:
    """SGD without momentum moves by rate x gradient: by no more than rate x clip, in the gradient's direction."""
    moves = []
    for clip in (0.0, 0.1):
        found = training(method("raw"), replace(PROTOCOL, optimizer="sgd", momentum=0.0, weight_decay=0.0, schedule="constant", clip=clip))
        before = [parameter.detach().clone() for parameter in found.network.parameters()]
        found.network.train()
        found._add_gradients(*next(found._stream()))
        found._update()
        moves.append(
            torch.cat([(new - old).flatten() for new, old in zip(found.network.parameters(), before, strict=True)]).detach() / RATE
        )
    free, clipped = moves
    assert free.norm() > 0.2
    assert float(clipped.norm()) == pytest.approx(0.1, rel=1e-3)
    assert float(torch.nn.functional.cosine_similarity(free, clipped, dim=0)) == pytest.approx(1.0, abs=1e-4)


KINDS = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD, "rmsprop": torch.optim.RMSprop}


def test_every_optimiser_of_protocols_is_met_here() -> None:
    assert set(get_args(get_type_hints(Protocol)["optimizer"])) == set(KINDS)


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_the_protocols_optimiser(name: str, kind: type[torch.optim.Optimizer]) -> None:
    found = training(method("raw"), replace(PROTOCOL, optimizer=name, momentum=0.7, eps=1e-3)).optimizer  # type: ignore[arg-type]
    assert type(found.optimizer) is kind
    for group in found.param_groups:
        assert group["momentum" if name == "sgd" else "eps"] == (0.7 if name == "sgd" else 1e-3)


def test_nothing_to_learn_is_an_error() -> None:
    with pytest.raises(ValueError, match="raw under tiny has nothing to learn"):
        training(method("raw", head__kind="none"), replace(PROTOCOL, backbone="identity"))


STARTED = replace(PROTOCOL, backbone="identity", pooling="avg", head_start="whitening", decay_towards="start", weight_decay=5.0)


def heads(found: Any) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in found.network.named_parameters() if ".heads." in name}


def test_rmsprop_is_torchs_own_and_the_lectures() -> None:
    """Ten steps with drawn gradients, each group with its rate and decay: as torch's RMSprop with a tenth of new squares, and as
    v <- .9 v + .1 g^2, w <- w - rate g / (sqrt(v) + eps) with g the gradient plus the decay's.
    """
    protocol = replace(PROTOCOL, optimizer="rmsprop", eps=1e-3, weight_decay=0.2, schedule="constant")
    found = training(method("proxy_softmax", **MULTIPLES), protocol)
    groups = found.optimizer.param_groups
    set_rates(found.optimizer, found.method, protocol, 0)
    twins = [[torch.nn.Parameter(parameter.detach().clone()) for parameter in group["params"]] for group in groups]
    by_hand = [[parameter.detach().double() for parameter in group["params"]] for group in groups]
    squares = [[torch.zeros_like(weight) for weight in weights] for weights in by_hand]
    peers = [
        torch.optim.RMSprop(twin, lr=group["lr"], alpha=0.9, eps=1e-3, weight_decay=group["weight_decay"], foreach=False)
        for group, twin in zip(groups, twins, strict=True)
    ]
    draw = torch.Generator().manual_seed(0)
    for _ in range(10):
        for group, twin, weights, means in zip(groups, twins, by_hand, squares, strict=True):
            for place, (parameter, other) in enumerate(zip(group["params"], twin, strict=True)):
                parameter.grad = torch.randn(parameter.shape, generator=draw)
                other.grad = parameter.grad.clone()
                slope = parameter.grad.double() + group["weight_decay"] * weights[place]
                means[place] = 0.9 * means[place] + 0.1 * slope**2
                weights[place] = weights[place] - group["lr"] * slope / (means[place].sqrt() + 1e-3)
        found.optimizer.step()
        for peer in peers:
            peer.step()
    for group, twin, weights in zip(groups, twins, by_hand, strict=True):
        for parameter, other, weight in zip(group["params"], twin, weights, strict=True):
            torch.testing.assert_close(parameter, other)
            torch.testing.assert_close(parameter.double(), weight, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("optimizer", KINDS)
def test_the_head_is_pulled_to_its_start_as_adamw_decays_to_zero(optimizer: Any) -> None:
    """w - start has AdamW's own decay: after equal gradients, it is what a weight that started at zero would be."""
    protocol = replace(STARTED, optimizer=optimizer, learning_rate=0.01, schedule="constant")
    found = training(method("raw"), protocol)
    start = heads(found)
    shifted = {name: torch.nn.Parameter(torch.zeros_like(value)) for name, value in start.items()}
    settings: dict[str, Any] = {"momentum": protocol.momentum} if optimizer == "sgd" else {"eps": protocol.eps}
    settings |= {"alpha": 0.9} if optimizer == "rmsprop" else {}
    peer = KINDS[optimizer](shifted.values(), lr=0.01, weight_decay=0.0, **settings)
    by_hand = torch.optim.AdamW(shifted.values(), lr=0.01, weight_decay=5.0, eps=protocol.eps) if optimizer == "adamw" else None
    draw = torch.Generator().manual_seed(0)
    for step in range(5):
        set_rates(found.optimizer, found.method, found.protocol, step)
        for name, parameter in found.network.named_parameters():
            parameter.grad = torch.randn(parameter.shape, generator=draw)
            shifted[name].grad = parameter.grad.clone()
        found._update()
        if by_hand is not None:
            by_hand.step()
        else:
            with torch.no_grad():
                for parameter in shifted.values():
                    parameter -= 0.01 * 5.0 * parameter
            peer.step()
    for name, value in heads(found).items():
        torch.testing.assert_close(value - start[name], shifted[name].detach(), rtol=1e-4, atol=1e-6)


def test_only_the_head_is_pulled_to_its_start() -> None:
    """Proxies decay towards zero as ever; where the decay is towards zero nothing knows of a start."""
    found = training(method("proxy_softmax"), STARTED)
    pulled = {id(parameter) for group in found.optimizer.param_groups if "start" in group for parameter in group["params"]}
    assert pulled == {id(parameter) for name, parameter in found.network.named_parameters() if ".heads." in name}
    decays = {group["weight_decay"] for group in found.optimizer.param_groups if "start" not in group}
    assert decays == {5.0}
    plain = training(method("proxy_softmax"), replace(STARTED, decay_towards="zero"))
    assert not any("start" in group or "pull" in group for group in plain.optimizer.param_groups)


def test_a_strong_pull_leaves_the_head_where_it_started() -> None:
    found = training(method("raw"), replace(STARTED, weight_decay=1e9, learning_rate=1e-6))
    start = heads(found)
    found.run()
    for name, value in heads(found).items():
        torch.testing.assert_close(value, start[name], rtol=0, atol=1e-5)
    free = training(method("raw"), replace(STARTED, weight_decay=0.0, learning_rate=1e-2))
    free.run()
    assert_changed(heads(free), start, list(start))
