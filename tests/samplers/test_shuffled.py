"""Shuffled batches: the last one, and ranks that would get nothing of it."""

import numpy as np
import pytest

from likewise.samplers.shuffled import Shuffled

LABELS = np.arange(23) % 4


def test_the_last_batch() -> None:
    full, all_items = Shuffled(LABELS, batch_size=5), Shuffled(LABELS, batch_size=5, drop_last=False)
    assert [len(batch) for batch in full] == [5] * 4
    batches = list(all_items)
    assert [len(batch) for batch in batches] == [5] * 4 + [3]
    assert sorted(item for batch in batches for item in batch) == list(range(23))


def test_every_item_is_left_out_in_turn() -> None:
    sampler = Shuffled(LABELS, batch_size=20)
    assert len({item for _ in range(40) for batch in sampler for item in batch}) == 23


def test_what_cannot_be_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="a batch of 30 needs as many items, there are 23"):
        Shuffled(LABELS, batch_size=30)
    with pytest.raises(ValueError, match=r"the last batch of 23 items by 5 has 3 for num_ranks=4.*drop_last=True"):
        Shuffled(LABELS, batch_size=5, drop_last=False, num_ranks=4)
    Shuffled(LABELS, batch_size=5, drop_last=False, num_ranks=3)
