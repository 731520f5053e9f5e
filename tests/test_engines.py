"""Dense, blocked and compiled: the same numbers, in the memory and with the work they promise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

import likewise
from likewise import objectives
from likewise import pairs as pairs_module
from likewise.engines import Blocked, Compiled, Dense, blocked, choose_engine
from likewise.losses.loss import PooledLoss, WithStatistic
from likewise.pairs import Pairs, masked_mean
from likewise.references import batch_rows
from likewise.rows import Grouping

from .allocations import LargestTensor, peak_bytes
from .cases import MINED_LOSSES, Outcome, assert_same, during, hold_positives, make, outcome
from .losses.oracles import batch

TIGHT = {"rtol": 1e-12, "atol": 1e-12}


@contextmanager
def every_objective_uses(engine: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(objectives, "choose_engine", lambda rows, **options: engine)
        yield


def large_batch(items: int, dim: int = 16, per_class: int = 4, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    labels = torch.arange(items) // per_class
    generator = torch.Generator().manual_seed(items)
    centers = torch.randn(int(labels.max()) + 1, dim, generator=generator, dtype=dtype)
    return centers[labels] + 1.5 * torch.randn(items, dim, generator=generator, dtype=dtype), labels


def value_and_gradient(objective: likewise.Objective, embeddings: Tensor, labels: Tensor) -> Outcome:
    return outcome(objective, objective, embeddings, labels)


# Blocks and tiles


@pytest.mark.parametrize("engine", [Blocked(4), Blocked(7), Blocked(99), Compiled(4), Compiled(7), Compiled(99)], ids=str)
@pytest.mark.parametrize("num_rows", [1, 4, 13, 14, 15])
def test_blocks_give_each_row_once(engine: Blocked, num_rows: int) -> None:
    fresh = [row for block in engine.blocks(num_rows) for row in range(num_rows)[block.rows][block.done :]]
    assert fresh == list(range(num_rows))
    sizes = {block.rows.stop - block.rows.start for block in engine.blocks(num_rows)}
    assert max(sizes) <= engine.block
    if isinstance(engine, Compiled):
        assert len(sizes) == 1


@pytest.mark.parametrize("name", MINED_LOSSES)
def test_tiles_change_nothing(name: str, positives: str, monkeypatch: pytest.MonkeyPatch) -> None:
    embeddings, labels = batch("unbalanced", 6)
    expected = value_and_gradient(make(name, block=None), embeddings, labels)
    for block, tile in ((14, 4), (7, 3), (5, 5), (6, 1), (14, 13)):
        with during(block, tile), every_objective_uses(Blocked(block, tile=tile), monkeypatch):
            assert_same(value_and_gradient(make(name), embeddings, labels), expected, **TIGHT)


@pytest.mark.parametrize("name", MINED_LOSSES)
def test_auto_is_dense_where_blocks_are_chosen(name: str) -> None:
    """Beyond the size up to which auto is dense, whole blocks, tiles and compact positives together."""
    items = 300
    embeddings, labels = large_batch(items, dim=8, dtype=torch.float64)
    settings = {"num_classes": items // 4, "dim": 8}
    auto, dense = make(name, **settings), make(name, **settings, block=None)
    if auto.traits.meets == "batch":
        rows = auto.rows(embeddings, labels)
        assert isinstance(choose_engine(rows, block="auto", compile="auto", expands_positives=auto.traits.expands_positives), Blocked)
    assert_same(value_and_gradient(auto, embeddings, labels), value_and_gradient(dense, embeddings, labels), rtol=1e-10, atol=1e-12)


def test_which_engine_is_chosen() -> None:
    small = batch_rows(torch.zeros(60, 8), torch.zeros(60, dtype=torch.long), unit=True)
    large = batch_rows(torch.zeros(2000, 8), torch.zeros(2000, dtype=torch.long), unit=True)
    assert isinstance(choose_engine(small, block="auto", compile="auto"), Dense)
    assert isinstance(choose_engine(large, block=None, compile="auto"), Dense)
    assert isinstance(choose_engine(large, block="auto", compile="auto"), Blocked)
    assert choose_engine(small, block=7, compile="auto").block == 7
    assert choose_engine(small, block=1000, compile=False).block == 60
    assert isinstance(choose_engine(small, block=None, compile=True), Compiled)
    assert choose_engine(small, block=7, compile=True) == Compiled(7)
    # a loss that holds more numbers for each pair gets fewer rows at a time
    labels = torch.arange(2000) // 50
    grouped = replace(large, grouping=Grouping.of(labels, labels))
    wide, plain = (choose_engine(grouped, block="auto", compile=False, expands_positives=expands) for expands in (True, False))
    heights = [max(rows.stop - rows.start for rows in engine.tiles(grouped.grouping, slice(0, 2000))) for engine in (wide, plain)]
    assert heights[0] * 50 <= heights[1] * 1.01


@dataclass(frozen=True)
class Plain:
    """A loss as a user would write one, without masks on one side: its gradient by similarities is a broadcast number."""

    def per_anchor(self, pairs: Pairs) -> Tensor:
        return pairs.similarity.mean(-1) - masked_mean(pairs.positives.similarity, pairs.positives.mask)


def test_a_loss_whose_gradient_is_a_broadcast_number(positives: str) -> None:
    embeddings, labels = batch("unbalanced", 6)
    expected = value_and_gradient(likewise.objective(Plain(), block=None), embeddings, labels)
    for block in (5, 100):
        assert_same(value_and_gradient(likewise.objective(Plain(), block=block), embeddings, labels), expected, **TIGHT)


def test_backward_twice_and_scaled() -> None:
    """What was taken in the forward pass serves every backward pass, times the factor that arrives."""
    embeddings, labels = batch("unbalanced", 6)
    for name in ("raw", "lifted", "histogram"):
        x = embeddings.clone().requires_grad_()
        loss = make(name, block=3)(x, labels)
        once, again, scaled = (torch.autograd.grad(factor * loss, x, retain_graph=True)[0] for factor in (1, 1, -2.5))
        assert once.any()
        torch.testing.assert_close(again, once, rtol=0, atol=0)
        torch.testing.assert_close(scaled, -2.5 * once, **TIGHT)


# Memory and work


def train(name: str, embeddings: Tensor, labels: Tensor, **options: Any) -> None:
    """One forward and backward pass of a batch of four a class."""
    objective = make(name, num_classes=len(labels) // 4, dim=embeddings.shape[1], dtype=torch.float32, **options)
    objective(embeddings.clone().requires_grad_(), labels).backward()


@pytest.mark.slow
@pytest.mark.parametrize("name", MINED_LOSSES)
def test_blocked_makes_nothing_of_anchors_times_references(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At batch 512 no tensor of 512 x 512 elements is ever made, not even for a moment."""
    embeddings, labels = large_batch(512)
    for miner, as_columns in (("all", True), ("vthm", False), ("distance_weighted", True), ("semihard", True)):
        hold_positives(monkeypatch, as_columns=as_columns)
        with LargestTensor() as largest:
            train(name, embeddings, labels, block=32, mining=miner)
        assert 0 < largest.elements < 512 * 512, largest.made_by


