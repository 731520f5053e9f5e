"""What a loss is, and what it may declare about itself."""

from __future__ import annotations

from typing import ClassVar, Literal


class Loss:
    """A function of anchors' rows, written once; engines, references, mining and weight plots are derived from it.

    A loss has exactly one of these forms:

    - `per_anchor(pairs) -> (a,)`: one value a row. Nearly all of them. A loss that also has
      `statistic(pairs) -> (a,)` finds the statistic of each reference's own row in `pairs.statistic`.
    - `pooled(pairs) -> (a, k)` and `from_pool(totals (k,)) -> ()`: a function of sums over all rows.
    - `of_batch(pairs, labels) -> ()`: needs all rows at once.

    and may add `penalty(anchors, references) -> ()`: a term of the vectors themselves.

    None of them averages over anchors, normalises, gathers or knows devices. Deriving from this class is optional: it
    only holds the defaults of what a loss may declare.
    """

    normalize: ClassVar[bool] = True  # embeddings (and references) are brought to length 1
    references_constant: ClassVar[bool] = False  # only the anchors receive gradient
    meets: ClassVar[Literal["batch", "proxies", "prototypes"]] = "batch"  # what anchors are compared with
    proxies_are_anchors: ClassVar[bool] = False  # a row is a proxy against the batch
    expands_positives: ClassVar[bool] = False  # compares every positive with the whole row: (a, positives, r) numbers
    between_references: ClassVar[bool] = False  # looks at pairs of references


def require_positive(loss: object, *settings: str) -> None:
    """A ValueError that names the first of these settings that is not above 0."""
    for setting in settings:
        value = getattr(loss, setting)
        if not value > 0:
            raise ValueError(f"{type(loss).__name__} {setting}={value!r} must be above 0")
