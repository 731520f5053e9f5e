"""Gradient caching gives the gradient of the whole batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from likewise.methods import Method
from likewise.training.loop import Training

from .tiny import PROTOCOL, method, training

METHODS: dict[str, Method] = {
    "rows": method("raw_vthm"),
    "margin's own boundaries": method("margin", mining__name="all"),
    "proxies": method("proxy_anchor"),
    "whole batch": method("histogram"),
    "medoids": method("structured_clustering"),
    "multilevel": method("ranked_list_multilevel"),
    "ensemble": method("dreml", ensemble__members=2),
}
FROZEN = replace(PROTOCOL, frozen_batch_norm=True, optimizer="sgd", clip=0.0)


def gradients(found: Training) -> dict[str, Tensor]:
    """Of everything that learns, in the first batch, in float64: float32 sums in another order differ by some 1e-5."""
    found.network.double().train()
    found.objectives.double()
    inputs, labels, positions = next(found._stream())
    found._add_gradients(inputs.double(), labels, positions)
    named = [*found.network.named_parameters(prefix="network"), *found.objectives.named_parameters(prefix="objectives")]
    return {name: parameter.grad for name, parameter in named if parameter.grad is not None}


@pytest.mark.parametrize("chosen", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("micro_batch", [1, 5])
def test_micro_batches_give_the_gradient_of_the_batch(chosen: Method, micro_batch: int) -> None:
    expected = gradients(training(chosen, FROZEN))
    found = gradients(training(chosen, FROZEN, micro_batch=micro_batch))
    assert found.keys() == expected.keys()
    if chosen.name == "proxy_anchor":
        assert any(name.startswith("objectives") for name in found)
    for name, gradient in expected.items():
        error = float((found[name] - gradient).norm() / gradient.norm().clamp(min=1e-6))
        assert error < 1e-9, name
    assert sum(float(gradient.abs().sum()) for gradient in expected.values()) > 1e-3


def test_micro_batches_train_to_the_same_weights() -> None:
    """Over several steps, and not by taking the same path: the embeddings are made in shares."""
    shares: list[int] = []
    whole, cut = (training(method("raw_vthm"), FROZEN, micro_batch=size) for size in (None, 6))
    cut.network.members[0].register_forward_pre_hook(lambda module, given: shares.append(len(given[0])))
    for one in (whole, cut):
        assert one.run()
    assert shares == [6, 6, 4] * 2 * FROZEN.steps
    for name, value in whole.network.state_dict().items():
        torch.testing.assert_close(cut.network.state_dict()[name], value, rtol=1e-3, atol=1e-5)


def test_running_statistics_see_every_micro_batch_once() -> None:
    found = training(method("raw_vthm"), replace(PROTOCOL, frozen_batch_norm=False), micro_batch=8)
    norms = [part for part in found.network.modules() if isinstance(part, torch.nn.BatchNorm2d)]
    inputs, labels, positions = next(found._stream())
    seen: list[Tensor] = []
    hook = norms[0].register_forward_pre_hook(lambda module, given: seen.append(given[0].detach()))
    found.network.train()
    found._add_gradients(inputs, labels, positions)
    hook.remove()
    assert len(seen) == 4  # two micro-batches, embedded twice
    mean = torch.zeros_like(norms[0].running_mean)  # type: ignore[arg-type]
    for share in seen[2:]:
        mean = 0.9 * mean + 0.1 * share.mean(dim=(0, 2, 3))
    torch.testing.assert_close(norms[0].running_mean, mean)
    assert [int(norm.num_batches_tracked) for norm in norms] == [2] * len(norms)  # type: ignore[arg-type]
    assert all(norm.momentum == 0.1 for norm in norms)


def test_a_memory_takes_each_item_once() -> None:
    """The objective is called once a step, whatever the micro-batch."""
    states: list[dict[str, Any]] = []
    for size in (None, 4):
        found = training(method("contrastive", memory=40, memory_warm_up=0.0), FROZEN, micro_batch=size)
        found.run()
        states.append(found.objectives.state_dict())
    cursors = [state["of_level.0.0.memory.cursor"] for state in states]
    assert cursors[0].tolist() == cursors[1].tolist() == [16 * FROZEN.steps, FROZEN.steps]
