"""Two processes that share a batch find the loss and the gradient that one process finds for the whole of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from .cases import CASES, Case, Outcome, assert_same, make, outcome
from .distributed_worker import DDP_CASES, MINED, SHARES, WEIGHED, WORLD, Trained, ddp_batch, weights_of_items
from .losses.oracles import batch

WORKER = Path(__file__).with_name("distributed_worker.py")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of the two processes found; they are started once for all tests."""
    folder = tmp_path_factory.mktemp("ranks")
    command = [sys.executable, "-W", "error", str(WORKER), str(folder)]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    processes = [
        subprocess.Popen([*command, str(rank)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for rank in range(WORLD)
    ]
    try:
        outputs = [process.communicate(timeout=200)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * WORLD, "\n".join(outputs)
    return [torch.load(folder / f"{rank}.pt") for rank in range(WORLD)]


def joined(ranks: list[dict[str, Any]], part: str, key: str) -> Outcome:
    """The ranks' findings as the single process's: one value, the shares of the embeddings' gradient one after the other.

    Each rank's gradient is world_size times its share of the single process's, and DistributedDataParallel's mean over
    ranks takes that factor out of everything before the embeddings; the objective's parameters are averaged alike.
    """
    values, gradients = zip(*(rank[part][key] for rank in ranks), strict=True)
    for value in values[1:]:
        torch.testing.assert_close(value, values[0], rtol=0, atol=0)
    means = {name: sum(found[name] for found in gradients) / WORLD for name in gradients[0] if name != "embeddings"}
    return Outcome(values[0], {"embeddings": torch.cat([found["embeddings"] for found in gradients]) / WORLD, **means})


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("kind", SHARES)
def test_two_processes_are_one(ranks: list[dict[str, Any]], case: Case, kind: str) -> None:
    embeddings, labels = batch("unbalanced", 8)
    objective = make(case, block=None)
    expected = outcome(objective, objective, embeddings, labels)
    assert expected.value != 0
    for block in (None, 3):
        assert_same(joined(ranks, "cases", f"{kind} {case} {block}"), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("name", "miner"), MINED)
@pytest.mark.parametrize("kind", SHARES)
def test_two_processes_mine_as_one(ranks: list[dict[str, Any]], name: str, miner: str, kind: str) -> None:
    embeddings, labels = batch("unbalanced", 8)
    objective = make(name, mining=miner, block=None)
    expected = outcome(objective, objective, embeddings, labels)
    assert_same(joined(ranks, "cases", f"{kind} {name} {miner}"), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("case", "options"), WEIGHED, ids=str)
@pytest.mark.parametrize("kind", SHARES)
def test_two_processes_weigh_as_one(ranks: list[dict[str, Any]], case: Case, options: dict[str, Any], kind: str) -> None:
    embeddings, labels = batch("unbalanced", 8)
    objective = make(case, block=None, **options)
    expected = outcome(objective, objective, embeddings, labels, weights=weights_of_items())
    assert_same(joined(ranks, "cases", f"{kind} weighed {case} {options}"), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "labels", [[0, 1, 2, 0, 1, 2], [0, 0, 0, 1, 1, 1], [0, 1, 2, 3, 4, 5]], ids=["one support each", "one class each", "none"]
)
@pytest.mark.parametrize("name", ["prototypical", "raw", "lifted", "n_pair", "histogram"])
def test_shares_without_anchors(ranks: list[dict[str, Any]], name: str, labels: list[int], request: pytest.FixtureRequest) -> None:
    """A rank whose items are all support, or alone in their class, takes part all the same."""
    kind = request.node.callspec.id.split("-")[-1]
    embeddings = batch("balanced", 8)[0][:6]
    objective = make(name)
    expected = outcome(objective, objective, embeddings, torch.tensor(labels))
    assert_same(joined(ranks, "empty", f"{kind} {name}"), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("case", DDP_CASES, ids=str)
@pytest.mark.parametrize("kind", SHARES)
def test_distributed_data_parallel_gives_the_parameters_gradient_of_one_process(ranks: list[dict[str, Any]], case: Case, kind: str) -> None:
    model = Trained(case, gather=False, block=None)
    value = model(*ddp_batch())
    value.backward()
    expected = {name: parameter.grad for name, parameter in model.named_parameters()}
    scale = max(gradient.abs().max().item() for gradient in expected.values())  # a bias that cannot matter has gradient 0
    assert scale > 1e-3
    for rank in ranks:
        found, gradients = rank["parallel"][f"{kind} {case}"]
        torch.testing.assert_close(found, value.detach())
        assert gradients.keys() == expected.keys()
        for name, gradient in expected.items():
            # float32 round-off of sums over the batch
            torch.testing.assert_close(gradients[name], gradient, rtol=1e-4, atol=1e-5 * scale)


def test_memory_is_not_shared_by_ranks(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        assert "memory and gather cannot be combined" in rank["memory"]


def test_gather_without_a_process_group_is_a_single_process() -> None:
    embeddings, labels = batch("unbalanced", 8)
    alone, gathering = make("raw"), make("raw", gather=True)
    torch.testing.assert_close(gathering(embeddings, labels), alone(embeddings, labels), rtol=0, atol=0)
