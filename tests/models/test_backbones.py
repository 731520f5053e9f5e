"""Backbones: shapes of the taps, names of the public weight files, frozen norms."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from likewise.models import BACKBONES, LEVELS, Backbone, Level, NetworkSpec, StagedBackbone, freeze_batch_norm, make_backbone, make_network
from likewise.models.backbones.bn_inception import BLOCKS, BNInception

TAPS = {  # channels of low, mid and high, and the sides of their maps for images of 64 pixels
    "resnet18": ((128, 256, 512), (8, 4, 2)),
    "resnet34": ((128, 256, 512), (8, 4, 2)),
    "resnet50": ((512, 1024, 2048), (8, 4, 2)),
    "resnet50_v1": ((512, 1024, 2048), (8, 4, 2)),
    "bn_inception": ((576, 1056, 1024), (4, 2, 2)),
    "efficientnet_lite0": ((40, 112, 1280), (8, 4, 2)),
    "efficientnet_lite1": ((40, 112, 1280), (8, 4, 2)),
    "efficientnet_lite2": ((48, 120, 1280), (8, 4, 2)),
    "convnet": ((64, 128, 256), (16, 8, 4)),
    "convnet_small": ((32, 64, 128), (16, 8, 4)),
    "lenet": ((20, 20, 800), (60, 30, 1)),
    "mlp": ((512, 512, 512), ()),
    "identity": ((10, 10, 10), ()),
}


def small(name: str) -> tuple[Backbone, Tensor]:
    torch.manual_seed(0)
    takes_images = bool(TAPS[name][1])
    backbone = make_backbone(name, in_features=None if takes_images else 10).eval()
    return backbone, torch.randn(2, 3, 64, 64) if takes_images else torch.randn(2, 10)


@pytest.mark.parametrize("name", BACKBONES)
def test_taps(name: str) -> None:
    backbone, inputs = small(name)
    with torch.no_grad():
        low, mid, high = backbone(inputs, LEVELS)
        (only_high,) = backbone(inputs)
        reordered = backbone(inputs, ("mid", "low"))
    channels, sides = TAPS[name]
    places = [(side, side) for side in sides] or [()] * 3
    assert [tuple(tap.shape) for tap in (low, mid, high)] == [(2, c, *place) for c, place in zip(channels, places, strict=True)]
    assert tuple(backbone.channels[level] for level in LEVELS) == channels
    assert backbone.gives_maps == (low.ndim == 4)
    torch.testing.assert_close(only_high, high, rtol=0, atol=0)
    torch.testing.assert_close(reordered, (mid, low), rtol=0, atol=0)


@pytest.mark.parametrize("name", [name for name in BACKBONES if TAPS[name][1]])
def test_images_may_be_of_any_size(name: str) -> None:
    """Also where halves of the sides are odd, of which layers side by side must make equally many places."""
    backbone, _ = small(name)
    for size in ((96, 104), (97, 75), (40, 33)):
        with torch.no_grad():
            (high,) = backbone(torch.randn(1, 3, *size))
        assert high.isfinite().all()


def test_bn_inception_s_pools_reach_over_an_odd_edge() -> None:
    """The place that is added sees the last row and column, and no others."""
    backbone, _ = small("bn_inception")
    assert isinstance(backbone, BNInception)
    features = torch.rand(1, 320, 13, 11)
    with torch.no_grad():
        pooled = backbone._block(BLOCKS["low"][-1], features)[:, -320:]
    assert pooled.shape[2:] == (7, 6)
    torch.testing.assert_close(pooled[..., -1, -1], features[..., -1, -1])
    torch.testing.assert_close(pooled[..., 2, 1], features[..., 4:7, 2:5].amax(dim=(2, 3)))


@pytest.mark.parametrize("name", BACKBONES)
def test_every_parameter_has_a_gradient_and_runs_in_bfloat16(name: str) -> None:
    backbone, inputs = small(name)
    backbone.train()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (high,) = backbone(inputs)
    assert high.isfinite().all()
    if name != "identity":
        high.float().square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in backbone.parameters())


def resnet_names(num_blocks: tuple[int, ...], num_convolutions: int, has_first_shortcut: bool) -> set[str]:
    norm = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    names = ["conv1.weight", *(f"bn1.{part}" for part in norm)]
    for layer, count in enumerate(num_blocks, 1):
        for block in range(count):
            prefix = f"layer{layer}.{block}"
            for number in range(1, num_convolutions + 1):
                names += [f"{prefix}.conv{number}.weight", *(f"{prefix}.bn{number}.{part}" for part in norm)]
            if block == 0 and (layer > 1 or has_first_shortcut):
                names += [f"{prefix}.downsample.0.weight", *(f"{prefix}.downsample.1.{part}" for part in norm)]
    return set(names)


@pytest.mark.parametrize(
    ("name", "num_blocks", "num_convolutions", "num_parameters"),
    [
        ("resnet18", (2, 2, 2, 2), 2, 11_689_512 - 513_000),
        ("resnet34", (3, 4, 6, 3), 2, 21_797_672 - 513_000),
        ("resnet50", (3, 4, 6, 3), 3, 25_557_032 - 2_049_000),
        ("resnet50_v1", (3, 4, 6, 3), 3, 25_557_032 - 2_049_000),
    ],
)
def test_resnet_is_torchvision_s_without_classifier(
    name: str, num_blocks: tuple[int, ...], num_convolutions: int, num_parameters: int
) -> None:
    backbone = make_backbone(name)
    assert set(backbone.state_dict()) == resnet_names(num_blocks, num_convolutions, num_convolutions == 3)
    assert sum(p.numel() for p in backbone.parameters()) == num_parameters


def test_resnet_versions_differ_by_the_place_of_the_stride_only() -> None:
    new, old = make_backbone("resnet50"), make_backbone("resnet50_v1")
    for layer in (2, 3, 4):
        blocks = [network.get_submodule(f"layer{layer}.0") for network in (new, old)]
        assert [(block.conv1.stride[0], block.conv2.stride[0]) for block in blocks] == [(1, 2), (2, 1)]
    assert {k: v.shape for k, v in new.state_dict().items()} == {k: v.shape for k, v in old.state_dict().items()}


def test_bn_inception_has_the_public_names() -> None:
    backbone = make_backbone("bn_inception")
    shapes = {name: tuple(value.shape) for name, value in backbone.state_dict().items()}
    assert len(shapes) == 69 * 7  # convolutions with bias and their norms
    assert sum(p.numel() for p in backbone.parameters()) == 11_295_240 - 1_025_000  # less the classifier
    for name, shape in {
        "conv1_7x7_s2.weight": (64, 3, 7, 7),
        "conv1_7x7_s2_bn.running_var": (64,),
        "conv2_3x3_reduce.bias": (64,),
        "inception_3a_double_3x3_2.weight": (96, 96, 3, 3),
        "inception_3c_3x3.weight": (160, 128, 3, 3),
        "inception_4c_pool_proj.weight": (128, 576, 1, 1),
        "inception_4e_double_3x3_1.weight": (256, 192, 3, 3),
        "inception_5a_1x1.weight": (352, 1056, 1, 1),
        "inception_5b_pool_proj_bn.weight": (128,),
    }.items():
        assert shapes[name] == shape
    assert "inception_3c_1x1.weight" not in shapes
    assert "inception_4e_pool_proj.weight" not in shapes


def test_bn_inception_sees_bgr_values_less_the_mean() -> None:
    backbone = make_backbone("bn_inception").eval()
    seen = []
    backbone.conv1_7x7_s2.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    pixels = torch.randint(0, 256, (1, 3, 64, 64)).float()
    mean, std = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1), torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    backbone((pixels / 255 - mean) / std, ("low",))
    expected = pixels[:, [2, 1, 0]] - torch.tensor([104.0, 117.0, 128.0]).view(3, 1, 1)
    torch.testing.assert_close(seen[0], expected, rtol=0, atol=1e-3)


def test_bn_inception_pools_by_average_in_all_blocks_but_the_striding_and_the_last() -> None:
    backbone, inputs = small("bn_inception")
    seen: dict[str, Tensor] = {}
    for name, module in backbone.named_modules():
        if name.startswith("inception") and name.endswith(("_3x3_reduce", "pool_proj")):
            module.register_forward_pre_hook(lambda _, given, name=name: seen.update({name: given[0]}))
    with torch.no_grad():
        low, mid, _ = backbone(inputs, LEVELS)
    for block in ("3a", "3b", "4a", "4b", "4c", "4d", "5a", "5b"):
        pool = nn.MaxPool2d(3, stride=1, padding=1) if block == "5b" else nn.AvgPool2d(3, stride=1, padding=1)
        torch.testing.assert_close(seen[f"inception_{block}_pool_proj"], pool(seen[f"inception_{block}_3x3_reduce"]))
    for block, output in (("3c", low), ("4e", mid)):
        entered = seen[f"inception_{block}_3x3_reduce"]
        pooled = nn.MaxPool2d(3, stride=2, ceil_mode=True)(entered)
        torch.testing.assert_close(output[:, -entered.shape[1] :], pooled, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["resnet18", "convnet", "mlp"])
def test_frozen_batch_norm_survives_train(name: str) -> None:
    backbone, inputs = small(name)
    network = nn.Sequential(nn.BatchNorm1d(7), backbone)
    freeze_batch_norm(network)
    network.train()
    before = {key: value.clone() for key, value in backbone.state_dict().items()}
    backbone(inputs, LEVELS)[-1].square().sum().backward()
    torch.testing.assert_close(dict(backbone.state_dict()), before, rtol=0, atol=0)
    norms = [m for m in backbone.modules() if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d)]
    assert norms
    assert not any(norm.training or norm.weight.requires_grad or norm.bias.requires_grad for norm in norms)
    assert network[0].training
    assert network[0].weight.requires_grad


@pytest.mark.parametrize(
    ("name", "in_features", "message"),
    [
        ("resnet51", None, "unknown backbone 'resnet51': did you mean 'resnet"),
        ("mlp", None, "'mlp' with in_features=None: it takes vectors; give their length"),
        ("identity", 0, "in_features=0"),
        ("convnet", 12, "'convnet' with in_features=12: it takes images"),
    ],
)
def test_refused(name: str, in_features: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_backbone(name, in_features=in_features)


class Pyramid(nn.Module):
    """Stands for a timm model: `count` features, of which feature i is the input times i + 1."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.feature_info = [{"num_chs": 3} for _ in range(count)]

    def forward_intermediates(
        self, inputs: Tensor, *, indices: list[int], norm: bool, output_fmt: str, intermediates_only: bool
    ) -> list[Tensor]:
        assert (output_fmt, intermediates_only, indices) == ("NCHW", True, sorted(indices))
        assert norm == (len(self.feature_info) > 5)
        return [inputs * self.scale * (position + 1) for position in indices]


