"""Which part of the backbone learns: all, its last stage, or adapters that are merged into it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from likewise.data.dataset import Dataset, Pixels
from likewise.methods import load_method
from likewise.models.backbones import BACKBONES, freeze_below_high, make_backbone
from likewise.models.network import NetworkSpec, make_network
from likewise.protocols import TrainedPart, load_protocol
from likewise.training.feeds import make_feed
from likewise.training.fit import fit

PROTOCOL = replace(
    load_protocol("folder"),
    name="tiny",
    backbone="resnet18",
    train_augmentation="none",
    test_augmentation="none",
    side="as_is",
    frozen_batch_norm=True,
    batch=8,
    steps=2,
    dim=4,
    learning_rate=0.01,
)


def trained_state(trains: TrainedPart) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(0)
    images = Dataset("noise", Pixels(rng.integers(0, 255, (16, 32, 32, 3), dtype=np.uint8)), np.arange(16) // 4, tuple("abcd"))
    protocol = replace(PROTOCOL, trains=trains)
    return fit(load_method("raw"), protocol, make_feed(images, protocol), seed=0, device="cpu").network.state_dict()


@pytest.mark.parametrize("trains", ["all", "high", "lora"])
def test_what_changes(trains: TrainedPart) -> None:
    start = make_network(NetworkSpec("resnet18", pooling=PROTOCOL.pooling, dim=4), seed=0).state_dict()
    after = trained_state(trains)
    assert set(after) == set(start)
    changed = {name for name in start if not torch.equal(start[name], after[name])}
    expected = {
        "all": {name for name in start if ".backbone." in name and "bn" not in name and "downsample.1" not in name},
        "high": {name for name in start if ".layer4." in name and "bn" not in name and "downsample.1" not in name},
        "lora": {name for name in start if "downsample.0" in name},  # the 1x1 convolutions of a ResNet-18
    }[trains]
    assert changed == expected | {name for name in start if ".heads." in name}


@pytest.mark.parametrize("name", [name for name in BACKBONES if name not in ("mlp", "identity")])
def test_the_last_stage_is_what_the_mid_tap_does_not_depend_on(name: str) -> None:
    backbone = make_backbone(name).eval()
    freeze_below_high(backbone)
    learning = {parameter for parameter in backbone.parameters() if parameter.requires_grad}
    images = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    mid, high = backbone(images, ("mid", "high"))
    with torch.no_grad():
        for parameter in learning:
            parameter.mul_(1.5)
    mid_after, high_after = backbone(images, ("mid", "high"))
    assert torch.equal(mid, mid_after)
    assert not torch.equal(high, high_after)
    assert 0 < len(learning) < len(list(backbone.parameters()))


@pytest.mark.parametrize("name", ["resnet18", "efficientnet_lite0", "convnet"])
def test_maps_of_the_mid_tap_go_on_from_there(name: str) -> None:
    backbone = make_backbone(name).eval()
    images = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        mid, high = backbone(images, ("mid", "high"))
        assert torch.equal(backbone(mid)[0], high)


def test_faults_in_words() -> None:
    with pytest.raises(ValueError, match="frozen_batch_norm=true"):
        replace(PROTOCOL, trains="high", frozen_batch_norm=False)
    with pytest.raises(ValueError, match="takes vectors"):
        freeze_below_high(make_backbone("mlp", in_features=4))
