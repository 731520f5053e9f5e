"""EfficientNet-Lite: at every tap what its authors' module gives, of the public weights, from the pixels that they want."""

from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

from likewise.data.augmentation import IMAGENET_MEAN, IMAGENET_STD
from likewise.models import LEVELS, WEIGHTS, Backbone, find_weights, load_weights, make_backbone

from ..optional import needs_package
from .drawn_photographs import drawn_photographs, pixels_of

SIDES = {"efficientnet_lite0": 224, "efficientnet_lite1": 240, "efficientnet_lite2": 260}  # of the authors' images
LAST_BLOCKS = {"efficientnet_lite0": (4, 10), "efficientnet_lite1": (6, 14), "efficientnet_lite2": (6, 14)}  # before the low and mid tap


def loaded(name: str) -> Backbone:
    needs_package(WEIGHTS[name].source.package)  # type: ignore[union-attr]
    backbone = make_backbone(name)
    load_weights(backbone, find_weights(name).path, ignore=backbone.classifier)
    return backbone.eval()


def theirs(name: str) -> Any:
    needs_package("efficientnet_lite_pytorch")
    module = import_module("efficientnet_lite_pytorch").EfficientNet.from_name(name.replace("_", "-"))
    module.load_state_dict(torch.load(find_weights(name).path, weights_only=True))
    return module.eval()


def as_in_batches(pixels: Tensor) -> Tensor:
    return (pixels / 255 - torch.tensor(IMAGENET_MEAN).view(3, 1, 1)) / torch.tensor(IMAGENET_STD).view(3, 1, 1)


@pytest.mark.parametrize("name", SIDES)
def test_equal_to_the_authors_module_at_every_tap(name: str) -> None:
    backbone, module = loaded(name), theirs(name)
    pixels = pixels_of(drawn_photographs(2, SIDES[name]))
    expected: list[Tensor] = []
    for block in LAST_BLOCKS[name]:
        module._blocks[block].register_forward_hook(lambda _, inputs, output: expected.append(output))
    with torch.no_grad():
        expected.append(module.extract_features((pixels - 127) / 128))
        taps = backbone(as_in_batches(pixels), LEVELS)
    for tap, wanted in zip(taps, expected, strict=True):
        assert wanted.std() > 0.1
        torch.testing.assert_close(tap, wanted, rtol=0, atol=1e-4 * float(wanted.abs().max()))


def test_all_of_the_public_file_but_the_classifier_is_loaded() -> None:
    backbone = loaded("efficientnet_lite0")
    public = torch.load(find_weights("efficientnet_lite0").path, weights_only=True)
    assert {name for name in public if not name.startswith("_fc.")} == set(backbone.state_dict())
    assert sum(p.numel() for p in backbone.parameters()) == 4_652_008 - 1_281_000  # the published number less the classifier


@pytest.mark.parametrize("side", [64, 65, 97, 130])
def test_padded_as_tensorflow_pads_at_any_size(side: int) -> None:
    """The authors' layers, told this size, pad for it; ours see it."""
    needs_package("efficientnet_lite_pytorch")
    name = "efficientnet_lite0"
    module = import_module("efficientnet_lite_pytorch").EfficientNet.from_name("efficientnet-lite0", image_size=side).eval()
    module.load_state_dict(torch.load(find_weights(name).path, weights_only=True))
    pixels = pixels_of(drawn_photographs(1, side))
    with torch.no_grad():
        (high,) = loaded(name)(as_in_batches(pixels))
        torch.testing.assert_close(high, module.extract_features((pixels - 127) / 128), rtol=0, atol=6e-4)


def test_taps_are_not_changed_by_what_follows() -> None:
    backbone = loaded("efficientnet_lite0")
    inputs = as_in_batches(pixels_of(drawn_photographs(1, 64)))
    with torch.no_grad():
        (low,) = backbone(inputs, ("low",))
        torch.testing.assert_close(backbone(inputs, LEVELS)[0], low, rtol=0, atol=0)
