"""What goes wrong in a training is said while it does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from likewise.data.dataset import Dataset, Features
from likewise.evaluation.diagnostics import diagnose, spectrum
from likewise.training.loop import Listener, Row
from likewise.training.train import train
from likewise.training.watchdogs import PATIENCE, Diverged, collapse_warning, first_bad_tensor, plateau_warning

from .tiny import PROTOCOL, method, pictures, training


def test_a_weight_that_is_not_finite_is_named() -> None:
    found = training(method("raw"))
    with torch.no_grad():
        found.network.members[0].backbone.mid[0].weight[3, 1] = torch.nan  # type: ignore[index,union-attr]
    with pytest.raises(Diverged, match=r"diverged at step 1: .* is weight members.0.backbone.mid.0.weight\.") as fault:
        found.run()
    assert "--set learning_rate=" in str(fault.value)


def test_frozen_statistics_that_are_not_finite_are_named() -> None:
    found = training(method("raw"), replace(PROTOCOL, frozen_batch_norm=True))
    found.network.members[0].backbone.mid[1].running_var.fill_(torch.nan)  # type: ignore[index,union-attr]
    with pytest.raises(Diverged, match=r"is weight members.0.backbone.mid.1.running_var"):
        found.run()


def test_an_input_that_is_not_finite_is_named() -> None:
    found = training(method("raw"))
    next_batch = found._stream

    def spoilt() -> Any:
        for number, (inputs, labels, positions) in enumerate(next_batch()):
            yield (torch.full_like(inputs, torch.inf) if number == 2 else inputs), labels, positions

    found._stream = spoilt  # type: ignore[method-assign]
    with pytest.raises(Diverged, match=r"step 3: .* is the input batch"):
        found.run()


def test_a_layer_that_makes_it_is_named() -> None:
    """The first in the order of computation, though everything after it is not finite either, and no weight is."""
    found = training(method("raw"))
    layer = found.network.members[0].backbone.mid[2]  # type: ignore[index,union-attr]
    layer.register_forward_hook(lambda module, given, output: output * torch.inf)
    with pytest.raises(Diverged, match=r"is the output of members.0.backbone.mid.2"):
        found.run()


def test_a_loss_that_is_not_finite_is_named_and_the_weights_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    found = training(method("raw"))
    before = {name: value.clone() for name, value in found.network.named_parameters()}

    def broken(member: int, embeddings: tuple[Tensor, ...], labels: Tensor, items: Tensor) -> Tensor:
        return embeddings[0].sum() * torch.nan

    monkeypatch.setattr(found.objectives, "forward", broken)
    with pytest.raises(Diverged, match=r"is the loss"):
        found.run()
    for name, value in found.network.named_parameters():
        assert torch.equal(value, before[name]), name


def test_weights_that_a_bad_gradient_spoilt_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finite loss can have a gradient that is not: the checkpoint of that step would be of no use."""
    saved: list[int] = []

    class Saves(Listener):
        last_checkpoint = "The last good checkpoint is of step 1."

        def wants_checkpoint(self, step: int) -> bool:
            return True

        def save(self, state: dict[str, Any]) -> None:
            saved.append(state["step"])

    found = training(method("raw"))
    own = found.objectives.forward

    def broken(member: int, embeddings: tuple[Tensor, ...], labels: Tensor, items: Tensor) -> Tensor:
        loss = own(member, embeddings, labels, items)
        return loss if found.step == 0 else loss + (0 * embeddings[0].sum()).sqrt()  # the root of 0: 0 x infinity

    monkeypatch.setattr(found.objectives, "forward", broken)
    with pytest.raises(Diverged, match=r"step 2: .* is weight .* The last good checkpoint is of step 1"):
        found.run(Saves())
    assert saved == [1]


def test_the_names_of_bad_tensors() -> None:
    network = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    inputs = torch.ones(2, 3)
    assert first_bad_tensor(network, inputs) == "the loss (weights and embeddings are finite)"
    assert first_bad_tensor(network, inputs * torch.nan) == "the input batch"
    with torch.no_grad():
        network[1].weight.fill_(3e38)
    assert first_bad_tensor(network, 9 * inputs) == "the output of 1"
    with torch.no_grad():
        network[1].weight.fill_(torch.inf)
    assert first_bad_tensor(network, inputs * torch.nan) == "weight 1.weight"


