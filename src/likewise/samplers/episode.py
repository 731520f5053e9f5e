"""Episodes: classes with support and query images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from likewise.samplers.group import Group
from likewise.samplers.sampler import Labels, one_of, whole_number

ShortEpisode = Literal["leave_out", "fill"]


class Episode(Group):
    """`num_classes` classes x (`num_support` + `num_query`) images, a class's support before its queries (Snell et al. 2017).

    That order is what the `prototypical` loss with the same `num_support` expects. An image is never support and query at once.
    short: what happens to a class with too few images.
        "leave_out"  it does not take part (`num_left_out`): all episodes have one shape.
        "fill"       it takes part with fewer queries if it has any beyond its support, and more classes are added until the batch
                     is full; the last may be cut, even to a part of its support.
    All classes are visited once before any is visited again.
    """

    def __init__(
        self,
        labels: Labels,
        *,
        num_classes: int,
        num_support: int,
        num_query: int,
        short: ShortEpisode = "leave_out",
        num_batches: int | None = None,
        seed: int = 0,
        rank: int = 0,
        num_ranks: int = 1,
    ) -> None:
        one_of("short", short, ShortEpisode)
        whole_number("num_support", num_support)
        whole_number("num_query", num_query)
        self.num_support = num_support
        self.num_query = num_query
        self._set_up(
            labels,
            num_classes=num_classes,
            num_images=num_support + num_query,
            least=num_support + (num_query if short == "leave_out" else 1),
            short="fill",
            balance="class",
            num_batches=num_batches,
            seed=seed,
            rank=rank,
            num_ranks=num_ranks,
        )

    @classmethod
    def images_of_a_class(cls, settings: Mapping[str, Any]) -> tuple[int, int]:
        whole_class = cls.number_in(settings, "num_support") + cls.number_in(settings, "num_query")
        return whole_class, whole_class

    @classmethod
    def _with_room(cls, settings: Mapping[str, Any], room: int) -> dict[str, Any]:
        """Support and queries in the same ratio, as near as whole numbers allow."""
        support, whole = cls.number_in(settings, "num_support"), cls.images_of_a_class(settings)[0]
        shares = {"num_support": support, "num_query": whole - support}
        return {**settings, **{name: max(1, room * share // whole) for name, share in shares.items()}}

    @classmethod
    def _of_few_classes(cls, labels: Labels, batch: int, num_classes: int, settings: Mapping[str, Any]) -> Group:
        """Fewer classes: support and queries of a class stay as many as the loss expects."""
        return cls(labels, num_classes=num_classes, **settings)
