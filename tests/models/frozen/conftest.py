"""What the tests of frozen features share."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from likewise.data.dataset import Dataset
from likewise.models.backbones import make_backbone

from .made_features import BACKBONE, Compute, dataset, make_images


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a convnet whose norms have statistics of their own."""
    backbone = make_backbone(BACKBONE)
    generator = torch.Generator().manual_seed(5)
    for layer in backbone.modules():
        if isinstance(layer, nn.BatchNorm2d):
            assert layer.running_var is not None
            layer.running_var.uniform_(0.5, 2, generator=generator)
    path = tmp_path_factory.mktemp("weights") / "convnet.safetensors"
    save_file(backbone.state_dict(), path)
    return path


@pytest.fixture
def made(tmp_path: Path) -> Dataset:
    make_images(tmp_path / "images")
    return dataset(tmp_path / "images")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def compute(home: Path, weights: Path, monkeypatch: pytest.MonkeyPatch) -> Compute:
    return Compute(home, weights, monkeypatch)
