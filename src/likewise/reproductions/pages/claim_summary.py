"""Claims summed up: each once, with one verdict over all places where it was judged, the paper's figures and ours in a few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from likewise.reproductions.paper_claims import (
    Above,
    Alike,
    Best,
    Between,
    Computed,
    Faster,
    Ordered,
    PaperClaim,
    Reordered,
    Saturates,
    Separates,
    Weighs,
)
from likewise.reproductions.paper_item import PaperItem, PaperPart
from likewise.reproductions.reproduction import VERDICTS, ItemResult, JointVerdict, Judged, Reproduction, joint_verdict
from likewise.wording import listed

MOST_NAMED = 4  # rows that are named one by one

Figures = Mapping[str, float]  # row, or part of claims over parts -> percent


@dataclass(frozen=True)
class PlacedFigures:
    """The figures that a claim is about, in one place: a part, or a row of claims over parts."""

    place: str  # a title
    words: str


@dataclass(frozen=True, eq=False)
class SummedClaim:
    """A claim of an item, and what became of it in all places together."""

    item: PaperItem
    claim: PaperClaim
    judged: tuple[Judged, ...]
    verdict: JointVerdict
    published: tuple[PlacedFigures, ...]  # the paper's own figures
    ours: tuple[PlacedFigures, ...]  # where it was judged

    @property
    def address(self) -> str:
        """Its place within the paper's page."""
        return f"{self.item.name.partition('/')[2]}-claims"


def summed_claims(result: ItemResult) -> tuple[SummedClaim, ...]:
    """The item's claims in their order."""
    summed = []
    for claim in result.item.claims:
        judged = tuple(entry for entry in result.claims if entry.claim is claim or entry.claim == claim)
        verdict = joint_verdict([entry.verdict for entry in judged])
        summed.append(SummedClaim(result.item, claim, judged, verdict, _published(result.item, claim), _ours(result, claim, judged)))
    return tuple(summed)


def counted(claims: Sequence[SummedClaim]) -> dict[JointVerdict, int]:
    """How many of the papers' own claims ended how."""
    verdicts = [summed.verdict for summed in claims if not summed.claim.ours]
    return {verdict: verdicts.count(verdict) for verdict in VERDICTS}


def count_in_words(claims: Sequence[SummedClaim]) -> str:
    """ "5 of 24 claims confirmed, 3 contradicted, 9 open, 7 not run"; mixed ones are named where there are any."""
    counts = counted(claims)
    others = [f"{counts[verdict]} {verdict}" for verdict in VERDICTS[1:] if counts[verdict] or verdict != "mixed"]
    return f"{counts['confirmed']} of {sum(counts.values())} claims confirmed, {', '.join(others)}"


def computed_in_words(claims: Sequence[SummedClaim]) -> str:
    """What of the count follows from formulas alone; empty where nothing does."""
    counts = counted([summed for summed in claims if isinstance(summed.claim, Weighs | Computed)])
    known = [f"{counts[verdict]} of the {verdict}" for verdict in VERDICTS if counts[verdict]]
    return f"{listed(known)} are about formulas: they were computed, and nothing was trained." if known else ""


def all_claims(reproduction: Reproduction) -> list[SummedClaim]:
    return [summed for result in reproduction.items for summed in summed_claims(result)]


def figures_in_words(claim: PaperClaim, figures: Figures, titles: Mapping[str, str]) -> str:
    """The figures that decide a claim: "RLL-H (57.4); highest of the other 6: Spectral Clust (53.2)"; empty where there are too few."""
    known = [name for name in claim.names or figures if name in figures]

    def word(name: str) -> str:
        return f"{titles.get(name) or name} ({figures[name]:.1f})"

    if isinstance(claim, Above | Best):
        leading = list(claim.betters) if isinstance(claim, Above) else [claim.best]
        leading = [name for name in leading if name in figures]
        others = [name for name in (claim.worse if isinstance(claim, Above) else known) if name in figures and name not in leading]
        if not leading or not others:
            return ""
        return f"{_extreme(leading, figures, word, lowest=True)}; {_extreme(others, figures, word, lowest=False)}"
    if isinstance(claim, Alike | Saturates) and len(known) > MOST_NAMED:
        ordered = sorted(known, key=lambda name: figures[name])
        return f"from {word(ordered[0])} to {word(ordered[-1])}"
    if isinstance(claim, Ordered | Reordered) and len(known) > MOST_NAMED:
        ordered = sorted(known, key=lambda name: -figures[name])
        return f"{', '.join(map(word, ordered[:MOST_NAMED]))}, ... {word(ordered[-1])}"
    if isinstance(claim, Between):
        known = [name for name in (claim.low, *claim.rows, claim.high) if name in figures]
    least = 1 if isinstance(claim, Separates) else 2
    return ", ".join(map(word, known)) if len(known) >= least else ""


