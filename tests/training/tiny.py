"""A data set and conditions so small that a training takes a blink: what the tests of training run on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from likewise.configuration import with_settings
from likewise.data.dataset import Dataset, Features, Pixels
from likewise.methods import Method, load_method
from likewise.protocols import Protocol, load_protocol
from likewise.training.devices import Devices
from likewise.training.feeds import make_feed
from likewise.training.loop import Training

CLASSES, IMAGES, SIDE, DIM = 24, 8, 16, 12

PROTOCOL = replace(
    load_protocol("quick"),
    name="tiny",
    batch=16,
    steps=6,
    dim=8,
    validation=0.0,
    few_classes="more_images",
    ks=(1, 2),
    metrics=("R@K", "MAP@R"),
)
HELD_OUT = replace(PROTOCOL, validation=0.25, validate_every=3)

# as a user writes it; a start of the command costs little with it
PROTOCOL_FILE = """
about = "a blink on a CPU"
backbone = "identity"
weights = "random"
pooling = "avg"
train_augmentation = "none"
test_augmentation = "none"
dim = 8
batch = 16
learning_rate = 0.01
few_classes = "more_images"
validation = 0.25
ks = [1, 2]
metrics = ["R@K", "MAP@R"]
"""


def pictures(*, classes: int = CLASSES, images: int = IMAGES, noise: int = 30, seed: int = 0) -> Dataset:
    """A class is a pattern of 4 x 4 light and dark fields, its images differ by noise."""
    draw = np.random.default_rng(seed)
    patterns = draw.choice([64, 192], size=(classes, 4, 4)).repeat(SIDE // 4, axis=1).repeat(SIDE // 4, axis=2)
    pixels = patterns.repeat(images, axis=0) + draw.integers(-noise, noise + 1, size=(classes * images, SIDE, SIDE))
    return Dataset("pictures", Pixels(pixels.clip(0, 255).astype(np.uint8)), *_classes(classes, images))


def vectors(*, classes: int = CLASSES, images: int = IMAGES, seed: int = 0) -> Dataset:
    """Clouds around a centre a class."""
    draw = np.random.default_rng(seed)
    rows = draw.normal(size=(classes, DIM)).repeat(images, axis=0) + 0.6 * draw.normal(size=(classes * images, DIM))
    return Dataset("vectors", Features(rows.astype(np.float32)), *_classes(classes, images))


def vectors_file(path: Path, **settings: Any) -> Path:
    """The vectors as a file that the command takes."""
    dataset = vectors(**settings)
    assert isinstance(dataset.items, Features)
    np.savez(path, features=dataset.items.array, labels=np.array(dataset.class_names)[dataset.labels])
    return path


def protocol_file(folder: Path, **changes: Any) -> Path:
    path = folder / "tiny.toml"
    lines = [f"{name} = {f'{value!r}'.lower() if isinstance(value, bool) else repr(value)}" for name, value in changes.items()]
    held = [line for line in PROTOCOL_FILE.splitlines() if line.split(" = ")[0] not in changes]
    path.write_text("\n".join([*held, *lines]) + "\n")
    return path


def method(name: str, **settings: Any) -> Method:
    """A method with settings, `__` for the dot."""
    return with_settings(load_method(name).for_protocol("quick"), {key.replace("__", "."): value for key, value in settings.items()})


def training(
    chosen: Method, protocol: Protocol = PROTOCOL, *, dataset: Dataset | None = None, held_out: Dataset | None = None, **settings: Any
) -> Training:
    """A training on all classes of the data set, at its first step."""
    feed = make_feed(dataset or (pictures() if protocol.backbone.startswith("convnet") else vectors()), protocol)
    validation = None if held_out is None else make_feed(held_out, protocol)
    settings = {"seed": 0, "devices": Devices(protocol, device="cpu"), "validation": validation} | settings
    return Training(chosen, protocol, feed, **settings)


def likewise(*arguments: str | Path, ranks: int = 1) -> subprocess.Popen[str]:
    """The command in a process of its own (with torchrun: in several), on one thread each."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, *launcher, "-m", "likewise", *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def held(run: Path, name: str) -> dict[str, Any]:
    """A JSON file of a run."""
    found: dict[str, Any] = json.loads((run / name).read_text())
    return found


def events(run: Path) -> list[str]:
    """Who asked for the test classes."""
    return [json.loads(line)["event"] for line in (run / "test_openings.jsonl").read_text().splitlines()]


def weights_of(run: Path) -> dict[str, Tensor]:
    return load_file(run / "embedder" / "model.safetensors")


def assert_equal_weights(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Bit for bit."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


def assert_changed(found: dict[str, Tensor], before: dict[str, Tensor], names: Sequence[str]) -> None:
    for name in names:
        assert not torch.equal(found[name], before[name]), name


def _classes(classes: int, images: int) -> tuple[np.ndarray[Any, np.dtype[np.int64]], tuple[str, ...]]:
    return np.arange(classes).repeat(images), tuple(f"class {number}" for number in range(classes))
