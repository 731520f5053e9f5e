"""One of two processes of tests/test_distributed.py: python distributed_worker.py FOLDER RANK

Shares a batch with the other rank and leaves what it found in FOLDER/RANK.pt.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1]))

import likewise
from tests.cases import CASES, DIM, Case, make, outcome
from tests.losses.oracles import batch

WORLD = 2
SHARES = {"even": slice(0, 7), "uneven": slice(0, 4)}  # the first rank's; the second has the rest
MINED = [(name, miner) for name in ("raw", "lifted", "histogram", "proxy_nca") for miner in ("vthm", "hard", "semihard")]
WEIGHED: list[tuple[Case, dict[str, Any]]] = [
    *((Case(name), {}) for name in ("raw", "lifted", "histogram", "prototypical", "proxy_nca")),
    (Case("triplet"), {"reduce": "pairs"}),
    (Case("triplet"), {"reduce": "nonzero"}),
    (Case("raw"), {"singletons": "keep"}),
]


def weights_of_items() -> Tensor:
    return torch.arange(14, dtype=torch.float64) % 4


def share(kind: str, rank: int) -> slice:
    first = SHARES[kind]
    return first if rank == 0 else slice(first.stop, None)


def of_every_case(rank: int) -> dict[str, Any]:
    """Value and gradients of this rank's share, for every loss and a few mined ones."""
    found = {}
    embeddings, labels = batch("unbalanced", 8)
    for kind in SHARES:
        own = share(kind, rank)
        for case in CASES:
            for block in (None, 3):
                objective = make(case, gather=True, block=block)
                result = outcome(objective, objective, embeddings[own], labels[own])
                found[f"{kind} {case} {block}"] = (result.value, result.gradients)
        for case, options in WEIGHED:
            objective = make(case, gather=True, block=3, **options)
            result = outcome(objective, objective, embeddings[own], labels[own], weights=weights_of_items()[own])
            found[f"{kind} weighed {case} {options}"] = (result.value, result.gradients)
        for name, miner in MINED:
            objective = make(name, mining=miner, gather=True, block=3)
            result = outcome(objective, objective, embeddings[own], labels[own])
            found[f"{kind} {name} {miner}"] = (result.value, result.gradients)
    return found


def of_shares_without_anchors(rank: int) -> dict[str, Any]:
    """Shares none of whose items can be an anchor: all support, or all singletons."""
    found = {}
    embeddings = batch("balanced", 8)[0][:6]
    for case in (Case("prototypical"), Case("raw"), Case("lifted"), Case("n_pair"), Case("histogram")):
        for kind, labels in (
            ("one support each", [0, 1, 2, 0, 1, 2]),
            ("one class each", [0, 0, 0, 1, 1, 1]),
            ("none", [0, 1, 2, 3, 4, 5]),
        ):
            own = slice(0, 3) if rank == 0 else slice(3, None)
            objective = make(case, gather=True)
            result = outcome(objective, objective, embeddings[own], torch.tensor(labels)[own])
            found[f"{kind} {case}"] = (result.value, result.gradients)
    return found


class Trained(nn.Module):
    """A linear model and the objective, as DistributedDataParallel wraps them: together, for the objective's parameters."""

    def __init__(self, case: Case, *, gather: bool, block: int | None) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(4)
        self.linear = nn.Linear(5, DIM)
        with torch.no_grad():
            for parameter in self.linear.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
        self.objective = make(case, gather=gather, block=block, dtype=torch.float32)

    def forward(self, inputs: Tensor, labels: Tensor) -> Tensor:
        return self.objective(self.linear(inputs), labels)


DDP_CASES = [
    Case("raw"),
    Case("lifted"),
    Case("histogram"),
    Case("ranked_list"),
    Case("proxy_anchor"),
    Case("soft_triple", {"num_centers": 2}),
]
DDP_CASES += [Case("margin", per_class=True), Case("structured_clustering"), Case("prototypical"), Case("n_pair"), Case("arcface")]


def ddp_batch() -> tuple[Tensor, Tensor]:
    _, labels = batch("unbalanced", 8)
    return torch.randn(len(labels), 5, generator=torch.Generator().manual_seed(5)), labels


def of_data_parallel_models(rank: int) -> dict[str, Any]:
    """The parameters' gradients of a real DistributedDataParallel model."""
    found = {}
    inputs, labels = ddp_batch()
    for kind in SHARES:
        own = share(kind, rank)
        for case in DDP_CASES:
            model = nn.parallel.DistributedDataParallel(Trained(case, gather=True, block=3))
            value = model(inputs[own], labels[own])
            value.backward()
            found[f"{kind} {case}"] = (value.detach(), {name: p.grad for name, p in model.module.named_parameters()})
    return found


def main(folder: Path, rank: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=WORLD, timeout=timedelta(seconds=60))
    found = {
        "cases": of_every_case(rank),
        "empty": of_shares_without_anchors(rank),
        "parallel": of_data_parallel_models(rank),
        "memory": str(_refusal(rank)),
    }
    torch.save(found, folder / f"{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


def _refusal(rank: int) -> ValueError | None:
    """Memory and gather together."""
    embeddings, labels = batch("unbalanced", 8)
    try:
        likewise.objective("raw", memory=10, dim=DIM, gather=True)(embeddings, labels)
    except ValueError as error:
        return error
    return None


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
