"""All figures and all claims of a reproduction as CSV: one line a score of a row, and one a verdict."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from likewise.comparison.results import Estimate
from likewise.reproductions.paper_claims import kind_of
from likewise.reproductions.reproduction import ItemResult, Reproduction

FIGURES = (
    *("paper", "item", "part", "row", "title", "score", "published", "ours", "low", "high", "seeds", "values"),
    *("seconds", "dim", "state", "stand_in"),
)
CLAIMS = ("paper", "item", "claim", "where", "kind", "part", "row", "verdict", "evidence", "refuted_by")


def figures_csv(reproduction: Reproduction) -> str:
    """Scores in percent. Every row of every part, also those that were not run, with the reason as their state."""
    lines = [line for result in reproduction.items for line in _figures(result, is_stand_in=reproduction.is_stand_in)]
    return _csv(FIGURES, lines)


def claims_csv(reproduction: Reproduction) -> str:
    lines = [
        (
            result.item.paper,
            result.item.name.partition("/")[2],
            judged.claim.says,
            judged.claim.where,
            kind_of(judged.claim),
            judged.part,
            judged.row,
            judged.verdict,
            judged.evidence,
            judged.refuted_by,
        )
        for result in reproduction.items
        for judged in result.claims
    ]
    return _csv(CLAIMS, lines)


def _figures(result: ItemResult, *, is_stand_in: bool) -> Iterable[tuple[str, ...]]:
    item = result.item
    for part in item.parts:
        published = item.published.get(part.name, {})
        ran = result.parts.get(part.name)
        for name, row in item.rows_of(part).items():
            found = None if ran is None else ran.rows.get(name)
            scores = dict.fromkeys((*published.get(name, {}), *(() if found is None else found.scores)))
            state = ", ".join(filter(None, ("run", found.adapted))) if found is not None else _why_not(result, part.name, name)
            for score in scores or {"": None}:
                estimate = None if found is None else found.scores.get(score)
                figure = published.get(name, {}).get(score)
                yield (
                    item.paper,
                    item.name.partition("/")[2],
                    part.name,
                    name,
                    row.title or name,
                    score,
                    "" if figure is None else f"{figure:g}",
                    *_estimated(estimate),
                    "" if found is None else " ".join(f"{seconds:.1f}" for seconds in found.seconds),
                    "" if found is None else str(found.dim),
                    state,
                    "stand-in" if is_stand_in else "",
                )


def _estimated(estimate: Estimate | None) -> tuple[str, str, str, str, str]:
    if estimate is None:
        return "", "", "", "", ""
    low, high = ("" if limit is None else f"{100 * limit:.3f}" for limit in (estimate.low, estimate.high))
    values = " ".join(f"{100 * value:.3f}" for value in estimate.values)
    return f"{100 * estimate.mean:.3f}", low, high, str(len(estimate.values)), values


def _why_not(result: ItemResult, part: str, row: str) -> str:
    literature = result.item.rows[row].literature
    if literature:
        return literature
    if part not in result.parts:
        return result.needs.get(part, "")
    return result.parts[part].left_out.get(row) or result.parts[part].waiting.get(row, "")


def _csv(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(lines)
    return text.getvalue()