@pytest.mark.slow
@pytest.mark.parametrize("name", ["raw", "lifted", "histogram", "triplet", "nt_xent", "smooth_ap", "angular"])
def test_blocked_keeps_less_than_anchors_times_references(name: str) -> None:
    """At batch 512 all that is alive at once, forward and backward, takes less than one 512 x 512 matrix."""
    embeddings, labels = large_batch(512)
    assert peak_bytes(lambda: train(name, embeddings, labels, block=12)) < 512 * 512 * 4


EXPANDING = ["smooth_ap", "recall_at_k", "angular"]


def in_small_parts(monkeypatch: pytest.MonkeyPatch, numbers: int) -> None:
    """Losses that hold a number for every reference of every positive hold only so many, as if the batch were far larger."""
    monkeypatch.setattr(pairs_module, "CPU_PART_NUMBERS", numbers)
    monkeypatch.setattr(blocked, "CPU_BETWEEN_NUMBERS", numbers)


def one_large_class(items: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """A class of so many items among four of two, in no order."""
    labels = torch.cat([torch.zeros(items, dtype=torch.long), torch.arange(8) // 2 + 1])
    labels = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(2))]
    return torch.randn(len(labels), 16, generator=torch.Generator().manual_seed(3), dtype=dtype), labels


@pytest.mark.parametrize("name", MINED_LOSSES)
def test_a_large_class_makes_nothing_of_anchors_times_references(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class of 248 in a batch of 256: positives are blocked like negatives."""
    in_small_parts(monkeypatch, 2**14)
    embeddings, labels = one_large_class(248)
    for miner, as_columns in (("all", True), ("semihard", True), ("hard", False)) if name == "raw" else (("all", True),):
        hold_positives(monkeypatch, as_columns=as_columns)
        with during(miner), LargestTensor() as largest:
            train(name, embeddings, labels, block=6, mining=miner)
        assert 0 < largest.elements < 256 * 256, largest.made_by


@pytest.mark.parametrize("name", EXPANDING)
def test_parts_are_dropped(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What autograd keeps of a block is less than a number for every reference of every positive, and of the parts together it was more."""
    embeddings, labels = one_large_class(40, torch.float64)
    kept: list[int] = []

    def numbers_kept() -> int:
        kept.clear()
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor.numel()) or tensor, lambda tensor: tensor):
            make(name, block=None, dim=16)(embeddings.clone().requires_grad_(), labels)
        return sum(kept)

    assert numbers_kept() > 48 * 48 * 40
    in_small_parts(monkeypatch, 2**12)
    assert numbers_kept() < 48 * 48 * 40


