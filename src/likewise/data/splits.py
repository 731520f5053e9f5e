"""Splits: which items train, which test, and class-disjoint folds of the training classes for tuning.

A split is a function of the data set's fingerprint and a seed, the same on every machine and with every version of numpy: classes are
ordered by a hash, not by a random generator.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.data.dataset import Dataset
from likewise.data.guard import Indices, TestGuard, TestPart

FORMAT = "likewise split 1"
SPLIT_SEED = 0  # of trainings and comparisons: the same test classes for every one on a data set


@dataclass(frozen=True, eq=False)
class Split:
    """Training items, and the test items behind their guard."""

    train: Indices  # ascending
    test: TestGuard
    fingerprint: str  # of the whole data set
    seed: int
    official: bool  # the data set's own parts, not a draw
    num_train_classes: int
    num_test_classes: int
    num_shared_classes: int  # classes on both sides: 0 unless the official parts share them (MNIST)
    num_matched: int  # test items (of query and gallery: queries) with another one of their class to find

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.num_shared_classes:
            return ()
        return (
            f"the official parts share {self.num_shared_classes} classes: the scores tell how well known classes are found again, "
            "not new ones (official=False draws class-disjoint parts)",
        )

    def train_part(self, dataset: Dataset) -> Dataset:
        """The training items alone: what training code is given, so that no test label is within its reach."""
        _check_fingerprint(dataset, self.fingerprint)
        return dataset.subset(self.train)

    def item_parts(self, dataset: Dataset) -> npt.NDArray[np.str_]:
        """(items,) train, test, or the halves query and gallery where the official test part has them: for a file of embeddings."""
        _check_fingerprint(dataset, self.fingerprint)
        if self.official and dataset.parts is not None:
            return dataset.parts
        return np.where(np.isin(np.arange(len(dataset)), self.train), "train", "test")

    def to_json(self) -> dict[str, Any]:
        """To be stored with a result. The test items are named by their digest only."""
        return {
            "format": FORMAT,
            "fingerprint": self.fingerprint,
            "seed": self.seed,
            "official": self.official,
            "train": to_ranges(self.train),
            "num_train": len(self.train),
            "num_test": self.test.num_items,
            "num_train_classes": self.num_train_classes,
            "num_test_classes": self.num_test_classes,
            "num_shared_classes": self.num_shared_classes,
            "test_digest": self.test.digest,
        }

    @staticmethod
    def from_json(stored: dict[str, Any], dataset: Dataset, *, record: str | Path | None = None) -> Split:
        """The split again, over the same data set: checked by the fingerprint and by the digest of the test items."""
        if stored.get("format") != FORMAT:
            raise ValueError(f"this is not a stored split: its format is {stored.get('format')!r}, expected {FORMAT!r}")
        try:
            fingerprint, seed, official = (stored[name] for name in ("fingerprint", "seed", "official"))
            train = _stored_indices(stored["train"], len(dataset))
            seed = int(seed)
        except (KeyError, TypeError, ValueError, OverflowError) as fault:
            raise ValueError(f"the stored split is damaged ({fault!r:.200}): make the split again") from fault
        _check_fingerprint(dataset, str(fingerprint))
        made = _split(dataset, train, str(fingerprint), seed=seed, official=official, record=record)
        if made.to_json() != {name: value for name, value in stored.items() if name != "seal"}:  # of a file that was read as it is
            raise ValueError("the stored split does not fit its own digest: the file was changed; make the split again")
        return made


@dataclass(frozen=True, eq=False)
class Fold:
    """One fold of the training items: train on the classes of one side, choose by the scores on the other."""

    train: Indices
    validation: Indices

    def to_json(self) -> dict[str, Any]:
        return {"train": to_ranges(self.train), "validation": to_ranges(self.validation)}

    @staticmethod
    def from_json(stored: dict[str, Any]) -> Fold:
        return Fold(from_ranges(stored["train"]), from_ranges(stored["validation"]))


def split(dataset: Dataset, *, seed: int, test_share: float = 0.5, official: bool = True, record: str | Path | None = None) -> Split:
    """Train and test items of a data set.

    The data set's own parts where it has them (official=False ignores them); otherwise `test_share` of the classes, drawn by the
    fingerprint and the seed, are test classes. `record` is the file that keeps every opening of the test part.
    """
    if not 0 < test_share < 1:
        raise ValueError(f"test_share={test_share}: expected a share of the classes between 0 and 1, such as 0.5")
    dataset.require_labels()
    fingerprint = dataset.fingerprint()
    if official and dataset.parts is not None:
        marks = set(dataset.parts.tolist())
        if "train" not in marks or marks == {"train"}:
            raise ValueError(
                f"{dataset.name}: every item is marked {', '.join(sorted(marks))}: expected train and test items; official=False ignores "
                "the marks and draws test classes, `likewise train --split all-train` trains on all of them"
            )
        return _split(dataset, np.flatnonzero(dataset.parts == "train"), fingerprint, seed=seed, official=True, record=record)
    classes = np.unique(dataset.labels)
    if len(classes) < 4:
        raise ValueError(
            f"{dataset.name} has {len(classes)} class{'es' if len(classes) != 1 else ''}: a class-disjoint split needs at least 4, "
            "two to train on and two others to test on (`likewise train --split all-train` trains on all of them, without a score)"
        )
    num_test = min(max(round(test_share * len(classes)), 2), len(classes) - 2)
    ordered = sorted(classes.tolist(), key=lambda label: _draw(fingerprint, seed, "split", label))
    train = np.flatnonzero(~np.isin(dataset.labels, ordered[:num_test]))
    return _split(dataset, train, fingerprint, seed=seed, official=False, record=record)


def all_train(dataset: Dataset) -> Split:
    """Every item trains and none is left to test on, whatever the data set's own parts: for a network that goes to work."""
    dataset.require_labels()
    return _split(dataset, np.arange(len(dataset)), dataset.fingerprint(), seed=SPLIT_SEED, official=False, record=None)


