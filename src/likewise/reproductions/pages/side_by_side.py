"""The paper's figures beside ours, as a table that pages of any kind write: one part of an item, its rows and scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from likewise.comparison.results import Estimate
from likewise.protocols import Protocol
from likewise.reproductions.paper_item import REPORTED, PaperItem, PaperPart, scores_of
from likewise.reproductions.reproduction import ItemResult, PartResult
from likewise.wording import NONE, count_of, listed

SHOWN = ("R@", "NMI", "mAP")  # beginnings of the names of scores that tables have beside the item's own
CLUSTERING_VARIANTS = ("NMI_geometric",)
SETUP_TITLES = {
    "data": "data",
    "backbone": "network",
    "dim": "dimensions",
    "batch": "images a batch",
    "steps": "steps",
    "optimizer": "optimiser",
    "selection": "which step is scored",
    "tuning": "tuning",
    "seeds": "seeds",
}


@dataclass(frozen=True, eq=False)
class Pairing:
    """One score of one row: published, in percent, and ours."""

    published: float | None
    ours: Estimate | None
    has_difference: bool  # the same data set, and a network that learns as the paper's did, so that their difference means something

    @property
    def difference(self) -> float | None:
        """Ours less the paper's, in points."""
        if self.published is None or self.ours is None or not self.has_difference:
            return None
        return 100 * self.ours.mean - self.published


@dataclass(frozen=True, eq=False)
class Line:
    """A row: its scores, or why there are none of ours."""

    name: str
    title: str
    note: str
    why_not: str  # empty where there is something of ours
    scores: dict[str, Pairing]
    conditions: str = ""  # what is this row's own, in words: "batch 120"


@dataclass(frozen=True, eq=False)
class SideBySide:
    """A part of an item."""

    part: PaperPart
    score: str  # the item's
    others: tuple[str, ...]  # further scores
    lines: tuple[Line, ...]
    of_paper: str  # the title of the part that the paper's figures are of; empty: there are none
    is_comparable: bool  # the paper's figures are of the same data set
    has_difference: bool  # ... and of a network that learned, as ours did
    has_ours: bool
    needs: str  # what it lacks, where nothing was run
    seeds: int = 0

    @property
    def has_reported(self) -> bool:
        return any(REPORTED in line.scores for line in self.lines)


def side_by_side(result: ItemResult, part: PaperPart) -> SideBySide:
    item = result.item
    ran = result.parts.get(part.name)
    beside = item.beside(part)
    published = item.published.get(beside, {})
    comparable = bool(beside) and item.part(beside).data == part.data
    difference = comparable and not (ran is not None and ran.protocol.frozen)
    lines = [_line(item, part, name, published.get(name, {}), ran, difference) for name in item.rows_of(part)]
    return SideBySide(
        part=part,
        score=item.score,
        others=_other_scores(item, part, lines, comparable),
        lines=tuple(lines),
        of_paper=(item.part(beside).title or beside) if beside else "",
        is_comparable=comparable,
        has_difference=difference,
        has_ours=ran is not None and bool(ran.rows),
        needs=result.needs.get(part.name, ""),
        seeds=0 if ran is None else ran.seeds,
    )


@dataclass(frozen=True, eq=False)
class Grid:
    """A curve over parts as a table: rows against the values of x."""

    series: str
    xs: tuple[float, ...]
    lines: tuple[tuple[str, dict[float, Estimate | str]], ...]  # title, and by x the score, or why there is none
    score: str
    first: PaperPart
    seeds: int


def grids(result: ItemResult) -> list[Grid]:
    """One a series of parts, where parts are the points of curves and any was run; empty for other items."""
    item = result.item
    if not is_over_parts(item):
        return []
    ran = [part for part in item.parts if part.name in result.parts and result.parts[part.name].rows]
    return [_grid(result, [part for part in ran if part.series == series]) for series in dict.fromkeys(part.series for part in ran)]


def is_over_parts(item: PaperItem) -> bool:
    return bool(item.parts) and all(part.x is not None for part in item.parts)


def _grid(result: ItemResult, parts: list[PaperPart]) -> Grid:
    item = result.item
    by_x = {part.x or 0.0: result.parts[part.name] for part in sorted(parts, key=lambda part: part.x or 0.0)}
    lines = []
    for name, row in item.rows.items():
        cells: dict[float, Estimate | str] = {}
        for x, ran in by_x.items():
            found = ran.rows.get(name)
            estimate = None if found is None else found.scores.get(item.score)
            cells[x] = estimate if estimate is not None else ran.left_out.get(name) or ran.waiting.get(name, "")
        lines.append((row.title or name, cells))
    return Grid(parts[0].series, tuple(by_x), tuple(lines), item.score, parts[0], min(ran.seeds for ran in by_x.values()))


