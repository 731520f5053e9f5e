"""Splits and folds: class-disjoint, decided by fingerprint and seed, stored and loaded."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from likewise.data.dataset import Dataset, Features
from likewise.data.splits import Fold, Split, folds, from_ranges, split, to_ranges


def dataset(sizes: list[int], parts: list[str] | None = None, *, shift: float = 0.0) -> Dataset:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    labels = labels[np.random.default_rng(0).permutation(len(labels))]
    vectors = np.random.default_rng(1).normal(size=(len(labels), 2)).astype(np.float32) + np.float32(shift)
    marks = None if parts is None else np.array([parts[label] for label in labels])
    return Dataset("toy", Features(vectors), labels.astype(np.int64), tuple(map(str, range(len(sizes)))), marks)


def opened(found: Split) -> np.ndarray:
    return found.test.open(found.test.issue_key("test"), run="r", purpose="p", decided="d").indices


@pytest.mark.parametrize(("share", "num_test"), [(0.5, 5), (0.3, 3), (0.01, 2), (0.99, 8)])
def test_drawn_parts_are_disjoint_in_classes_and_cover_all(share: float, num_test: int) -> None:
    data = dataset([3] * 10)
    found = split(data, seed=0, test_share=share)
    test = opened(found)
    assert not set(data.labels[found.train].tolist()) & set(data.labels[test].tolist())
    assert sorted([*found.train.tolist(), *test.tolist()]) == list(range(30))
    assert len(set(data.labels[test].tolist())) == num_test == found.num_test_classes
    assert found.train.dtype == np.int64
    assert not found.official


def test_the_draw_is_a_function_of_fingerprint_and_seed() -> None:
    data = dataset([2] * 20)
    assert split(data, seed=1).train.tolist() == split(data, seed=1).train.tolist()
    draws = {tuple(split(data, seed=seed).train.tolist()) for seed in range(8)}
    assert len(draws) == 8
    assert split(dataset([2] * 20, shift=1.0), seed=1).train.tolist() != split(data, seed=1).train.tolist()


def test_every_class_is_tested_about_equally_often() -> None:
    data = dataset([1] * 10)
    times = np.zeros(10)
    for seed in range(400):
        times[np.setdiff1d(np.arange(10), data.labels[split(data, seed=seed).train])] += 1
    assert np.abs(times - 200).max() < 5 * 10  # five standard deviations of a fair draw


def test_this_draw_stays_as_it_is() -> None:
    """Stored results name their split by seed: a change of the draw is a change of every result."""
    fixed = dataset([1] * 8)
    object.__setattr__(fixed, "fingerprint", lambda: "0" * 64)
    assert sorted(fixed.labels[split(fixed, seed=0).train].tolist()) == [0, 4, 6, 7]
    found = folds(fixed, np.arange(8), k=2, seed=0)
    assert [sorted(fixed.labels[fold.validation].tolist()) for fold in found] == [[0, 2, 5, 7], [1, 3, 4, 6]]


def test_official_parts_are_respected() -> None:
    data = dataset([2, 3, 4, 5], ["train", "test", "train", "test"])
    found = split(data, seed=0)
    assert found.official
    assert set(data.labels[found.train].tolist()) == {0, 2}
    assert set(data.labels[opened(found)].tolist()) == {1, 3}
    assert split(data, seed=9).train.tolist() == found.train.tolist()
    drawn = [set(data.labels[split(data, seed=seed, official=False).train].tolist()) for seed in range(10)]
    assert any(classes != {0, 2} for classes in drawn)


def test_query_and_gallery() -> None:
    data = dataset([4, 4, 4])
    marks = np.where(data.labels == 0, "train", np.where(np.arange(12) % 2, "query", "gallery"))
    data = replace(data, parts=marks)
    found = split(data, seed=0)
    assert found.test.has_query_and_gallery
    part = found.test.open(found.test.issue_key("test"), run="r", purpose="p", decided="d")
    assert part.query is not None
    assert part.gallery is not None
    assert set(data.parts[part.query].tolist()) == {"query"}  # type: ignore[index]
    assert set(data.parts[part.gallery].tolist()) == {"gallery"}  # type: ignore[index]
    assert sorted([*part.query.tolist(), *part.gallery.tolist()]) == part.indices.tolist()
    again = Split.from_json(found.to_json(), data)
    assert again.test.has_query_and_gallery
    assert again.num_matched == len(part.query)
    alone = replace(data, labels=np.where(marks == "query", 3, data.labels), class_names=tuple("abcd"))
    assert split(alone, seed=0).num_matched == 0


def test_how_many_test_items_have_something_to_find() -> None:
    data = dataset([3, 1, 4, 1], ["train", "test", "test", "test"])
    assert split(data, seed=0).num_matched == 4
    assert split(dataset([3, 1, 1, 1], ["train", "test", "test", "test"]), seed=0).num_matched == 0


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (["train"] * 4, "every item is marked train"),
        (["test"] * 4, "every item is marked test"),
        (["train", "query", "query", "query"], "marked query: expected all test, or query and gallery"),
        (["train", "query", "gallery", "test"], "expected all test, or query and gallery"),
    ],
)
def test_parts_that_make_no_split(parts: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        split(dataset([2] * 4, parts), seed=0)


def test_shared_classes_are_told() -> None:
    data = dataset([4, 4])
    data = replace(data, parts=np.where(np.arange(8) % 2, "train", "test"))
    found = split(data, seed=0)
    assert found.num_shared_classes == 2
    assert "share 2 classes" in found.notes[0]
    assert split(dataset([2] * 4), seed=0).notes == ()


@pytest.mark.parametrize(("sizes", "words"), [([9], "has 1 class:"), ([3, 3, 3], "has 3 classes: a class-disjoint split needs at least 4")])
def test_too_few_classes(sizes: list[int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        split(dataset(sizes), seed=0)


@pytest.mark.parametrize("share", [0, 1, -0.5, 2, float("nan")])
def test_a_share_outside_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        split(dataset([2] * 4), seed=0, test_share=share)


def test_the_training_part_holds_no_test_label() -> None:
    data = dataset([3] * 6)
    found = split(data, seed=0)
    part = found.train_part(data)
    assert len(part) == len(found.train)
    assert not set(part.labels.tolist()) & set(data.labels[opened(found)].tolist())
    with pytest.raises(ValueError, match="was made for a data set with fingerprint"):
        found.train_part(dataset([3] * 6, shift=1.0))


def test_a_split_is_stored_and_loaded() -> None:
    data = dataset([3] * 10)
    found = split(data, seed=4)
    stored = json.loads(json.dumps(found.to_json()))
    again = Split.from_json(stored, data)
    assert again.train.tolist() == found.train.tolist()
    assert again.test.digest == found.test.digest
    assert again.to_json() == found.to_json()
    assert opened(again).tolist() == opened(found).tolist()
    with pytest.raises(ValueError, match="items, labels or parts have changed"):
        Split.from_json(stored, dataset([3] * 10, shift=1.0))
    with pytest.raises(ValueError, match="does not fit its own digest"):
        Split.from_json(stored | {"train": [[0, 30 - 1]]}, data)
    with pytest.raises(ValueError, match="not a stored split"):
        Split.from_json({}, data)


def test_a_stored_split_does_not_name_the_test_items() -> None:
    data = dataset([1] * 40)
    found = split(data, seed=0)
    assert found.to_json().keys().isdisjoint({"test", "test_indices"})
    held = from_ranges(found.to_json()["train"])
    assert not set(held.tolist()) & set(opened(found).tolist())
    assert asdict(found)["test"] is found.test


@pytest.mark.parametrize("numbers", [[], [5], [0, 1, 2], [0, 2, 4], [3, 4, 9, 10, 11, 20]])
def test_ranges(numbers: list[int]) -> None:
    indices = np.array(numbers, dtype=np.int64)
    ranges = to_ranges(indices)
    assert from_ranges(json.loads(json.dumps(ranges))).tolist() == numbers
    assert len(ranges) == sum(number - 1 not in numbers for number in numbers)


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("sizes", [[4] * 20, list(range(1, 21)), [100, *[2] * 15], [40, 30, 1, 1, 1, 1, 1, 1, 2, 2, 20]])
def test_folds_are_disjoint_cover_all_and_balance(k: int, sizes: list[int]) -> None:
    data = dataset([*sizes, 7])
    train = np.flatnonzero(data.labels < len(sizes))
    found = folds(data, train, k=k, seed=0)
    assert len(found) == k
    assert sorted(np.concatenate([fold.validation for fold in found]).tolist()) == train.tolist()
    for fold in found:
        inside, outside = set(data.labels[fold.validation].tolist()), set(data.labels[fold.train].tolist())
        assert not inside & outside
        assert len(inside) >= 2
        assert sorted([*fold.train.tolist(), *fold.validation.tolist()]) == train.tolist()
    classes = [len(set(data.labels[fold.validation].tolist())) for fold in found]
    assert max(classes) - min(classes) <= 1
    items = [len(fold.validation) for fold in found]
    assert max(items) - min(items) <= max(sizes)


@pytest.mark.parametrize("seed", range(5))
def test_folds_hold_about_equally_many_items(seed: int) -> None:
    data = dataset(list(range(1, 21)))
    items = [len(fold.validation) for fold in folds(data, np.arange(len(data)), k=5, seed=seed)]
    assert max(items) - min(items) <= 4  # of 42; without balancing it is 20


def test_folds_depend_on_the_seed_even_where_all_sizes_differ() -> None:
    data = dataset(list(range(10, 30)))
    train = np.arange(len(data))
    draws = {tuple(folds(data, train, k=4, seed=seed)[0].validation.tolist()) for seed in range(6)}
    assert len(draws) == 6
    assert [fold.to_json() for fold in folds(data, train, k=4, seed=1)] == [fold.to_json() for fold in folds(data, train, k=4, seed=1)]


@pytest.mark.parametrize("k", [2, 3])
def test_folds_keep_groups_together(k: int) -> None:
    """Seven alphabets of 1 to 7 classes: no two folds share one, and the items are balanced as far as whole alphabets allow."""
    groups = [name for name in "abcdefg" for _ in range(ord(name) - ord("a") + 1)]
    data = replace(dataset([3] * 28), class_groups=tuple(groups))
    train = np.flatnonzero(data.labels > 0)  # the groups of classes that are not trained on count for nothing
    found = folds(data, train, k=k, seed=0)
    held_out = [{groups[label] for label in data.labels[fold.validation]} for fold in found]
    assert sorted(name for names in held_out for name in names) == list("bcdefg")
    assert max(len(fold.validation) for fold in found) - min(len(fold.validation) for fold in found) <= 3 * 7


def test_too_few_groups_for_the_folds_leave_folds_of_classes() -> None:
    data = dataset([3] * 12)
    three = replace(data, class_groups=("a",) * 6 + ("b",) * 3 + ("c",) * 3)
    assert [fold.to_json() for fold in folds(three, np.arange(36), k=2, seed=0)] == [
        fold.to_json() for fold in folds(data, np.arange(36), k=2, seed=0)
    ]
    with pytest.raises(ValueError, match="1 groups for 12 classes"):
        replace(data, class_groups=("a",))


def test_folds_look_at_no_test_label() -> None:
    data = dataset([4] * 12, ["train"] * 6 + ["test"] * 6)
    found = split(data, seed=0)
    before = [fold.to_json() for fold in folds(data, found.train, k=3, seed=0)]
    fingerprint = data.fingerprint()
    hidden = data.labels.copy()
    hidden[data.labels >= 6] = -1
    veiled = replace(data, labels=hidden)
    object.__setattr__(veiled, "fingerprint", lambda: fingerprint)
    assert [fold.to_json() for fold in folds(veiled, found.train, k=3, seed=0)] == before


def test_too_few_classes_for_the_folds() -> None:
    data = dataset([3] * 7)
    with pytest.raises(ValueError, match=r"7 training classes are too few for 4 folds.*at most 3 folds"):
        folds(data, np.arange(21), k=4, seed=0)
    with pytest.raises(ValueError, match="at least 4 training classes"):
        folds(dataset([3] * 3), np.arange(9), k=2, seed=0)
    with pytest.raises(ValueError, match="at least 2 folds"):
        folds(data, np.arange(21), k=1, seed=0)


def test_a_fold_is_stored_and_loaded() -> None:
    fold = folds(dataset([3] * 8), np.arange(24), k=2, seed=0)[0]
    again = Fold.from_json(json.loads(json.dumps(fold.to_json())))
    assert again.train.tolist() == fold.train.tolist()
    assert again.validation.tolist() == fold.validation.tolist()