def folds(dataset: Dataset, train_indices: Indices, *, k: int, seed: int) -> list[Fold]:
    """k class-disjoint folds of the training items, with about equally many items and classes in each.

    Every training class is validated on exactly once. No label but those of `train_indices` is looked at. Where the data set says which
    classes belong together (Omniglot's alphabets) and there are two such groups for each fold, the folds share no group.
    """
    labels = dataset.labels[train_indices]
    if (labels < 0).any():
        dataset.require_labels()
    classes = np.unique(labels)
    if k < 2:
        raise ValueError(f"k={k}: expected at least 2 folds")
    if len(classes) < 2 * k:
        raise ValueError(
            f"{dataset.name}: {len(classes)} training classes are too few for {k} folds, each needs two classes of its own: "
            f"{f'at most {len(classes) // 2} folds' if len(classes) >= 4 else 'tuning needs at least 4 training classes'}"
        )
    # What is kept together: a class, or a group of classes; a number for each item.
    kept = labels
    if dataset.class_groups is not None:
        groups = np.unique(dataset.class_groups, return_inverse=True)[1][labels]
        kept = groups if len(np.unique(groups)) >= 2 * k else labels
    units, sizes = np.unique(kept, return_counts=True)
    fingerprint = dataset.fingerprint()
    draws = [_draw(fingerprint, seed, f"folds {k}", unit) for unit in units.tolist()]
    # Large ones first, each to the fold with the fewest items: that balances. The sizes are blurred by up to a quarter before they
    # are sorted, or else the seed would decide nothing where all sizes differ.
    blurred = [size * (0.75 + 0.5 * int(draw[:13], 16) / 16**13) for size, draw in zip(sizes.tolist(), draws, strict=True)]
    order = sorted(range(len(units)), key=lambda i: (-blurred[i], draws[i]))
    num_items, num_units = [0] * k, [0] * k
    smallest, larger = divmod(len(units), k)  # `larger` folds get one more than the others
    fold_of = np.empty(len(units), dtype=np.int64)
    for i in order:
        open_folds = [f for f in range(k) if num_units[f] < smallest or (num_units[f] == smallest and larger)]
        chosen = min(open_folds, key=lambda f: (num_items[f], num_units[f], f))
        larger -= num_units[chosen] == smallest
        num_items[chosen] += int(sizes[i])
        num_units[chosen] += 1
        fold_of[i] = chosen
    where = fold_of[np.searchsorted(units, kept)]
    return [Fold(train=train_indices[where != f], validation=train_indices[where == f]) for f in range(k)]


