"""Seeded order: shuffles that are the same on any machine and with any version of numpy, and rounds without replacement."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

LARGEST = 2**63 - 1  # of seed and epoch


class Order:
    """Shuffles keyed by (seed, epoch).

    They come from the raw numbers of Philox alone: numpy promises to keep those, but not what its `permutation` makes of them.
    """

    def __init__(self, seed: int, epoch: int) -> None:
        self._numbers = np.random.Philox(key=np.array([seed, epoch], dtype=np.uint64))

    def shuffled(self, size: int) -> list[int]:
        """0 .. size - 1, shuffled."""
        shuffled: list[int] = np.argsort(self._numbers.random_raw(size), kind="stable").tolist()
        return shuffled

    def spread(self, times: int) -> list[float]:
        """`times` places in [0, 1), one at random in each of as many equal intervals, ascending."""
        numbers = self._numbers.random_raw(times) >> np.uint64(11)  # 53 bits: what a float holds
        places: list[float] = ((np.arange(times) + numbers / 2.0**53) / times).tolist()
        return places


class Rounds:
    """Draws from a few items without replacement; when all were drawn, the next round begins in a new order.

    After any number of draws no item was drawn more than once oftener than another.
    """

    def __init__(self, items: Sequence[int], shuffled: Callable[[int], list[int]]) -> None:
        self._items = items
        self._shuffled = shuffled
        self._left: list[int] = []  # of this round, next one last

    def draw(self, count: int) -> list[int]:
        """The next `count` items: all different if there are so many, else whole rounds and a part of one."""
        drawn: list[int] = []
        put_off: list[int] = []  # of the new round, but already among these
        distinct = count <= len(self._items)
        before: set[int] = set()  # those drawn from the round that ended
        while len(drawn) < count:
            if not self._left:
                self._left = [self._items[i] for i in self._shuffled(len(self._items))]
                before = set(drawn) if distinct else before
            item = self._left.pop()
            (put_off if item in before else drawn).append(item)
        self._left.extend(reversed(put_off))
        return drawn
