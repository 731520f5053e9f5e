"""N-pair batches: N classes x 2 images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from likewise.samplers.group import Balance, Group
from likewise.samplers.sampler import Labels


class NPair(Group):
    """`num_classes` pairs, each of another class: anchor, positive, anchor, positive, ... (Sohn 2016).

    Classes of one image are left out (`num_left_out`). Rounds, epochs and `balance` are those of `Group` with 2 images.
    """

    def __init__(
        self,
        labels: Labels,
        *,
        num_classes: int,
        balance: Balance = "class",
        num_batches: int | None = None,
        seed: int = 0,
        rank: int = 0,
        num_ranks: int = 1,
    ) -> None:
        self._set_up(
            labels,
            num_classes=num_classes,
            num_images=2,
            least=2,
            short="fill",
            balance=balance,
            num_batches=num_batches,
            seed=seed,
            rank=rank,
            num_ranks=num_ranks,
        )

    @classmethod
    def images_of_a_class(cls, settings: Mapping[str, Any]) -> tuple[int, int]:
        return 2, 2
