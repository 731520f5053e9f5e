"""What a loss is: one of four forms, and the traits it may declare.

| form | writes | for |
|---|---|---|
| `RowLoss` | `per_anchor(pairs) -> (a,)` | one value an anchor, from its row alone: nearly all losses |
| `PooledLoss` | `pooled(pairs) -> (a, k)`, `from_pool(totals) -> ()` | a function of sums over all rows |
| `BatchLoss` | `of_batch(pairs) -> ()` | what needs all rows at once; no blocks, no mining |
| `VectorLoss` | `of_vectors(vectors, labels) -> ()` | no function of pairs at all |

A loss has exactly one form. It may add `penalty(anchors, references) -> ()`, a term of the vectors themselves, and a row loss
`statistic(pairs) -> (a,)`, a number of each row that other rows may look at, and `num_terms(pairs) -> (a,)`, of how many pairs its value is
the mean. None of them averages over anchors, normalises,
gathers or knows devices.

An object is of a form by the methods it has. Deriving from `Loss` is optional: it holds the traits' defaults and tells a type
checker what they are. A loss's settings do not change: it is a frozen dataclass, or an `nn.Module` where it learns something.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Protocol, get_args, runtime_checkable

from torch import Tensor

from likewise.checks import ByMethods, require_frozen
from likewise.pairs import Pairs


@runtime_checkable
class RowLoss(Protocol, metaclass=ByMethods):
    """A function of anchors' rows, one value a row; the loss of a batch is their mean."""

    def per_anchor(self, pairs: Pairs) -> Tensor:
        """The value of each row of a block: (a,). A row's value must not depend on which other rows are in the block."""
        ...


@runtime_checkable
class PooledLoss(Protocol, metaclass=ByMethods):
    """A function of sums over all rows of a batch."""

    def pooled(self, pairs: Pairs) -> Tensor:
        """What each row of a block adds to the k sums: (a, k)."""
        ...

    def from_pool(self, totals: Tensor) -> Tensor:
        """The loss () from the sums over all rows (k,)."""
        ...


@runtime_checkable
class BatchLoss(Protocol, metaclass=ByMethods):
    """A function of all rows of a batch at once."""

    def of_batch(self, pairs: Pairs) -> Tensor:
        """The loss () of the pairs of a whole batch, every item an anchor; the anchors' classes are `pairs.anchor_labels`."""
        ...


