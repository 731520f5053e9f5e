"""Seeded order: shuffles, spread places, rounds."""

from collections import Counter

import numpy as np
import pytest

from likewise.samplers.order import Order, Rounds


def test_shuffles_are_fair() -> None:
    order = Order(0, 0)
    found = Counter(tuple(order.shuffled(3)) for _ in range(6000))
    assert len(found) == 6
    assert max(abs(count - 1000) for count in found.values()) < 5 * np.sqrt(6000 * 1 / 6 * 5 / 6)  # five standard deviations


def test_places_are_spread() -> None:
    places = Order(1, 2).spread(50)
    assert [int(place * 50) for place in places] == list(range(50))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 12])
def test_rounds_are_even_after_every_draw(count: int) -> None:
    rounds = Rounds([10, 20, 30, 40, 50], Order(3, 0).shuffled)
    drawn: Counter[int] = Counter()
    for _ in range(40):
        items = rounds.draw(count)
        assert len(items) == count
        assert max(Counter(items).values()) <= -(-count // 5) + (count > 5)
        drawn.update(items)
        assert max(drawn.values()) - min(drawn[item] for item in (10, 20, 30, 40, 50)) <= 1
