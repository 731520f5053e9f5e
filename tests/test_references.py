"""What anchors are compared with: another set, prototypes, several proxies for a class, a memory of earlier batches."""

from __future__ import annotations

import inspect

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import likewise
from likewise.references import MemoryBank, support_items

from .allocations import LargestTensor
from .cases import DIM, MINED_LOSSES, PROXY_LOSSES, ROW_LOSSES, during, make, outcome
from .losses import oracles
from .losses.oracles import batch, distance, sides, unit

TIGHT = {"rtol": 1e-12, "atol": 1e-12}
# losses whose rows are functions of (positives, negatives) alone, so that the oracle's row function serves any references
AGAINST_OTHERS = sorted(set(ROW_LOSSES) - {"n_pair", "lifted", "angular"})


def row_oracle(name: str) -> object:
    """The oracle's function of one row."""
    return inspect.unwrap(oracles.ORACLES[name])


def loop_against(name: str, embeddings: Tensor, labels: Tensor, references: Tensor, reference_labels: Tensor, **settings: object) -> Tensor:
    """Each anchor in front of the references as a batch of its own: the mean of the oracle's row function."""
    values = []
    for anchor, label in zip(embeddings, labels, strict=True):
        x = [unit(anchor), *(unit(reference) for reference in references)]
        classes = [int(label), *reference_labels.tolist()]
        positives, negatives = sides(classes, 0)
        if positives and negatives:
            row = oracles.Row(x, classes, 0, positives, negatives, lambda i, classes=classes: sides(classes, i))
            values.append(row_oracle(name)(row, **settings))
    return sum(values) / len(values)


def boundary_of(name: str) -> dict[str, float]:
    """Margin's boundary is a float32 parameter, so 1.2 as that type holds it."""
    return {"boundary": torch.tensor(1.2, dtype=torch.float32).item()} if name == "margin" else {}


