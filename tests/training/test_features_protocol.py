"""Vectors under the protocol for them: no method makes them worse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from likewise.comparison.request import PAPER_METHODS
from likewise.evaluation import evaluate
from likewise.methods import load_method
from likewise.protocols import load_protocol
from likewise.training.feeds import Feed
from likewise.training.fit import fit
from likewise.training.scoring import embed_feed

PROTOCOL = load_protocol("features")


@pytest.fixture(scope="module")
def digits() -> tuple[Feed, Feed]:
    """Vectors of 64 pixels: five classes to train on, five others."""
    loaded = load_digits()
    vectors, labels = torch.from_numpy(loaded.data.astype(np.float32)), loaded.target.astype(np.int64)
    seen, unseen = (Feed(vectors[part], labels[part], np.flatnonzero(part)) for part in (labels < 5, labels >= 5))
    return seen, unseen


def change(method: str, digits: tuple[Feed, Feed], **changes: object) -> tuple[float, float]:
    """Of R@1 and MAP@R of the classes that were not trained on, at the lowest rate that tuning tries."""
    seen, unseen = digits
    protocol = replace(PROTOCOL, learning_rate=0.3 * PROTOCOL.learning_rate, **changes)  # type: ignore[arg-type]
    network = fit(load_method(method), protocol, seen, seed=0, device="cpu").network
    assert isinstance(unseen.source, torch.Tensor)
    before, after = (
        evaluate(vectors, torch.from_numpy(unseen.labels), ks=(1,), metrics=("R@K", "MAP@R"))
        for vectors in (unseen.source, embed_feed(network, unseen, protocol, device="cpu"))
    )
    return after["R@1"] - before["R@1"], after["MAP@R"] - before["MAP@R"]


@pytest.mark.parametrize("method", PAPER_METHODS)
def test_no_method_makes_vectors_worse(method: str, digits: tuple[Feed, Feed]) -> None:
    of_nearest, of_all = change(method, digits)
    assert of_nearest > -0.01
    assert of_all > -0.02


def test_a_random_start_does(digits: tuple[Feed, Feed]) -> None:
    """What the start is for."""
    assert change("raw_vthm", digits, head_start="random")[1] < -0.03
