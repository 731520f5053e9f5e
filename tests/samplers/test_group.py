"""Group batches, n-pairs and episodes: their shape, small classes, singletons."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

import likewise
from likewise.samplers import group
from likewise.samplers.episode import Episode
from likewise.samplers.group import Group, PutOff
from likewise.samplers.two_per_class import NPair


def labels_of(*sizes: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.repeat(np.arange(len(sizes)), sizes)


def runs(labels: np.ndarray[Any, Any]) -> list[tuple[int, int]]:
    """Class and length of each run of one class in a batch."""
    edges = [0, *(np.flatnonzero(np.diff(labels)) + 1).tolist(), len(labels)]
    return [(int(labels[first]), last - first) for first, last in pairwise(edges)]


def test_first_batches_stay_what_they_are() -> None:
    """The same on every machine and with every version of numpy: a result can be run again years later."""
    sampler = Group(labels_of(4, 4, 4, 4), num_classes=2, num_images=2, seed=1)
    assert list(sampler) == [[12, 14, 11, 8], [0, 1, 7, 6], [15, 13, 10, 9], [5, 4, 3, 2]]


def test_a_batch_is_runs_of_classes() -> None:
    labels = labels_of(*[20] * 9)
    for batch in Group(labels, num_classes=4, num_images=5):
        found = runs(labels[batch])
        assert [length for _, length in found] == [5] * 4
        assert len({name for name, _ in found}) == 4
    for batch in NPair(labels, num_classes=7):
        found = runs(labels[batch])
        assert [length for _, length in found] == [2] * 7
        assert len({name for name, _ in found}) == 7


def test_a_short_class_gives_what_it_has_and_another_is_added() -> None:
    labels = labels_of(*[2] * 30, *[9] * 10)
    sampler = Group(labels, num_classes=6, num_images=5)
    cut = 0
    for epoch in range(5):
        sampler.set_epoch(epoch)
        for batch in sampler:
            assert len(batch) == 30
            found = runs(labels[batch])
            assert len({name for name, _ in found}) == len(found) >= 6
            for name, length in found[:-1]:
                assert length == (2 if name < 30 else 5)
            cut += found[-1][1] < (2 if found[-1][0] < 30 else 5)
    assert cut  # the case is there


def test_a_short_class_repeats_its_images() -> None:
    labels = labels_of(*[2] * 30, *[9] * 10)
    for batch in Group(labels, num_classes=6, num_images=5, short="repeat"):
        found = runs(labels[batch])
        assert [length for _, length in found] == [5] * 6
        for start in range(0, 30, 5):
            times = Counter(batch[start : start + 5])
            assert sorted(times.values()) == ([2, 3] if labels[batch[start]] < 30 else [1] * 5)


def test_classes_of_4_and_60() -> None:
    """balance='class': classes equally often, so small classes' images oftener. balance='image': all images once an epoch."""
    labels = labels_of(*[4] * 20, *[60] * 20)
    by_class = Group(labels, num_classes=8, num_images=4)
    for epoch in range(3):
        by_class.set_epoch(epoch)
        batches = list(by_class)
        assert len(batches) == len(labels) // 32
        visits = Counter(name for batch in batches for name, _ in runs(labels[batch]))
        assert set(visits.values()) == {8}  # 40 batches x 8 classes / 40 classes
        images = Counter(item for batch in batches for item in batch)
        assert all(images[item] == 8 for item in range(80))
        assert all(images[item] <= 1 for item in range(80, len(labels)))
    by_image = Group(labels, num_classes=8, num_images=4, balance="image")
    for epoch in range(3):
        by_image.set_epoch(epoch)
        batches = list(by_image)
        images = Counter(item for batch in batches for item in batch)
        assert set(images.values()) == {1}
        assert len(images) == len(labels)
        visits = Counter(name for batch in batches for name, _ in runs(labels[batch]))
        assert [visits[name] for name in range(40)] == [1] * 20 + [15] * 20


def test_image_balance_gives_the_rest_of_a_cut_class_later() -> None:
    labels = labels_of(*[5] * 40)
    sampler = Group(labels, num_classes=4, num_images=3, balance="image")  # 5 = 2 + 3, batches of 12
    images = Counter(item for batch in sampler for item in batch)
    assert len(sampler) == 16
    assert set(images.values()) == {1}
    assert len(images) == 16 * 12


