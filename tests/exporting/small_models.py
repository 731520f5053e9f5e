"""Small embedders of every form, with whatever exporting has to carry over."""

from dataclasses import replace

import numpy as np
import torch
from PIL import Image
from torch import nn

import likewise
from likewise.data.augmentation import HALF, Augmentation
from likewise.models.embedder import Embedder, Preprocessing
from likewise.models.network import NetworkSpec, make_network

CENTRE = Preprocessing(40, Augmentation(32, "centre"))


def embedder(spec: NetworkSpec, preprocessing: Preprocessing | None = CENTRE, seed: int = 0) -> Embedder:
    network = make_network(spec, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    for layer in network.modules():  # batch norms as after training, so that leaving one out would show
        if isinstance(layer, nn.BatchNorm2d | nn.BatchNorm1d):
            assert layer.running_mean is not None
            assert layer.running_var is not None
            layer.running_mean.copy_(0.2 * torch.randn(layer.running_mean.shape, generator=generator))
            layer.running_var.copy_(0.5 + torch.rand(layer.running_var.shape, generator=generator))
    return Embedder(network.eval(), preprocessing)


def small() -> Embedder:
    return embedder(NetworkSpec("convnet_small", dim=16))


def whitened() -> Embedder:
    plain = small()
    pictures = [picture(30 + number, 50) for number in range(24)]
    return plain.with_whitening(likewise.whiten(plain.embed(pictures), np.arange(24) // 3, dim=8))


def calibrated() -> Embedder:
    plain = small()
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((30, 1, 16))
    vectors = (centres + 0.4 * rng.standard_normal((30, 6, 16))).reshape(180, 16).astype(np.float32)
    return replace(plain, calibration=likewise.calibrate(vectors, np.repeat(np.arange(30), 6), false_accepts=0.2))


MODELS = {
    "linear": small,
    "whitened": whitened,
    "several levels of two members": lambda: embedder(
        NetworkSpec("convnet_small", dim=8, levels=("mid", "high"), num_members=2, pooling="gem", head="mlp")
    ),
    "squeezed": lambda: embedder(
        NetworkSpec("convnet_small", dim=8), Preprocessing("auto", Augmentation(28, "whole", mean=HALF, std=HALF))
    ),
    "enlarged": lambda: embedder(NetworkSpec("convnet_small", dim=8), Preprocessing(40, Augmentation(48, "centre", cut=32))),
    "as it is": lambda: embedder(NetworkSpec("convnet_small", dim=8), Preprocessing(None, Augmentation(None, "whole"))),
    "resnet": lambda: embedder(NetworkSpec("resnet18", head="none", pooling="avg+max")),
    "bits": lambda: embedder(NetworkSpec("convnet_small", dim=13, binary=True)),
    "parts": lambda: embedder(NetworkSpec("convnet_small", dim=16, levels=("mid", "high"), parts=(3, 5, 8))),
    "attention": lambda: embedder(NetworkSpec("convnet_small", dim=16, learners=4, parts=(1,))),
    "vectors": lambda: embedder(NetworkSpec("mlp", dim=8, in_features=20), None),
    "bits of vectors": lambda: embedder(NetworkSpec("mlp", dim=16, in_features=20, binary=True), None),
}


def picture(height: int, width: int) -> Image.Image:
    """Colours that run into each other, and grain."""
    rng = np.random.default_rng((height, width))
    coarse = Image.fromarray(rng.integers(0, 256, (5, 5, 3), dtype=np.uint8)).resize((width, height), Image.Resampling.BICUBIC)
    return Image.fromarray((np.asarray(coarse) + rng.normal(0, 8, (height, width, 3))).clip(0, 255).astype(np.uint8))
