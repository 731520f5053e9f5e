"""Every method file trains: a finite loss that falls, weights that change, and scores at the end."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from likewise.data.splits import split
from likewise.evaluation import evaluate
from likewise.evaluation.binary import unpack_bits
from likewise.methods import METHODS
from likewise.models.embedder import Embedder
from likewise.models.network import make_network
from likewise.training.train import train

from .training.tiny import pictures

STEPS = 15
SETTINGS = {"steps": STEPS, "few_classes": "more_images", "validation": 0, "metrics": ["R@K", "MAP@R"], "train_augmentation": "none"}
DATA = pictures(classes=40, noise=150)
MOVING = {"htl"}  # margins that grow with the distances of classes: the loss need not fall while the embedding gets better


@pytest.mark.parametrize("name", METHODS)
def test_every_method_trains_and_is_scored(name: str, tmp_path: Path) -> None:
    result = train(name, DATA, out=tmp_path / "run", settings=SETTINGS, device="cpu")
    losses = [float(row["loss"]) for row in csv.DictReader((tmp_path / "run" / "log.csv").read_text().splitlines())]
    assert len(losses) == STEPS
    assert all(math.isfinite(loss) for loss in losses)
    assert name in MOVING or np.mean(losses[-3:]) < np.mean(losses[:3])

    embedder = Embedder.load(tmp_path / "run")
    before = make_network(embedder.network.spec, seed=0)
    for (place, module), start in zip(embedder.network.named_modules(), before.modules(), strict=True):
        if isinstance(module, nn.Conv2d | nn.Linear):
            assert isinstance(start, nn.Conv2d | nn.Linear)
            assert not torch.equal(module.weight, start.weight), place

    test = ~np.isin(np.arange(len(DATA)), split(DATA, seed=0).train)
    rows = embedder.embed(DATA.subset(np.flatnonzero(test)))
    vectors = unpack_bits(rows) if embedder.network.spec.binary else rows
    metric = "euclidean" if embedder.network.spec.binary else "cosine"
    expected = evaluate(vectors, DATA.labels[test], ks=(1, 2, 4, 8), metrics=("R@K", "MAP@R"), metric=metric)
    assert result.scores == pytest.approx({score: value for score, value in expected.items() if score != "unmatched"}, abs=1e-3)
    assert result.scores == json.loads((tmp_path / "run" / "scores.json").read_text())["scores"]