@pytest.mark.parametrize("name", EXPANDING)
def test_positives_in_parts_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two small parts of a class's items, the last one uneven, against all of them at once; also differentiated twice."""
    embeddings, labels = one_large_class(9, torch.float64)
    direction = torch.randn(embeddings.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    seen: list[int] = []

    def twice(objective: likewise.Objective) -> Tensor:
        x = embeddings.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(objective(x, labels), x, create_graph=True)
        return torch.autograd.grad((gradient * direction).sum(), x)[0]

    whole = make(name, block=None, dim=16)
    expected, expected_twice = value_and_gradient(whole, embeddings, labels), twice(whole)
    some = Pairs.some_positives
    monkeypatch.setattr(Pairs, "some_positives", lambda pairs, part: seen.append(part.stop - part.start) or some(pairs, part))
    in_small_parts(monkeypatch, 17 * 17 * 4)  # four positives of all rows, or more of fewer
    assert_same(value_and_gradient(whole, embeddings, labels), expected, **TIGHT)
    torch.testing.assert_close(twice(whole), expected_twice, rtol=1e-10, atol=1e-10)
    assert set(seen) == {4, 1}
    in_small_parts(monkeypatch, 40)
    for block in (1, 3, 100):
        assert_same(value_and_gradient(make(name, block=block, dim=16), embeddings, labels), expected, **TIGHT)
    with every_objective_uses(Compiled(5, backend="aot_eager"), monkeypatch):
        assert_same(value_and_gradient(make(name, dim=16), embeddings, labels), expected, **TIGHT)


def test_small_classes_do_not_pay_for_a_large_one() -> None:
    """Their tiles are as high, and their positives as few, as if the large class were not there."""
    _, labels = one_large_class(100)
    labels = labels.sort(descending=True).values  # the small classes come first
    grouping = Grouping.of(labels, labels)
    engine = Blocked(108, tile=50, positives=16)
    tiles = engine.tiles(grouping, slice(0, 108))
    assert [(rows.start, rows.stop) for rows in tiles] == [(0, 8), *((row, row + 1) for row in range(8, 108))]
    assert [engine.width(grouping, rows) for rows in tiles[:2]] == [2, 100]


@pytest.mark.parametrize("kind", ["one class", "classes of one"])
@pytest.mark.parametrize("name", ["raw", "margin", "smooth_ap", "lifted"])
def test_a_large_batch_with_nothing_to_learn_is_not_worked_through(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its 0 passes a gradient of 0 back to all that learns, without one similarity computed."""
    items = 20_000  # 400 million pairs
    labels = torch.zeros(items, dtype=torch.long) if kind == "one class" else torch.arange(items)
    objective = make(name, dtype=torch.float32)
    monkeypatch.setattr(objectives, "loss_of_rows", lambda *args, **options: pytest.fail("worked through"))
    found = value_and_gradient(objective, torch.randn(items, 8), labels)
    assert found.value == 0
    assert set(found.gradients) == {"embeddings", *dict(objective.named_parameters())}
    assert not any(gradient.any() for gradient in found.gradients.values())


def test_the_memory_checks_see_a_dense_batch() -> None:
    embeddings, labels = large_batch(512)
    objective = make("raw", dtype=torch.float32, block=None)
    with LargestTensor() as largest:
        objective(embeddings, labels)
    assert largest.elements >= 512 * 512
    assert peak_bytes(lambda: objective(embeddings.clone().requires_grad_(), labels)) > 512 * 512 * 4


@pytest.mark.parametrize("name", MINED_LOSSES)
def test_one_gradient_for_each_block(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row loss takes its gradients in the forward pass, a loss of sums in the backward pass; neither takes them twice."""
    calls: list[object] = []
    gradient = torch.autograd.grad
    embeddings, labels = batch("balanced", 6)
    objective = make(name, block=4)
    anchors = {"prototypes": 8, "proxies": 12, "batch": 12}[objective.traits.meets]
    anchors = 6 if objective.traits.proxies_are_anchors else anchors
    blocks = -(-anchors // 4)
    x = embeddings.clone().requires_grad_()
    monkeypatch.setattr(torch.autograd, "grad", lambda *args, **kwargs: calls.append(0) or gradient(*args, **kwargs))
    loss = objective(x, labels)
    assert len(calls) == (0 if isinstance(objective.loss, PooledLoss) else blocks)
    loss.backward()
    assert len(calls) == (2 * blocks if isinstance(objective.loss, WithStatistic) else blocks)


# Compiled


def graphs_compiled() -> int:
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


@pytest.mark.slow
@pytest.mark.parametrize("name", MINED_LOSSES)
def test_compiled_is_dense_with_one_compilation(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fourteen rows in blocks of five: the last one is uneven. The aot_eager backend traces and differentiates as inductor does."""
    embeddings, labels = batch("unbalanced", 7)
    expected = value_and_gradient(make(name, block=None), embeddings, labels)
    objective = make(name)
    passes = 3 if isinstance(objective.loss, WithStatistic) else 2 if isinstance(objective.loss, PooledLoss) else 1
    with every_objective_uses(Compiled(5, backend="aot_eager"), monkeypatch):
        before = graphs_compiled()
        assert_same(value_and_gradient(objective, embeddings, labels), expected, **TIGHT)
        assert graphs_compiled() - before == passes
        value_and_gradient(objective, embeddings.flip(0), labels)
        assert graphs_compiled() - before == passes


@pytest.mark.slow
@pytest.mark.parametrize("miner", likewise.MINERS)
def test_compiled_miners_are_dense(miner: str, positives: str, monkeypatch: pytest.MonkeyPatch) -> None:
    embeddings, labels = batch("unbalanced", 7)
    torch.manual_seed(1)
    expected = value_and_gradient(make("margin", mining=miner, block=None), embeddings, labels)
    torch.manual_seed(1)
    with every_objective_uses(Compiled(5, backend="aot_eager"), monkeypatch):
        assert_same(value_and_gradient(make("margin", mining=miner), embeddings, labels), expected, **TIGHT)


@pytest.mark.slow
def test_more_batch_sizes_than_torch_compiles_of_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch refuses a ninth compilation of one code object; a ninth batch size must not fail."""
    embeddings, labels = large_batch(40, dim=4, dtype=torch.float64)
    for items in range(8, 17):
        expected = value_and_gradient(make("contrastive", block=None), embeddings[:items], labels[:items])
        with every_objective_uses(Compiled(4, backend="aot_eager"), monkeypatch):
            assert_same(value_and_gradient(make("contrastive"), embeddings[:items], labels[:items]), expected, **TIGHT)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # inductor's own, as it is imported
def test_compile_true_fuses_with_inductor() -> None:
    """The real thing on this processor, in uneven blocks, float32: as far from float64 as dense float32 is, give or take."""
    embeddings, labels = large_batch(70)
    options = {"mining": "vthm", "dtype": torch.float32}
    found = value_and_gradient(make("raw", **options, block=32, compile=True), embeddings, labels)
    expected = value_and_gradient(make("raw", **options, block=None), embeddings, labels)
    eps = torch.finfo(torch.float32).eps
    assert expected.gradients["embeddings"].abs().max() > 1e-4
    assert_same(found, expected, rtol=1e3 * eps, atol=100 * eps * expected.gradients["embeddings"].abs().max().item())
