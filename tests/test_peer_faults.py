"""Known faults of the usual library (pytorch-metric-learning 2.9), one test each, so that none of them is ever ours."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import likewise
from likewise.mining import DistanceWeighted
from likewise.pairs import Pairs

from .allocations import LargestTensor, peak_bytes
from .cases import PROXY_LOSSES, make

EIGHT_PERFECT = torch.eye(8, dtype=torch.float64).repeat_interleave(2, dim=0), torch.arange(8).repeat_interleave(2)


class Recorded:
    """A miner that keeps what another one made of the last block."""

    draws = True

    def __init__(self, miner: DistanceWeighted) -> None:
        self.miner = miner
        self.negative = torch.empty(0)

    def __call__(self, pairs: Pairs) -> Pairs:
        mined = self.miner(pairs)
        self.negative = mined.negative
        return mined

    def noise(self, num_rows: int, device: torch.device) -> Tensor:
        return self.miner.noise(num_rows, device)


def test_distance_weighted_serves_every_anchor() -> None:
    """Fault: the weights are divided by one global maximum, so at 512 dimensions one near-duplicate negative pair leaves 2 of 128
    anchors with a negative."""
    generator = torch.Generator().manual_seed(0)
    embeddings = torch.randn(128, 512, generator=generator)
    embeddings[4] = embeddings[0] + 0.01 * embeddings[4]
    labels = torch.arange(128) // 4
    # random unit vectors are about 1.414 apart: allow those
    miner = Recorded(DistanceWeighted(farthest=1.6, generator=generator))
    x = embeddings.clone().requires_grad_()
    likewise.objective("margin", mining=miner, block=None, boundary=1.4)(x, labels).backward()
    assert miner.negative.any(1).all()
    assert (x.grad.abs().amax(1) > 0).all()


def test_smooth_ap_of_any_class_sizes() -> None:
    """Fault: smooth-AP is wrong unless there are as many classes as images per class."""
    for labels in ([0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 0, 1, 1, 2, 2, 3, 3, 4, 4], [0] * 5 + [1] * 5, [0, 0, 0, 0, 1, 1, 2, 2, 2]):
        y = torch.tensor(labels)
        x = F.normalize(torch.randn(len(y), 6, generator=torch.Generator().manual_seed(len(y)), dtype=torch.float64))
        precisions = []
        for i in range(len(y)):
            order = [j for j in (x @ x[i]).argsort(descending=True).tolist() if j != i]
            hits = [rank for rank, j in enumerate(order, 1) if y[j] == y[i]]
            precisions.append(sum(found / rank for found, rank in enumerate(hits, 1)) / len(hits))
        # so steep that the soft ranks are the ranks
        loss = likewise.objective("smooth_ap", temperature=1e-6)(x, y)
        assert loss.item() == pytest.approx(1 - sum(precisions) / len(y), abs=1e-9)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_histogram_of_cosines_of_exactly_one(dtype: torch.dtype) -> None:
    """Fault: histogram raises when a cosine is exactly 1 (or, by round-off, above)."""
    x, labels = EIGHT_PERFECT
    assert likewise.objective("histogram")(x.to(dtype), labels) == 0
    generator = torch.Generator().manual_seed(0)
    twins = torch.randn(20, 7, generator=generator).repeat(2, 1).to(dtype).requires_grad_()
    loss = likewise.objective("histogram")(twins, torch.arange(20).repeat(2))
    loss.backward()
    assert 0 <= loss < 0.05
    assert twins.grad.isfinite().all()
    opposite = torch.cat([x, -x]).to(dtype)  # exactly -1 too
    assert likewise.objective("histogram")(opposite, torch.cat([labels, labels + 8])).item() == pytest.approx(0, abs=1e-6)


def test_n_pair_of_perfect_embeddings_costs_nothing() -> None:
    """Fault: n-pairs normalises silently, so perfect embeddings of 8 classes still cost 1.27."""
    x, labels = EIGHT_PERFECT
    loss = likewise.objective("n_pair", norm_penalty=0.0)
    assert loss(6 * x, labels) < 1e-13
    # what the silent normalisation makes of it
    assert likewise.objective("n_pair", norm_penalty=0.0, normalize=True)(6 * x, labels).item() == pytest.approx(math.log1p(14 / math.e))


def test_angular_normalises_its_negatives() -> None:
    """Fault: angular normalises anchors and positives but not negatives."""
    generator = torch.Generator().manual_seed(0)
    x, labels = torch.randn(12, 5, generator=generator, dtype=torch.float64), torch.arange(12) // 3
    lengths = torch.linspace(0.1, 10, 12, dtype=torch.float64)[:, None]
    loss = likewise.objective("angular")
    torch.testing.assert_close(loss(x * lengths, labels), loss(x, labels), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("name", [*PROXY_LOSSES, "margin"])
def test_parameters_keep_their_type(name: str, dtype: torch.dtype) -> None:
    """Fault: proxy losses cast their parameters in place to the embeddings' type, behind the optimiser's back."""
    objective = make(name, dtype=torch.float32)
    parameters = list(objective.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    before = [parameter.detach().clone() for parameter in parameters]
    x = torch.randn(14, 8, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()
    objective(x, torch.arange(14) % 6).backward()
    optimizer.step()
    assert x.grad.dtype == dtype
    for kept, parameter, start in zip(objective.parameters(), parameters, before, strict=True):
        assert kept is parameter
        assert parameter.dtype == parameter.grad.dtype == torch.float32
        assert not torch.equal(parameter, start)


@pytest.mark.parametrize("miner", sorted(set(likewise.MINERS) - {"distance_weighted"}))
def test_a_miner_over_a_memory_sees_one_index_space(miner: str) -> None:
    """Fault: the memory bank with a miner mixes the batch's and the queue's index spaces.

    Here the mined loss of a batch beside its queue is that of the batch against both as one labelled set, its own column left
    out; so it does not change when the queue is turned around, and does when its labels are.
    """
    generator = torch.Generator().manual_seed(0)
    earlier, earlier_labels = torch.randn(9, 8, generator=generator, dtype=torch.float64), torch.randint(3, (9,), generator=generator)
    x, labels = torch.randn(6, 8, generator=generator, dtype=torch.float64), torch.tensor([0, 0, 1, 1, 2, 2])

    def loss_after(order: Tensor, queued_labels: Tensor) -> Tensor:
        objective = make("contrastive", mining=miner, memory=9)
        objective(earlier[order], queued_labels[order])
        return objective(x, labels)

    order, turned = torch.arange(9), torch.arange(9).flip(0)
    found = loss_after(order, earlier_labels)
    torch.testing.assert_close(loss_after(turned, earlier_labels), found, rtol=1e-12, atol=1e-12)
    assert not torch.isclose(loss_after(order, earlier_labels.roll(1)), found)
    pool, pool_labels = torch.cat([x, earlier]), torch.cat([labels, earlier_labels])
    rows = [
        make("contrastive", mining=miner)(
            x[i : i + 1],
            labels[i : i + 1],
            references=pool[torch.arange(15) != i],
            reference_labels=pool_labels[torch.arange(15) != i],
        )
        for i in range(6)
    ]
    torch.testing.assert_close(found, torch.stack(rows).mean(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["lifted", "nt_xent"])
def test_a_batch_of_512_fits(name: str) -> None:
    """Fault: lifted needs 8.4 GB at batch 512 and NT-Xent 6.5 GB. Here: below 30 MB as it comes, a few matrices of 512 x 512."""
    x = torch.randn(512, 128, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(512) // 4
    objective = likewise.objective(name)

    def step() -> None:
        objective(x.clone().requires_grad_(), labels).backward()

    with LargestTensor() as largest:
        step()
    assert largest.elements <= 512 * 512, largest.made_by
    assert peak_bytes(step) < 30e6


class Elements(TorchDispatchMode):
    """How many elements all operators together wrote."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0

    def __torch_dispatch__(self, function: object, types: object, args: tuple = (), kwargs: dict | None = None) -> object:
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.written += result.untyped_storage().nbytes() // result.element_size()
        return result


def test_triplets_are_not_enumerated() -> None:
    """Fault: triplets are enumerated, N^3 of them. Here nothing larger than the matrix is made, and the work grows as N^2."""
    work = []
    for items in (128, 256):
        x = torch.randn(items, 16, generator=torch.Generator().manual_seed(0))
        labels = torch.arange(items) // (items // 4)  # as many triplets as can be
        with LargestTensor() as largest:
            likewise.objective("triplet", block=None)(x.clone().requires_grad_(), labels).backward()
        assert largest.elements <= 2 * items * items, largest.made_by
        with Elements() as elements:
            likewise.objective("triplet", block=None)(x.clone().requires_grad_(), labels).backward()
        work.append(elements.written)
    assert work[1] / work[0] < 4.5


def test_labels_are_told_apart_beyond_float32() -> None:
    """Fault: labels are cast to float32, which has no odd numbers above 2^24."""
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])
    for name in ("raw", "histogram", "structured_clustering"):
        objective = likewise.objective(name)
        torch.testing.assert_close(objective(x, labels + 2**24), objective(x, labels), rtol=1e-12, atol=1e-12)