@runtime_checkable
class VectorLoss(Protocol, metaclass=ByMethods):
    """A function of the embeddings themselves, not of pairs."""

    def of_vectors(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """The loss () of a batch of embeddings (n, d), normalised if the loss says so, and their labels (n,)."""
        ...


@runtime_checkable
class WithStatistic(Protocol, metaclass=ByMethods):
    """A row loss that also looks at a number of its references' own rows."""

    def statistic(self, pairs: Pairs) -> Tensor:
        """That number of each row of a block: (a,). `per_anchor` finds those of all references in `pairs.statistic`."""
        ...


@runtime_checkable
class OverPairs(Protocol, metaclass=ByMethods):
    """A row loss that is a mean (or with `sums_terms` a sum) of one term a pair or a triplet, so that a mean over all of them is meant."""

    def per_anchor(self, pairs: Pairs) -> Tensor: ...

    def num_terms(self, pairs: Pairs) -> Tensor:
        """How many terms each row of a block has: (a,)."""
        ...


@runtime_checkable
class WithPenalty(Protocol, metaclass=ByMethods):
    """A loss of pairs with a further term."""

    def penalty(self, anchors: Tensor, references: Tensor) -> Tensor:
        """What is added to the loss of the batch: (), a function of the embeddings (n, d) and of what they meet (r, d)."""
        ...


PairLoss = RowLoss | PooledLoss | BatchLoss  # a function of pairs
AnyLoss = PairLoss | VectorLoss

Meets = Literal["batch", "proxies", "prototypes"]


class Traits:
    """What a loss may declare about itself, as a class variable or an attribute of that name, and the default of each."""

    normalize: ClassVar[bool] = True  # embeddings (and references) are brought to length 1
    references_constant: ClassVar[bool] = False  # only the anchors receive gradient
    # What anchors are compared with: the other items of the batch; learnable points that stand for classes, which the objective
    # owns (give it num_classes and dim); or the class means of the first items of each class.
    meets: ClassVar[Meets] = "batch"
    proxies_are_anchors: ClassVar[bool] = False  # a row is a proxy against the batch instead of an item against the proxies
    # Compares every positive with the whole row, in (a, positives, references) numbers. Its positives then come as the few columns
    # that can be positive, whatever the batch's size, and blocks shrink by their number: without it such a loss takes the memory and
    # time of (a, references, references) numbers.
    expands_positives: ClassVar[bool] = False
    between_references: ClassVar[bool] = False  # calls pairs.positives_against_references()
    sums_terms: ClassVar[bool] = False  # a row's value is the sum of the terms that `num_terms` counts, not their mean
    proxies_per_class: int = 1  # how many proxies stand for a class
    num_support: int | None = None  # how many items of a class make its mean, for a loss that meets prototypes; None: half of them
    num_classes: int | None = None  # the loss has parameters for so many classes: labels must be below; None: any labels
    dim: int | None = None  # the loss has parameters for embeddings of so many dimensions; None: any
    # Of vectors alone: the embedding is made of parts that are compared each for itself, of widths in these proportions. A training joins
    # the levels of a network for it. Empty: the embedding is one.
    parts: tuple[int, ...] = ()


class Loss(Traits):
    """An optional base of losses: every trait with its default."""


def traits_of(loss: AnyLoss) -> Traits:
    """What the loss declares, and the default where it declares nothing."""
    traits = Traits()
    vars(traits).update({name: getattr(loss, name) for name in Traits.__annotations__ if hasattr(loss, name)})
    return traits


FORMS = (RowLoss, PooledLoss, BatchLoss, VectorLoss)


def checked_loss(loss: object) -> AnyLoss:
    """The loss itself, if it keeps to the contract."""
    if isinstance(loss, type):
        raise ValueError(f"{loss.__name__} is no loss but a class: give an object, {loss.__name__}()")
    forms = [form for form in FORMS if isinstance(loss, form)]
    if not forms:
        raise ValueError(
            f"{loss!r} is no loss: give a name in likewise.LOSSES or an object with per_anchor(pairs), with pooled(pairs) and "
            "from_pool(totals), with of_batch(pairs) or with of_vectors(vectors, labels)"
        )
    name = type(loss).__name__
    if len(forms) > 1:
        written = " and ".join(form.methods[0] for form in forms)
        raise ValueError(f"{name} has {written}: a loss has exactly one form, leave all but one out")
    assert isinstance(loss, FORMS)
    require_frozen("loss", loss)
    if isinstance(loss, WithStatistic) and not isinstance(loss, RowLoss):
        raise ValueError(f"{name} has a statistic, which only per_anchor looks at: leave it out")
    if isinstance(loss, WithPenalty) and isinstance(loss, VectorLoss):
        raise ValueError(f"{name} has a penalty beside of_vectors, which sees the vectors itself: add the term there")
    _check_traits(name, loss)
    return loss


def _check_traits(name: str, loss: AnyLoss) -> None:
    traits = traits_of(loss)
    for trait in ("normalize", "references_constant", "proxies_are_anchors", "expands_positives", "between_references", "sums_terms"):
        if getattr(traits, trait) not in (True, False):
            raise ValueError(f"{name} {trait}={getattr(traits, trait)!r} must be True or False")
    if traits.meets not in get_args(Meets):
        raise ValueError(f"{name} meets={traits.meets!r} is unknown: use 'batch', 'proxies' or 'prototypes'")
    for trait in ("proxies_per_class", "num_support", "num_classes", "dim"):
        count, default = getattr(traits, trait), getattr(Traits, trait)
        if count != default and not (isinstance(count, int) and count >= 1):
            raise ValueError(f"{name} {trait}={count!r} must be a number of at least 1{' or None' if default is None else ''}")
    if traits.proxies_are_anchors and traits.meets != "proxies":
        raise ValueError(f"{name} says proxies_are_anchors but meets={traits.meets!r}: add meets = 'proxies'")
    if isinstance(loss, VectorLoss) and traits.meets != "batch":
        raise ValueError(f"{name} meets={traits.meets!r}, but of_vectors sees the batch alone: leave meets out")
    if traits.parts and not isinstance(loss, VectorLoss):
        raise ValueError(f"{name} has parts={traits.parts!r}, which pairs have not: write of_vectors, or leave parts out")


def require_positive(loss: object, *settings: str) -> None:
    """A ValueError that names the first of these settings that is not above 0."""
    for setting in settings:
        value = getattr(loss, setting)
        if not value > 0:
            raise ValueError(f"{type(loss).__name__} {setting}={value!r} must be above 0")
