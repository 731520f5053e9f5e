"""One page a paper: its claims and what became of them, then each table and figure beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from likewise.reports.drawing import drawing, inline_svg
from likewise.reports.markup import Markup, join, table, tag
from likewise.reports.page import framed
from likewise.reproductions.pages.claim_summary import PlacedFigures, SummedClaim, computed_in_words, count_in_words, summed_claims
from likewise.reproductions.pages.paper_charts import Picture, pictures
from likewise.reproductions.pages.sentences_of_papers import (
    ABOUT_CURVES,
    ABOUT_PARTS,
    ABOUT_VERDICTS,
    STAND_IN,
    as_sentence,
    item_label,
    published_number,
    what_was_trained,
    when_and_how,
)
from likewise.reproductions.pages.side_by_side import Grid, Line, SideBySide, grids, parts_shown, set_up, side_by_side, unlike_the_paper
from likewise.reproductions.pages.what_lacks import lacking_parts
from likewise.reproductions.paper_item import PAPERS, REPORTED
from likewise.reproductions.reproduction import ItemResult, JointVerdict, Reproduction
from likewise.wording import NONE, count_of

MOST_PLACES = 4  # that a claim shows figures of in the summary
CLASSES: dict[JointVerdict, str] = {
    "confirmed": "confirmed",
    "contradicted": "contradicted",
    "mixed": "mixed",
    "open": "left-open",
    "not run": "not-run",
}


def paper_page(reproduction: Reproduction, paper: str) -> str:
    """The page of one paper, of those items that the reproduction has."""
    known = PAPERS[paper]
    results = [result for result in reproduction.items if result.item.paper == paper]
    claims = {result.item.name: summed_claims(result) for result in results}
    everything = [summed for of_item in claims.values() for summed in of_item]
    header = tag(
        "header",
        {},
        tag("h1", {}, "A paper, beside what we find"),
        tag("p", {"class": "plain"}, known.title),
        tag("p", {"class": "under"}, f"{known.authors}. {known.venue}."),
        tag("p", {"class": "headline"}, f"{count_in_words(everything)}."),
        tag("p", {"class": "under"}, " ".join(filter(None, (computed_in_words(everything), what_was_trained(results))))),
        tag("p", {"class": "banner"}, STAND_IN) if reproduction.is_stand_in else "",
    )
    links = [tag("a", {"href": f"#{_anchor(result)}"}, item_label(result.item)) for result in results]
    nav = tag(
        "nav", {"aria-label": "sections"}, tag("div", {}, tag("div", {"class": "links"}, tag("a", {"href": "#claims"}, "Claims"), *links))
    )
    body = [
        header,
        nav,
        tag(
            "main",
            {},
            tag(
                "section",
                {"id": "claims"},
                tag("h2", {}, "Claims"),
                tag("p", {"class": "note"}, ABOUT_VERDICTS),
                tag("p", {"class": "note"}, ABOUT_PARTS),
                _summary(everything),
            ),
            *(_item_section(result, claims[result.item.name]) for result in results),
            tag(
                "section",
                {"id": "repeat"},
                tag("h2", {}, "How to repeat it"),
                *(tag("p", {}, words) for words in when_and_how(reproduction)),
            ),
        ),
        tag("footer", {}, "Made by likewise. This file needs no network: keep it, mail it, open it anywhere."),
    ]
    style = (files("likewise.reproductions.pages") / "paper.css").read_text(encoding="utf-8")
    return framed(known.title, join(body), Markup(""), sprites=style)


def _anchor(result: ItemResult) -> str:
    return result.item.name.partition("/")[2]


def _badge(verdict: JointVerdict) -> Markup:
    return tag("span", {"class": f"badge {CLASSES[verdict]}"}, verdict)


def _summary(claims: Sequence[SummedClaim]) -> Markup:
    rows = []
    for summed in claims:
        where = tag("a", {"href": f"#{summed.address}"}, item_label(summed.item))
        ours = tag("small", {"class": "of-ours"}, "not in the paper: our question") if summed.claim.ours else ""
        rows.append(
            (
                join([tag("span", {"class": "narrow"}, _badge(summed.verdict)), summed.claim.says, " ", tag("small", {}, where), ours]),
                _placed(summed.published),
                _placed(summed.ours),
                _badge(summed.verdict),
            )
        )
    return table({"class": "claims"}, ("what is claimed", "the paper's figures", "ours", "verdict"), rows)


def _placed(figures: Sequence[PlacedFigures]) -> Markup:
    if not figures:
        return tag("div", {}, NONE)
    shown = [
        tag("div", {"class": "placed"}, tag("small", {}, entry.place) if entry.place else "", " ", entry.words)
        for entry in figures[:MOST_PLACES]
    ]
    left = len(figures) - MOST_PLACES
    return join([*shown, tag("div", {"class": "placed"}, tag("small", {}, f"and {left} more")) if left > 0 else ""])


def _item_section(result: ItemResult, claims: Sequence[SummedClaim]) -> Markup:
    item = result.item
    drawn = [
        tag(
            "figure",
            {},
            tag("figcaption", {}, picture.title, tag("small", {}, picture.note)),
            _inline(picture, f"{_anchor(result)}-{number}"),
        )
        for number, picture in enumerate(pictures(result))
    ]
    blocks = [_grid(result, grid) for grid in grids(result)]
    blocks += [_part(result, side_by_side(result, part)) for part in parts_shown(item, result)]
    return tag(
        "section",
        {"id": _anchor(result)},
        tag("h2", {}, f"{item_label(item)}: {item.title}"),
        tag("p", {}, item.asks, " ", tag("small", {}, f"({item.where})")),
        tag("div", {"class": "charts"}, *drawn) if drawn else "",
        *blocks,
        _needs(lacking_parts(result), "What was not run, and what it needs"),
        tag("ul", {"class": "notes"}, *(tag("li", {}, note) for note in item.notes)) if item.notes else "",
        tag("h3", {"id": f"{_anchor(result)}-claims"}, "What is claimed"),
        *(_claim(result, summed) for summed in claims),
    )


def _inline(picture: Picture, name: str) -> Markup:
    with drawing():
        return inline_svg(picture.make(), name=name, label=picture.label)


def _needs(lacking: Sequence[tuple[str, str]], title: str) -> Markup:
    if not lacking:
        return Markup("")
    items = [tag("li", {}, tag("b", {}, name), f": {needs}") for name, needs in lacking]
    return tag("details", {}, tag("summary", {}, title), tag("ul", {"class": "notes"}, *items))


def _part(result: ItemResult, shown: SideBySide) -> Markup:
    title = shown.part.title or shown.part.name
    written = _table(shown)
    if not shown.has_ours:
        return tag("details", {"open": not result.parts}, tag("summary", {}, f"{title}: as published, not run"), written)
    ran = result.parts[shown.part.name]
    conditions = table({"class": "facts"}, ("", "the paper", "here"), set_up(result.item, shown.part, ran))
    beside = f" The paper's figures are of {shown.of_paper}." if shown.of_paper and not shown.is_comparable else ""
    words = f"{shown.seeds} seeds." if shown.seeds != 1 else "One seed."
    return tag(
        "div",
        {"class": "part"},
        tag("h3", {}, title),
        tag("p", {"class": "note"}, f"In percent; 95 % intervals hold the noise of seeds and test classes. {words}{beside}"),
        tag("p", {"class": "note"}, unlike) if (unlike := unlike_the_paper(ran)) else "",
        written,
        tag("details", {}, tag("summary", {}, "What differs in the set-up"), conditions),
    )


def _grid(result: ItemResult, grid: Grid) -> Markup:
    """Rows against x; why a cell is empty is said below."""
    rows, reasons = [], []
    for title, cells in grid.lines:
        row: list[str] = [title]
        for x, cell in cells.items():
            if isinstance(cell, str):
                row.append(NONE)
                reasons += [(f"{title} at {x:g}", cell)] if cell else []
            else:
                row.append(f"{100 * cell.mean:.1f}")
        rows.append(row)
    ran = result.parts[grid.first.name]
    conditions = table({"class": "facts"}, ("", "the paper", "here"), set_up(result.item, grid.first, ran))
    return tag(
        "div",
        {"class": "part"},
        tag("h3", {}, grid.series),
        tag(
            "p",
            {"class": "note"},
            f"{grid.score} in percent, means of {count_of(grid.seeds, 'seed', 'seeds')}. {ABOUT_CURVES} {unlike_the_paper(ran)}".rstrip(),
        ),
        table({"class": "sides"}, (result.item.axis, *(f"{x:g}" for x in grid.xs)), rows),
        _needs(reasons, "Why there is no figure"),
        tag("details", {}, tag("summary", {}, "What differs in the set-up"), conditions),
    )


def _table(shown: SideBySide) -> Markup:
    heads = ["", *(["reported"] if shown.has_reported else []), *([f"{shown.score}, the paper's"] if shown.of_paper else [])]
    if shown.has_ours:
        heads += [f"{shown.score}, ours", "95 %", *(["difference"] if shown.has_difference else [])]
    heads += list(shown.others)
    return table({"class": "sides"}, heads, [_row(shown, line) for line in shown.lines])


def _row(shown: SideBySide, line: Line) -> list[str]:
    pair = line.scores.get(shown.score)
    notes = [tag("small", {}, words) for words in (line.note, line.conditions, line.why_not) if words]
    cells: list[str] = [join([line.title, *notes])]
    if shown.has_reported:
        reported = line.scores.get(REPORTED)
        cells.append(published_number(None if reported is None else reported.published))
    if shown.of_paper:
        cells.append(tag("span", {"class": "paper"}, published_number(None if pair is None else pair.published)))
    if shown.has_ours:
        ours = None if pair is None else pair.ours
        cells.append(tag("b", {}, f"{100 * ours.mean:.1f}") if ours is not None else NONE)
        known = ours is not None and ours.low is not None and ours.high is not None
        cells.append(f"{100 * (ours.low or 0):.1f} to {100 * (ours.high or 0):.1f}" if ours is not None and known else NONE)
        if shown.has_difference:
            difference = None if pair is None else pair.difference
            cells.append(NONE if difference is None else f"{difference:+.1f}")
    for score in shown.others:
        other = line.scores.get(score)
        ours_of_it = NONE if other is None or other.ours is None else f"{100 * other.ours.mean:.1f}"
        published = other.published if other is not None and (shown.is_comparable or not shown.has_ours) else None
        if not shown.has_ours:
            cells.append(tag("span", {"class": "paper"}, published_number(published)))
        else:
            cells.append(join([ours_of_it, tag("small", {"class": "paper"}, published_number(published)) if published is not None else ""]))
    return cells


def _claim(result: ItemResult, summed: SummedClaim) -> Markup:
    claim = summed.claim
    titles = {part.name: part.title or part.name for part in summed.item.parts}
    judged = []
    for entry in summed.judged:
        place = ", ".join(words for words in (titles.get(entry.part, entry.part), entry.row) if words)
        badge = [_badge(entry.verdict), " "] if len(summed.judged) > 1 else []
        judged.append(tag("li", {}, *badge, tag("b", {}, place) if place else "", " " if place else "", f"{entry.evidence}."))
    return tag(
        "article",
        {"class": f"claim {CLASSES[summed.verdict]}"},
        tag(
            "p",
            {},
            _badge(summed.verdict),
            " ",
            tag("strong", {}, claim.says),
            " ",
            tag("small", {}, f"({claim.where})" if claim.where else ""),
        ),
        tag("p", {"class": "note"}, as_sentence(claim.note)) if claim.note else "",
        tag("ul", {"class": "evidence"}, *judged) if judged else "",
        tag("p", {"class": "note"}, f"Refuted by {claim.refuted_by}."),
    )