def _extreme(names: Sequence[str], figures: Figures, word: object, *, lowest: bool) -> str:
    assert callable(word)
    if len(names) <= (2 if lowest else 3):
        return ", ".join(map(word, names))
    chosen = min(names, key=lambda name: figures[name]) if lowest else max(names, key=lambda name: figures[name])
    return f"{'lowest' if lowest else 'highest'} of the {'' if lowest else 'other '}{len(names)}: {word(chosen)}"


def _published(item: PaperItem, claim: PaperClaim) -> tuple[PlacedFigures, ...]:
    score = item.score_of(claim)
    if isinstance(claim, Faster):
        return ()
    placed = []
    if claim.over == "parts":
        for row in claim.each or ((claim.row,) if claim.row else tuple(item.rows)):
            figures = {part: rows[row][score] for part, rows in item.published.items() if score in rows.get(row, {})}
            placed.append(PlacedFigures(_row_title(item, row), figures_in_words(claim, figures, part_titles(item, claim.names))))
    else:
        for part, rows in item.published.items():
            if claim.part in ("", part) or item.beside(item.part(claim.part)) == part:
                figures = {row: scores[score] for row, scores in rows.items() if score in scores}
                placed.append(PlacedFigures(_part_title(item.part(part)), figures_in_words(claim, figures, row_titles(item))))
    return tuple(entry for entry in placed if entry.words)


def _ours(result: ItemResult, claim: PaperClaim, judged: Sequence[Judged]) -> tuple[PlacedFigures, ...]:
    item, score = result.item, result.item.score_of(claim)
    placed = []
    for entry in judged:
        if entry.verdict == "not run":
            continue
        if claim.over == "parts":
            of_series = [part for part in item.parts if part.series == entry.part and part.name in result.parts]
            ran = {part.role: result.parts[part.name] for part in of_series}
            figures = {
                role: 100 * part.rows[entry.row].scores[score].mean
                for role, part in ran.items()
                if entry.row in part.rows and score in part.rows[entry.row].scores
            }
            place = ", ".join(filter(None, (entry.part, _row_title(item, entry.row))))
            placed.append(PlacedFigures(place, figures_in_words(claim, figures, part_titles(item, claim.names))))
        elif entry.part in result.parts and isinstance(claim, Faster):
            placed.append(PlacedFigures(_part_title(item.part(entry.part)), _times(result, claim, entry.part)))
        elif entry.part in result.parts:
            rows = result.parts[entry.part].rows
            figures = {name: 100 * row.scores[score].mean for name, row in rows.items() if score in row.scores}
            placed.append(PlacedFigures(_part_title(item.part(entry.part)), figures_in_words(claim, figures, row_titles(item))))
        else:  # computed
            placed.append(PlacedFigures("", "computed"))
    return tuple(entry for entry in placed if entry.words)


def _times(result: ItemResult, claim: Faster, part: str) -> str:
    rows, titles = result.parts[part].rows, row_titles(result.item)
    known = [name for name in (claim.faster, *claim.slower) if name in rows and rows[name].seconds]
    return ", ".join(f"{titles[name]} ({sum(rows[name].seconds) / len(rows[name].seconds):.0f} s)" for name in known)


def row_titles(item: PaperItem) -> dict[str, str]:
    return {name: row.title or name for name, row in item.rows.items()}


def part_titles(item: PaperItem, names: Sequence[str] = ()) -> dict[str, str]:
    """Short ones: the value on the axis where parts are points, else what of their titles is not the same for all of those named."""
    parts = [part for part in item.parts if not names or part.name in names]
    words = {part.name: _part_title(part).split(", ") for part in parts}
    shared = set.intersection(*(set(entry) for entry in words.values())) if len(words) > 1 else set()
    short = {name: ", ".join(word for word in entry if word not in shared) or ", ".join(entry) for name, entry in words.items()}
    return short | {part.name: f"{part.x:g}" for part in parts if part.x is not None}


def _row_title(item: PaperItem, row: str) -> str:
    return row_titles(item).get(row, row)


def _part_title(part: PaperPart) -> str:
    return part.title or part.name
