"""What is given is found, and what is lacking is asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import save_file

from likewise.data.readers import read
from likewise.models.backbones import make_backbone
from likewise.protocols import load_protocol
from likewise.reproductions.supplies import Lacking, Supplies, reader_of

PROTOCOL = replace(load_protocol("quick"), weights="required")


def weights_file(folder: Path, backbone: str) -> Path:
    path = folder / f"{backbone}.safetensors"
    made = make_backbone(backbone)
    save_file({name: tensor.contiguous() for name, tensor in made.named_as_in_files.state_dict().items()}, path)
    return path


def test_data_sets_are_read_once() -> None:
    supplies = Supplies.of(["glyphs:classes=6,images=3,size=16"], (), {})
    assert supplies.dataset("glyphs") is supplies.dataset("glyphs")
    assert set(supplies.training_labels("glyphs")) < set(supplies.dataset("glyphs").labels)
    given = read("glyphs:classes=6,images=3,size=16")
    assert Supplies.of({"glyphs": given}, (), {}).dataset("glyphs") is given
    with pytest.raises(Lacking, match="it needs CUB-200-2011: give --data cub:PATH"):
        supplies.dataset("cub")


def test_a_reader_is_told_by_its_name_or_by_the_path(tmp_path: Path) -> None:
    assert reader_of("cub:/anywhere") == "cub"
    assert reader_of("glyphs:classes=6") == "glyphs"
    (tmp_path / "images_background").mkdir()
    (tmp_path / "images_evaluation").mkdir()
    assert reader_of(tmp_path) == "omniglot"
    with pytest.raises(ValueError, match="expected a reader and a path"):
        reader_of("/nowhere/at/all")


def test_weights_are_those_of_the_backbone(tmp_path: Path) -> None:
    small, large = (weights_file(tmp_path, name) for name in ("convnet_small", "convnet"))
    supplies = Supplies.of((), [small, large], {})
    for backbone, file in (("convnet_small", small), ("convnet", large)):
        found = supplies.weights_of(replace(PROTOCOL, backbone=backbone))
        assert found is not None
        assert found.path == file
    assert supplies.weights_of(replace(PROTOCOL, weights="random")) is None
    with pytest.raises(Lacking, match="it needs weights of resnet50_v1: give --weights FILE"):
        supplies.weights_of(replace(PROTOCOL, backbone="resnet50_v1"))
    assert supplies.weights_of(replace(PROTOCOL, backbone="resnet50_v1", weights="optional")) is None


def test_settings_are_every_protocol_s() -> None:
    supplies = Supplies.of((), (), {"steps": 7, "backbone": "resnet50_v1"})
    assert supplies.protocol(PROTOCOL) == replace(PROTOCOL, steps=7, backbone="resnet50_v1")
    for weights in ("random", "efficientnet_lite0"):  # a network of its own stays
        own = replace(PROTOCOL, weights=weights)
        assert supplies.protocol(own) == replace(own, steps=7)
