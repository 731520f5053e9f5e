"""Hard classes: near classes share batches, and what is learnt is saved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from likewise.samplers.group import Group
from likewise.samplers.hard_classes import HardClasses

LABELS = np.repeat(np.arange(40), 6)
FAMILY = np.arange(40) % 8  # classes of one family of five lie close


def embeddings_of(labels: Any, *, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(8, 16, generator=torch.Generator().manual_seed(1))
    return centres[FAMILY[labels]] + 0.2 * torch.randn(len(labels), 16, generator=generator)


def make(**settings: Any) -> HardClasses:
    return HardClasses(LABELS, **{"num_classes": 5, "num_images": 3, "num_candidates": 40, "seed": 2, **settings})


def families(batch: list[int]) -> int:
    return len({int(FAMILY[LABELS[item]]) for item in batch})


def test_a_batch_holds_near_classes() -> None:
    sampler = make()
    sampler.update(embeddings_of(LABELS), torch.from_numpy(LABELS))
    batches = list(sampler)
    assert len(batches) == 16
    assert [families(batch) for batch in batches] == [1] * 16  # eight families of five in each of two rounds


def test_group_batches_until_the_means_are_known() -> None:
    sampler, group = make(), Group(LABELS, num_classes=5, num_images=3, seed=2)
    assert list(sampler) == list(group)
    some = LABELS[LABELS < 35]  # 35 of 40 classes, less than 90 %
    sampler.update(embeddings_of(some), torch.from_numpy(some))
    assert list(sampler) == list(group)
    more = LABELS[LABELS < 36]
    sampler.update(embeddings_of(more), torch.from_numpy(more))
    assert list(sampler) != list(group)


def test_few_candidates_are_less_hard() -> None:
    few = make(num_candidates=6)
    few.update(embeddings_of(LABELS), torch.from_numpy(LABELS))
    assert 2 < np.mean([families(batch) for batch in few]) < 5


def test_greedy_choice_is_the_nearest_to_any_chosen() -> None:
    """Against a slow loop, also where a batch begins with the rest of one round and ends in the next."""
    embeddings = torch.randn(40, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    sampler = make(num_classes=6, num_images=2, num_batches=20)
    sampler.update(embeddings, torch.arange(40))
    cosine = torch.nn.functional.cosine_similarity(embeddings[:, None], embeddings[None], dim=2)
    left = set(range(40))
    for batch in sampler:
        names = LABELS[batch[::2]].tolist()
        for place, name in enumerate(names):
            chosen = names[:place]
            if not left - set(chosen):
                left |= set(range(40)) - left
            if chosen:
                assert name == max(left - set(chosen), key=lambda other: float(cosine[other][chosen].max()))
            left.remove(name)


def test_the_means_run() -> None:
    sampler = make(momentum=0.25)
    sampler.update(torch.tensor([[4.0], [8.0], [1.0]]), torch.tensor([3, 3, 5]))
    sampler.update(torch.tensor([[2.0]]), torch.tensor([3]))
    sampler.update(torch.tensor([[2.0]]), torch.tensor([77]))  # a class of no batch
    running = sampler.state_dict(epoch=0, step=0)["running"].numpy()
    assert running[3, 0] == 0.25 * 6 + 0.75 * 2
    assert running[5, 0] == 1
    assert np.isnan(running).sum() == 38


def test_a_run_that_learns_resumes_exactly() -> None:
    """Training step by step, stopped anywhere: the state brings back the means of the epoch's start and those learnt since."""

    def steps(sampler: HardClasses, epoch: int, count: int) -> list[list[int]]:
        sampler.set_epoch(epoch)
        done = []
        for batch in sampler:
            if len(done) == count:
                break
            done.append(batch)
            sampler.update(embeddings_of(LABELS[batch], seed=sum(batch)), torch.from_numpy(LABELS[batch]))
        return done

    whole = make(share_known=0.5)
    epochs = [steps(whole, epoch, 99) for epoch in range(3)]
    assert epochs[1] != list(Group(LABELS, num_classes=5, num_images=3, seed=2, num_batches=16))
    for stop in (0, 1, 7, 16):
        broken = make(share_known=0.5)
        steps(broken, 0, 99)
        assert steps(broken, 1, stop) == epochs[1][:stop]
        resumed = make(share_known=0.5)
        resumed.load_state_dict(broken.state_dict(epoch=1, step=stop))
        assert steps(resumed, 1, 99) == epochs[1][stop:]
        assert steps(resumed, 2, 99) == epochs[2]


def test_a_state_is_a_copy() -> None:
    sampler = make()
    sampler.update(embeddings_of(LABELS), torch.from_numpy(LABELS))
    state = sampler.state_dict(epoch=0, step=0)
    before = state["running"].clone()
    sampler.update(embeddings_of(LABELS, seed=5), torch.from_numpy(LABELS))
    assert torch.equal(state["running"], before)


def test_what_cannot_be_is_refused_in_words() -> None:
    for settings, words in (
        ({"num_candidates": 3}, "num_candidates=3: expected a whole number of at least 5"),
        ({"momentum": 1.0}, "momentum=1.0"),
        ({"share_known": 0.0}, "share_known=0.0"),
    ):
        with pytest.raises(ValueError, match=words):
            make(**settings)
    sampler = make()
    with pytest.raises(ValueError, match=r"expected \(items, dimensions\)"):
        sampler.update(torch.zeros(3, 2), torch.zeros(4, dtype=torch.int64))
    sampler.update(torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64))
    with pytest.raises(ValueError, match="embeddings of 5 dimensions after some of 2"):
        sampler.update(torch.zeros(3, 5), torch.zeros(3, dtype=torch.int64))
    sampler.start_at(4, 2)
    with pytest.raises(ValueError, match="epoch 4 cannot begin at step 2"):
        next(iter(sampler))
