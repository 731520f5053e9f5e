"""Batches of every sampler, for classes of any sizes: they hold what they promise, or a ValueError says why they cannot."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as some

from likewise.samplers import SAMPLERS

class_sizes = some.lists(some.one_of(some.integers(1, 6), some.integers(1, 60)), min_size=1, max_size=25)
number = some.integers(1, 6)
OPTIONS: dict[str, dict[str, some.SearchStrategy[Any]]] = {
    "group": {
        "num_images": number,
        "short": some.sampled_from(["fill", "repeat"]),
        "balance": some.sampled_from(["class", "image"]),
        "singletons": some.sampled_from(["leave_out", "keep"]),
    },
    "n_pair": {"balance": some.sampled_from(["class", "image"])},
    "episode": {"num_support": number, "num_query": number, "short": some.sampled_from(["leave_out", "fill"])},
    "shuffled": {"drop_last": some.booleans()},
    "hard_classes": {"num_images": some.integers(2, 6), "short": some.sampled_from(["fill", "repeat"])},
}
MOST_BATCHES = 12  # of an epoch that are looked at


def test_every_sampler_is_here() -> None:
    assert OPTIONS.keys() == SAMPLERS.keys()


@settings(max_examples=120)
@given(some.data(), some.sampled_from(sorted(SAMPLERS)), class_sizes, some.integers(1, 64), some.integers(1, 4), some.integers(0, 99))
def test_batches_hold_what_they_promise(data: some.DataObject, name: str, sizes: list[int], batch: int, ranks: int, seed: int) -> None:
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)) * 3 + 1, sizes))
    given_settings = data.draw(some.fixed_dictionaries(OPTIONS[name]))
    few_classes = data.draw(some.sampled_from(["error", "more_images"]))
    kind = SAMPLERS[name]

    def make(rank: int = 0, num_ranks: int = 1) -> Any:
        return kind.for_batch(
            labels, batch, {**given_settings, "seed": seed, "rank": rank, "num_ranks": num_ranks}, few_classes=few_classes
        )

    try:
        sampler = make()
    except ValueError:
        return
    whole = [found for found, _ in zip(sampler, range(MOST_BATCHES), strict=False)]
    assert whole == [found for found, _ in zip(make(), range(MOST_BATCHES), strict=False)]
    assert len(whole) == min(len(sampler), MOST_BATCHES) >= 1
    repeats = given_settings.get("short") == "repeat" or few_classes == "more_images"
    for items in whole:
        assert 0 <= min(items) <= max(items) < len(labels)
        assert len(items) <= max(batch, sampler.batch_size)
        assert repeats or len(set(items)) == len(items)
        if given_settings.get("drop_last", True):
            assert len(items) == sampler.batch_size
    if name in ("group", "n_pair", "episode", "hard_classes"):
        for items in whole:
            _check_classes(name, Counter(labels[items].tolist()), given_settings, few_classes)
    if ranks <= sampler.batch_size:
        try:
            shares = [list(zip(make(rank, ranks), range(MOST_BATCHES), strict=False)) for rank in range(ranks)]
        except ValueError:
            return  # a last batch that is too small for so many
        for step, items in enumerate(whole):
            assert [item for share in shares for item in share[step][0]] == items


def _check_classes(name: str, counts: Counter[int], given_settings: dict[str, Any], few_classes: str) -> None:
    """A class is at most once in a batch, with no more images than it was asked for."""
    per_class = {
        "group": given_settings.get("num_images", 2),
        "n_pair": 2,
        "hard_classes": given_settings.get("num_images", 2),
        "episode": given_settings.get("num_support", 0) + given_settings.get("num_query", 0),
    }[name]
    if few_classes == "error":
        assert max(counts.values()) <= max(per_class, 2)
        assert len(counts) >= 2
    if name == "n_pair" and few_classes == "error":
        assert set(counts.values()) == {2}
    if name == "episode" and given_settings["short"] == "leave_out" and few_classes == "error":
        assert set(counts.values()) == {per_class}
