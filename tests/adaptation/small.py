"""Data and conditions so small that a ladder takes a blink."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from likewise.adaptation.rung_conditions import Conditions
from likewise.data.dataset import Dataset, Features, Pixels
from likewise.methods import load_method
from likewise.models.backbones import make_backbone
from likewise.protocols import load_protocol

PROTOCOL_FILE = """
about = "a blink on a CPU"
train_augmentation = "none"
test_augmentation = "none"
side = "as_is"
backbone = "resnet18"
pooling = "avg"
frozen = true
head_start = "whitening"
decay_towards = "start"
dim = 8
batch = 16
steps = 4
few_classes = "more_images"
learning_rate = 1e-3
weight_decay = 1e-2
ks = [1]
metrics = ["R@K", "MAP@R"]
"""
DIM = 12


def protocol_file(folder: Path) -> Path:
    path = folder / "small.toml"
    path.write_text(PROTOCOL_FILE)
    return path


def vectors(kind: str, *, classes: int = 24, items: int = 8, seed: int = 0) -> Dataset:
    """noise: the labels mean nothing.  stretched: classes vary most in directions that tell nothing, which whitening takes out."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), items)
    rows = rng.normal(size=(len(labels), DIM))
    if kind == "stretched":
        reach = np.where(np.arange(DIM) < DIM // 2, 8.0, 0.3)
        rows = rng.normal(size=(classes, DIM))[labels] + reach * rows
    return Dataset(kind, Features(rows.astype(np.float32)), labels, tuple(f"class {number}" for number in range(classes)))


def images(*, classes: int = 8, items: int = 4, side: int = 32) -> Dataset:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(classes), items)
    colours = rng.integers(0, 200, (classes, 1, 1, 3))[labels]
    pixels = (colours + rng.integers(0, 55, (len(labels), side, side, 3))).astype(np.uint8)
    return Dataset("images", Pixels(pixels), labels, tuple(f"class {number}" for number in range(classes)))


def weights_file(folder: Path) -> Path:
    """Random weights of a ResNet-18, as a public file has them."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        state = make_backbone("resnet18").state_dict()
    path = folder / "resnet18.safetensors"
    save_file(state, path)
    return path


def conditions(folder: Path, *, with_weights: bool = False) -> Conditions:
    frozen = load_protocol(protocol_file(folder))
    tuned = replace(frozen, frozen=False, learning_rate=1e-3, steps=3, batch=8)
    return Conditions(load_method("raw_vthm"), frozen, tuned, weights_file(folder) if with_weights else None)
