"""Items: the tables and figures of the papers as data. One TOML file each, items/PAPER/ITEM.toml; `ITEMS` names them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from likewise.checks import known_name
from likewise.configuration import as_table, from_table, with_settings
from likewise.data.readers import READERS
from likewise.evaluation.metrics import METRICS
from likewise.formats.settings_files import read_toml
from likewise.methods import Level, Method, at, load_method
from likewise.protocols import Protocol, load_protocol
from likewise.reproductions.paper_claims import Computed, PaperClaim, Saturates, Weighs, claim_of
from likewise.wording import listed

FOLDER = Path(__file__).parent / "items"
R_AT_K = re.compile(r"R@(\d+)")
REPORTED = "reported R@1"  # a column of some tables: what a method's own paper has; nothing is run for it

Shape = Literal["table", "curve", "plane", "weights"]


@dataclass(frozen=True)
class Paper:
    """A paper that items are of."""

    title: str
    authors: str
    venue: str


PAPERS: dict[str, Paper] = {
    "rll": Paper(
        "Ranked List Loss for Deep Metric Learning",
        "Xinshao Wang, Yang Hua, Elyor Kodirov, Guosheng Hu, Romain Garnier, Neil M. Robertson",
        "CVPR 2019",
    ),
    "nra": Paper(
        "Deep Metric Learning using Similarities from Nonlinear Rank Approximations",
        "Konstantin Schall, Kai Uwe Barthel, Nico Hezel, Klaus Jung",
        "MMSP 2019",
    ),
    "unified": Paper("A Unified View of Deep Metric Learning via Gradient Analysis", "anonymous, under review", "submitted to ICLR 2020"),
    "unbiased": Paper(
        "Unbiased Evaluation of Deep Metric Learning Algorithms",
        "István Fehérvári, Avinash Ravichandran, Srikar Appalaraju",
        "arXiv 2019",
    ),
}


def _as_in_a_paper(name: str) -> tuple[int, str, int, str]:
    """Papers in the order of PAPERS; tables before figures before the rest, each by number."""
    paper, _, item = name.partition("/")
    kind, _, number = item.partition("-")
    rank = {"table": "0", "figure": "1"}.get(kind, "2")
    return list(PAPERS).index(paper), rank, int(number) if number.isdigit() else 0, item


ITEMS: tuple[str, ...] = tuple(sorted((f"{path.parent.name}/{path.stem}" for path in FOLDER.glob("*/*.toml")), key=_as_in_a_paper))


@dataclass(frozen=True)
class PaperPart:
    """One data set under one protocol: a block of a table, or a point of a curve."""

    name: str  # as claims and [published] have it
    data: str  # a reader's name
    protocol: str
    title: str = ""
    settings: dict[str, Any] = field(default_factory=dict)  # of the protocol, that differ
    method_settings: dict[str, Any] = field(default_factory=dict)  # of every row's method: one head where there are features of one level
    rows: tuple[str, ...] = ()  # empty: all of the item's
    row_conditions: dict[str, dict[str, Any]] = field(default_factory=dict)  # row -> settings of the protocol for it alone, in this part
    cannot: dict[str, str] = field(default_factory=dict)  # row -> why it would mean nothing in this part, so that it is not run
    x: float | None = None  # where parts are the points of curves
    series: str = ""  # which of several such curves it belongs to; parts of one series are what claims over parts set against each other
    stands_for: str = ""  # the part that it is in another series, to claims over parts: 64 dimensions on other features
    gpu_minutes: float = 0.0  # of an H200, that a seed of its rows takes beyond what other items train; 0: none, or not known
    cpu_minutes: float = 0.0  # of one core, where that is enough
    published: bool = True  # False: the paper does not have it; the same question where we can ask it
    beside: str = ""  # the part whose published figures stand beside this one's; empty: its own, or the first of the same data

    @property
    def role(self) -> str:
        """What claims over parts call it."""
        return self.stands_for or self.name

    def conditions(self) -> Protocol:
        """The protocol with the settings that differ."""
        return with_settings(load_protocol(self.protocol), self.settings)


@dataclass(frozen=True)
class PaperRow:
    """One line of a table, or a point of a curve: a method with settings."""

    method: str = ""
    title: str = ""  # empty: its name in the file
    settings: dict[str, Any] = field(default_factory=dict)  # dotted names of the method's file
    conditions: dict[str, Any] = field(default_factory=dict)  # settings of the protocol for this row alone, in every part
    x: float | None = None  # where rows are the points of curves
    curve: str = ""  # which of several curves it belongs to
    levels: tuple[Level, ...] = ()  # the training's embedding scored with these levels alone
    literature: str = ""  # why there is no method: published figures only
    note: str = ""  # what a reader should know of it

    def under(self, protocol: str) -> Method:
        """The method with its paper's settings under this protocol and the row's own, named after its content.

        Rows of any two items that mean the same training thus have the same name, and it is trained once.
        """
        method = load_method(self.method).for_protocol(protocol)
        own = {name: value for name, value in sorted(self.settings.items()) if _differs(method, name, value)}
        changed = with_settings(method, own)
        words = [f"{name}={_in_a_name(value)}" for name, value in own.items()]
        return replace(changed, name=" ".join((method.name, *words)), title=" ".join((method.title, *words)))


@dataclass(frozen=True)
class PaperItem:
    """A table or a figure of a paper: what it asks, what is run for it, what was published, and what the paper claims by it."""

    name: str  # "rll/table-3"
    title: str
    where: str
    asks: str
    shape: Shape
    rows: dict[str, PaperRow]
    parts: tuple[PaperPart, ...] = ()
    axis: str = ""
    score: str = "R@1"  # of claims and curves
    setup: dict[str, Any] = field(default_factory=dict)  # the paper's conditions, in words or numbers
    published: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)  # part -> row -> score -> percent
    claims: tuple[PaperClaim, ...] = ()
    notes: tuple[str, ...] = ()  # what the paper's text lost, and misprints

    def __post_init__(self) -> None:
        self._check_rows()
        self._check_parts()
        for part, rows in self.published.items():
            known_name(f"part in [published] of {self.name}", part, self.part_names)
            for row, scores in rows.items():
                known_name(f"row in [published.{part}] of {self.name}", row, self.rows)
                for score in scores:
                    if score != REPORTED:
                        _check_score(f"{self.name}, published of {row}", score)
        for claim in self.claims:
            self._check_claim(claim)

    @property
    def paper(self) -> str:
        """Short name of the paper."""
        return self.name.partition("/")[0]

    @property
    def part_names(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.parts)

    def part(self, name: str) -> PaperPart:
        return next(part for part in self.parts if part.name == name)

    def rows_of(self, part: PaperPart) -> dict[str, PaperRow]:
        """The rows of a part, those of the literature too, as they are run there."""
        chosen = {name: row for name, row in self.rows.items() if not part.rows or name in part.rows}
        return {name: replace(row, settings=row.settings | part.method_settings) for name, row in chosen.items()}

    def conditions(self, part: PaperPart, row: str) -> Protocol:
        """What a row is run under in a part: the part's protocol, and what is the row's own."""
        return with_settings(part.conditions(), self.rows[row].conditions | part.row_conditions.get(row, {}))

    def beside(self, part: PaperPart) -> str:
        """The part whose published figures stand beside this one's; empty: nothing was published."""
        same = [other.name for other in self.parts if other.data == part.data and other.name in self.published]
        known = [part.beside, part.name if part.published else "", *same, *self.published]
        return next((name for name in known if name in self.published), "")

    def score_of(self, claim: PaperClaim) -> str:
        return claim.score or self.score

    def _check_rows(self) -> None:
        if not self.rows:
            raise ValueError(f"{self.name}: no rows: expected at least one [rows.NAME]")
        for name, row in self.rows.items():
            if bool(row.method) == bool(row.literature):
                raise ValueError(f"{self.name}, row {name}: expected a method, or literature with the reason why there is none")
            if row.method:
                load_method(row.method)

    def _check_parts(self) -> None:
        if len(set(self.part_names)) < len(self.parts):
            raise ValueError(f"{self.name}: two parts of one name among {', '.join(self.part_names)}")
        if not self.parts and self.shape != "weights":
            raise ValueError(f"{self.name}: no parts: expected at least one [[parts]] with data and protocol")
        for part in self.parts:
            known_name(f"data of part {part.name} of {self.name}", part.data, READERS)
            protocol = part.conditions()
            for name in (*part.rows, *part.row_conditions, *part.cannot):
                known_name(f"row of part {part.name} of {self.name}", name, self.rows)
            if part.stands_for:
                known_name(f"part that {part.name} of {self.name} stands for", part.stands_for, self.part_names)
            if part.beside:
                known_name(f"published part beside {part.name} of {self.name}", part.beside, self.published)
            for name, row in self.rows_of(part).items():
                if row.method:
                    self.conditions(part, name)
                    method = row.under(protocol.name)
                    for level in row.levels:
                        known_name(f"level of row {name} of {self.name}", level, method.head.levels)

    def _check_claim(self, claim: PaperClaim) -> None:
        what = f"{self.name}, claim {claim.says!r}"
        for name in (claim.part, *claim.not_in):
            if name:
                known_name(f"part in {what}", name, self.part_names)
        for name in (claim.row, *claim.each):
            if name:
                known_name(f"row in {what}", name, self.rows)
        for name in claim.names:
            known_name(f"{claim.over[:-1]} in {what}", name, self.rows if claim.over == "rows" else self.part_names)
        judged_in = [part for part in self.parts if claim.part in ("", part.name) and part.name not in claim.not_in]
        if claim.over == "parts":
            judged_in = [part for part in self.parts if not claim.names or part.role in claim.names]
            if len({part.data for part in judged_in}) > 1:
                raise ValueError(f"{what}: over parts of different data sets, whose classes are not the same: name parts of one")
        score = self.score_of(claim)
        _check_score(what, score)
        known = dict.fromkeys(name for part in judged_in for name in scores_of(part.conditions()))
        if not isinstance(claim, Weighs | Computed) and score not in known:
            raise ValueError(
                f"{what}: no part gives {score}: the protocols of {listed([part.name for part in judged_in])} give {', '.join(known)}"
            )
        if isinstance(claim, Saturates):
            points = [row.x for row in self.rows.values()] if claim.over == "rows" else [part.x for part in self.parts]
            if claim.beyond not in points:
                raise ValueError(f"{what}: beyond={claim.beyond:g} is no point of the curve: give one of the x of its {claim.over}")