@pytest.mark.parametrize(("count", "factors"), [(4, (2, 3, 4)), (5, (3, 4, 5)), (12, (4, 8, 12))])
def test_timm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, factors: tuple[int, ...]) -> None:
    timm = SimpleNamespace(list_models=lambda: ["pyramid"], create_model=lambda name, pretrained, num_classes: Pyramid(count))
    monkeypatch.setitem(sys.modules, "timm", timm)
    backbone = make_backbone("timm:pyramid")
    inputs = torch.randn(2, 3, 8, 8)
    torch.testing.assert_close(backbone(inputs, LEVELS), tuple(inputs * factor for factor in factors))
    torch.testing.assert_close(backbone(inputs, ("high", "low")), (inputs * factors[2], inputs * factors[0]))
    assert backbone.channels == {"low": 3, "mid": 3, "high": 3}
    torch.save({"scale": torch.tensor([7.0]), "head.weight": torch.ones(2)}, tmp_path / "timm_names.pth")
    network = make_network(NetworkSpec("timm:pyramid", head="none"), seed=0, weights=tmp_path / "timm_names.pth")
    torch.testing.assert_close(network.members[0](inputs)[0], 7 * factors[2] * inputs.mean((2, 3)))
    with pytest.raises(ValueError, match="unknown timm model 'pyramids': did you mean 'pyramid'"):
        make_backbone("timm:pyramids")