def parts_shown(item: PaperItem, result: ItemResult) -> list[PaperPart]:
    """Those of which there is anything to show: figures of ours first, then what was only published."""
    if is_over_parts(item):
        return []  # a table of all of them: see `grids`
    ran = [part for part in item.parts if part.name in result.parts]
    return ran + [part for part in item.parts if part.name in item.published and part.name not in result.parts]


def _line(item: PaperItem, part: PaperPart, name: str, published: dict[str, float], ran: PartResult | None, difference: bool) -> Line:
    row = item.rows[name]
    found = None if ran is None else ran.rows.get(name)
    names = dict.fromkeys((*published, *(() if found is None else found.scores)))
    scores = {score: Pairing(published.get(score), None if found is None else found.scores.get(score), difference) for score in names}
    why = ""
    if found is None:
        why = row.literature or ("" if ran is None else ran.left_out.get(name) or ran.waiting.get(name, ""))
    own = {key: value for key, value in (row.conditions | part.row_conditions.get(name, {})).items() if key != "metrics"}
    tuned = f"tuned: {_words(found.settings)}" if found is not None and found.settings else ""
    return Line(name, row.title or name, row.note, why, scores, "; ".join(filter(None, (_words(own), tuned))))


def _other_scores(item: PaperItem, part: PaperPart, lines: list[Line], comparable: bool) -> tuple[str, ...]:
    """Those that the paper has; of another data set, those of ours that the part's protocol asks for: benches have more."""
    names = dict.fromkeys(name for line in lines for name, pair in line.scores.items() if pair.published is not None)
    if not names or not comparable:
        asked = scores_of(part.conditions())
        names = dict.fromkeys(name for line in lines for name, pair in line.scores.items() if pair.ours is not None and name in asked)
    shown = [name for name in names if name.startswith(SHOWN) and name not in (item.score, REPORTED, *CLUSTERING_VARIANTS)]
    return tuple(sorted(shown, key=lambda name: int(name[2:]) if name.startswith("R@") else 10**9))  # stable: recall by K, then the rest


def unlike_the_paper(ran: PartResult) -> str:
    """In a sentence, where no network was trained at all; empty where one was, whose differences `set_up` has."""
    protocol = ran.protocol
    if not protocol.frozen:
        return ""
    return (
        f"Not the paper's set-up: heads alone are trained, {protocol.steps:,} steps on the features of a frozen {protocol.backbone}, where "
        "the paper trains the network. How rows stand to each other can be compared, the height of the figures cannot."
    )


def set_up(item: PaperItem, part: PaperPart, ran: PartResult) -> list[tuple[str, str, str]]:
    """What, how the paper had it, how it was here."""
    ours = _our_set_up(ran)
    rows = [(SETUP_TITLES.get(key, key), _value(value), ours.get(key, NONE)) for key, value in item.setup.items()]
    rows += [(SETUP_TITLES[key], NONE, ours[key]) for key in SETUP_TITLES if key in ours and key not in item.setup]
    own = {name: item.rows[name].conditions | part.row_conditions.get(name, {}) for name in item.rows_of(part) if name in ran.rows}
    different = [f"{item.rows[name].title or name}: {_words(conditions)}" for name, conditions in own.items() if conditions]
    rows += [("methods", NONE, _words(part.method_settings))] if part.method_settings else []
    return [*rows, *([("rows of their own", NONE, "; ".join(different))] if different else [])]


def _our_set_up(ran: PartResult) -> dict[str, str]:
    protocol = ran.protocol
    weights = f"weights {ran.weights.rpartition('/')[2]}" if ran.weights else "random weights"
    norms = "frozen" if protocol.frozen_batch_norm else "learn"
    decay = f", weight decay {protocol.weight_decay:g}" if protocol.weight_decay else ""
    return {
        "data": ran.data_words,
        "backbone": f"{protocol.backbone}, {weights}, batch norms {norms}, {protocol.pooling} pooling",
        "dim": f"{protocol.dim:,}",
        "batch": f"{protocol.batch:,}",
        "steps": f"{protocol.steps:,}",
        "optimizer": f"{protocol.optimizer} {protocol.learning_rate:g}{_schedule(protocol)}{decay}",
        "selection": "the last step" if not protocol.validation else "the best by held-out training classes",
        "tuning": _tuning(protocol),
        "seeds": str(ran.seeds),
    }


def _tuning(protocol: Protocol) -> str:
    if not protocol.trials:
        return "none: the paper's settings"
    return f"the learning rate, {count_of(protocol.trials, 'trial', 'trials')} for every row alike, on folds of the training classes"


def _schedule(protocol: Protocol) -> str:
    if protocol.schedule == "steps":
        return f", x {protocol.gamma:g} after {listed([f'{100 * share:.0f}' for share in protocol.milestones])} % of the steps"
    return f", {protocol.schedule}"


def _words(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_value(value)}" for name, value in settings.items())


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(_value, value)) if isinstance(value, list | tuple) else str(value)
