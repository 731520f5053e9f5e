"""Group batches: P classes x K images."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from typing import Any, Literal

import numpy as np

from likewise.samplers.order import Order, Rounds
from likewise.samplers.sampler import BatchSampler, FewClasses, Labels, Runs, one_of, whole_labels, whole_number

Short = Literal["fill", "repeat"]
Balance = Literal["class", "image"]
Singletons = Literal["leave_out", "keep"]
Visit = tuple[int, int]  # class (place in `members`) and how many of its images


class Group(BatchSampler):
    """`num_classes` classes x `num_images` images of each; always exactly so many images, a class at most once in a batch.

    short: what a class with fewer images does.
        "fill"    it gives what it has, and more classes are added until the batch is full; the last may be cut (NRA, section III).
        "repeat"  it repeats its images, as RLL's authors do.
    balance: what is visited equally often. With classes of one size both are.
        "class"   all classes are visited once before any is visited again (RLL); so an image of a class of 4 comes up 15 times as
                  often as one of a class of 60. In an epoch the visits of two classes differ by at most one.
        "image"   all images are visited once before any is visited again: a class of n images is visited ceil(n / K) times, with
                  about equally many images each time (4 = 2 + 2 with K = 3; at least 2, so that each has a positive). A class of
                  more than 1/P of all images cannot come up that often: it is in every batch.
    Within a class, either way, no image is drawn more than once oftener than another in an epoch.
    singletons: classes of one image give no positive pair and are left out by default; with "keep" they serve as negatives.
        `num_left_out` counts the images that never come up.
    num_batches: the epoch; by default as many as all images fill (with balance="image": one round, without its last part of a batch).
    """

    set_by_batch = ("num_classes",)

    def __init__(
        self,
        labels: Labels,
        *,
        num_classes: int,
        num_images: int,
        short: Short = "fill",
        balance: Balance = "class",
        singletons: Singletons = "leave_out",
        num_batches: int | None = None,
        seed: int = 0,
        rank: int = 0,
        num_ranks: int = 1,
    ) -> None:
        one_of("singletons", singletons, Singletons)
        self._set_up(
            labels,
            num_classes=num_classes,
            num_images=num_images,
            least=2 if singletons == "leave_out" else 1,
            short=short,
            balance=balance,
            num_batches=num_batches,
            seed=seed,
            rank=rank,
            num_ranks=num_ranks,
        )

    @classmethod
    def for_batch(cls, labels: Labels, batch: int, settings: Mapping[str, Any], *, few_classes: FewClasses = "error") -> Group:
        """As many classes as the batch holds.

        Where there are too few, few_classes="more_images" fills it with more images of each; where the classes are enough but have too few
        images, it makes a smaller batch, of all that they have.
        """
        per_class, needed = cls.images_of_a_class(settings)
        num_classes = batch // per_class
        if num_classes < 2:
            fewer = f", or fewer images of each class (now {per_class})" if batch >= 4 else ""
            raise ValueError(
                f"batch={batch}: a batch of {batch} images is too small for two classes x {per_class} images, and nothing is told apart "
                f"within one class: --set batch={2 * per_class} or more{fewer}"
            )
        sizes = np.unique(whole_labels(labels), return_counts=True)[1]
        sizes = sizes[sizes >= needed]
        available = len(sizes)
        short, balance = settings.get("short", "fill"), settings.get("balance", "class")
        supply = sum(min(visit_sizes(size, num_images=per_class, short=short, balance=balance)) for size in sizes.tolist())
        if num_classes <= available and num_classes * per_class <= supply:
            return cls(labels, num_classes=num_classes, **settings)
        if few_classes == "error" or available < 2:
            asked = f"a batch of {batch} images is {num_classes} classes x {per_class} images"
            has = f"only {available} training classes have enough images"
            if num_classes <= available:
                has = f"the {available} training classes have {supply} for it"
            fits = max(min(available * per_class, supply // per_class * per_class), 2 * per_class)
            raise ValueError(f"{asked}, but {has}: --set batch={fits} fits, or --set few_classes=more_images")
        if num_classes > available or supply < 2 * per_class:
            return cls._of_few_classes(labels, batch, available, settings)
        return cls(labels, num_classes=supply // per_class, **settings)

    @classmethod
    def images_of_a_class(cls, settings: Mapping[str, Any]) -> tuple[int, int]:
        """How many images of a class a batch holds, and how many a class needs to count as one that can fill it."""
        return cls.number_in(settings, "num_images"), 2

    @classmethod
    def with_fewer_images(cls, settings: Mapping[str, Any], batch: int) -> dict[str, Any] | None:
        room = batch // 2  # for two classes
        return cls._with_room(settings, room) if 2 <= room < cls.images_of_a_class(settings)[0] else None

    @classmethod
    def _with_room(cls, settings: Mapping[str, Any], room: int) -> dict[str, Any]:
        """The settings with so many images of a class at most."""
        return {**settings, "num_images": room}

    @classmethod
    def _of_few_classes(cls, labels: Labels, batch: int, num_classes: int, settings: Mapping[str, Any]) -> Group:
        """A batch of all classes there are, with more images of each, repeated where a class has fewer."""
        kept = {name: value for name, value in settings.items() if name in ("balance", "singletons", "seed", "rank", "num_ranks")}
        return Group(labels, num_classes=num_classes, num_images=max(batch // num_classes, 2), short="repeat", **kept)

    def _set_up(
        self,
        labels: Labels,
        *,
        num_classes: int,
        num_images: int,
        least: int,  # images that a class needs to take part
        short: Short,
        balance: Balance,
        num_batches: int | None,
        seed: int,
        rank: int,
        num_ranks: int,
    ) -> None:
        one_of("short", short, Short)
        one_of("balance", balance, Balance)
        whole_number("num_classes", num_classes, least=2)
        whole_number("num_images", num_images)
        array = whole_labels(labels)
        by_class = np.argsort(array, kind="stable")
        starts = np.flatnonzero(np.r_[True, np.diff(array[by_class]) != 0])
        members = np.split(by_class, starts[1:])
        self.members: list[list[int]] = [positions.tolist() for positions in members if len(positions) >= least]
        self.num_left_out = len(array) - sum(map(len, self.members))
        self.num_classes_left_out = len(members) - len(self.members)
        self.num_classes = num_classes
        self.num_images = num_images
        self.balance = balance
        self.short = short
        size = num_classes * num_images
        if num_batches is None:
            draws = len(array) - self.num_left_out
            if balance == "image":  # a whole round, which is more where images repeat
                draws = sum(sum(self._visit_sizes(len(positions))) for positions in self.members)
            num_batches = max(1, draws // size)
        super().__init__(
            array,
            batch_size=size,
            num_batches=num_batches,
            seed=seed,
            rank=rank,
            num_ranks=num_ranks,
            settings=(num_classes, num_images, short, balance, least),
        )
        self._check_supply(least)

    def _check_supply(self, least: int) -> None:
        """A batch holds a class at most once, so all classes together must be able to fill it."""
        has = len(self.members)
        asked = f"a batch of {self.num_classes} classes x {self.num_images} images"
        left_out = f" ({self.num_classes_left_out} more have fewer than {least} images)" if self.num_classes_left_out else ""
        if has < 2:
            raise ValueError(f"{asked} needs {self.num_classes} classes, there are {has}{left_out}: add classes of {least} images or more")
        if has < self.num_classes:
            raise ValueError(
                f"{asked} needs {self.num_classes} classes, there are {has}{left_out}: set num_classes to at most {has}"
                " (and more images of each class for a batch as large)"
            )
        supply = sum(min(self._visit_sizes(len(positions))) for positions in self.members)
        if supply < self.batch_size:
            raise ValueError(
                f"{asked} needs {self.batch_size} images of different classes, the {has} classes give {supply}{left_out}:"
                " set num_classes lower, or fewer images of each class (or, for group batches, short='repeat')"
            )

    def _visit_sizes(self, num_members: int) -> list[int]:
        return visit_sizes(num_members, num_images=self.num_images, short=self.short, balance=self.balance)

    def batches(self, order: Order) -> Iterator[Runs]:
        rounds: dict[int, Rounds] = {}
        pool: deque[Visit] = deque()  # visits to come
        put_off = PutOff()
        while True:
            runs: dict[int, list[int]] = {}  # of the classes chosen
            space = self.batch_size
            self._arrange(pool, set(), space)
            while space:
                visit = put_off.next()
                if visit is None:
                    if not pool:
                        pool.extend(self._round(order, without=put_off.classes))
                        self._arrange(pool, set(runs), space)
                    if pool and pool[0][0] in runs:
                        put_off.add(pool.popleft())
                        continue
                    # nothing comes where rests of visits left the batch's classes too little: then one of them gives two visits
                    visit = pool.popleft() if pool else put_off.take_first()
                name, size = visit
                taken = min(size, space)
                if name not in rounds:
                    rounds[name] = Rounds(self.members[name], order.shuffled)
                runs.setdefault(name, []).extend(rounds[name].draw(taken))
                space -= taken
                if taken < size and self.balance == "image":
                    put_off.add_rest((name, size - taken))
            put_off.end_batch()
            if self.balance == "class":  # at most one visit a class: `_arrange` may choose among them too
                pool.extendleft(reversed(put_off.take_all()))
            yield list(runs.values())

    def _arrange(self, pool: deque[Visit], chosen: set[int], space: int) -> None:
        """May bring visits to the front of the pool before `space` images are taken from there, to join the classes already chosen."""

    def _round(self, order: Order, *, without: set[int]) -> list[Visit]:
        """The visits of one round: every class once, or as often as its images need, spread evenly over the round."""
        if self.balance == "class":
            names = order.shuffled(len(self.members))
            return [(name, self._visit_sizes(len(self.members[name]))[0]) for name in names if name not in without]
        visits: list[tuple[float, int, int]] = []
        for name, positions in enumerate(self.members):
            sizes = self._visit_sizes(len(positions))[: len(self)]  # once a batch is the most
            places = order.spread(len(sizes))
            if name not in without:
                visits.extend((place, name, sizes[i]) for place, i in zip(places, order.shuffled(len(sizes)), strict=True))
        return [(name, size) for _, name, size in sorted(visits)]


class PutOff:
    """Visits of classes that were in the batch already, in their order, for the batches after it.

    A large class has most of its visits here. Each class has a queue, so that a batch looks at the first of each and not at all of them.
    """

    def __init__(self) -> None:
        self._queues: dict[int, deque[tuple[int, int]]] = {}  # class -> turn and size of its visits
        self._heads: list[tuple[int, int]] = []  # a heap: turn and class of the first visit of each
        self._looked_at: set[int] = set()  # classes that this batch has had or has added to
        self._turn = 0  # of the visit last taken
        self._next_turn = 0

    @property
    def classes(self) -> set[int]:
        return {name for name, queue in self._queues.items() if queue}

    def next(self) -> Visit | None:
        """The first visit of the class whose turn it is; None where this batch has had one of each."""
        if not self._heads:
            return None
        _, name = heappop(self._heads)
        self._looked_at.add(name)
        self._turn, size = self._queues[name].popleft()
        return name, size

    def add(self, visit: Visit) -> None:
        """A visit of a class that is in the batch, behind all others."""
        name, size = visit
        self._next_turn += 1
        self._looked_at.add(name)
        self._queues.setdefault(name, deque()).append((self._next_turn, size))

    def add_rest(self, visit: Visit) -> None:
        """What is left of the batch's last visit, before the class's others."""
        name, size = visit
        came_from_here = name in self._looked_at
        self._next_turn += not came_from_here
        self._looked_at.add(name)
        self._queues.setdefault(name, deque()).appendleft((self._turn if came_from_here else self._next_turn, size))

    def end_batch(self) -> None:
        for name in self._looked_at:
            if self._queues.get(name):
                heappush(self._heads, (self._queues[name][0][0], name))
            else:
                self._queues.pop(name, None)
        self._looked_at = set()

    def take_first(self) -> Visit:
        """The visit that has waited longest, of whatever class."""
        name = min(self.classes, key=lambda name: self._queues[name][0])
        self._turn, size = self._queues[name].popleft()
        return name, size

    def take_all(self) -> list[Visit]:
        """All visits in their order, which leave."""
        visits = sorted((turn, name, size) for name, queue in self._queues.items() for turn, size in queue)
        self._queues, self._heads = {}, []
        return [(name, size) for _, name, size in visits]


def visit_sizes(num_members: int, *, num_images: int, short: Short, balance: Balance) -> list[int]:
    """How many images a class of so many gives at each of its visits in a round."""
    if balance == "class":
        return [num_images if short == "repeat" else min(num_images, num_members)]
    visits = -(-num_members // num_images)
    if short == "repeat":
        return [num_images] * visits
    least = min(2, num_members, num_images)
    return [max(least, num_members * (i + 1) // visits - num_members * i // visits) for i in range(visits)]