def test_image_balance_never_gives_an_image_without_a_positive_by_choice() -> None:
    labels = labels_of(*[4] * 10, *[7] * 10, *[11] * 10)
    for num_images in (2, 3, 5):
        for batch in Group(labels, num_classes=5, num_images=num_images, balance="image"):
            lengths = [length for _, length in runs(labels[batch])]
            assert sum(length < 2 for length in lengths) <= 2  # only what the end of a batch has cut


def test_a_class_of_most_images_is_in_every_batch() -> None:
    labels = labels_of(2000, *[10] * 12)
    sampler = Group(labels, num_classes=4, num_images=5, balance="image")
    batches = list(sampler)
    assert len(batches) == 2120 // 20
    assert all(len(batch) == 20 and 0 in {name for name, _ in runs(labels[batch])} for batch in batches)
    images = Counter(item for batch in batches for item in batch)
    others = [images[item] for item in range(2000, 2120)]
    assert max(others) - min(others) <= 2


def test_singletons_are_left_out_and_counted() -> None:
    labels = labels_of(1, 5, 1, 5, 5, 1)
    for sampler in (Group(labels, num_classes=3, num_images=2), NPair(labels, num_classes=3)):
        assert (sampler.num_left_out, sampler.num_classes_left_out) == (3, 3)
        assert {int(labels[item]) for batch in sampler for item in batch} == {1, 3, 4}
    kept = Group(labels, num_classes=3, num_images=2, singletons="keep", num_batches=6)
    assert (kept.num_left_out, kept.num_classes_left_out) == (0, 0)
    assert {int(labels[item]) for batch in kept for item in batch} == set(range(6))


