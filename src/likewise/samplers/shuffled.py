"""Shuffled batches: every image once an epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from likewise.samplers.order import Order
from likewise.samplers.sampler import BatchSampler, FewClasses, Labels, Runs, whole_labels, whole_number


class Shuffled(BatchSampler):
    """All items in a new order each epoch, `batch_size` at a time, whatever their classes.

    By default the last batch is left out if it is not full (other items each epoch); with `drop_last=False` it is smaller.
    """

    set_by_batch = ("batch_size",)
    gives_positive_pairs = False

    def __init__(
        self, labels: Labels, *, batch_size: int, drop_last: bool = True, seed: int = 0, rank: int = 0, num_ranks: int = 1
    ) -> None:
        whole_number("batch_size", batch_size)
        whole_number("num_ranks", num_ranks)
        array = whole_labels(labels)
        rest = len(array) % batch_size
        if drop_last and len(array) < batch_size:
            raise ValueError(f"a batch of {batch_size} needs as many items, there are {len(array)}: set batch_size to at most {len(array)}")
        if not drop_last and 0 < rest < num_ranks:
            raise ValueError(
                f"the last batch of {len(array)} items by {batch_size} has {rest} for num_ranks={num_ranks}:"
                " every rank needs an item, set drop_last=True or another batch_size"
            )
        super().__init__(
            array,
            batch_size=batch_size,
            num_batches=len(array) // batch_size + (rest > 0 and not drop_last),
            seed=seed,
            rank=rank,
            num_ranks=num_ranks,
            settings=(drop_last,),
        )

    @classmethod
    def for_batch(cls, labels: Labels, batch: int, settings: Mapping[str, Any], *, few_classes: FewClasses = "error") -> Shuffled:
        """Classes do not matter here: few_classes="more_images" takes all items where there are fewer than the batch holds."""
        array = whole_labels(labels)
        batch_size = min(batch, len(array)) if few_classes == "more_images" else batch
        return cls(array, batch_size=batch_size, **settings)

    def batches(self, order: Order) -> Iterator[Runs]:
        items = order.shuffled(len(self.labels))
        for start in range(0, len(items), self.batch_size):
            yield [[item] for item in items[start : start + self.batch_size]]
