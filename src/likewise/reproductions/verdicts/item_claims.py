"""The claims of an item, each judged where it can be: in every part that was run, or over parts for every row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from likewise.configuration import as_table
from likewise.formats.numpy_files import read_npy
from likewise.reproductions.computed_facts import FACTS
from likewise.reproductions.paper_claims import Computed, PaperClaim, Radii, Saturates, Weighs
from likewise.reproductions.paper_item import PaperItem, PaperPart
from likewise.reproductions.plane_shape import size_variation
from likewise.reproductions.reproduction import ClaimVerdict, Judged, PartResult, RowResult
from likewise.reproductions.verdicts.claim_judging import Ground, judge
from likewise.reproductions.verdicts.looks import FEWEST_SEEDS, Looks
from likewise.reproductions.verdicts.weighing import judge_weight
from likewise.wording import listed

WORDS = ("says", "where", "note")  # of a claim: how it is put, and not what is tested
SIZES = "deviation of the classes' radii over their mean, in %"
STAND_IN = "a stand-in: its figures mean nothing"


def judge_item(item: PaperItem, parts: Mapping[str, PartResult], needs: Mapping[str, str], looks: Looks | None) -> tuple[Judged, ...]:
    """Every claim, one verdict or several. looks: None where nothing is judged, as the figures are a stand-in's."""
    judged: list[Judged] = []
    for claim in item.claims:
        if isinstance(claim, Weighs):
            verdict, evidence = judge_weight(claim, item.rows[claim.row].under(""))
            judged.append(Judged(claim, "", verdict, evidence, claim.refuted_by, claim.row))
        elif isinstance(claim, Computed):
            fact = FACTS[claim.fact].find()
            judged.append(Judged(claim, "", "confirmed" if fact.holds else "contradicted", fact.evidence, claim.refuted_by))
        elif looks is None:
            judged.append(Judged(claim, claim.part, "not run", STAND_IN, claim.refuted_by))
        else:
            found = list(_over_parts(item, claim, parts, looks) if claim.over == "parts" else _over_rows(item, claim, parts, looks))
            judged += found or [Judged(claim, claim.part, "not run", _needed(item, claim, needs), claim.refuted_by)]
    return tuple(judged)


def _over_rows(item: PaperItem, claim: PaperClaim, parts: Mapping[str, PartResult], looks: Looks) -> Iterator[Judged]:
    for part in item.parts:
        if part.name not in parts or part.name in claim.not_in or claim.part not in ("", part.name):
            continue
        ground = _ground_of_rows(item, part, parts[part.name], item.score_of(claim))
        if isinstance(claim, Radii):
            ground = replace(ground, score=SIZES, tables={}, values=_sizes(parts[part.name]))
        if not isinstance(claim, Saturates):
            yield _judged(item, claim, ground, looks, part=part.name)
            continue
        for curve in dict.fromkeys(row.curve for row in item.rows_of(part).values() if row.x is not None):
            if claim.curve in ("", curve):
                names = {name for name, row in item.rows.items() if row.curve == curve}
                yield _judged(item, claim, _restricted(ground, names), looks, part=part.name, row=curve)


def _over_parts(item: PaperItem, claim: PaperClaim, parts: Mapping[str, PartResult], looks: Looks) -> Iterator[Judged]:
    """For every series of parts and every row that is seen in at least two of them."""
    named = [part for part in item.parts if not claim.names or part.role in claim.names]
    for series in dict.fromkeys(part.series for part in named):
        members = [part for part in named if part.series == series]
        rows = claim.each or ((claim.row,) if claim.row else tuple(item.rows))
        for row in rows:
            ran = [part for part in members if part.name in parts and row in parts[part.name].rows]
            if len(ran) < 2:
                continue
            ground = _ground_of_parts(item, members, parts, row, item.score_of(claim))
            yield _judged(item, claim, ground, looks, row=row, part=series)


def _judged(item: PaperItem, claim: PaperClaim, ground: Ground, looks: Looks, *, part: str = "", row: str = "") -> Judged:
    if not ground.values:
        return Judged(claim, part, "not run", f"{ground.score} is not among the scores here", claim.refuted_by, row)
    if ground.fewest_seeds >= FEWEST_SEEDS:
        what = {name: value for name, value in as_table(claim).items() if name not in WORDS}
        number = looks.number([item.name, part, row, type(claim).__name__, what], _figures(claim, ground))
        ground = replace(ground, look=number)
    verdict: ClaimVerdict
    verdict, evidence = judge(claim, ground)
    return Judged(claim, part, verdict, evidence, claim.refuted_by, row)


