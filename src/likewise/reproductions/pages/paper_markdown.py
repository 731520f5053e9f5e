"""The pages of papers as Markdown: one a paper, and a summary of all claims on top."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from likewise.reproductions.pages.claim_summary import (
    PlacedFigures,
    SummedClaim,
    all_claims,
    computed_in_words,
    count_in_words,
    counted,
    summed_claims,
)
from likewise.reproductions.pages.paper_charts import Picture
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
from likewise.reproductions.pages.what_lacks import lacking_parts, lacks
from likewise.reproductions.paper_item import PAPERS, REPORTED
from likewise.reproductions.reproduction import VERDICTS, ItemResult, JointVerdict, Reproduction
from likewise.wording import NONE, count_of

WORDS: dict[JointVerdict, str] = {
    "confirmed": "**confirmed**",
    "contradicted": "**contradicted**",
    "mixed": "**mixed**",
    "open": "open",
    "not run": "not run",
}
MOST_PLACES = 3  # that a claim shows figures of in a summary
HEADS = ("claim", "the paper's figures", "ours", "verdict")

Images = Mapping[str, Sequence[tuple[Picture, str]]]  # item -> its pictures, and the files they are in


def summary_markdown(reproduction: Reproduction, preface: str = "") -> str:
    """README.md: all claims with their verdicts, and how to read them. preface: what somebody wrote of them, which stands on top."""
    claims = all_claims(reproduction)
    papers = [paper for paper in PAPERS if any(result.item.paper == paper for result in reproduction.items)]
    blocks = [
        "# What is true in these papers, under equal conditions",
        _count(claims),
        *filter(None, [what_was_trained(reproduction.items)]),
    ]
    blocks += [f"**{STAND_IN}**"] if reproduction.is_stand_in else []
    blocks += [preface.strip()] if preface.strip() else []
    blocks += ["## Claims by paper", _counts(claims, papers), ABOUT_VERDICTS, ABOUT_PARTS, *_not_run(reproduction)]
    for paper in papers:
        of_paper = [summed for summed in claims if summed.item.paper == paper]
        blocks += [
            f"## [{PAPERS[paper].title}]({paper}.md)",
            f"{PAPERS[paper].authors}. {PAPERS[paper].venue}. {count_in_words(of_paper)}.",
        ]
        blocks.append(_summary(of_paper, page=f"{paper}.md"))
    blocks += ["## How to repeat it", *_how(reproduction)]
    return "\n\n".join(blocks) + "\n"


def paper_markdown(reproduction: Reproduction, paper: str, images: Images) -> str:
    """PAPER.md: its claims, then each table and figure beside ours."""
    known = PAPERS[paper]
    results = [result for result in reproduction.items if result.item.paper == paper]
    claims = [summed for result in results for summed in summed_claims(result)]
    blocks = [f"# {known.title}", f"{known.authors}. {known.venue}. [All four papers](README.md).", _count(claims)]
    blocks += filter(None, [what_was_trained(results)])
    blocks += [f"**{STAND_IN}**"] if reproduction.is_stand_in else []
    blocks += [ABOUT_VERDICTS, _summary(claims, page="")]
    for result in results:
        blocks += _item(result, images.get(result.item.name, ()))
    blocks += ["## How to repeat it", *_how(reproduction)]
    return "\n\n".join(blocks) + "\n"


def _count(claims: Sequence[SummedClaim]) -> str:
    return f"**{count_in_words(claims)}.** {computed_in_words(claims)}".rstrip()


def _counts(claims: Sequence[SummedClaim], papers: Sequence[str]) -> str:
    rows = []
    for paper in papers:
        counts = counted([summed for summed in claims if summed.item.paper == paper])
        rows.append((f"[{PAPERS[paper].title}]({paper}.md)", *(str(counts[verdict]) for verdict in VERDICTS)))
    return markdown_table(("paper", *VERDICTS), rows)


def _not_run(reproduction: Reproduction) -> list[str]:
    found = lacks(reproduction.items)
    rows = [(lack.needs, lack.in_words) for lack in found]
    return ["## What was not run, and what it takes", markdown_table(("why", "what"), rows)] if found else []


def _how(reproduction: Reproduction) -> list[str]:
    command, *rest = when_and_how(reproduction)
    return [f"`{command}`", " ".join(rest)]


def _summary(claims: Iterable[SummedClaim], *, page: str) -> str:
    rows = []
    for summed in claims:
        where = f"[{item_label(summed.item)}]({page}#{_anchor(_title(summed))})"
        ours = " *Our question, not the paper's.*" if summed.claim.ours else ""
        rows.append((f"{summed.claim.says} ({where}){ours}", _placed(summed.published), _placed(summed.ours), WORDS[summed.verdict]))
    return markdown_table(HEADS, rows)


def _title(summed: SummedClaim) -> str:
    return f"{item_label(summed.item)}: {summed.item.title}"


def _anchor(title: str) -> str:
    """As GitHub makes it of a heading."""
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -_")
    return kept.replace(" ", "-")


def _placed(figures: Sequence[PlacedFigures]) -> str:
    words = [f"{entry.place}: {entry.words}" if entry.place else entry.words for entry in figures[:MOST_PLACES]]
    left = len(figures) - MOST_PLACES
    return "<br>".join([*words, *([f"and {left} more"] if left > 0 else [])]) or NONE


def _item(result: ItemResult, images: Sequence[tuple[Picture, str]]) -> list[str]:
    item = result.item
    blocks = [f"## {item_label(item)}: {item.title}", f"{item.asks} ({item.where})"]
    blocks += [f"![{picture.label}]({file})\n\n*{as_sentence(f'{picture.title}: {picture.note}')}*" for picture, file in images]
    for grid in grids(result):
        blocks += _grid(result, grid)
    for part in parts_shown(item, result):
        blocks += _part(result, side_by_side(result, part))
    lacking = [f"- {title}: {needs}" for title, needs in lacking_parts(result)]
    if lacking:
        blocks.append(_folded("What was not run, and what it needs", "\n".join(lacking)))
    if item.notes:
        blocks.append("\n".join(f"- {note}" for note in item.notes))
    blocks += ["### What is claimed" if len(item.parts) < 2 else "**What is claimed**"]
    blocks += [_claim(summed) for summed in summed_claims(result)]
    return blocks


def _part(result: ItemResult, shown: SideBySide) -> list[str]:
    title = shown.part.title or shown.part.name
    if not shown.has_ours:
        heading = f"{title}: as published, not run"
        return [_folded(heading, _table(shown))] if result.parts else [f"### {heading}", _table(shown)]
    beside = f" The paper's figures are of {shown.of_paper}." if shown.of_paper and not shown.is_comparable else ""
    ran = result.parts[shown.part.name]
    about = f"In percent, {count_of(shown.seeds, 'seed', 'seeds')}; 95 % intervals hold the noise of seeds and test classes.{beside}"
    words = " ".join(filter(None, (about, unlike_the_paper(ran))))
    rows = set_up(result.item, shown.part, ran)
    return [f"### {title}", words, _table(shown), _folded("What differs in the set-up", markdown_table(("", "the paper", "here"), rows))]


def _grid(result: ItemResult, grid: Grid) -> list[str]:
    rows = [
        (title, *(NONE if isinstance(cell, str) else f"{100 * cell.mean:.1f}" for cell in cells.values())) for title, cells in grid.lines
    ]
    reasons = [f"- {title} at {x:g}: {cell}" for title, cells in grid.lines for x, cell in cells.items() if isinstance(cell, str) and cell]
    first = result.parts[grid.first.name]
    conditions = set_up(result.item, grid.first, first)
    return [
        f"### {grid.series}",
        f"{grid.score} in percent, means of {count_of(grid.seeds, 'seed', 'seeds')}. {ABOUT_CURVES} {unlike_the_paper(first)}".rstrip(),
        markdown_table((result.item.axis, *(f"{x:g}" for x in grid.xs)), rows),
        *([_folded("Why there is no figure", "\n".join(reasons))] if reasons else []),
        _folded("What differs in the set-up", markdown_table(("", "the paper", "here"), conditions)),
    ]


def _table(shown: SideBySide) -> str:
    heads = ["", *(["reported"] if shown.has_reported else []), *([f"{shown.score}, the paper's"] if shown.of_paper else [])]
    if shown.has_ours:
        heads += [f"{shown.score}, ours", "95 %", *(["difference"] if shown.has_difference else [])]
    heads += [f"{score} (the paper's)" if shown.has_ours and shown.is_comparable else score for score in shown.others]
    return markdown_table(heads, [_row(shown, line) for line in shown.lines])


def _row(shown: SideBySide, line: Line) -> list[str]:
    pair = line.scores.get(shown.score)
    notes = "; ".join(words for words in (line.note, line.conditions, line.why_not) if words)
    cells = [f"{line.title}<br>*{notes}*" if notes else line.title]
    if shown.has_reported:
        reported = line.scores.get(REPORTED)
        cells.append(published_number(None if reported is None else reported.published))
    if shown.of_paper:
        cells.append(published_number(None if pair is None else pair.published))
    if shown.has_ours:
        ours = None if pair is None else pair.ours
        cells.append(NONE if ours is None else f"**{100 * ours.mean:.1f}**")
        cells.append(NONE if ours is None or ours.low is None or ours.high is None else f"{100 * ours.low:.1f} to {100 * ours.high:.1f}")
        if shown.has_difference:
            difference = None if pair is None else pair.difference
            cells.append(NONE if difference is None else f"{difference:+.1f}")
    for score in shown.others:
        other = line.scores.get(score)
        published = None if other is None else other.published
        if not shown.has_ours:
            cells.append(published_number(published))
            continue
        own = NONE if other is None or other.ours is None else f"{100 * other.ours.mean:.1f}"
        cells.append(f"{own} ({published_number(published)})" if published is not None and shown.is_comparable else own)
    return cells


def _claim(summed: SummedClaim) -> str:
    claim = summed.claim
    titles = {part.name: part.title or part.name for part in summed.item.parts}
    lines = [f"- {WORDS[summed.verdict]}: {claim.says}" + (f" ({claim.where})." if claim.where else ".")]
    lines += [f"  {as_sentence(claim.note)}"] if claim.note else []
    for entry in summed.judged:
        place = ", ".join(words for words in (titles.get(entry.part, entry.part), entry.row) if words)
        verdict = f"{entry.verdict}, " if len(summed.judged) > 1 else ""
        lines.append(f"  - {verdict}{place}: {entry.evidence}." if place else f"  - {verdict}{entry.evidence}.")
    lines.append(f"  - Refuted by {claim.refuted_by}.")
    return "\n".join(lines)


def _folded(title: str, inside: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{inside}\n\n</details>"


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A cell that holds a bar does not end there."""
    lines = [heads, *rows]
    written = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join([written[0], "|" + "---|" * len(heads), *written[1:]])
