"""What holds for every sampler of the registry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from likewise.data.batch_check import check_batch
from likewise.samplers import SAMPLERS, BatchSampler
from likewise.samplers.sampler import share

SIZES = (12, 7, 9, 10, 8, 6, 11, 13, 6, 9, 7, 12)  # images of each class; labels are not 0, 1, 2, ... and lie in no order
LABELS = np.random.default_rng(7).permutation(np.repeat(np.arange(12) * 5 + 3, SIZES))

SETTINGS: dict[str, list[dict[str, Any]]] = {
    "group": [
        {"num_classes": 4, "num_images": 3},
        {"num_classes": 3, "num_images": 7},
        {"num_classes": 5, "num_images": 4, "balance": "image"},
        {"num_classes": 3, "num_images": 8, "short": "repeat"},
        {"num_classes": 2, "num_images": 10, "short": "repeat", "balance": "image"},
    ],
    "n_pair": [{"num_classes": 6}, {"num_classes": 5, "balance": "image"}],
    "episode": [
        {"num_classes": 4, "num_support": 2, "num_query": 3},
        {"num_classes": 3, "num_support": 5, "num_query": 3, "short": "fill"},
    ],
    "shuffled": [{"batch_size": 16}, {"batch_size": 17, "drop_last": False}],
    "hard_classes": [{"num_classes": 4, "num_images": 3}, {"num_classes": 4, "num_candidates": 5}],
}
CASES = [pytest.param(name, settings, id=f"{name}-{i}") for name, several in SETTINGS.items() for i, settings in enumerate(several)]
every = pytest.mark.parametrize(("name", "settings"), CASES)


def make(name: str, settings: dict[str, Any], **more: Any) -> BatchSampler:
    """The sampler; one that learns has already learnt."""
    build: Callable[..., BatchSampler] = SAMPLERS[name]
    sampler = build(LABELS, **{"seed": 3, **settings, **more})
    if name == "hard_classes":
        teach(sampler, 0)
    return sampler


def teach(sampler: Any, seed: int) -> None:
    sampler.update(torch.randn(len(LABELS), 8, generator=torch.Generator().manual_seed(seed)), torch.from_numpy(LABELS))


def epoch_of(sampler: BatchSampler, epoch: int) -> list[list[int]]:
    sampler.set_epoch(epoch)
    return list(sampler)


def test_every_sampler_is_tested() -> None:
    assert set(SETTINGS) == set(SAMPLERS)


@every
def test_batches_are_full_and_right(name: str, settings: dict[str, Any]) -> None:
    sampler = make(name, settings)
    batches = list(sampler)
    assert len(batches) == len(sampler) > 1
    sizes = [len(batch) for batch in batches]
    if settings.get("drop_last", True):
        assert sizes == [sampler.batch_size] * len(batches)
    else:
        assert sizes == [sampler.batch_size] * (len(batches) - 1) + [len(LABELS) % sampler.batch_size]
    for batch in batches:
        assert all(type(item) is int for item in batch)
        check_batch(batch, LABELS[batch], batch, LABELS)
        if settings.get("short") != "repeat":
            assert len(set(batch)) == len(batch)


@every
def test_seed_and_epoch_decide_alone(name: str, settings: dict[str, Any]) -> None:
    sampler, same = make(name, settings), make(name, settings)
    epochs = [list(sampler) for _ in range(3)]
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]  # a pass is the next epoch even if nobody says so
    assert [epoch_of(same, epoch) for epoch in (2, 0, 1)] == [epochs[2], epochs[0], epochs[1]]
    assert list(make(name, settings, seed=4)) != epochs[0]
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    assert list(make(name, settings)) == epochs[0]


@every
def test_goes_on_exactly_from_every_step(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    whole = make(name, settings)
    first, second, third = (epoch_of(whole, epoch) for epoch in range(3))
    running = make(name, settings)
    epoch_of(running, 0)
    running.set_epoch(1)
    passing = iter(running)
    for step in range(len(running)):
        resumed = make(name, settings)
        torch.save(running.state_dict(epoch=1, step=step), tmp_path / "state.pt")
        resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
        resumed.set_epoch(1)  # as a loop over epochs does: the step stays
        assert list(resumed) == second[step:]
        assert list(resumed) == third
        assert next(passing) == second[step]
    resumed.load_state_dict(running.state_dict(epoch=1, step=len(running)))
    assert list(resumed) == []
    assert list(resumed) == third
    resumed.start_at(0, 0)
    assert list(resumed) == first


@every
@pytest.mark.parametrize("num_ranks", [2, 3, 5, 8])
def test_ranks_share_one_batch(name: str, settings: dict[str, Any], num_ranks: int) -> None:
    whole = list(make(name, settings))
    shares = [list(make(name, settings, rank=rank, num_ranks=num_ranks)) for rank in range(num_ranks)]
    assert all(len(share) == len(whole) for share in shares)
    for batch, *parts in zip(whole, *shares, strict=True):
        assert [item for part in parts for item in part] == batch  # the union, in order, and hence disjoint
        assert all(parts)
        classes = [set(LABELS[part].tolist()) for part in parts]
        count = len(set(LABELS[batch].tolist()))
        if name != "shuffled" and sum(map(len, classes)) != count:  # a class was cut: only where whole classes would not do
            assert max(map(len, parts)) - min(map(len, parts)) <= 1
            assert settings.get("short") in ("fill", "repeat") or settings.get("balance") == "image" or count < num_ranks
        if name == "shuffled":
            assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("num_runs", range(1, 14))
@pytest.mark.parametrize("num_ranks", range(1, 8))
def test_shares_of_equal_classes_differ_by_one_class(num_runs: int, num_ranks: int) -> None:
    runs = [[3 * run + i for i in range(3)] for run in range(num_runs)]
    if 3 * num_runs < num_ranks:
        return
    sizes = [len(share(runs, rank, num_ranks)) for rank in range(num_ranks)]
    assert sum(sizes) == 3 * num_runs
    if num_runs >= num_ranks:
        assert all(size % 3 == 0 for size in sizes)
        assert max(sizes) - min(sizes) <= 3
    else:
        assert max(sizes) - min(sizes) <= 1


@every
def test_visits_are_even(name: str, settings: dict[str, Any]) -> None:
    """In each epoch: images of one class differ by at most one visit; classes too, or all images, as the sampler promises."""
    sampler = make(name, settings)
    for epoch in range(4):
        batches = epoch_of(sampler, epoch)
        images = Counter(item for batch in batches for item in batch)
        for label in np.unique(LABELS):
            counts = [images[item] for item in np.flatnonzero(label == LABELS)]
            assert max(counts) - min(counts) <= 1
        if name == "shuffled" or (settings.get("balance") == "image" and settings.get("short") != "repeat"):
            again = images.total() - len(images)
            odd_classes = sum(size % 2 for size in SIZES) if name == "n_pair" else 0  # an odd class of pairs repeats one image
            assert again <= odd_classes
            assert len(images) >= len(LABELS) - sampler.batch_size
        elif settings.get("balance") == "image":
            assert max(images.values()) <= 2
            assert len(images) >= len(LABELS) - sampler.batch_size
        else:
            visits = Counter(label for batch in batches for label in set(LABELS[batch].tolist()))
            assert max(visits.values()) - min(visits[label] for label in np.unique(LABELS).tolist()) <= 1


class Echo(Dataset[int]):
    def __len__(self) -> int:
        return len(LABELS)

    def __getitem__(self, index: int) -> int:
        return index


@pytest.mark.slow
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("name", SAMPLERS)
def test_data_loader_with_workers_gives_the_same(name: str, persistent: bool) -> None:
    settings = SETTINGS[name][0]
    reference = make(name, settings)
    sampler = make(name, settings)
    loader = DataLoader(Echo(), batch_sampler=sampler, num_workers=2, persistent_workers=persistent)
    assert len(loader) == len(sampler)
    for epoch in range(2 + persistent):
        drawn = []
        for step, batch in enumerate(loader):
            drawn.append(batch.tolist())
            if name == "hard_classes":
                teach(sampler, 100 + step)  # while the workers are ahead
        assert drawn == epoch_of(reference, epoch)
        if name == "hard_classes":
            for step in range(len(drawn)):
                teach(reference, 100 + step)


@every
def test_the_state_of_another_sampler_is_refused(name: str, settings: dict[str, Any]) -> None:
    state = make(name, settings).state_dict(epoch=0, step=1)
    with pytest.raises(ValueError, match="another sampler"):
        make(name, settings, seed=99).load_state_dict(state)
    relabelled: Callable[..., BatchSampler] = SAMPLERS[name]
    with pytest.raises(ValueError, match="another sampler"):
        relabelled(LABELS[::-1], seed=3, **settings).load_state_dict(state)
    make(name, settings, rank=1, num_ranks=2).load_state_dict(state)  # the ranks may change


@every
def test_labels_of_any_kind(name: str, settings: dict[str, Any]) -> None:
    build: Callable[..., BatchSampler] = SAMPLERS[name]
    wanted = list(build(LABELS, seed=3, **settings))
    for labels in (torch.from_numpy(LABELS), LABELS.astype(np.int32), LABELS.tolist()):
        assert list(build(labels, seed=3, **settings)) == wanted
    with pytest.raises(ValueError, match="expected whole numbers"):
        build(LABELS.astype(np.float32), **settings)
    with pytest.raises(ValueError, match="shape"):
        build(LABELS[:, None], **settings)
    with pytest.raises(ValueError, match="empty"):
        build(LABELS[:0], **settings)


@every
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"seed": -1}, "seed=-1"),
        ({"rank": 2, "num_ranks": 2}, "rank=2 of num_ranks=2: expected a rank from 0 to 1"),
        ({"num_ranks": 1000}, "num_ranks=1000"),
    ],
)
def test_what_cannot_be_is_refused(name: str, settings: dict[str, Any], wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make(name, settings, **wrong)
    sampler = make(name, settings)
    with pytest.raises(ValueError, match="step="):
        sampler.start_at(0, len(sampler) + 1)
    with pytest.raises(ValueError, match="epoch="):
        sampler.set_epoch(-1)