def load_item(name: str) -> PaperItem:
    """The item of this name, such as "rll/table-3"."""
    return read_item(FOLDER / f"{known_name('item', name, ITEMS)}.toml")


def items_named(names: Iterable[str | PaperItem]) -> tuple[PaperItem, ...]:
    """The items of these names; a paper's name stands for all of its items, and no name for all there are."""
    chosen: dict[str, PaperItem] = {}
    for name in list(names) or PAPERS:
        if isinstance(name, PaperItem):
            chosen[name.name] = name
        elif name in PAPERS:
            chosen |= {item: load_item(item) for item in ITEMS if item.startswith(f"{name}/")}
        else:
            chosen[name] = load_item(name)
    return tuple(chosen.values())


@lru_cache(maxsize=256)
def read_item(path: Path) -> PaperItem:
    """The item of a file PAPER/ITEM.toml."""
    name = f"{path.parent.name}/{path.stem}"
    table = read_toml(path)
    claims = tuple(claim_of(claim, where=f"claim {number} of {name}") for number, claim in enumerate(table.pop("claims", ()), start=1))
    return from_table(PaperItem, {"name": name, **table, "claims": claims}, where=f"item {name}")


def scores_of(protocol: Protocol) -> tuple[str, ...]:
    """The scores that a protocol gives, by name; MAP@R is in every comparison."""
    names = [f"R@{k}" for k in protocol.ks] if "R@K" in protocol.metrics else []
    return tuple(dict.fromkeys((*names, *(name for name in protocol.metrics if name != "R@K"), "MAP@R")))


def _check_score(what: str, score: str) -> None:
    if not R_AT_K.fullmatch(score):
        known_name(f"score in {what}", score, [name for name in METRICS if name != "R@K"])


def _differs(method: Method, name: str, value: Any) -> bool:
    """Whether a setting changes the method. One that it cannot have is told by who sets it."""
    try:
        return bool(as_table(at(method, name)) != as_table(value))
    except ValueError:
        return True


def _in_a_name(value: Any) -> str:
    """1 and 1.0 are one value."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:g}" if is_number else value if isinstance(value, str) else json.dumps(as_table(value))
