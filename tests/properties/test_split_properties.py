"""Splits and folds of any data set: disjoint, complete, and the same whenever they are drawn."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

from likewise.data.dataset import Dataset, Features
from likewise.data.splits import Split, folds, from_ranges, split, to_ranges

class_sizes = some.lists(some.integers(1, 9), min_size=4, max_size=24)
seeds = some.integers(0, 2**31)


def dataset_of(sizes: list[int], order: int, groups: list[str] | None = None) -> Dataset:
    labels = np.random.default_rng(order).permutation(np.repeat(np.arange(len(sizes)), sizes))
    vectors = np.arange(len(labels) * 2, dtype=np.float32).reshape(-1, 2)
    names = tuple(f"class {number}" for number in range(len(sizes)))
    return Dataset("made", Features(vectors), labels, names, class_groups=None if groups is None else tuple(groups))


def test_of(made: Split) -> np.ndarray:
    return np.setdiff1d(np.arange(made.test.num_items + len(made.train)), made.train)


test_of.__test__ = False  # type: ignore[attr-defined]


@given(class_sizes, seeds, some.floats(0.01, 0.99), seeds)
def test_a_split_divides_the_classes(sizes: list[int], seed: int, share: float, order: int) -> None:
    dataset = dataset_of(sizes, order)
    made, again = (split(dataset, seed=seed, test_share=share) for _ in range(2))
    assert made.to_json() == again.to_json()
    test = test_of(made)
    assert made.test.num_items == len(test)
    train_classes, test_classes = (set(dataset.labels[part].tolist()) for part in (made.train, test))
    assert not train_classes & test_classes
    assert train_classes | test_classes == set(range(len(sizes)))
    assert min(len(train_classes), len(test_classes)) >= 2
    assert len(test_classes) == min(max(round(share * len(sizes)), 2), len(sizes) - 2)
    assert np.array_equal(Split.from_json(made.to_json(), dataset).train, made.train)


@given(class_sizes, seeds, some.integers(2, 6), seeds, some.booleans())
def test_folds_validate_every_class_once(sizes: list[int], seed: int, k: int, order: int, grouped: bool) -> None:
    groups = [f"group {number // 2}" for number in range(len(sizes))] if grouped else None
    dataset = dataset_of(sizes, order, groups)
    items = np.random.default_rng(seed).permutation(len(dataset))[: len(dataset) - 1]
    classes = np.unique(dataset.labels[items])
    if len(classes) < 2 * k:
        return
    made, again = (folds(dataset, items, k=k, seed=seed) for _ in range(2))
    assert [fold.to_json() for fold in made] == [fold.to_json() for fold in again]
    validated = np.concatenate([fold.validation for fold in made])
    assert sorted(validated.tolist()) == sorted(items.tolist())  # every item in exactly one
    for fold in made:
        assert sorted([*fold.train, *fold.validation]) == sorted(items.tolist())
        assert not set(dataset.labels[fold.train].tolist()) & set(dataset.labels[fold.validation].tolist())
        assert len(np.unique(dataset.labels[fold.validation])) >= 2
    if groups is not None and len(np.unique(np.array(groups)[classes])) >= 2 * k:
        of_folds = [{groups[label] for label in dataset.labels[fold.validation]} for fold in made]
        assert sum(map(len, of_folds)) == len(set().union(*of_folds))


@given(some.sets(some.integers(0, 300)))
def test_ranges_of_numbers_are_these_numbers(numbers: set[int]) -> None:
    indices = np.array(sorted(numbers), dtype=np.int64)
    ranges = to_ranges(indices)
    assert np.array_equal(from_ranges(ranges), indices)
    assert all(first < end for first, end in ranges)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(ranges))  # as few as there can be
