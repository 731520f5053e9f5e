"""Claims of papers as data: one dataclass a kind, each with the test that would refute it. `KINDS` names them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from likewise.checks import known_name
from likewise.configuration import from_table
from likewise.reports.weight_curves import NEGATIVES, POSITIVES
from likewise.reproductions.computed_facts import FACTS
from likewise.wording import listed

Over = Literal["rows", "parts"]


@dataclass(frozen=True)
class Requirement:
    """What has to be true of two: the first's score less the second's lies between low and high, in points."""

    first: str
    second: str
    low: float = 0.0
    high: float = math.inf


@dataclass(frozen=True)
class Competitors:
    """The rows (or parts) of which there are figures, in the order of the file."""

    names: tuple[str, ...]
    x: Mapping[str, float]  # of those that have one
    published: Mapping[str, float]  # percent, of those that have one


@dataclass(frozen=True, kw_only=True)
class PaperClaim(ABC):
    """What a paper says of a table or a figure, in one sentence, and what of it can be tested.

    over: what is set against each other, and what the names in the claim are: "rows" of one part, or "parts" (dimensions, batch sizes) that
    one row is seen in. Parts have to share their data set, as differences are taken class by class.
    """

    says: str  # the paper's claim in our words
    where: str = ""  # in the paper
    note: str = ""  # how it is taken here, or that the paper's own figures do not support it
    ours: bool = False  # a question that the paper does not ask: judged, but not counted among its claims
    part: str = ""  # of claims over rows; empty: every part that was run, one verdict each
    not_in: tuple[str, ...] = ()  # parts where it means nothing: figures of fine-tuned networks, asked of another's frozen features
    row: str = ""  # of claims over parts, and of those about one row; empty: every row, one verdict each
    each: tuple[str, ...] = ()  # of claims over parts: these rows, one verdict each
    score: str = ""  # empty: the item's
    over: Over = "rows"

    @property
    def names(self) -> tuple[str, ...]:
        """The rows (or parts) that the claim names; empty: all of them."""
        return ()

    @property
    @abstractmethod
    def refuted_by(self) -> str:
        """What would have to be seen for the claim to be contradicted."""

    def requires(self, among: Competitors) -> tuple[Requirement, ...]:
        """Confirmed where all of it is true beyond noise, contradicted where any of it is false beyond noise.

        Only of those among whom it can be asked; nothing where that leaves nothing to ask.
        """
        return ()


@dataclass(frozen=True, kw_only=True)
class Above(PaperClaim):
    """One, or each of several, is better than others by more than `by` points."""

    better: str | tuple[str, ...]
    worse: tuple[str, ...]
    by: float = 0.0

    @property
    def betters(self) -> tuple[str, ...]:
        return (self.better,) if isinstance(self.better, str) else self.better

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.betters, *self.worse)

    @property
    def refuted_by(self) -> str:
        if self.by:
            return f"{_any_of(self.betters)} less than {self.by:g} points ahead of {_any_of(self.worse)}, beyond noise"
        return f"{_any_of(self.worse)} ahead of {_any_of(self.betters)} beyond noise"

    def requires(self, among: Competitors) -> tuple[Requirement, ...]:
        return tuple(requirement for better in self.betters for requirement in _ahead(better, self.worse, among, by=self.by))


@dataclass(frozen=True, kw_only=True)
class Best(PaperClaim):
    """One is better than all others."""

    best: str
    among: tuple[str, ...] = ()  # empty: all

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.best, *self.among))) if self.among else ()

    @property
    def refuted_by(self) -> str:
        return f"any other ahead of {self.best} beyond noise"

    def requires(self, among: Competitors) -> tuple[Requirement, ...]:
        return _ahead(self.best, self.among or among.names, among)


@dataclass(frozen=True, kw_only=True)
class Alike(PaperClaim):
    """All pairs differ by at most `within` points."""

    rows: tuple[str, ...] = ()  # empty: all
    within: float = 1.0

    @property
    def names(self) -> tuple[str, ...]:
        return self.rows

    @property
    def refuted_by(self) -> str:
        return f"any two that differ by more than {self.within:g} points beyond noise"

    def requires(self, among: Competitors) -> tuple[Requirement, ...]:
        names = [name for name in self.rows or among.names if name in among.names]
        return tuple(Requirement(*pair, -self.within, self.within) for pair in combinations(names, 2))


@dataclass(frozen=True, kw_only=True)
class Ordered(PaperClaim):
    """Each is better than all that follow it."""

    rows: tuple[str, ...] = ()  # best first; empty: all, by the published score

    @property
    def names(self) -> tuple[str, ...]:
        return self.rows

    @property
    def refuted_by(self) -> str:
        return "any pair that stands the other way round beyond noise"

    def requires(self, among: Competitors) -> tuple[Requirement, ...]:
        return tuple(Requirement(*pair) for pair in combinations(self.order(among), 2))

    def order(self, among: Competitors) -> list[str]:
        """Of those that have figures; of two with the same published score the first in the file."""
        if self.rows:
            return [name for name in self.rows if name in among.names]
        return sorted((name for name in among.names if name in among.published), key=lambda name: -among.published[name])


@dataclass(frozen=True, kw_only=True)
class Reordered(PaperClaim):
    """They do not stand in the order that was expected: the mirror of Ordered."""

    rows: tuple[str, ...]  # best first, as was expected

    @property
    def names(self) -> tuple[str, ...]:
        return self.rows

    @property
    def refuted_by(self) -> str:
        return "every pair in the order that was expected, beyond noise"

    def requires(self, among: Competitors) -> tuple[Requirement, ...]:
        """Of which at least one has to be false."""
        return tuple(Requirement(*pair) for pair in combinations([name for name in self.rows if name in among.names], 2))


@dataclass(frozen=True, kw_only=True)
class Between(PaperClaim):
    """Some are better than `low` and worse than `high`."""

    rows: tuple[str, ...]
    low: str
    high: str

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.rows, self.low, self.high)

    @property
    def refuted_by(self) -> str:
        return f"{_any_of(self.rows)} behind {self.low} or ahead of {self.high} beyond noise"

    def requires(self, among: Competitors) -> tuple[Requirement, ...]:
        above_low = (requirement for row in self.rows for requirement in _ahead(row, [self.low], among))
        below_high = (requirement for row in self.rows for requirement in _ahead(self.high, [row], among))
        return (*above_low, *below_high)


@dataclass(frozen=True, kw_only=True)
class Saturates(PaperClaim):
    """A curve over x gains up to `beyond`, and from there no point is further than `within` points from that at `beyond`."""

    beyond: float  # a value of x that is among the points
    within: float = 1.0
    curve: str = ""  # whose points; empty: every curve, one verdict each

    @property
    def refuted_by(self) -> str:
        return f"any point beyond {self.beyond:g} that is over {self.within:g} points off, or no gain up to it, beyond noise"

    def requires(self, among: Competitors) -> tuple[Requirement, ...]:
        points = sorted((x, name) for name, x in among.x.items() if name in among.names)
        here = next((name for x, name in points if x == self.beyond), None)
        if here is None:
            return ()
        further = tuple(Requirement(name, here, -self.within, self.within) for x, name in points if x > self.beyond)
        return further + tuple(Requirement(here, name) for x, name in points[:1] if x < self.beyond)


@dataclass(frozen=True, kw_only=True)
class Faster(PaperClaim):
    """Others take more than `by` times as long to train, in the same run."""

    faster: str
    slower: tuple[str, ...]
    by: float = 1.0

    @property
    def names(self) -> tuple[str, ...]:
        return (self.faster, *self.slower)

    @property
    def refuted_by(self) -> str:
        return f"{_any_of(self.slower)} taking less than {self.by:g} times as long beyond noise"

    def requires(self, among: Competitors) -> tuple[Requirement, ...]:
        """Of the logarithm of the seconds of training."""
        there = [name for name in self.slower if {name, self.faster} <= set(among.names)]
        return tuple(Requirement(name, self.faster, math.log(self.by)) for name in there)


@dataclass(frozen=True, kw_only=True)
class Separates(PaperClaim):
    """The scores of rows lie above a figure for each; below=True: below."""

    figures: dict[str, float]  # row -> percent
    below: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.figures)

    @property
    def refuted_by(self) -> str:
        side = "begins above" if self.below else "ends below"
        return f"any interval that {side} its figure: {listed([f'{row} {figure:g}' for row, figure in self.figures.items()])}"


@dataclass(frozen=True, kw_only=True)
class Radii(PaperClaim):
    """In the plane, the classes of one row differ more in size than those of others: see `plane_shape`."""

    wider: str
    narrower: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return (self.wider, *self.narrower)

    @property
    def refuted_by(self) -> str:
        return f"classes of {_any_of(self.narrower)} that differ more in size than those of {self.wider}, beyond the noise of seeds"

    def requires(self, among: Competitors) -> tuple[Requirement, ...]:
        return _ahead(self.wider, self.narrower, among)


@dataclass(frozen=True, kw_only=True)
class Weighs(PaperClaim):
    """How a loss weighs a pair by its similarity: computed, so that no noise is in it.

    shape, of the weight while the similarity rises from low to high: "rising", "falling", "constant", "zero", "above zero", "not below
    zero". "relative": it depends on the other pairs of the anchor; "absolute": it does not.
    """

    row: str
    of: Literal["positive", "negative"]
    shape: Literal["rising", "falling", "constant", "zero", "above zero", "not below zero", "relative", "absolute"]
    low: float = -0.98
    high: float = 0.98
    positives: tuple[float, ...] = POSITIVES  # similarities of the anchor's other pairs
    negatives: tuple[float, ...] = NEGATIVES

    @property
    def names(self) -> tuple[str, ...]:
        return (self.row,)

    @property
    def refuted_by(self) -> str:
        return f"a curve of {self.of} pairs between similarities {self.low:g} and {self.high:g} that is not {self.shape}"


@dataclass(frozen=True, kw_only=True)
class Computed(PaperClaim):
    """What a formula does, computed: see `computed_facts`."""

    fact: str

    def __post_init__(self) -> None:
        known_name("fact", self.fact, FACTS)

    @property
    def refuted_by(self) -> str:
        return FACTS[self.fact].refuted_by


KINDS: dict[str, type[PaperClaim]] = {
    "above": Above,
    "best": Best,
    "alike": Alike,
    "order": Ordered,
    "reordered": Reordered,
    "between": Between,
    "saturates": Saturates,
    "faster": Faster,
    "separates": Separates,
    "radii": Radii,
    "weight": Weighs,
    "computed": Computed,
}


def claim_of(table: Mapping[str, Any], *, where: str) -> PaperClaim:
    """The claim of a table of an item's file; its `kind` says which."""
    kind = table.get("kind")
    if not isinstance(kind, str):
        raise ValueError(f"{where}: a claim without a kind: expected one of {', '.join(KINDS)}")
    known_name(f"kind of claim in {where}", kind, KINDS)
    return from_table(KINDS[kind], {name: value for name, value in table.items() if name != "kind"}, where=f"{where} ({kind})")


def kind_of(claim: PaperClaim) -> str:
    """Its name among KINDS."""
    return next(name for name, kind in KINDS.items() if isinstance(claim, kind))


def _ahead(better: str, worse: Sequence[str], among: Competitors, *, by: float = 0.0) -> tuple[Requirement, ...]:
    there = [name for name in worse if name != better and {name, better} <= set(among.names)]
    return tuple(Requirement(better, name, by) for name in there)


def _any_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"any of {listed(names)}"