def test_timm_model_with_a_tag_sees_images_scaled_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def create_model(name: str, pretrained: bool, num_classes: int) -> Pyramid:
        made.append(name)
        model = Pyramid(4)
        model.pretrained_cfg = {"mean": (0.5, 0.5, 0.5), "std": (0.25, 0.5, 1.0)}
        return model

    monkeypatch.setitem(sys.modules, "timm", SimpleNamespace(list_models=lambda: ["pyramid"], create_model=create_model))
    backbone = make_backbone("timm:pyramid.tag_in1k")
    assert made == ["pyramid.tag_in1k"]
    shares = torch.rand(2, 3, 8, 8)  # of white
    mean, std = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1), torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    expected = 4 * (shares - 0.5) / torch.tensor([0.25, 0.5, 1.0]).view(3, 1, 1)
    torch.testing.assert_close(backbone((shares - mean) / std)[0], expected, rtol=0, atol=1e-5)
    assert set(backbone.state_dict()) == {"model.scale"}


def test_timm_missing_or_without_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ValueError, match="'timm:x' needs timm"):
        make_backbone("timm:x")
    timm = SimpleNamespace(list_models=lambda: ["flat"], create_model=lambda name, pretrained, num_classes: nn.Linear(2, 2))
    monkeypatch.setitem(sys.modules, "timm", timm)
    with pytest.raises(ValueError, match="'timm:flat' has no features at three depths"):
        make_backbone("timm:flat")


class OneLayer(StagedBackbone):
    """Somebody's own: one layer, tapped three times."""

    gives_maps = False

    def __init__(self, in_features: int) -> None:
        super().__init__()
        self.channels = dict.fromkeys(LEVELS, 4)
        self.layer = nn.Linear(in_features, 4)

    def stem(self, inputs: Tensor) -> Tensor:
        return self.layer(inputs)

    def stage(self, level: Level, features: Tensor) -> Tensor:
        return features


def test_a_backbone_of_ones_own_is_a_line_in_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"unknown backbone 'one_layer'.*one of your own has an address: FILE\.py:Name"):
        make_backbone("one_layer", in_features=6)
    monkeypatch.setitem(BACKBONES, "one_layer", OneLayer)
    assert isinstance(make_backbone("one_layer", in_features=6), OneLayer)
    network = make_network(NetworkSpec("one_layer", dim=5, in_features=6), seed=0)
    assert network(torch.randn(3, 6)).shape == (3, 5)
    with pytest.raises(ValueError, match=r"'convnet' with in_features=6: .* take one of mlp, identity, one_layer"):
        make_backbone("convnet", in_features=6)
    monkeypatch.setitem(BACKBONES, "plain", lambda: nn.Linear(3, 3))  # type: ignore[arg-type,return-value]
    with pytest.raises(ValueError, match=r"backbone 'plain' is a Linear: expected a likewise\.models\.Backbone"):
        make_backbone("plain")