def another_set(num: int = 9, seed: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(num, DIM, generator=generator, dtype=torch.float64), torch.randint(5, (num,), generator=generator)


# Another labelled set


@pytest.mark.parametrize("name", AGAINST_OTHERS)
def test_another_set_equals_the_loop(name: str, positives: str) -> None:
    """Value and gradient by anchors and references; an anchor whose class is not among the references does not count."""
    embeddings, labels = batch("unbalanced", 0)
    references, reference_labels = another_set()
    assert not set(labels.tolist()) <= set(reference_labels.tolist())

    def found_by(loss: object) -> list[Tensor]:
        x, r = embeddings.clone().requires_grad_(), references.clone().requires_grad_()
        value = loss(x, r)
        return [value.detach(), *torch.autograd.grad(value, [x, r], allow_unused=True, materialize_grads=True)]

    settings = boundary_of(name)
    expected = found_by(lambda x, r: loop_against(name, x, labels, r, reference_labels, **settings))
    for block in (None, 3):
        objective = make(name, block=block)
        found = found_by(lambda x, r, objective=objective: objective(x, labels, references=r, reference_labels=reference_labels))
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
    assert found[2].any() != objective.traits.references_constant


def test_another_set_for_losses_of_reference_pairs() -> None:
    """Lifted: the positive's own negatives are among the references. Angular: so are the positive's products."""
    embeddings, labels = batch("unbalanced", 0)
    references, reference_labels = another_set()
    x, r = F.normalize(embeddings), F.normalize(references)
    lifted, angular = [], []
    for a, label in zip(x, labels, strict=True):
        own, others = r[reference_labels == label], r[reference_labels != label]
        if not len(own):
            continue
        terms = []
        for p in own:
            around = [1 - distance(a, n) for n in others] + [1 - distance(p, n) for n in others]
            terms.append(torch.relu(torch.logsumexp(torch.stack(around), 0) + distance(a, p)) ** 2 / 2)
        lifted.append(torch.stack(terms).mean())
        exponents = torch.stack([4 * (others @ (a + p)) - 4 * a @ p for p in own])
        angular.append(torch.log1p(exponents.exp().sum(1)).mean())
    for name, values in (("lifted", lifted), ("angular", angular)):
        for block in (None, 4):
            found = make(name, block=block)(embeddings, labels, references=references, reference_labels=reference_labels)
            torch.testing.assert_close(found, torch.stack(values).mean(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", AGAINST_OTHERS)
def test_equal_vectors_in_another_set_are_pairs(name: str) -> None:
    """An item is told from itself by index: the batch as its own references is a different set of equal vectors."""
    embeddings, labels = batch("unbalanced", 0)
    found = make(name)(embeddings, labels, references=embeddings, reference_labels=labels)
    settings = boundary_of(name)
    expected = loop_against(name, embeddings, labels, embeddings, labels, **settings)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


# Prototypes


@pytest.mark.parametrize("normalize", [False, True])
def test_prototypes_of_a_given_support(normalize: bool, positives: str) -> None:
    embeddings, labels = batch("unbalanced", 0)
    support, support_labels = another_set()
    x, s = (F.normalize(v) if normalize else v for v in (embeddings, support))
    classes = support_labels.unique()
    means = torch.stack([s[support_labels == c].mean(0) for c in classes])
    known = torch.isin(labels, classes)
    target = torch.searchsorted(classes, labels[known])
    expected = F.cross_entropy(-torch.cdist(x[known], means).square(), target)
    for block in (None, 3):
        objective = likewise.objective("prototypical", normalize=normalize, block=block)
        found = objective(embeddings, labels, references=support, reference_labels=support_labels)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_which_items_are_support() -> None:
    labels = torch.tensor([2, 0, 0, 2, 1, 0, 2, 2, 0, 2])
    assert support_items(labels, None).tolist() == [True, True, True, True, False, False, False, False, False, False]
    assert support_items(labels, 1).tolist() == [True, True, False, False, True, False, False, False, False, False]
    assert support_items(labels, 3).tolist() == [True, True, True, True, True, True, True, False, False, False]


# Proxies


def test_proxies_are_laid_out_by_class() -> None:
    objective = likewise.objective("soft_triple", num_classes=4, dim=5, num_centers=3)
    assert objective.proxies.vectors.shape == (12, 5)
    assert objective.proxies.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert list(objective.state_dict()) == ["proxies.vectors"]


@pytest.mark.parametrize("name", PROXY_LOSSES)
def test_proxies_of_absent_classes_are_pushed_away(name: str) -> None:
    """Ten classes, of which the batch has six: every proxy moves, those without an item too."""
    embeddings, labels = batch("unbalanced", 0)
    # gentle settings, or the softmax of a far proxy underflows
    settings = {"arcface": {"scale": 4.0}, "cosface": {"scale": 4.0}, "proxy_triplet": {"margin": 4.0}}.get(name, {})
    objective = likewise.objective(name, num_classes=10, dim=DIM, **settings).double()
    gradient = outcome(objective, objective, embeddings, labels).gradients["proxies.vectors"]
    assert (gradient.abs().amax(-1) > 0).all()


# Memory


def memory_of(name: str = "raw", *, size: int = 20, **options: object) -> likewise.Objective:
    return make(name, memory=size, **options)


def by_hand(
    name: str, embeddings: Tensor, labels: Tensor, queue: Tensor, queue_labels: Tensor, items: list[int], queued: list[int]
) -> Tensor:
    """The oracle's rows of the batch against itself and the queue; equal items are no pair."""
    x = [unit(v) for v in embeddings] + [v.detach() for v in queue]
    classes = labels.tolist() + queue_labels.tolist()
    numbers = items + queued
    values = []
    for i in range(len(labels)):
        others = [j for j in range(len(x)) if numbers[j] != numbers[i] and j != i]
        positives = [j for j in others if classes[j] == classes[i]]
        negatives = [j for j in range(len(x)) if classes[j] != classes[i]]
        if positives and negatives:
            row = oracles.Row(x, classes, i, positives, negatives, lambda i: ([], []))
            values.append(row_oracle(name)(row, **boundary_of(name)))
    return sum(values) / len(values) if values else embeddings.sum() * 0


def stream(num: int, size: int = 7) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Batches of two epochs over 21 items: embeddings that drift, labels and item numbers."""
    generator = torch.Generator().manual_seed(3)
    labels = torch.randint(4, (21,), generator=generator)
    centers = torch.randn(21, DIM, generator=generator, dtype=torch.float64)
    order = torch.cat([torch.randperm(21, generator=generator) for _ in range(2)])
    batches = []
    for k in range(num):
        items = order[k * size : (k + 1) * size]
        noise = torch.randn(size, DIM, generator=generator, dtype=torch.float64)
        batches.append((centers[items] + 0.3 * noise, labels[items], items))
    return batches


@pytest.mark.slow
@pytest.mark.parametrize("with_items", [False, True])
@pytest.mark.parametrize("name", AGAINST_OTHERS)
def test_memory_equals_the_loop(name: str, with_items: bool, positives: str) -> None:
    """Six batches of seven through a queue of 16, which wraps around twice: value and gradient at every step."""
    objective = memory_of(name, size=16, block=None)
    blocked = memory_of(name, size=16, block=3)
    queue: list[tuple[Tensor, int, int]] = []
    for embeddings, labels, items in stream(6):
        numbers = items.tolist() if with_items else list(range(len(labels)))
        queued = [item if with_items else -1 for _, _, item in queue]
        x = embeddings.clone().requires_grad_()
        vectors = torch.stack([v for v, _, _ in queue]) if queue else torch.zeros(0, DIM, dtype=torch.float64)
        expected = by_hand(name, x, labels, vectors, torch.tensor([c for _, c, _ in queue], dtype=torch.long), numbers, queued)
        (expected_gradient,) = torch.autograd.grad(expected, x)
        for one in (objective, blocked):
            found = outcome(one, one, embeddings, labels, items=items if with_items else None)
            torch.testing.assert_close(found.value, expected.detach(), rtol=1e-9, atol=1e-9)
            torch.testing.assert_close(found.gradients["embeddings"], expected_gradient, rtol=1e-9, atol=1e-9)
        queue += [(unit(v), int(c), int(i)) for v, c, i in zip(embeddings, labels, items, strict=True)]
        queue = queue[-16:]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MINED_LOSSES if likewise.LOSSES[name].meets == "batch"])
def test_memory_dense_is_blocked(name: str) -> None:
    """Miners see batch and queue in one row, so there are no two index spaces to mix up."""
    for miner in likewise.MINERS:
        objectives = [memory_of(name, mining=miner, size=10, block=block) for block in (None, 4)]
        for step, (embeddings, labels, items) in enumerate(stream(4)):
            outcomes = []
            for objective in objectives:
                torch.manual_seed(step)
                outcomes.append(outcome(objective, objective, embeddings, labels, items=items))
            with during(miner, f"step {step}"):
                torch.testing.assert_close(outcomes[0].value, outcomes[1].value, **TIGHT)
                torch.testing.assert_close(outcomes[0].gradients["embeddings"], outcomes[1].gradients["embeddings"], **TIGHT)


def test_an_item_never_meets_its_own_earlier_self() -> None:
    """One class, every item shown twice: without numbers the second epoch would find each item in the queue."""
    (embeddings, labels, items), *_ = stream(1)
    labels[:] = torch.arange(7)  # nothing else is positive
    numbered, unnumbered = memory_of(size=20), memory_of(size=20)
    for _ in range(2):
        with_numbers = numbered(embeddings, labels, items=items)
        without = unnumbered(embeddings, labels)
    assert with_numbers == 0  # no anchor has a positive
    assert without > 0


def test_a_batch_does_not_meet_itself_in_the_queue() -> None:
    """The first batch has an empty queue: the loss is that of the batch alone."""
    (embeddings, labels, _), *_ = stream(1)
    for name in ROW_LOSSES:
        torch.testing.assert_close(memory_of(name)(embeddings, labels), make(name)(embeddings, labels), **TIGHT)


def test_warm_up_waits_with_the_queue() -> None:
    plain, warming, eager = make("raw"), memory_of(memory_warm_up=2), memory_of()
    for step, (embeddings, labels, _) in enumerate(stream(4)):
        alone, waited, met = (objective(embeddings, labels) for objective in (plain, warming, eager))
        torch.testing.assert_close(waited, alone if step < 2 else met, **TIGHT)
        assert torch.isclose(met, alone, **TIGHT) == (step == 0)


def test_the_queue_wraps_around() -> None:
    bank = MemoryBank(5, 2)
    for first in (0, 3, 6):
        numbers = torch.arange(first, first + 3)
        bank.enqueue(numbers[:, None].expand(3, 2).float(), numbers + 100, numbers)
    assert sorted(bank.items.tolist()) == [4, 5, 6, 7, 8]
    assert torch.equal(bank.labels, bank.items + 100)
    assert torch.equal(bank.vectors[:, 0], bank.items.float())


@pytest.mark.parametrize("received", [0, 3])
def test_a_batch_larger_than_the_queue_leaves_its_end(received: int) -> None:
    bank = MemoryBank(4, 1)
    bank.enqueue(torch.zeros(received, 1), torch.zeros(received, dtype=torch.long), torch.full((received,), 50))
    numbers = torch.arange(11)
    bank.enqueue(numbers[:, None].float(), numbers, numbers)
    assert sorted(bank.items.tolist()) == [7, 8, 9, 10]
    bank.enqueue(torch.ones(1, 1), torch.tensor([1]), torch.tensor([11]))
    assert sorted(bank.items.tolist()) == [8, 9, 10, 11]


def test_memory_is_saved_and_restored() -> None:
    batches = stream(6)
    objective = memory_of(size=16, memory_warm_up=1)
    for embeddings, labels, items in batches[:4]:
        objective(embeddings, labels, items=items)
    restored = memory_of(size=16, memory_warm_up=1)
    restored.load_state_dict({name: tensor.clone() for name, tensor in objective.state_dict().items()})
    for embeddings, labels, items in batches[4:]:
        torch.testing.assert_close(restored(embeddings, labels, items=items), objective(embeddings, labels, items=items), rtol=0, atol=0)
    assert all(torch.equal(restored.state_dict()[name], tensor) for name, tensor in objective.state_dict().items())


def test_evaluation_reads_the_queue_but_does_not_fill_it() -> None:
    batches = stream(2)
    objective = memory_of()
    objective(*batches[0][:2])
    before = {name: tensor.clone() for name, tensor in objective.state_dict().items()}
    objective.eval()
    first, again = (objective(*batches[1][:2]) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, make("raw")(*batches[1][:2]))
    assert all(torch.equal(before[name], tensor) for name, tensor in objective.state_dict().items())


def test_the_queue_holds_no_gradient() -> None:
    """Nothing of an earlier batch's graph is kept, and backward of one batch after the next was queued is unharmed."""
    (one, one_labels, _), (two, two_labels, _) = stream(2)
    objective = memory_of()
    first, second = one.clone().requires_grad_(), two.clone().requires_grad_()
    early = objective(first, one_labels)
    late = objective(second, two_labels)
    assert not any(buffer.requires_grad for buffer in objective.buffers())
    assert not list(objective.parameters())
    (expected,) = torch.autograd.grad(make("raw")(first, one_labels), first)
    assert torch.autograd.grad(late, first, allow_unused=True, retain_graph=True)[0] is None
    torch.testing.assert_close(torch.autograd.grad(early, first)[0], expected, **TIGHT)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_the_queue_keeps_its_type(dtype: torch.dtype) -> None:
    objective = likewise.objective("raw", memory=20, dim=DIM)
    for embeddings, labels, items in stream(3):
        x = embeddings.to(dtype).requires_grad_()
        objective(x, labels, items=items.to(torch.int32)).backward()
        assert x.grad.isfinite().all()
    assert objective.memory.vectors.dtype == torch.float32


def test_slots_that_wait_to_be_filled_cost_nothing() -> None:
    """An empty slot is of no class: a large, nearly empty queue must not look like thousands of positives of class 0."""
    (embeddings, labels, _), *_ = stream(1)
    assert (labels == 0).any()
    objective = memory_of("smooth_ap", size=3000, block=1)
    with LargestTensor() as largest:
        objective(embeddings, labels)
    assert largest.elements <= 3007 * DIM, largest.made_by