def _figures(claim: PaperClaim, ground: Ground) -> dict[str, Any]:
    """What the claim is judged by: the scores of its own rows, so that others that are added make no other look of it."""
    names = claim.names or tuple(ground.values)
    return {name: list(ground.values[name]) for name in names if name in ground.values}


def _ground_of_rows(item: PaperItem, part: PaperPart, result: PartResult, score: str) -> Ground:
    rows = {name: row for name, row in result.rows.items() if score in row.scores}
    literature = {name: row.literature for name, row in item.rows_of(part).items() if row.literature}
    unscored = {name: f"{score} is not among its scores" for name in result.rows if name not in rows}
    published = item.published.get(item.beside(part), {})
    return Ground(
        score=score,
        **_figures_of(rows, score),
        class_sizes=result.class_sizes,
        x={name: row.x for name, row in item.rows.items() if row.x is not None},
        published={name: scores[score] for name, scores in published.items() if score in scores},
        missing=result.left_out | literature | unscored,
        waiting=result.waiting,
        titles={name: row.title for name, row in item.rows.items()},
    )


def _ground_of_parts(item: PaperItem, members: Sequence[PaperPart], parts: Mapping[str, PartResult], row: str, score: str) -> Ground:
    """By what claims call the parts."""
    ran = {part.role: parts[part.name] for part in members if part.name in parts}
    rows = {name: result.rows[row] for name, result in ran.items() if row in result.rows and score in result.rows[row].scores}
    digests = {ran[name].test_digest for name in rows}
    if len(digests) > 1:  # the same data set in two versions: nothing can be paired
        rows = {}
    return Ground(
        score=score,
        **_figures_of(rows, score),
        class_sizes=ran[next(iter(rows))].class_sizes if rows else None,
        x={part.role: part.x for part in members if part.x is not None},
        published={
            part.role: item.published[part.name][row][score] for part in members if score in item.published.get(part.name, {}).get(row, {})
        },
        missing={name: result.left_out[row] for name, result in ran.items() if row in result.left_out},
        waiting={part.role: "it was not run" for part in members if part.role not in ran}
        | {name: result.waiting[row] for name, result in ran.items() if row in result.waiting},
        titles={part.role: part.title for part in members},
    )


def _figures_of(rows: Mapping[str, RowResult], score: str) -> dict[str, Any]:
    tables = {name: row.by_class[score] for name, row in rows.items() if score in row.by_class}
    return {
        "tables": tables if len(tables) == len(rows) else {},
        "values": {name: row.scores[score].values for name, row in rows.items()},
        "seconds": {name: row.seconds for name, row in rows.items()},
    }


def _sizes(result: PartResult) -> dict[str, tuple[float, ...]]:
    """How much the classes of each row differ in size in the plane, by seed; of rows that have one."""
    if result.labels is None:
        return {}
    labels = result.labels
    return {name: tuple(size_variation(read_npy(file), labels) for file in row.planes) for name, row in result.rows.items() if row.planes}


def _restricted(ground: Ground, names: set[str]) -> Ground:
    """To the rows of one curve."""

    def within(by_name: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in by_name.items() if name in names}

    return replace(
        ground,
        tables=within(ground.tables),
        values=within(ground.values),
        seconds=within(ground.seconds),
        x=within(ground.x),
        missing=within(ground.missing),
        waiting=within(ground.waiting),
    )


def _needed(item: PaperItem, claim: PaperClaim, needs: Mapping[str, str]) -> str:
    """What the parts lack that it could have been judged in."""
    asked = tuple(name for name in item.part_names if name not in claim.not_in)
    wanted = [claim.part] if claim.part else claim.names if claim.over == "parts" and claim.names else asked
    reasons: dict[str, list[str]] = {}
    for name in wanted:
        if name in needs:
            reasons.setdefault(needs[name], []).append(item.part(name).title or name)
    return "; ".join(f"{listed(names)}: {why}" for why, names in reasons.items()) or "too few of what it compares were run"