def test_support_comes_first_as_the_prototypical_loss_expects() -> None:
    labels = labels_of(*[9] * 8, 3)
    sampler = Episode(labels, num_classes=4, num_support=2, num_query=5, num_batches=5)
    assert sampler.num_left_out == 3
    objective = likewise.objective("prototypical", num_support=2)
    embeddings = torch.randn(len(labels), 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for batch in sampler:
        blocks = [batch[start : start + 7] for start in range(0, 28, 7)]
        assert all(len(set(labels[block].tolist())) == 1 for block in blocks)
        means = torch.stack([embeddings[block[:2]].mean(0) for block in blocks])
        queries = [item for block in blocks for item in block[2:]]
        own = torch.arange(4).repeat_interleave(5)
        expected = torch.nn.functional.cross_entropy(-(torch.cdist(embeddings[queries], means) ** 2), own)
        found = objective(embeddings[batch], torch.from_numpy(labels[batch]))
        torch.testing.assert_close(found, expected)


def test_short_episodes() -> None:
    labels = labels_of(*[3] * 6, *[4] * 6, *[10] * 6)
    with pytest.raises(
        ValueError, match=r"needs 8 classes, there are 6 \(12 more have fewer than 6 images\): set num_classes to at most 6"
    ):
        Episode(labels, num_classes=8, num_support=3, num_query=3)
    sampler = Episode(labels, num_classes=8, num_support=3, num_query=3, short="fill")
    assert sampler.num_left_out == 18
    for batch in sampler:
        assert len(batch) == 48
        assert all(length == (4 if name < 12 else 6) for name, length in runs(labels[batch])[:-1])


@pytest.mark.parametrize(
    ("sizes", "settings", "words"),
    [
        ([9] * 5, {"num_classes": 6, "num_images": 3}, "needs 6 classes, there are 5: set num_classes to at most 5"),
        ([9] * 3 + [1] * 4, {"num_classes": 6, "num_images": 3}, r"there are 3 \(4 more have fewer than 2 images\)"),
        ([9], {"num_classes": 2, "num_images": 3}, "needs 2 classes, there are 1: add classes of 2 images or more"),
        ([2] * 6, {"num_classes": 6, "num_images": 3}, "needs 18 images of different classes, the 6 classes give 12.*short='repeat'"),
        ([9] * 5, {"num_classes": 1, "num_images": 3}, "num_classes=1: expected a whole number of at least 2"),
        ([9] * 5, {"num_classes": 2, "num_images": 0}, "num_images=0"),
        ([9] * 5, {"num_classes": 2, "num_images": 2, "short": "drop"}, "short='drop': expected one of 'fill', 'repeat'"),
        ([9] * 5, {"num_classes": 2, "num_images": 2, "balance": "none"}, "balance='none'"),
        ([9] * 5, {"num_classes": 2, "num_images": 2, "num_batches": 0}, "num_batches=0"),
    ],
)
def test_what_cannot_be_is_refused_in_words(sizes: list[int], settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Group(labels_of(*sizes), **settings)


@pytest.mark.parametrize(
    ("sizes", "settings", "size"),
    [
        ([2] * 34, {}, 68),  # all of them
        ([3] * 40, {}, 120),
        ([2] * 34, {"balance": "image"}, 68),
        ([5] * 34, {"balance": "image"}, 68),  # visits of two and three
        ([2] * 34, {"short": "repeat"}, 128),
        ([2] * 70, {}, 128),
        ([9] * 4, {}, 128),  # few classes: more images of each, repeated
    ],
)
def test_a_batch_of_what_there_is(sizes: list[int], settings: dict[str, Any], size: int) -> None:
    """Many classes of few images make a smaller batch, under a protocol for whatever data there is."""
    labels = labels_of(*sizes)
    sampler = Group.for_batch(labels, 128, {"num_images": 4, **settings}, few_classes="more_images")
    for batch in sampler:
        assert len(batch) == size
        if len(sizes) > 4 and settings.get("short") != "repeat":
            assert len(set(batch)) == size


def test_too_few_images_name_the_batch_that_fits() -> None:
    labels = labels_of(*[2] * 34)
    with pytest.raises(
        ValueError, match=r"32 classes x 4 images, but the 34 training classes have 68 for it: --set batch=68 fits, or --set few"
    ):
        Group.for_batch(labels, 128, {"num_images": 4})
    assert all(len(batch) == 68 for batch in Group.for_batch(labels, 68, {"num_images": 4}))
    assert all(len(batch) == 8 for batch in Group.for_batch(labels_of(2, 2), 8, {"num_images": 4}, few_classes="more_images"))


def test_as_many_classes_as_the_batch_needs_are_enough() -> None:
    labels = labels_of(*[3] * 6)
    assert all(len(batch) == 18 for batch in Group(labels, num_classes=6, num_images=3))
    assert all(len(batch) == 12 for batch in NPair(labels, num_classes=6))


def test_rests_of_visits_never_leave_a_batch_without_images() -> None:
    """By image, with classes of very different sizes: rests of visits are smaller than visits, so that all classes together may not fill a
    batch. A class then gives two visits to it, and the batch is as large as all others."""
    generator = np.random.default_rng(0)
    for _ in range(300):
        sizes = generator.geometric(0.15, generator.integers(3, 12))
        settings = {"num_classes": int(generator.integers(2, 8)), "num_images": int(generator.integers(2, 9))}
        labels = np.repeat(np.arange(len(sizes)), sizes)
        try:
            sampler = Group(labels, **settings, balance="image", num_batches=40)
        except ValueError:  # too few for such a batch at all
            continue
        assert [len(batch) for batch in sampler] == [sampler.batch_size] * 40


def test_a_class_of_most_images_is_not_looked_through_for_every_batch() -> None:
    """Its visits are put off by the thousand; a batch looks at the first of them alone."""
    labels = np.r_[np.zeros(40_000, int), 1 + np.arange(4_000) // 10]
    moved: Counter[str] = Counter()

    class Counting(PutOff):
        def next(self) -> tuple[int, int] | None:
            moved["out"] += 1
            return super().next()

        def add(self, visit: tuple[int, int]) -> None:
            moved["in"] += 1
            super().add(visit)

    sampler = Group(labels, num_classes=8, num_images=4, balance="image")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group, "PutOff", Counting)
        batches = list(sampler)
    assert all(len(batch) == 32 for batch in batches)
    visits = -(-40_000 // 4) + 400 * 3  # of a round
    assert 1000 < moved["in"] < visits  # each once at most
    assert moved["out"] < 2 * visits