def to_ranges(indices: Indices) -> list[list[int]]:
    """Runs of consecutive numbers as [first, one past the last]: a split by classes is short."""
    if not len(indices):
        return []
    starts = np.flatnonzero(np.diff(indices, prepend=indices[0] - 2) != 1)
    ends = np.append(starts[1:], len(indices)) - 1
    return [[first, last + 1] for first, last in zip(indices[starts].tolist(), indices[ends].tolist(), strict=True)]


def from_ranges(ranges: list[list[int]]) -> Indices:
    return np.concatenate([np.arange(0, dtype=np.int64), *(np.arange(first, end, dtype=np.int64) for first, end in ranges)])


def _stored_indices(ranges: list[list[int]], num_items: int) -> Indices:
    """As `from_ranges`, of ranges that may be anything."""
    if not all(isinstance(number, int) and 0 <= number <= num_items for pair in ranges for number in pair):
        raise ValueError(f"ranges beyond the {num_items:,} items")
    return from_ranges([[first, end] for first, end in ranges])


def _split(dataset: Dataset, train: Indices, fingerprint: str, *, seed: int, official: bool, record: str | Path | None) -> Split:
    is_test = np.ones(len(dataset), dtype=bool)
    is_test[train] = False
    part = TestPart(np.flatnonzero(is_test))
    if official and dataset.parts is not None:
        marks = dataset.parts[part.indices]
        kinds = set(marks.tolist())
        if kinds not in ({"test"}, {"query", "gallery"}):
            raise ValueError(
                f"{dataset.name}: the test items are marked {', '.join(sorted(kinds))}: expected all test, or query and gallery, "
                "where a query is not itself in the gallery"
            )
        if "query" in kinds:
            part = TestPart(part.indices, query=part.indices[marks == "query"], gallery=part.indices[marks == "gallery"])
    train_classes, test_classes = np.unique(dataset.labels[train]), np.unique(dataset.labels[part.indices])
    return Split(
        train=train.astype(np.int64),
        test=TestGuard(part, record=record, dataset=dataset),
        fingerprint=fingerprint,
        seed=int(seed),
        official=official,
        num_train_classes=len(train_classes),
        num_test_classes=len(test_classes),
        num_shared_classes=len(np.intersect1d(train_classes, test_classes)),
        num_matched=_num_matched(dataset.labels, part),
    )


def _num_matched(labels: npt.NDArray[np.int64], part: TestPart) -> int:
    if part.query is not None and part.gallery is not None:
        return int(np.isin(labels[part.query], labels[part.gallery]).sum())
    sizes = np.unique(labels[part.indices], return_counts=True)[1]
    return int(sizes[sizes > 1].sum())


def _check_fingerprint(dataset: Dataset, fingerprint: str) -> None:
    actual = dataset.fingerprint()
    if actual != fingerprint:
        raise ValueError(
            f"the split was made for a data set with fingerprint {fingerprint[:12]}..., {dataset.name} has {actual[:12]}...: "
            "items, labels or parts have changed since; make a new split (and compare nothing across the two)"
        )


def _draw(fingerprint: str, seed: int, use: str, label: int) -> str:
    return hashlib.sha256(f"{fingerprint}:{seed}:{use}:{label}".encode()).hexdigest()