class Hears(Listener):
    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.rows: list[Row] = []

    def warning(self, text: str) -> None:
        self.warnings.append(text)

    def row(self, row: Row) -> None:
        self.rows.append(row)


def test_collapse_is_said_during_a_training() -> None:
    """A head of almost no weight and a large bias embeds everything on one point."""
    found = training(method("raw"), replace(PROTOCOL, learning_rate=1e-9, validate_every=3), held_out=pictures(classes=4, seed=1))
    with torch.no_grad():
        for name, parameter in found.network.members[0].heads.named_parameters():  # type: ignore[union-attr]
            parameter.mul_(1e-9) if name.endswith("weight") else parameter.fill_(1.0)
    heard = Hears()
    found.run(heard)
    assert len(heard.warnings) == 2
    assert all("collapsed" in text and "Try a lower learning rate" in text for text in heard.warnings)
    healthy = Hears()
    training(method("raw"), replace(PROTOCOL, validate_every=3), held_out=pictures(classes=4, seed=1)).run(healthy)
    assert healthy.warnings == []
    assert [row["step"] for row in healthy.rows if "MAP@R" in row] == [3, 6]


def test_collapse_is_said_at_the_end_where_nothing_was_validated(tmp_path: Path) -> None:
    """Features that hardly differ, and a rate too small to tell them apart."""
    rows = 1 + 1e-7 * np.random.default_rng(0).normal(size=(48, 6))
    data = Dataset("alike", Features(rows.astype(np.float32)), np.arange(8).repeat(6), tuple("abcdefgh"))
    settings = {"backbone": "identity", "learning_rate": 1e-12}
    (note,) = (note for note in train("raw", data, protocol=PROTOCOL, settings=settings, out=tmp_path / "run").notes if "collapsed" in note)
    assert note.startswith("step 6: the embeddings have collapsed")
    assert not any("collapsed" in note for note in train("raw", pictures(), protocol=PROTOCOL, out=tmp_path / "sound").notes)


def test_collapse_by_effective_rank() -> None:
    draw = torch.Generator().manual_seed(0)
    cloud = torch.randn(60, 8, generator=draw)
    assert collapse_warning(cloud, 5) is None
    line = torch.linspace(-1, 1, 60)[:, None] * cloud[0] + 1e-4 * cloud
    assert "step 5: the embeddings have collapsed (effective rank 1.0" in str(collapse_warning(line, 5))
    assert "effective rank 0.00 of 8" in str(collapse_warning(cloud[:1].expand(60, 8), 5))
    assert collapse_warning(torch.randn(60, 1, generator=draw), 5) is None  # one dimension has no more to use


def test_the_effective_rank_is_the_diagnosiss() -> None:
    rows = torch.nn.functional.normalize(torch.randn(40, 6, generator=torch.Generator().manual_seed(1)))
    _, rank = spectrum(rows)
    assert rank == pytest.approx(diagnose(rows, np.arange(40) // 4).effective_rank)
    assert 1 < rank < 6


def test_plateau_is_said_once() -> None:
    rising = [0.1 * step for step in range(10)]
    assert [plateau_warning(rising[:count], count) for count in range(11)] == [None] * 11
    flat = [0.1, 0.5, *[0.4] * (PATIENCE + 3)]
    said = [count for count in range(len(flat) + 1) if plateau_warning(flat[:count], count)]
    assert said == [2 + PATIENCE]
    text = str(plateau_warning(flat[: 2 + PATIENCE], 70))
    assert text.startswith("step 70: no better score")
    assert "best 0.500" in text


def test_a_plateau_is_said_during_a_training() -> None:
    """Nothing learns, so no validation is better than the first."""
    protocol = replace(PROTOCOL, learning_rate=1e-12, frozen_batch_norm=True, validate_every=1, steps=PATIENCE + 3)
    heard = Hears()
    found = training(method("raw"), protocol, held_out=pictures(classes=4, seed=1))
    found.run(heard)
    assert [text.split(":")[0] for text in heard.warnings if "no better score" in text] == [f"step {PATIENCE + 1}"]
    assert found.best_step == 1
